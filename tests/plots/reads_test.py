"""What plots/records.py says that components read, against what the built program says: of attentions all their knobs."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "plots"))
import knobs  # noqa: E402

PROGRAM = ROOT / "build" / "release" / "experiments" / "perplexity"
CONFIG = ROOT / "experiments" / "configs" / "training" / "fig1_mini.cfg"


@unittest.skipUnless(PROGRAM.is_file(), f"{PROGRAM} is not built")
class ReadsTest(unittest.TestCase):
    def said(self, *flags):
        done = subprocess.run([PROGRAM, *flags], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def refusal(self, chooser, choice, words):
        """The names behind these words, where the program refuses a choice."""
        with tempfile.TemporaryDirectory() as folder:
            given = ("--config", CONFIG, "--results", folder, f"--{chooser}", choice)
            said = self.said(*given, "--dry-run")
        self.assertIn(words, said)
        listed = said.partition(words)[2].strip()
        return listed.split(", ") if listed else []

    def known(self, chooser):
        return self.refusal(chooser, "?", " '?'; known: ")

    def test_attentions_read_the_knobs_that_they_have(self):
        for name in self.known("attention"):
            own = self.refusal("attention", f"{name}:?=1", " has no knob '?'; it has")
            self.assertEqual(set(knobs.READS["attention"].get(name, ())), set(own), name)

    def test_choices_and_knobs_are_there(self):
        for chooser, choices in knobs.READS.items():
            self.assertEqual(set(choices) - set(self.known(chooser)), set(), chooser)
        words = self.said("--help").split()
        self.assertEqual({f"--{knob}" for knob in knobs.READ_BY_SOME}.difference(words), set())


if __name__ == "__main__":
    unittest.main()
