"""Goldens: the published records give the published summary and report again, byte for byte."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class PublishedTest(unittest.TestCase):
    def made_again(self, source, program, names):
        """[(text, published)] of the files that a program writes from a copy of the folder without them."""
        with tempfile.TemporaryDirectory() as temporary:
            # In a folder of the same name above: whose records are published is told by it.
            copy = pathlib.Path(temporary) / source.relative_to(ROOT)
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("curves", *names))
            done = subprocess.run(
                [sys.executable, ROOT / "plots" / program, "--results", copy],
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            return [
                tuple((folder / name).read_text(encoding="utf-8") for folder in (copy, source))
                for name in names
            ]

    def test_sittings_hold_what_the_summary_says(self):
        folders = [*(ROOT / "results" / "published").glob("*/sittings")]
        self.assertTrue(folders)
        for path in folders:
            done = subprocess.run(
                [sys.executable, ROOT / "tools" / "check_published.py", path.parent],
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_summaries_and_reports(self):
        self.maxDiff = 4000
        folders = [path.parent for path in (ROOT / "results").glob("published*/**/summary.json")]
        self.assertTrue(folders)
        for folder in folders:
            for program, *names in (
                ("summarise.py", "summary.json"),
                ("make_report.py", "report.md", "report.html"),
            ):
                with self.subTest(f"{folder}: {program}"):
                    for again, published in self.made_again(folder, program, names):
                        self.assertEqual(again.split("\n"), published.split("\n"))

    def test_what_is_known_names_headings(self):
        """But for the first, which is of the whole folder."""
        notes = [*(ROOT / "results").glob("published*/**/notes.md")]
        self.assertTrue(notes)
        for path in notes:
            _, *titles = re.findall(r"^## (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            self.assertEqual(len(titles), len({*titles}), f"{path}: a heading comes twice")
            report = (path.parent / "report.md").read_text(encoding="utf-8")
            for title in titles:
                found = re.findall(rf"^##+ {re.escape(title)}$", report, re.MULTILINE)
                self.assertEqual(len(found), 1, f"{path}: {title}")


if __name__ == "__main__":
    unittest.main()
