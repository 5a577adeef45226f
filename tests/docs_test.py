"""The documents: what they cite, link and name exists, README.md stays short, the guide's code compiles."""

import fnmatch
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECTION = r"(?:10|\d)(?:\.\d+)?"
# "paper 2.4 and 2.7"; "paper 1.72×" and "paper 93 ms" are measurements.
CITATION = re.compile(
    rf"\bpaper ({SECTION}(?:(?:, | and |, and | to ){SECTION})*)(?![\d×%]|\.\d| ms)"
)
# Of C++ comments, where x[1] is an element.
NO_CITATION = re.compile(rf"(?<![\w)\]])\[{SECTION}\]|\breference \d+\.\d+")
LINE_BREAK_IN_COMMENT = re.compile(r"\s*\n\s*(?:///|//|#)?<?\s*")
LINK = re.compile(r"\]\(([^)\s]+)\)")
SKELETON = re.compile(r"<!-- file: (\S+) -->\n```cpp\n(.*?)```", re.DOTALL)
NAMED = re.compile(
    r"`((?:apps|docs|examples|experiments|kernels|models|plots|tests|tools)/[\w./-]*)`"
)


def sources():
    for folder in ("kernels", "models", "experiments", "apps", "tests", "plots", "tools"):
        for path in sorted((ROOT / folder).rglob("*")):
            if (
                path.suffix in (".h", ".cpp", ".py", ".cfg")
                and path != pathlib.Path(__file__).resolve()
            ):
                yield path


def cited(text):
    """Every section that a text cites, also where a citation goes over the end of a line."""
    found = set()
    for match in CITATION.finditer(LINE_BREAK_IN_COMMENT.sub(" ", text)):
        found |= set(re.findall(SECTION, match[1]))
    return found


def miscited(text):
    """What C++ comments cite in another way."""
    comments = (line.partition("//")[2].strip("/< ") for line in text.splitlines())
    return NO_CITATION.findall(" ".join(comments))


def headings(text):
    return set(re.findall(rf"^##+ ({SECTION}) \S", text, re.MULTILINE))


class Paper(unittest.TestCase):
    def test_every_cited_section_exists(self):
        sections = headings((ROOT / "docs" / "paper.md").read_text(encoding="utf-8"))
        self.assertGreater(len(sections), 30)
        all_cited = set()
        for path in sources():
            text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
            wanted = cited(text)
            all_cited |= wanted
            self.assertEqual(wanted - sections, set(), f"{name} cites what docs/paper.md lacks")
            self.assertEqual(miscited(text), [], f"{name}: cite as 'paper n.n'")
        self.assertGreater(len(all_cited), 20)

    def test_citations_are_found(self):
        self.assertEqual(
            cited("// (paper 2.4 and 2.7).\n/// x (paper\n/// 4.5, 'model'), paper 1.2, 1.3"),
            {"2.4", "2.7", "4.5", "1.2", "1.3"},
        )
        self.assertEqual(cited('x[1]; f("paper 1.72× and 93 ms, paper 93 ms")'), set())
        self.assertEqual(
            miscited("int n;  // draws [4.7]\n// by [1]\n/// x (reference\n/// 4.5, 'model')"),
            ["[4.7]", "[1]", "reference 4.5"],
        )
        self.assertEqual(miscited("x[4.7];  // x[1] of (paper 4.7)"), [])


class Documents(unittest.TestCase):
    def test_the_readme_is_short(self):
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        words = len(re.findall(r"\S*\w\S*", text))  # not the bars of tables
        self.assertLessEqual(
            words, 1000, "README.md is what a newcomer reads first; the rest belongs into docs/"
        )

    def test_every_named_file_and_folder_exists(self):
        for document in documents():
            for name in NAMED.findall(document.read_text(encoding="utf-8")):
                self.assertTrue(
                    (ROOT / name).exists(), f"{document.relative_to(ROOT)} names {name}"
                )

    def test_every_relative_link_leads_somewhere(self):
        links = 0
        for document in documents():
            for target in LINK.findall(document.read_text(encoding="utf-8")):
                if re.match(r"[a-z]+:|#", target):
                    continue
                links += 1
                path, _, anchor = target.partition("#")
                found = document.parent / path
                where = f"{document.relative_to(ROOT)} links to {target}"
                self.assertTrue(found.exists(), where)
                if anchor:
                    self.assertIn(anchor, anchors(found.read_text(encoding="utf-8")), where)
        self.assertGreater(links, 0)


class Results(unittest.TestCase):
    def test_every_published_metric_is_explained(self):
        text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
        metrics = text.partition("\n## Metrics\n")[2].partition("\n## ")[0]
        explained = {re.sub(r"<\w+>", "*", name) for name in re.findall(r"`([^`\s]+)`", metrics)}
        published = {
            json.loads(line)["metric"]
            for path in (ROOT / "results").glob("*/**/*.jsonl")
            if "local" not in path.parts
            for line in path.read_text(encoding="utf-8").splitlines()
        }
        self.assertGreater(len(published), 40)
        unknown = [m for m in published if not any(fnmatch.fnmatch(m, e) for e in explained)]
        self.assertEqual(sorted(unknown), [])


class Skeletons(unittest.TestCase):
    def test_those_of_the_guide_compile(self):
        files = dict(SKELETON.findall((ROOT / "docs" / "adding.md").read_text(encoding="utf-8")))
        self.assertGreater(len(files), 2)
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            for name in files:
                if not name.endswith(".cpp"):
                    continue
                done = subprocess.run(
                    [
                        "g++",
                        "-std=c++20",
                        "-fsyntax-only",
                        "-Wall",
                        "-Wextra",
                        "-Wshadow",
                        "-Wconversion",
                        "-Werror",
                        f"-I{ROOT}",
                        f"-I{folder}",
                        "-isystem",
                        "/usr/include/eigen3",
                        str(pathlib.Path(folder) / name),
                    ],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual(done.returncode, 0, f"{name} of docs/adding.md:\n{done.stderr}")


def documents():
    return [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "results" / "README.md"]


def anchors(text):
    """Of headings, as a page of Markdown makes them: lower case, no punctuation, hyphens for spaces."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }


if __name__ == "__main__":
    unittest.main()
