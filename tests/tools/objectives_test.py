"""tools/objectives.py: configs that are alike but for the objective, and commands that pair each row with its weights."""

import contextlib
import io
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import objectives as tool  # noqa: E402
import table_steps  # noqa: E402


def settings_of(text):
    """{knob: value} of a config's lines, or of what a row sets."""
    return dict(re.findall(r"(\w+) ?= ?(\S+)", text))


def config(name):
    """(its settings, {row: what the row sets})"""
    text = (table_steps.CONFIGS / f"{name}.cfg").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    rows = [line.removeprefix("row = ").partition(":") for line in lines if line[:6] == "row = "]
    shared = settings_of("\n".join(line for line in lines if line[:6] != "row = "))
    return shared, {row: settings_of(own) for row, _, own in rows}


class ConfigsTest(unittest.TestCase):
    def test_every_objective_has_the_same_tokens(self):
        shared, rows = config(tool.PRETRAIN)
        for row, own in rows.items():
            if row == "none":
                continue
            knobs = shared | own
            source, target = int(knobs["length"]), int(knobs["target_length"])
            if knobs["task"] in ("denoising", "gap_sentences"):
                source += 1
            if knobs["task"] == "denoising":
                target = source
            positions = int(knobs["steps"]) * int(knobs["batch"]) * (source + target)
            self.assertEqual(positions, 2000 * 10_240, row)
            self.assertLessEqual(source, int(shared["max_length"]), row)

    def test_models_are_one_and_rows_are_told_apart(self):
        (shared, rows), qqp, sumpubmed = map(config, (tool.PRETRAIN, tool.QQP, tool.SUMPUBMED))
        size = ("encoder_layers", "decoder_layers", "d_model", "d_ff", "n_heads", "max_length")
        for other, own in (qqp, sumpubmed):
            self.assertEqual([*own], [*rows])
            for knob in (*size, "vocab_size", "embedding_scale", "tokenizer", "solve", "section"):
                self.assertEqual(other[knob], shared[knob], knob)
            for row in rows:
                self.assertEqual(own[row].get("future_tokens"), rows[row].get("future_tokens"))
                self.assertLessEqual(
                    {*own[row]}, {"checkpoint_every", "future_tokens", "future_weight"}
                )
            self.assertEqual(own["span_future"]["future_weight"], "0")
            self.assertEqual(len({each["checkpoint_every"] for each in own.values()}), len(own))
        self.assertEqual(qqp[0]["seeds"], "1,2,3")


class CommandsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        for name in ("QQP-10k/train.tsv", "QQP-10k/dev.tsv", "train.jsonl", "valid.jsonl"):
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text("")
        (self.folder / "test.jsonl").write_text("")

    def plan(self, *more):
        flags = [
            *("--glue", str(self.folder), "--articles", str(self.folder)),
            *("--results", str(self.folder / "results"), "--text", "t", "--validation", "v"),
        ]
        return tool.Plan(tool.parse([*flags, *more]))

    def commands(self, step, *more):
        plan = self.plan(*more, "--dry-run")
        return [[str(word) for word in command] for command in getattr(plan, step)()]

    def test_the_steps_are_those_of_the_plan(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(table_steps.run(self.plan("--dry-run"), tool.STEPS, True), 0)
        self.assertEqual(len(said.getvalue().splitlines()), 1 + 12 + 6 + 1 + 3 + 6 + 3 + 6 + 5)
        self.assertNotIn("#", said.getvalue())

    def test_each_row_starts_from_the_weights_of_its_name(self):
        found = self.commands("finetune")
        rows = [*config(tool.QQP)[1]]
        self.assertEqual([c[c.index("--rows") + 1] for c in found], rows * 2)
        for number, command in enumerate(found):
            row = command[command.index("--rows") + 1]
            weights = command[command.index("--init_from") + 1]
            self.assertTrue(
                weights.endswith(f"checkpoints/objectives_pretrain/{row}.1/best.ckpt"), weights
            )
            is_qqp = number < len(rows)
            name = "objectives_qqp.cfg" if is_qqp else "objectives_sumpubmed.cfg"
            self.assertTrue(command[command.index("--config") + 1].endswith(name))
            evaluated = command[command.index("--validation") + 1]
            self.assertEqual(pathlib.Path(evaluated).name, "dev.tsv" if is_qqp else "valid.jsonl")

    def test_what_a_row_wrote_is_scored_as_that_row(self):
        written = {}
        for command in self.commands("generate"):
            checkpoint = pathlib.Path(command[command.index("--checkpoint") + 1])
            self.assertEqual(checkpoint.parent.parent.name, "objectives_sumpubmed")
            written[command[command.index("--out") + 1]] = checkpoint.parent.name
        rows, against_none = {}, []
        for command in self.commands("score"):
            self.assertEqual(command[command.index("--experiment") + 1], "objectives")
            row, path = (command[command.index(flag) + 1] for flag in ("--row", "--hypotheses"))
            self.assertEqual(rows.setdefault(row, path), path)
            if command[-1].endswith("/none.1.txt") and command[-2] == "--against":
                against_none.append(row)
        self.assertEqual([*rows], ["lead", "random", "oracle", *config(tool.SUMPUBMED)[1]])
        self.assertEqual(["none", *against_none], [*config(tool.SUMPUBMED)[1]])
        for row, path in rows.items():
            if row in config(tool.SUMPUBMED)[1]:
                self.assertEqual(written[path], f"{row}.1")
        self.assertIn("glue_qqp", self.commands("baselines")[0])

    def test_what_is_missing_is_named_with_its_remedy(self):
        with self.assertRaisesRegex(
            ValueError, r"none\.1/best\.ckpt is missing: none is not trained; run --step pre"
        ):
            [*self.plan().finetune()]
        (self.folder / "QQP-10k" / "dev.tsv").unlink()
        with self.assertRaisesRegex(ValueError, r"lacks files of qqp: QQP\*/train.tsv to train on"):
            self.commands("finetune")
        (self.folder / "train.jsonl").unlink()
        with self.assertRaisesRegex(ValueError, "has no train.jsonl.gz, nor train.jsonl"):
            self.commands("finetune")

    def test_pretraining_wants_its_texts(self):
        flags = ["--glue", "g", "--articles", "a", "--results", "r"]
        for more in ((), ("--step", "pretrain", "--text", "t")):
            with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
                tool.parse([*flags, *more])
            self.assertIn("wants --text and --validation (tools/pool_text.py", said.getvalue())
        self.assertEqual(tool.parse([*flags, "--step", "score"]).step, "score")


if __name__ == "__main__":
    unittest.main()
