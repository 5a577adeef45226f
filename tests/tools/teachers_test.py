"""tools/teachers.py: which teachers are trained by which seeds, and that each is swept from its own checkpoint."""

import contextlib
import io
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import teachers as tool  # noqa: E402


class CommandsTest(unittest.TestCase):
    def commands(self, step, *more):
        plan = tool.Plan(tool.parse(("--text", "t", "--validation", "v", "--results", "r", *more)))
        return [[str(word) for word in command] for command in getattr(plan, step)()]

    def test_every_teacher_that_is_trained_is_swept(self):
        trained = {
            f"{command[command.index('--rows') + 1]}.{seed}"
            for command in self.commands("train")
            for seed in command[command.index("--seeds") + 1].split(",")
        }
        self.assertEqual(len(trained), 8)
        self.assertIn("s_mlm_512.1", trained)
        checkpoints = [c[c.index("--checkpoint") + 1] for c in self.commands("sweep")]
        self.assertEqual({pathlib.Path(path).parent.name for path in checkpoints}, trained)
        self.assertEqual(len(self.commands("differences")), 1)

    def test_some_teachers_alone_and_a_quick_look(self):
        self.assertEqual(len(self.commands("sweep", "--teachers", "s_lm")), 3)
        (swept,) = self.commands("sweep", "--teachers", "s_lm", "--quick")
        self.assertIn("--quick", swept)
        (trained,) = self.commands("train", "--teachers", "s_lm", "--quick")
        self.assertEqual(trained[trained.index("--seeds") + 1], "1")
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            self.commands("train", "--teachers", "s_mt")
        self.assertIn("s_mt is none of s_lm, s_mlm", said.getvalue())


if __name__ == "__main__":
    unittest.main()
