"""Folders of results merged: nothing twice, the newest last, conflicts named."""

import fcntl
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/merge_results.py"
sys.path.insert(0, str(TOOL.parent))
import merge_results  # noqa: E402


def line(row, value, date, **more):
    record = {
        "experiment": "e",
        "row": row,
        "against": row,
        "threads": 1,
        "metric": "ms",
        "seed": 0,
        "key": "k",
        "date": date,
        "value": value,
        **more,
    }
    return json.dumps(record) + "\n"


class MergeTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def merge(self):
        command = [sys.executable, TOOL, self.root / "a", self.root / "b", self.root / "c"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_what_is_lacking_is_appended_and_only_once(self):
        first, second, third = (line(row, 1, f"2026-01-0{i}") for i, row in enumerate("xyz", 1))
        self.write("a/e.jsonl", second)
        self.write("b/e.jsonl", third + first + second)
        self.write("c/e.jsonl", third)
        self.write("c/curves/e/x.1.csv", "step\n")
        self.write("c/traces/e/x.1.npy", "choices")
        self.write("c/patterns/e/full.graph.npy", "graph")
        self.write("c/sparsefinder/s_lm.1.kmeans.npy", "recall")
        before = (self.root / "a/e.jsonl").stat().st_ino
        for _ in range(2):
            done = self.merge()
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual((self.root / "a/e.jsonl").read_text(), second + first + third)
            self.assertEqual((self.root / "a/curves/e/x.1.csv").read_text(), "step\n")
            self.assertEqual((self.root / "a/patterns/e/full.graph.npy").read_text(), "graph")
            self.assertTrue((self.root / "a/sparsefinder/s_lm.1.kmeans.npy").is_file())
            self.assertEqual((self.root / "a/traces/e/x.1.npy").read_text(), "choices")
        self.assertEqual((self.root / "a/e.jsonl").stat().st_ino, before)

    def test_what_a_program_appends_meanwhile_stays(self):
        measured, merged, meanwhile = (line(row, 1, "2026-01-01") for row in "xyz")
        self.write("a/e.jsonl", measured)
        self.write("b/e.jsonl", merged)
        (self.root / "c").mkdir()
        with open(self.root / "a/e.jsonl", "a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            tool = subprocess.Popen(
                [sys.executable, TOOL, self.root / "a", self.root / "b", self.root / "c"]
            )
            with self.assertRaises(subprocess.TimeoutExpired):
                tool.wait(timeout=1)
            file.write(meanwhile)
        self.assertEqual(tool.wait(timeout=60), 0)
        self.assertEqual((self.root / "a/e.jsonl").read_text(), measured + meanwhile + merged)

    def test_a_record_without_its_end_is_named(self):
        whole = line("x", 1, "2026-01-01").replace("ms", "\u2028")  # no end of a line
        cut = json.dumps({"experiment": "e", "note": "\u00e9"}, ensure_ascii=False).encode()[:-3]
        self.write("a/e.jsonl", whole)
        self.write("b/e.jsonl", line("y", 1, "2026-01-02"))
        for name in "ab":
            with open(self.root / name / "e.jsonl", "ab") as file:
                file.write(cut)
        (self.root / "c").mkdir()
        done = self.merge()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            (self.root / "a/e.jsonl").read_text(encoding="utf-8"),
            whole + line("y", 1, "2026-01-02"),
        )
        for name, what in (("a", "dropped"), ("b", "left out")):
            self.assertIn(
                f"{self.root / name}/e.jsonl: its last record has no end, as if a write had been cut "
                f"short; {what}",
                done.stderr,
            )

    def test_a_copy_that_was_interrupted_is_made_again(self):
        def interrupted(source, copy):
            pathlib.Path(copy).write_bytes(source.read_bytes()[:4])
            raise KeyboardInterrupt

        self.write("b/curves/e/x.1.csv", "step\n100\n")
        roots = self.root / "a", [self.root / "b"]
        copying = mock.patch.object(merge_results.shutil, "copyfile", interrupted)
        with copying, self.assertRaises(KeyboardInterrupt):
            merge_results.merge(*roots)
        self.assertEqual(merge_results.merge(*roots), [])
        (copy,) = (self.root / "a/curves/e").iterdir()
        self.assertEqual((copy.name, copy.read_text()), ("x.1.csv", "step\n100\n"))

    def test_steps_of_a_curve_are_several_points(self):
        text = "".join(line("x", step, "2026-01-01", config={"step": step}) for step in (1, 2))
        self.write("a/e.jsonl", "")
        self.write("b/e.jsonl", text)
        self.write("c/e.jsonl", text)
        self.assertEqual(self.merge().returncode, 0)
        self.assertEqual((self.root / "a/e.jsonl").read_text(), text)

    def test_numbers_of_a_name_that_a_sweep_wrote_within_a_second_are_no_conflict(self):
        one, two, three = (line("x", value, "2026-01-01") for value in (1, 2, 3))
        self.write("a/e.jsonl", line("y", 1, "2026-01-01"))
        self.write("b/e.jsonl", one + two + three)
        self.write("c/e.jsonl", one + two)
        done = self.merge()
        self.assertEqual(done.returncode, 0, done.stderr)
        merged = (self.root / "a/e.jsonl").read_text(encoding="utf-8")
        self.assertEqual(merged, line("y", 1, "2026-01-01") + one + two + three)

    def test_conflicts_are_named_and_leave_the_file_alone(self):
        self.write("a/e.jsonl", line("x", 1, "2026-01-01"))
        self.write("b/e.jsonl", line("x", 2, "2026-01-01") + line("y", 1, "2026-01-02"))
        self.write("c/e.jsonl", "")
        before = (self.root / "a/e.jsonl").read_text()
        done = self.merge()
        self.assertEqual(done.returncode, 1)
        self.assertIn("x, 1 threads, ms of 2026-01-01 is 2 there and 1 in", done.stderr)
        self.assertEqual((self.root / "a/e.jsonl").read_text(), before)

    def test_a_damaged_file_is_named(self):
        self.write("a/e.jsonl", "")
        self.write("b/e.jsonl", "no record\n")
        self.write("c/e.jsonl", "")
        done = self.merge()
        self.assertEqual(done.returncode, 1)
        self.assertIn("e.jsonl:1 is no record", done.stderr)


if __name__ == "__main__":
    unittest.main()
