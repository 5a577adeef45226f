"""tools/hierarchy.py: papers are ranked before they are read, and `hierarchical` is set against `flat`."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import hierarchy as tool  # noqa: E402


class CommandsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        for name in ("train", "valid", "test"):
            (self.folder / f"{name}.jsonl").touch()

    def commands(self, step, *more):
        words = ("--articles", str(self.folder), "--results", str(self.folder / "results"), *more)
        plan = tool.Plan(tool.parse(words))
        return [[str(word) for word in command] for command in getattr(plan, step)()]

    def test_what_is_ranked_is_what_is_read(self):
        ranked = [c[c.index("--out") + 1] for c in self.commands("rank")]
        for command in self.commands("rank"):
            self.assertEqual(
                command[command.index("--train") + 1], str(self.folder / "train.jsonl")
            )
        with self.assertRaisesRegex(ValueError, "ranked has no train.jsonl.gz"):
            self.commands("train")
        for path in map(pathlib.Path, ranked):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        (train,) = self.commands("train")
        self.assertEqual(train[train.index("--corpus") + 1], ranked[0])
        self.assertEqual(train[train.index("--validation") + 1], ranked[1])
        written = self.commands("generate")
        self.assertEqual(len(written), 6)
        for command in written:
            self.assertEqual(command[command.index("--sources") + 1], ranked[2])
            self.assertEqual(command[command.index("--beam") + 1], "5")
        # The first sentences are those of the paper as it is.
        lead = self.commands("baselines")[0]
        self.assertEqual(lead[lead.index("--articles") + 1], str(self.folder / "test.jsonl"))
        scored = self.commands("score")
        rows = [c[c.index("--row") + 1] for c in scored]
        wanted = ["lead", "random", "oracle", "flat", "hierarchical", "hierarchical"]
        self.assertEqual(rows, wanted)
        against = scored[-1][scored[-1].index("--against") + 1 :]
        self.assertEqual(
            [pathlib.Path(p).name for p in against], [f"flat.{s}.txt" for s in (1, 2, 3)]
        )


if __name__ == "__main__":
    unittest.main()
