"""tools/table5.py: which files a set has, and the commands in their order."""

import contextlib
import gzip
import io
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "plots")]
import table5 as tool  # noqa: E402
import table_steps  # noqa: E402


class WithSet(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        lines = [json.dumps({"article": f"a{i}", "abstract": f"b{i}"}) + "\n" for i in range(120)]
        with gzip.open(self.folder / "train.jsonl.gz", "wt") as file:
            file.writelines(lines)
        for name in ("valid", "test"):
            (self.folder / f"{name}.jsonl").write_text("".join(lines[:5]))

        for row in ("dense", "ff_qkv", "terraformer"):
            weights = self.weights(row)
            weights.parent.mkdir(parents=True)
            weights.touch()

    def weights(self, row):
        return self.folder / f"results/checkpoints/table5_pretrain/{row}.1/best.ckpt"

    def plan(self, *more):
        return tool.Plan(
            tool.parse(
                [
                    *("--articles", str(self.folder), "--results", str(self.folder / "results")),
                    *("--text", "t", "--validation", "v", "--build", "b", *more),
                ]
            )
        )

    def commands(self, step, *more):
        return [[str(word) for word in command] for command in getattr(self.plan(*more), step)()]


class CommandsTest(WithSet):
    def test_each_row_starts_from_its_own_weights(self):
        found = self.commands("finetune")
        self.assertEqual(
            [c[c.index("--rows") + 1] for c in found], ["dense", "ff_qkv", "terraformer"]
        )
        for command in found:
            row = command[command.index("--rows") + 1]
            weights = command[command.index("--init_from") + 1]
            self.assertEqual(weights, str(self.weights(row)))
            self.assertIn(str(self.folder / "train.jsonl.gz"), command)
            self.assertIn(str(self.folder / "valid.jsonl"), command)

    def test_few_articles_are_the_first(self):
        found = self.commands("few")
        self.assertEqual(len(found), 6)
        for count in (10, 100):
            path = self.folder / "results" / "texts" / "sumpubmed" / f"first_{count}.jsonl"
            with gzip.open(self.folder / "train.jsonl.gz", "rt") as file:
                wanted = file.readlines()[:count]
            self.assertEqual(path.read_text(), "".join(wanted))
            self.assertEqual(sum(str(path) in command for command in found), 3)

    def test_too_few_articles_are_refused(self):
        (self.folder / "train.jsonl.gz").unlink()
        (self.folder / "train.jsonl").write_text("{}\n" * 50)
        with self.assertRaisesRegex(ValueError, "50 articles, fewer than 100"):
            self.commands("few")

    def test_every_seed_s_abstracts_are_written_and_scored_together(self):
        written = [c[c.index("--out") + 1] for c in self.commands("generate")]
        self.assertEqual(len(written), 27)  # 3 rows, 3 seeds, 3 sizes
        self.assertEqual(len(set(written)), 27)
        scored = self.commands("score")
        rows = [c[c.index("--row") + 1] for c in scored]
        self.assertEqual(rows[:5], ["lead", "random", "oracle", "dense", "ff_qkv"])
        self.assertEqual(len(rows), 12 + 6 + 11)
        for command in scored[3:12]:
            begin, end = command.index("--hypotheses") + 1, command.index("--against")
            self.assertEqual(end - begin, 3)
            self.assertTrue(set(command[begin:end]) <= set(written))
            for path, other in zip(command[begin:end], command[end + 1 :]):
                path = pathlib.Path(path)
                self.assertEqual(pathlib.Path(other), path.with_name(f"another.{path.name}"))
        made = [c[c.index("--out") + 1] for c in self.commands("baselines")]
        self.assertEqual(len(made), 30)

    def test_sparse_rows_are_compared_with_dense_ones_that_saw_as_many_articles(self):
        compared = self.commands("score")[12:18]
        for command in compared:
            row = command[command.index("--row") + 1]
            model, dot, ending = row.partition(".")
            self.assertIn(model, ("ff_qkv", "terraformer"))
            begin, end = command.index("--hypotheses") + 1, command.index("--against")
            for path, other in zip(command[begin:end], command[end + 1 :]):
                self.assertEqual(
                    other, path.replace(f"/{model}{dot}{ending}", f"/dense{dot}{ending}")
                )

    def test_the_first_seed_is_decoded_in_other_ways(self):
        found = self.commands("decodings")
        self.assertEqual(len(found), 9)
        checkpoints = {c[c.index("--checkpoint") + 1] for c in found}
        self.assertEqual(len(checkpoints), 3)
        self.assertTrue(all("table5_sumpubmed" in c and ".1/best" in c for c in checkpoints))
        for command in found:
            self.assertFalse("--beam" in command and "--temperature" in command)
        scored = {c[c.index("--row") + 1]: c for c in self.commands("score")[18:]}
        self.assertEqual(len(scored), 11)
        for command in found:
            out = pathlib.Path(command[command.index("--out") + 1])
            row = out.name.removesuffix(".1.txt")
            self.assertIn(str(out), scored[row])

    def test_a_prompted_model_reads_no_abstract(self):
        train, *told = self.commands("prompted")
        self.assertEqual(train[train.index("--corpus") + 1], "t")
        self.assertEqual(len(told), 2)
        for command in told:
            self.assertEqual(command[command.index("--cue") + 1], " TL;DR:")
            self.assertEqual(command[command.index("--top_k") + 1], "2")
            row = pathlib.Path(command[command.index("--out") + 1]).name.partition(".")[0]
            self.assertIn(f"table5_prompted/{row}.1/", command[command.index("--checkpoint") + 1])
        rows = [c[c.index("--row") + 1] for c in self.commands("score")]
        self.assertEqual(rows[-2:], ["dense.prompted", "ff_qkv.prompted"])

    def test_a_quick_look_takes_one_seed_and_few_steps(self):
        steps = [
            c for step in ("pretrain", "finetune", "few") for c in self.commands(step, "--quick")
        ]
        for command in steps:
            self.assertEqual(command[command.index("--steps") + 1], "4")
            self.assertEqual(command[command.index("--seeds") + 1], "1")
        written = self.commands("generate", "--quick")
        self.assertEqual(len(written), 9)
        self.assertTrue(all("--tokens" in command for command in written))
        (few,) = {command[command.index("--sources") + 1] for command in written}
        self.assertEqual(len(pathlib.Path(few).read_text().splitlines()), 4)
        scored = self.commands("score", "--quick")
        self.assertEqual({c[c.index("--references") + 1] for c in scored}, {few})
        prompted = self.commands("prompted", "--quick")[1]
        self.assertEqual(prompted.count("--tokens"), 1)

    def test_a_set_of_one_seed_has_no_few(self):
        self.assertEqual(len(self.commands("generate", "--set", "scisummnet")), 3)
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            self.plan("--set", "scisummnet", "--step", "few")
        self.assertIn("scisummnet", said.getvalue())
        scored = self.commands("score", "--set", "scisummnet")
        self.assertEqual(len(scored), 3 + 3 + 2)

    def test_the_page_has_the_first_seed_of_each_row(self):
        (command,) = self.commands("page")
        shown = [word.partition("=")[0] for word in command if "=" in word]
        self.assertEqual(shown, ["dense", "ff_qkv", "terraformer", "lead"])

    def test_what_is_missing_is_named(self):
        self.weights("ff_qkv").unlink()
        for step in ("finetune", "few"):
            with self.assertRaisesRegex(ValueError, "ff_qkv is not trained; run --step pre"):
                self.commands(step)
        (self.folder / "valid.jsonl").unlink()
        with self.assertRaisesRegex(ValueError, "has no valid.jsonl.gz"):
            self.commands("finetune")


class RunTest(WithSet):
    def test_steps_stop_at_the_first_that_fails(self):
        plan = self.plan()
        plan.pretrain = lambda: [["false"], ["true"]]
        plan.finetune = lambda: self.fail("must not begin")
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(table_steps.run(plan, ["pretrain", "finetune"], False), 1)
        self.assertEqual(said.getvalue(), "false\ntrue\n")


if __name__ == "__main__":
    unittest.main()
