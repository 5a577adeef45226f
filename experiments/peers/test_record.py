"""The writer of records, and the comparison of training steps with made-up programs."""

import contextlib
import fcntl
import io
import json
import os
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import compare_training  # noqa: E402
import record  # noqa: E402

OURS = {
    "status": "ok",
    "value": 0.02,
    "mean": 0.03,
    "parameters": 1000,
    "mfu": 0.5,
    "tokens_per_s": 7e4,
    "peak_memory_bytes": 1e8,
    "ceiling_gemm_gflops": 90.0,
    "gemm": "eigen",
    "optimizer": "adam",
    **dict.fromkeys(compare_training.SIZES, 8),
}
THEIRS = {"status": "ok", "value": 0.03, "parameters": 1000, "versions": "framework 1"}


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class RecordTest(WithFolder):
    def test_fingerprints_are_those_of_the_cpp_programs(self):
        self.assertEqual(record.fingerprint(b""), "cbf29ce484222325")
        self.assertEqual(record.fingerprint(b"a"), "af63dc4c8601ec8c")

    def test_an_edited_file_counts_and_an_edited_test_does_not(self):
        (self.folder / "time_one.py").write_text("1")
        before = record.sources(self.folder)
        (self.folder / "test_time_one.py").write_text("1")
        self.assertEqual(record.sources(self.folder), before)
        (self.folder / "libraries").mkdir()
        for name in ("time_one.py", "requirements.txt", "libraries/mkl_block.cpp"):
            (self.folder / name).write_text("2")
            self.assertNotEqual(record.sources(self.folder), before)
            before = record.sources(self.folder)

    def test_keys_depend_on_settings_files_and_machine(self):
        file = record.RecordFile(self.folder, "e")
        key = file.key(row="r", threads=1)
        self.assertEqual(file.key(threads=1, row="r"), key)
        self.assertNotEqual(file.key(row="r", threads=2), key)
        with mock.patch.object(record, "sources", lambda folder: f"others of {folder}"):
            self.assertNotEqual(file.key(row="r", threads=1), key)
        other, none = (record.RecordFile(self.folder, "e", programs=p) for p in (self.folder, None))
        self.assertEqual(len({f.key(row="r", threads=1) for f in (file, other, none)}), 3)
        file.about["commit"] = "another"
        self.assertEqual(file.key(row="r", threads=1), key)
        file.about["cpu"] = "another"
        self.assertNotEqual(file.key(row="r", threads=1), key)

    def test_lines_say_who_measured_and_are_found_again(self):
        record.RecordFile(self.folder, "e", "part").append(
            [
                {"row": "r", "status": "ok", "value": 1.0, "key": "k"},
                {"status": "failed", "value": None, "key": "f"},
            ]
        )
        file = record.RecordFile(self.folder, "e")
        self.assertEqual(file.finished, {"k"})
        line = json.loads(file.path.read_text().splitlines()[0])
        self.assertEqual(
            (line["experiment"], line["study"], line["section"]), ("e", "peers", "part")
        )
        self.assertTrue(line["cpu"] and line["cores"] and line["date"])

    def test_foreign_file_is_named_not_overwritten(self):
        path = self.folder / "e.jsonl"
        for text in ('{"something": "else"}\n', '{"experiment": "other"}\n'):
            path.write_text(text)
            with self.assertRaises(SystemExit) as caught:
                record.RecordFile(self.folder, "e")
            self.assertIn(f"{path}:1 is not a record of e", str(caught.exception))
            self.assertEqual(path.read_text(), text)

    def test_a_line_that_was_cut_short_is_dropped_and_said(self):
        file = record.RecordFile(self.folder, "e")
        file.append([{"row": "r", "status": "ok", "value": 1.0, "key": "k"}])
        # U+2028 ends no line.
        odd = {"experiment": "e", "status": "ok", "value": 2, "key": "o", "note": "\u2028"}
        with open(file.path, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(odd, ensure_ascii=False) + "\n")
        whole = file.path.read_bytes()
        for cut in (b"{", b'{"experiment": "e", "status": "ok", "note": "\xc3'):
            file.path.write_bytes(whole + cut)
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(record.RecordFile(self.folder, "e").finished, {"k", "o"})
            self.assertIn(f"{file.path}: its last record has no end", said.getvalue())
            self.assertEqual(file.path.read_bytes(), whole)
        file.path.write_bytes(b'{"experiment": "other", "st')
        with self.assertRaisesRegex(SystemExit, "e.jsonl:1 is not a record of e"):
            record.RecordFile(self.folder, "e")

    def test_lines_are_appended_under_the_lock_of_all_programs(self):
        file = record.RecordFile(self.folder, "e")
        with open(file.path, "a", encoding="utf-8") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            appending = threading.Thread(target=lambda: file.append([{"row": "r"}]))
            appending.start()
            appending.join(timeout=0.5)
            self.assertTrue(appending.is_alive())
            other.write('{"experiment": "e", "row": "meanwhile"}\n')
        appending.join(timeout=60)
        lines = file.path.read_text(encoding="utf-8").split("\n")[:-1]
        self.assertEqual([json.loads(line)["row"] for line in lines], ["meanwhile", "r"])

    def test_lines_that_do_not_reach_the_disk_leave_nothing(self):
        file = record.RecordFile(self.folder, "e")
        file.append([{"row": "r"}])
        whole = file.path.read_bytes()
        full = mock.patch.object(os, "fsync", side_effect=OSError(28, "No space left on device"))
        why = r"cannot be added to .*e\.jsonl \(No space"
        with full, self.assertRaisesRegex(SystemExit, why):
            file.append([{"row": "s"}])
        self.assertEqual(file.path.read_bytes(), whole)


class CompareTrainingTest(WithFolder):
    def program(self, name, outcome):
        path = self.folder / name
        path.write_text(
            f"#!{sys.executable}\nimport sys\nif '-c' in sys.argv: sys.exit()\n"
            f"open({str(self.folder / 'calls')!r}, 'a').write({name!r} + chr(10))\n"
            f"print({json.dumps(outcome)!r})\n"
        )
        path.chmod(0o755)
        return str(path)

    def compare(self, *more):
        command = [
            "compare_training.py",
            "--results",
            str(self.folder / "results"),
            "--rounds",
            "2",
            "--program",
            self.program("ours", OURS),
            "--python",
            f"framework={self.program('theirs', THEIRS)}",
            "--threads",
            "1",
            *more,
        ]
        return self.run_main(command, "peers_training")

    def run_main(self, command, experiment):
        """Records of the experiment, and what was said."""
        with (
            mock.patch.object(sys, "argv", command),
            contextlib.redirect_stdout(io.StringIO()) as said,
        ):
            compare_training.main()
        lines = (self.folder / "results" / f"{experiment}.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines], said.getvalue()

    def test_each_candidate_has_its_steps_and_what_is_recorded_is_not_repeated(self):
        records, said = self.compare()
        self.assertEqual(
            [(r["row"], r["metric"]) for r in records],
            [
                ("ours", "step_seconds"),
                ("ours", "mfu"),
                ("ours", "tokens_per_s"),
                ("ours", "peak_memory_bytes"),
                ("framework", "step_seconds"),
            ],
        )
        self.assertEqual((records[0]["value"], records[-1]["value"]), (0.02, 0.03))
        self.assertEqual(records[-1]["note"], "framework 1")
        self.assertIn("framework: 1.50 x our step", said)
        calls = (self.folder / "calls").read_text()
        self.assertEqual(calls.count("theirs"), 2)
        again, said = self.compare()
        self.assertEqual((len(again), said), (5, "already recorded\n"))
        self.assertEqual((self.folder / "calls").read_text(), calls)
        self.assertEqual(len(self.compare("--steps", "7")[0]), 10)
        self.assertEqual(len(self.compare("--force")[0]), 15)

    def rows(self, *more):
        """Records of --over, and what was said: a step of `sparse` takes 10, 12 ms, of `dense` 10, 8, by seed."""
        path = self.folder / "program"
        path.write_text(
            f"#!{sys.executable}\nimport json, sys\nasked = dict(zip(sys.argv[1::2], sys.argv[2::2]))\n"
            f"outcome = {OURS!r}\nmore = int(asked['--seed']) - 1\n"
            "outcome['mean'] = 0.01 + more * (0.002 if asked['--row'] == 'sparse' else -0.002)\n"
            "print(json.dumps(outcome))\n"
        )
        path.chmod(0o755)
        command = [
            "compare_training.py",
            "--results",
            str(self.folder / "results"),
            "--rounds",
            "2",
        ]
        command += ["--program", str(path), "--threads", "1", "--over", "sparse=dense", *more]
        return self.run_main(command, "step_cost")

    def test_rows_over_their_twins_are_of_means_in_one_round_and_by_one_seed(self):
        records, said = self.rows()
        found = {(r["row"], r["metric"]): r["value"] for r in records}
        self.assertEqual(
            set(found),
            {("dense", "step_seconds"), ("sparse", "step_seconds"), ("sparse", "over_dense")},
        )
        self.assertAlmostEqual(found["dense", "step_seconds"], 0.009)
        self.assertAlmostEqual(found["sparse", "step_seconds"], 0.011)
        self.assertAlmostEqual(found["sparse", "over_dense"], (1 + 0.012 / 0.008) / 2)
        self.assertEqual(records[-1]["against"], "dense")
        self.assertIn("--over sparse=dense --rounds 2", records[-1]["command"])
        self.assertIn("sparse: 1.250 x a step of dense", said)
        self.assertEqual(self.rows()[1], "already recorded\n")

    def test_over_is_refused_beside_other_frameworks_and_without_a_twin(self):
        for flags, words in (
            (["--over", "sparse"], "ROW=TWIN"),
            (["--python", "framework=python3"], "give one of them"),
        ):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
                self.rows(*flags)
            self.assertIn(words, said.getvalue())


if __name__ == "__main__":
    unittest.main()
