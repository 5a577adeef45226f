"""tools/teachers.py: which teachers are trained by which seeds, and that each is swept from its own checkpoint."""

import contextlib
import io
import pathlib
import sys
import tempfile
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

    def test_timed_are_the_models_that_the_sweep_of_the_same_teacher_writes(self):
        def told(step):
            flags = ("--checkpoint", "--models", "--corpus", "--validation")
            return [[c[c.index(flag) + 1] for flag in flags] for c in self.commands(step)]

        self.assertEqual(len(told("time")), 8)
        self.assertEqual(told("time"), told("sweep"))
        self.assertTrue(all(c[0].endswith("sparsefinder_time") for c in self.commands("time")))

    def test_other_ranks_leave_the_rows_of_the_usual_one_alone(self):
        commands = self.commands("ranks", "--teachers", "s_lm_512")
        self.assertEqual([c[c.index("--rank") + 1] for c in commands], ["2", "8", "16"])
        rows = commands[0][commands[0].index("--rows") + 1].split(",")
        self.assertIn("s_lm_512.1.distance_random_rank2", rows)
        self.assertTrue(all(row.endswith("_rank2") for row in rows))
        self.assertNotIn("--online", commands[0])

    def test_some_teachers_alone_and_a_quick_look(self):
        self.assertEqual(len(self.commands("sweep", "--teachers", "s_lm")), 3)
        (swept,) = self.commands("sweep", "--teachers", "s_lm", "--quick")
        self.assertIn("--quick", swept)
        (trained,) = self.commands("train", "--teachers", "s_lm", "--quick")
        self.assertEqual(trained[trained.index("--seeds") + 1], "1")
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            self.commands("train", "--teachers", "s_m")
        self.assertIn("s_m is none of s_lm, s_mlm", said.getvalue())


class TranslationTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        for side in ("en", "de"):
            lines = "".join(f"{side} {i}\n" for i in range(7))
            (self.folder / f"test.{side}").write_text(lines)

    def parsed(self, *more):
        texts = (
            "--text",
            "train.en",
            "--validation",
            "val.en",
            "--results",
            str(self.folder / "r"),
        )
        return tool.parse((*texts, "--teachers", "s_mt", *more))

    def test_the_teacher_and_every_model_of_it_translate_the_same_joined_lines(self):
        native = self.folder / "r" / "native"
        native.mkdir(parents=True)
        for name in ("s_mt.1.kmeans.0.9", "s_mt.1.distance.0.9", "s_lm.1.distance.0.9"):
            (native / f"{name}.safetensors").touch()
        plan = tool.Plan(self.parsed("--test", str(self.folder / "test.en")))
        commands = [[str(word) for word in command] for command in plan.translate()]
        rows = [c[c.index("--row") + 1] for c in commands if "--row" in c]
        full = [f"s_mt.1.full{ending}" for ending in ("", ".greedy", ".power")]
        self.assertEqual(rows, [*full, "s_mt.1.distance.0.9", "s_mt.1.kmeans.0.9"])
        written = [c for c in commands if "--sources" in c]
        beams = [c[c.index("--length_penalty") + 1] if "--beam" in c else "" for c in written]
        self.assertEqual(beams, ["gnmt", "", "power", "gnmt", "gnmt"])
        self.assertEqual(len(written), len(rows))
        (sources,) = {c[c.index("--sources") + 1] for c in written}
        (references,) = {c[c.index("--references") + 1] for c in commands if "--references" in c}
        self.assertEqual(pathlib.Path(sources).read_text(), "en 0 en 1 en 2 en 3 en 4\nen 5 en 6\n")
        self.assertEqual(pathlib.Path(references).read_text().splitlines()[1], "de 5 de 6")
        # Programs write files into folders that are there.
        for command in written:
            self.assertTrue(pathlib.Path(command[command.index("--out") + 1]).parent.is_dir())

    def test_what_does_not_go_together_is_refused(self):
        for more, wanted in (
            ((), "wants --test"),
            (("--teachers", "s_mt,s_lm", "--test", "t.en"), "run them apart"),
            (("--teachers", "s_lm", "--step", "translate"), "is of s_mt alone"),
        ):
            said = io.StringIO()
            with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
                self.parsed(*more)
            self.assertIn(wanted, said.getvalue())


if __name__ == "__main__":
    unittest.main()
