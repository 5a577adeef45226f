"""tools/copy_rounds.py: each row's weights are evaluated with every other row's attention."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import copy_rounds as tool  # noqa: E402
import table_steps  # noqa: E402


class CommandsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def commands(self, step, *more):
        plan = tool.Plan(tool.parse(("--results", str(self.folder), *more)))
        return [[str(word) for word in command] for command in getattr(plan, step)()]

    def test_a_look_has_no_knob_that_the_schedule_lacks(self):
        (command,) = self.commands("train", "--quick")
        self.assertIn("--warmup_steps", command)
        self.assertNotIn("--decay_steps", command)  # of linear and cosine alone

    def test_weights_are_of_the_row_that_was_trained(self):
        with self.assertRaisesRegex(ValueError, "shared_qk is not trained; run --step train"):
            self.commands("evaluate")
        found = self.commands("evaluate", "--dry-run")
        self.assertEqual(len(found), 20)
        for command in found:
            trained = command[command.index("--rows") + 1].partition(".")[0]
            weights = command[command.index("--init_from") + 1]
            self.assertTrue(weights.endswith(f"copy_rounds/{trained}.1/best.ckpt"), weights)

    def test_rows_have_the_attention_that_they_are_evaluated_with(self):
        def rows(name):
            lines = (table_steps.CONFIGS / f"{name}.cfg").read_text().splitlines()
            found = (line.removeprefix("row = ") for line in lines if line.startswith("row = "))
            return dict(row.partition(":")[::2] for row in found)

        trained = rows(tool.TRAINED)
        for row, knobs in rows(tool.CROSS).items():
            evaluated = row.partition(".as_")[2]
            self.assertEqual(knobs.partition(" checkpoint_every")[0], trained[evaluated], row)


if __name__ == "__main__":
    unittest.main()
