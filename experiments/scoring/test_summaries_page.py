"""The page of summaries: which documents it shows, what it says of each, and what it refuses."""

import gzip
import hashlib
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import summaries_page  # noqa: E402

ARTICLES = [f"Article {i} about things. It goes on." for i in range(30)]
REFERENCES = [f"Abstract {i}." for i in range(30)]


def shared_words(hypothesis, reference):
    """Stands for the package: the share of the reference's words."""
    wanted = set(reference.split())
    share = len(wanted & set(hypothesis.split())) / len(wanted)
    return dict.fromkeys(summaries_page.LABELS, share)


class PageTest(unittest.TestCase):
    def text(self, summaries, count=10):
        lines = summaries_page.page("A page", ARTICLES, REFERENCES, summaries, count, shared_words)
        return "\n".join(lines)

    def test_documents_are_those_of_the_smallest_digests_whatever_the_summaries(self):
        order = sorted(range(30), key=lambda i: hashlib.sha256(ARTICLES[i].encode()).hexdigest())
        expected = sorted(order[:10])
        for summaries in ({"own": REFERENCES}, {"own": ["nothing"] * 30}):
            shown = [
                int(line.split()[2]) - 1
                for line in self.text(summaries).splitlines()
                if line.startswith("## Document")
            ]
            self.assertEqual(shown, expected)

    def test_a_document_has_its_own_texts_and_scores(self):
        text = self.text({"right": REFERENCES, "wrong": ["Abstract of another."] * 30}, count=1)
        place = summaries_page.chosen(ARTICLES, 1)[0]
        self.assertIn(f"> Abstract {place}.", text)
        self.assertIn("| right | 100.00 | 100.00 | 100.00 | 100.00 |", text)
        self.assertIn("| wrong | 50.00 |", text)

    def test_marks_of_a_text_stay_text(self):
        self.assertEqual(summaries_page.quoted("a *b* <c>\n# d"), [r"> a \*b\* \<c\>", r"> \# d"])

    def test_more_than_there_are_shows_all(self):
        self.assertEqual(self.text({"own": REFERENCES}, count=99).count("## Document"), 30)


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.articles = self.folder / "test.jsonl.gz"
        rows = [{"article": a, "abstract": r} for a, r in zip(ARTICLES, REFERENCES)]
        self.articles.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))

    def run_it(self, *words):
        command = [sys.executable, HERE / "summaries_page.py", "--articles", self.articles]
        command += ["--out", self.folder / "page.md", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_refuses_what_does_not_fit(self):
        short = self.folder / "short.txt"
        short.write_text("one\n", encoding="utf-8")
        for words, why in (
            ((f"own={short}",), "1 summaries"),
            (("own",), "no NAME=FILE"),
            ((f"own={self.folder}/none.txt",), "cannot read"),
            ((f"own={short}", "--count", "0"), "give 1 at least"),
            ((f"own={short}", "--key", "body"), "no text under 'body'"),
        ):
            done = self.run_it(*words)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(why, done.stderr)
            self.assertFalse((self.folder / "page.md").exists())


if __name__ == "__main__":
    unittest.main()
