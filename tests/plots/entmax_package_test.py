"""Tests of the section on the entmax package, and of what its program refuses."""

import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "plots")]

from report import Report  # noqa: E402
from sections import entmax_package  # noqa: E402
from with_folder import WithFolder  # noqa: E402

PROGRAM = ROOT / "experiments/attention/entmax_package.py"


def record(row, value, note=""):
    return {
        "experiment": "entmax_package",
        "study": "attention",
        "section": "package",
        "row": row,
        "against": "ours",
        "threads": 2,
        "metric": "step_ms",
        "unit": "ms",
        "value": value,
        "low": 0.9 * value,
        "high": 1.1 * value,
        "spread": 0.1 * value,
        "repeats": 3,
        "status": "ok",
        "note": note,
        "config": {"length": 4096, "n_heads": 16, "d_head": 64},
        "commit": "c1",
        "command": "entmax_package.py --results DIR",
        "key": "k",
        "date": "2026-01-01",
    }


class EntmaxPackageTest(WithFolder):
    def test_their_time_over_ours(self):
        records = self.load([record("ours", 1000.0), record("package", 5000.0, "entmax 1.3; k 64")])
        own = records.of(entmax_package.OWNS)
        found = entmax_package.numbers(records, own)
        over = found["attention.full_entmax15.package_over_ours"]
        self.assertAlmostEqual(over.value, 5)
        self.assertLess(over.low, 5)
        report = Report(records)
        entmax_package.write(report, own)
        self.assertIn("4096 positions, 16 heads, 64 dimensions a head, 2 threads", report.text())
        self.assertIn("entmax 1.3; k 64", report.text())
        self.assertIn("| package | 5,000 | 5.00 |", report.text())

    def test_nothing_of_one_alone(self):
        records = self.load([record("ours", 1000.0)])
        own = records.of(entmax_package.OWNS)
        self.assertEqual(entmax_package.numbers(records, own), {})
        report = Report(records)
        entmax_package.write(report, own)
        self.assertEqual(report.text(), "")

    def test_mistakes_are_refused(self):
        for words, why in (
            (("--length", "1"), "--length 1"),
            (("--program", "/none/long_sequence"), "is missing; build it"),
        ):
            command = [sys.executable, PROGRAM, "--results", self.folder, *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()
