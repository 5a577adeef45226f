"""Folders of results made up for a test, and a tool run beside them."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def entry(value, half=0.0, unit="ms", **more):
    """Of summary.json."""
    ends = {"value": value, "low": value - half, "high": value + half}
    known = {"unit": unit, "state": "", "sittings": 1, "status": "ok", "commit": "c1"}
    return ends | known | more


def record(row, value, metric="token_ms", experiment="table2", **more):
    return {
        "experiment": experiment,
        "row": row,
        "against": "baseline",
        "threads": 2,
        "metric": metric,
        "value": value,
        "unit": "ms",
        "status": "ok",
        "note": "",
        "repeats": 16,
        "spread": 0.01 * value,
        "commit": "c1",
        "cpu": "Zen",
        "cores": 2,
        "date": "2026-01-01T00:00:00Z",
        "config": {"batch": 1},
        **more,
    }


class WithResults(unittest.TestCase):
    tool = ""  # of tools/

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)

    def folder(self, name, summary=None, records=(), **files):
        """files: more of them by their stem, Google Benchmark's entries each."""
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        if summary is not None:
            (folder / "summary.json").write_text(json.dumps(summary))
        for item in records:
            with open(folder / f"{item['experiment']}.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(item) + "\n")
        for stem, entries in files.items():
            (folder / f"{stem}.json").write_text(json.dumps({"context": {}, "benchmarks": entries}))
        return folder

    def run_tool(self, *arguments):
        return subprocess.run(
            [sys.executable, ROOT / "tools" / self.tool, *map(str, arguments)],
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )

    def refused(self, words, *arguments):
        done = self.run_tool(*arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertTrue(done.stderr.startswith("error: "), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
