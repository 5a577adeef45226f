"""tools/train_curves.py: which curves there are, in which order, and what becomes of one that fails or is stopped."""

import contextlib
import io
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import table_steps  # noqa: E402
import train_curves as tool  # noqa: E402

# Stands for the real one: says what it was given, fails where the row's name says so, and waits to be stopped if asked.
PROGRAM = """#!/usr/bin/env python3
import pathlib, signal, sys, time
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
folder = pathlib.Path(given["--results"])
with open(folder / "calls", "a") as calls:
    calls.write(" ".join((pathlib.Path(given["--config"]).stem, given["--rows"], given["--seeds"])) + "\\n")
print("flags", sys.argv[1:])
if given["--rows"] == "broken":
    sys.exit(2)
if given["--rows"] == "endless":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    (folder / "waits").touch()
    time.sleep(60)
"""


class WithProgram(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        program = self.folder / "build" / "experiments" / "perplexity"
        program.parent.mkdir(parents=True)
        program.write_text(PROGRAM)
        program.chmod(0o755)
        self.results = self.folder / "results"
        self.write("one", "seeds = 2,3", "dense", "sparse")
        self.write("other", "steps = 4", "dense")

    def write(self, name, line, *rows):
        path = self.folder / f"{name}.cfg"
        path.write_text(
            "\n".join([line, *(f"row = {row}: feed_forward=dense" for row in rows), ""])
        )
        return str(path)

    def config(self, name):
        return str(self.folder / f"{name}.cfg")

    def command(self, *arguments):
        return [
            *(sys.executable, str(ROOT / "tools" / "train_curves.py"), "--results", self.results),
            *("--build", self.folder / "build", *arguments),
        ]

    def run_tool(self, *arguments):
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, check=False, timeout=60
        )

    def calls(self):
        return (self.results / "calls").read_text().splitlines()


class OrderTest(WithProgram):
    def test_results_that_cannot_be_written_are_refused_in_a_sentence(self):
        self.results = self.folder / "file"
        self.results.write_text("")
        done = self.run_tool(self.config("one"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("choose another with --results", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_seeds_are_read_as_the_program_reads_them(self):
        for line, seeds in (
            ("seeds = 2,3", ["2", "3"]),
            ("seeds=2, 3   # a remark", ["2", "3"]),
            ("steps = 4", ["1"]),
        ):
            path = pathlib.Path(self.write("some", line, "dense"))
            self.assertEqual(table_steps.seeds_of(path), seeds, line)
        twice = tool.curves_of(f"{self.config('one')}:dense,dense", ["4", "4"])
        self.assertEqual([(c.row, c.seed) for c in twice], [("dense", "4")])
        with self.assertRaisesRegex(ValueError, "names no row behind its colon"):
            tool.curves_of(f"{self.config('one')}:", None)
        said = self.run_tool(self.write("bad", "seeds = two", "dense")).stderr
        self.assertIn("bad.cfg: its line of seeds has no whole numbers", said)
        self.assertNotIn("Traceback", said)

    def test_every_row_has_its_first_seed_before_any_has_its_second(self):
        done = self.run_tool("--workers", "1", self.config("one"), self.config("other"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            self.calls(),
            ["one dense 2", "one sparse 2", "other dense 1", "one dense 3", "one sparse 3"],
        )
        self.assertIn("[5/5] one, sparse, seed 3: was there", done.stdout)

    def test_rows_and_seeds_can_be_chosen(self):
        done = self.run_tool("--workers", "1", "--seeds", "7,9", self.config("one") + ":sparse")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.calls(), ["one sparse 7", "one sparse 9"])

    def test_flags_behind_two_dashes_go_to_the_program(self):
        self.run_tool("--workers", "1", self.config("other"), "--", "--corpus", "text.txt")
        said = (self.results / "logs" / "other.dense.1.log").read_text()
        self.assertIn("'--corpus', 'text.txt'", said)
        self.assertIn("'--threads', '1'", said)

    def test_several_run_at_once(self):
        done = self.run_tool("--workers", "3", self.config("one"), self.config("other"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.calls()), 5)


class EndTest(WithProgram):
    def test_one_that_fails_is_named_and_the_others_go_on(self):
        config = self.write("bad", "seeds = 1", "broken", "dense")
        done = self.run_tool("--workers", "1", config)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.calls(), ["bad broken 1", "bad dense 1"])
        self.assertIn("bad, broken, seed 1 failed", done.stderr)
        self.assertIn("bad.broken.1.log", done.stderr)

    def test_a_signal_stops_what_runs_and_begins_nothing_else(self):
        config = self.write("long", "seeds = 1,2", "endless")
        with subprocess.Popen(
            self.command("--workers", "1", config), stdout=subprocess.PIPE, text=True
        ) as process:
            until = time.monotonic() + 30
            while not (self.results / "waits").exists() and time.monotonic() < until:
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.calls(), ["long endless 1"])
        self.assertIn("goes on when the command is given again", said)


class RefusedTest(WithProgram):
    def refused(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as left:
            tool.parse(
                ["--results", "r", "--build", str(self.folder / "build"), *map(str, arguments)]
            )
        self.assertEqual(left.exception.code, 2)
        return said.getvalue()

    def test_bad_input_is_named(self):
        self.assertIn("nowhere is neither a file nor", self.refused("nowhere"))
        self.assertIn("has no row dnse; it has dense", self.refused(self.config("one") + ":dnse"))
        self.assertIn("--seeds 1;2", self.refused("--seeds", "1;2", self.config("one")))
        self.assertIn("'0' is no number", self.refused("--workers", "0", self.config("one")))

    def test_a_missing_program_is_named(self):
        said = self.refused("--build", self.folder, self.config("one"))
        self.assertIn("does not exist; ./build.sh makes it", said)


class LeftTest(WithProgram):
    def test_what_is_left_goes_by_curves_of_the_same_config(self):
        args = tool.parse(
            [
                *("--results", str(self.results), "--workers", "2"),
                *("--build", str(self.folder / "build")),
                *(self.config("one"), self.config("other")),
            ]
        )
        workers = tool.Workers(args.curves, args)
        self.assertEqual(workers.left(), "")
        one, other = pathlib.Path(self.config("one")), pathlib.Path(self.config("other"))
        workers.took = {one: [100, 140], other: [600]}
        self.assertEqual(workers.left(), "; about 9 min left")  # (4 * 120 + 600) / 2
        self.assertEqual(tool.words_of(7805), "2 h 10 min")


if __name__ == "__main__":
    unittest.main()
