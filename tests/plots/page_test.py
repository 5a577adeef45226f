"""report.html: asks no network, says what report.md says, and works in a browser, wide and narrow."""

import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "plots")]
import make_report  # noqa: E402
import page  # noqa: E402
import readme_table  # noqa: E402
import records as rec  # noqa: E402
from document import Line, Rule  # noqa: E402
from made_up import TABLE1, record  # noqa: E402
from with_folder import WithFolder  # noqa: E402

VOID = ("meta", "br", "img", "hr", "input", "link")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


class Parsed(html.parser.HTMLParser):
    """Tables as text, chapters, resources and what is not balanced."""

    def __init__(self, text):
        super().__init__()
        self.open, self.wrong, self.resources = [], [], []
        self.tables, self.headings, self.values = [], [], 0
        self.ids, self.targets = [], []
        self.feed(text)
        self.close()
        self.wrong += self.open

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")
        elif tag in ("h1", "h2"):
            self.headings.append("")

    def handle_startendtag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            elif name in ("href", "xlink:href") and value.startswith("#"):
                self.targets.append(value[1:])
            elif (
                name in ("src", "srcset", "xlink:href", "action", "data")
                or name == "href"
                and tag != "a"
            ):
                self.resources.append(value)
            self.values += name == "data-value"

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"/{tag}")

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings[-1] += data
        if "th" in self.open or "td" in self.open:
            self.tables[-1][-1][-1] += data


def plain(cell):
    """A cell's Markdown as a reader sees it, marks of notes without their brackets."""
    return re.sub(r"\[(\d+)\]", r"\1", re.sub(r"[`*]", "", cell))


class PageTest(WithFolder):
    def page(self, items, **more):
        report = make_report.written(self.load(items, **more))
        return report, page.render(report)

    def assert_is_whole(self, report, text):
        parsed = Parsed(text)
        self.assertEqual(parsed.wrong, [])
        self.assertEqual(parsed.resources, [])
        self.assertNotRegex(text, r"@import|url\((?!#)|\bfetch\(|XMLHttpRequest|WebSocket")
        self.assertEqual(len(parsed.ids), len(set(parsed.ids)))
        self.assertEqual(set(parsed.targets) - set(parsed.ids), set())
        rows = [row for table in parsed.tables for row in table]
        wanted = [
            [plain(cell) for cell in line.cells]
            for line in report.lines
            if isinstance(line, Line) and not isinstance(line, Rule) and any(line.cells)
        ]
        self.assertEqual(rows, wanted)
        return parsed

    def test_it_says_what_the_markdown_says_and_asks_no_network(self):
        report, text = self.page(TABLE1)
        parsed = self.assert_is_whole(report, text)
        self.assertIn("800M, sparse FF+QKV", [row[0] for row in parsed.tables[1]])
        self.assertGreater(parsed.values, 20)
        data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
        self.assertIn(40.0, [value[data["fields"].index("value")] for value in data["values"]])

    def test_a_speed_up_knows_whose_dense_time_it_divides(self):
        _, text = self.page([*TABLE1, record("peers_python", "800m.jax", "block_ms", 3.2)])
        data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
        at = [data["fields"].index(name) for name in ("value", "whose")]
        found = {tuple(value[i] for i in at) for value in data["values"]}
        self.assertIn((4.0, "jax"), found)  # 3.2 ms over 0.8
        self.assertIn((40.0, ""), found)
        self.assertIn("value.whose", text)

    def test_the_published_report_too(self):
        report = make_report.written(rec.Records(readme_table.published()))
        parsed = self.assert_is_whole(report, page.render(report))
        self.assertIn("Goals", parsed.headings)
        numbers = [int(n) for n in re.findall(r"Table (\d+)", "\n".join(parsed.headings))]
        self.assertEqual(numbers, sorted(numbers))
        self.assertGreater(len(set(numbers)), 4)

    def test_goals_are_of_published_folders_alone(self):
        for published in (False, True):
            report, text = self.page(TABLE1, published=published)
            self.assertEqual("Goals" in Parsed(text).headings, published)
            self.assertEqual("## Goals" in report.text(), published)

    def test_notes_stand_below_the_table_that_calls_them(self):
        gap = record("table1_800m", "qkv", "token_ms", None, status="failed", note="too big")
        report, text = self.page([*TABLE1, gap])
        block = next(b for c in report.chapters for b in c if "1. Failed: too big." in b)
        self.assertTrue(any("gap [1]" in line for line in block))
        self.assertRegex(text, r'gap <sup><a href="#(note-\d+-1)">1</a></sup>')
        self.assertRegex(text, r'<li id="note-\d+-1">Failed: too big.</li>')

    def test_what_records_say_is_text(self):
        said = "<script>alert(1)</script> & </td>"
        gap = record("table1_800m", "qkv", "token_ms", None, status="failed", note=said)
        odd = [dict(r, cpu="<b>cpu</b>", command="</script><i>") for r in TABLE1]
        report, text = self.page([*odd, gap])
        self.assert_is_whole(report, text)
        self.assertNotIn("<script>alert", text)
        self.assertNotIn("<b>cpu", text)
        self.assertNotIn("</script><i>", text)


@unittest.skipUnless(CHROMIUM, "no chromium: ./install_dependencies.sh --checks brings it")
class BrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        published = readme_table.published()
        summary = json.loads((published / "summary.json").read_text(encoding="utf-8"))
        cls.time, cls.speedup, cls.next_speedup = (
            summary[f"table1.800m.{name}"]
            for name in ("ff_qkv.token_ms", "ff_qkv.token_speedup", "ff_qkv_cross.token_speedup")
        )
        report = make_report.written(rec.Records(published))
        (cls.folder / "report.html").write_text(page.render(report), encoding="utf-8")

    def run_browser(self, name, width, *arguments):
        done = subprocess.run(
            [
                CHROMIUM,
                "--headless",
                "--disable-gpu",
                "--hide-scrollbars",
                *(["--no-sandbox"] if os.geteuid() == 0 else []),
                f"--user-data-dir={self.folder / 'profile'}",
                f"--window-size={width},900",
                *arguments,
                (self.folder / name).as_uri(),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def result(self, script, width=1280):
        """What an async function body returns in a copy of the page, in a frame of that width.

        A frame, since windows have a least width.
        """
        text = (self.folder / "report.html").read_text(encoding="utf-8")
        tried = (
            "<script>(async () => {" + script + "})().then(JSON.stringify, String)"
            ".then(found => parent.postMessage(found, '*'))</script></body>"
        )
        (self.folder / "tried.html").write_text(text.replace("</body>", tried), encoding="utf-8")
        (self.folder / "frame.html").write_text(
            """<!DOCTYPE html><body style="margin: 0"><script>
            addEventListener("message", ({data}) => { document.title = data; });
            </script>"""
            f'<iframe src="tried.html" style="border: 0; width: {width}px; height: 900px"></iframe>',
            encoding="utf-8",
        )
        dom = self.run_browser("frame.html", 1400, "--virtual-time-budget=5000", "--dump-dom")
        found = re.search(r"<title>(.*?)</title>", dom, re.DOTALL)
        self.assertTrue(found, dom)
        return json.loads(html.unescape(found[1]))

    def test_it_fits_wide_and_narrow(self):
        for width in (1280, 390):
            found = self.result(
                """
                const wide = [...document.querySelectorAll("main > section > *")];
                return {width: innerWidth, scroll: document.documentElement.scrollWidth,
                        beyond: wide.filter(e => e.getBoundingClientRect().right > innerWidth + 1).length,
                        figures: [...document.querySelectorAll("svg")].every(s => s.clientWidth > 200),
                        nav: document.querySelector("nav details").open};
                """,
                width,
            )
            self.assertEqual(found["width"], width)
            self.assertLessEqual(found["scroll"], width)
            self.assertEqual(found["beyond"], 0)
            self.assertTrue(found["figures"])
            self.assertEqual(found["nav"], width > 1100)
            self.run_browser("report.html", width, f"--screenshot={self.folder / f'{width}.png'}")
            import matplotlib.image

            picture = matplotlib.image.imread(self.folder / f"{width}.png")
            self.assertEqual(picture.shape[1], width)
            self.assertGreater(picture.std(), 0.05)  # something is drawn

    def test_a_cell_tells_what_stands_behind_it(self):
        found = self.result(
            """
            const cell = [...document.querySelectorAll("td[data-value]")].find(c => c.textContent.includes("SPEEDUP×"));
            const about = document.getElementById("about"), before = about.hidden;
            cell.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
            const hovered = about.innerText;
            about.hidden = true;
            cell.focus();
            const box = about.getBoundingClientRect();
            const inside = box.left >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
            const focused = about.innerText;
            const press = key => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
            press("ArrowDown");
            const below = document.activeElement.textContent;
            press("Escape");
            return {before, hovered, focused, inside, below, after: about.hidden};
            """.replace("SPEEDUP", f"{self.speedup['value']:.3g}"),
            390,
        )
        self.assertTrue(found["before"] and found["after"] and found["inside"])
        self.assertEqual(found["hovered"], found["focused"])
        self.assertTrue(found["below"].startswith(f"{self.next_speedup['value']:.3g}×"))
        for words in (
            "800M, sparse FF+QKV · token speed-up",
            f"{self.speedup['value']:g}",
            f"{self.speedup['low']:g} to {self.speedup['high']:g}",
            *self.speedup["commit"].split("+"),
            "sittings",
            "memory state",
            "--rows ff_qkv",
        ):
            self.assertIn(words, found["hovered"])

    def test_rows_hide_and_a_table_becomes_csv(self):
        found = self.result(
            """
            const blobs = [];
            URL.createObjectURL = blob => (blobs.push(blob), "blob:none");
            HTMLAnchorElement.prototype.click = function () { blobs.name = this.download; };
            const tools = document.querySelector(".tools");
            const [rows, csv] = tools.querySelectorAll("button");
            csv.click();
            rows.click();
            tools.querySelectorAll("input")[1].click();
            const table = tools.parentElement.querySelector("table");
            const hidden = getComputedStyle(table.tBodies[0].rows[1]).display;
            csv.click();
            return {name: blobs.name, texts: await Promise.all(blobs.map(b => b.text())), hidden,
                    label: rows.textContent, choices: tools.querySelectorAll("input").length,
                    rows: table.tBodies[0].rows.length};
            """
        )
        self.assertEqual(found["hidden"], "none")
        self.assertEqual(found["label"], "Rows (1 hidden)")
        self.assertEqual(found["choices"], found["rows"])
        whole, fewer = (text.split("\n") for text in found["texts"])
        self.assertTrue(found["name"].startswith("Headline"))
        self.assertEqual(len(whole) - len(fewer), 1)
        time = ",".join(f"{self.time[end]:g}" for end in ("value", "low", "high"))
        said = ",".join(self.time[field] for field in ("status", "state", "commit"))
        (line,) = (line for line in whole if line.startswith('"800M, sparse FF+QKV",'))
        self.assertTrue(line.startswith(f'"800M, sparse FF+QKV",{time},{said},'))
        self.assertIn(f",{self.speedup['value']:g},", line)
        self.assertTrue(
            whole[0].startswith('model,"token, ms')
        )  # of the first state, if there are two
        self.assertIn('token, ms: low"', whole[0].replace(", fast", ""))
        self.assertFalse(any(line.startswith('"800M, sparse FF",') for line in fewer))


if __name__ == "__main__":
    unittest.main()
