"""Records made outside a checkout get its commit if the program was built there, and not otherwise."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/name_commit.py"
sys.path.insert(0, str(TOOL.parent))
import name_commit  # noqa: E402

PROGRAM = b"a program\n"
SOURCES = "kernels/a.cpp\n0123\n"
COMMIT = "0123456789ab"


def line(row="dense", commit="unknown", sources=None, program="perplexity"):
    record = {
        "experiment": "e",
        "row": row,
        "value": 0.1,
        "command": f"{program} --rows {row}",
        "commit": commit,
        "dirty": commit == "unknown",
        "sources": sources or name_commit.fingerprint(PROGRAM),
    }
    return json.dumps(record, separators=(",", ":")) + "\n"


class NameCommitTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        self.build = self.root / "build"
        (self.build / "experiments").mkdir(parents=True)
        (self.build / "experiments/perplexity").write_bytes(PROGRAM)
        (self.build / "experiments/perplexity.built_from").write_text(SOURCES)
        self.results = self.root / "results"
        self.results.mkdir()
        self.changed = ""

    def run_on(self, text):
        (self.results / "e.jsonl").write_text(text)
        return self.run_tool()

    def run_tool(self):
        def told(*command):
            if command[0] == "sh":
                return SOURCES
            return self.changed if command[1] == "status" else COMMIT + "\n"

        arguments = ["name_commit.py", str(self.results), "--build", str(self.build)]
        with (
            mock.patch.object(name_commit, "told", told),
            mock.patch.object(sys, "argv", arguments),
            mock.patch("sys.stderr") as errors,
            mock.patch("builtins.print"),
        ):
            status = name_commit.main()
        self.errors = "".join(call.args[0] for call in errors.write.call_args_list)
        return status

    def text(self):
        return (self.results / "e.jsonl").read_text()

    def test_a_record_of_this_build_gets_the_commit_and_stays_as_it_is_otherwise(self):
        self.assertEqual(self.run_on(line() + line("other", commit="ba9876543210")), 0)
        first, second = (json.loads(each) for each in self.text().splitlines())
        self.assertEqual(
            first,
            json.loads(line()) | {"commit": COMMIT, "dirty": False},
        )
        self.assertEqual(second["commit"], "ba9876543210")
        self.assertEqual(list(self.results.iterdir()), [self.results / "e.jsonl"])

    def test_twice_changes_nothing(self):
        self.run_on(line())
        named = self.text()
        self.assertEqual(self.run_tool(), 0)
        self.assertEqual(self.text(), named)

    def test_a_program_of_another_build_is_refused_by_both_fingerprints(self):
        text = line() + line("other", sources="0" * 16)
        self.assertEqual(self.run_on(text), 1)
        self.assertEqual(self.text(), text)

    def test_sources_that_changed_since_the_build_are_refused(self):
        (self.build / "experiments/perplexity.built_from").write_text("kernels/b.cpp\n")
        self.assertEqual(self.run_on(line()), 1)
        self.assertEqual(self.text(), line())

    def test_a_program_that_is_not_built_is_refused(self):
        self.assertEqual(self.run_on(line(program="decode_time")), 1)
        self.assertEqual(self.text(), line(program="decode_time"))

    def test_a_checkout_with_changes_has_no_commit_to_give(self):
        self.changed = " M kernels/a.cpp\n"
        self.assertIn("kernels/a.cpp", self.run_on(line()))
        self.assertEqual(self.text(), line())

    def test_a_folder_without_records_is_named(self):
        self.assertIn(str(self.results), self.run_tool())

    def test_the_fingerprint_is_the_programs_own(self):
        """FNV-1a, as the C++ side has it: the published value for "foobar"."""
        self.assertEqual(name_commit.fingerprint(b"foobar"), "85944171f73967e8")


class CommandTest(unittest.TestCase):
    def test_a_folder_that_does_not_exist_has_one_message(self):
        run = subprocess.run(
            [sys.executable, "-B", TOOL, "/nonexistent"], capture_output=True, text=True
        )
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
