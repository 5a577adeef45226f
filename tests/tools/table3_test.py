"""tools/table3.py: which files are a task's, how a learning rate is chosen, and the commands in their order."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "plots")]
import records as rec  # noqa: E402
import table3 as tool  # noqa: E402
import table_steps  # noqa: E402


def record(task, row, rate, accuracy):
    name = f"table3_rates_{task}"
    shared = {
        "experiment": name,
        "row": row,
        "against": "dense.r3",
        "threads": 2,
        "status": "ok",
        "config": {"data": "d", "learning_rate": rate},
        "seed": 1,
        "key": f"{name}.{row}",
        "commit": "c1",
        "date": "2026-01-01T00:00:00Z",
    }
    return [
        {**shared, "metric": "label_accuracy", "unit": "1", "value": accuracy},
        {**shared, "metric": "log_perplexity", "unit": "nats/token", "value": 1.0},
    ]


class WithFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def load(self, *found):
        for path in self.folder.glob("*.jsonl"):
            path.unlink()
        for item in (one for pair in found for one in pair):
            with open(self.folder / f"{item['experiment']}.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(item) + "\n")
        return rec.Records(self.folder)

    def glue(self, *names):
        for name in names:
            path = self.folder / "glue" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("sentence\tlabel\n" + "".join(f"s{i}\t{i % 2}\n" for i in range(99)))
        return self.folder / "glue"


class RatesTest(WithFolder):
    def test_the_best_mean_of_both_tasks_is_chosen_for_each_model(self):
        records = self.load(
            record("sst2", "dense.r3", 0.0003, 0.80),
            record("sst2", "dense.r10", 0.001, 0.70),
            record("qqp", "dense.r3", 0.0003, 0.60),
            record("qqp", "dense.r10", 0.001, 0.75),
            record("sst2", "ff_qkv.r3", 0.0003, 0.70),
            record("sst2", "ff_qkv.r10", 0.001, 0.60),
            record("qqp", "ff_qkv.r3", 0.0003, 0.60),
            record("qqp", "ff_qkv.r10", 0.001, 0.65),
            record("sst2", "ff_qkv_soft.r3", 0.0003, 0.5),  # of which ff_qkv is no beginning
            record("qqp", "ff_qkv_soft.r3", 0.0003, 0.5),
        )
        self.assertEqual(
            tool.chosen_rates(records, ("dense", "ff_qkv", "ff_qkv_soft")),
            {"dense": 0.001, "ff_qkv": 0.0003, "ff_qkv_soft": 0.0003},
        )

    def test_a_grid_that_is_not_finished_decides_nothing(self):
        found = [record(task, "dense.r3", 0.0003, 0.8) for task in tool.RATES_FROM]
        for one in (one for pair in found for one in pair):
            one["config"]["planned"] = "dense.r3,dense.r10"
        with self.assertRaisesRegex(ValueError, "dense.r10 is not trained on both"):
            tool.chosen_rates(self.load(*found), ("dense",))

    def test_a_rate_at_which_training_fails_is_not_taken(self):
        found = [record(task, "dense.r3", 0.0003, 0.8) for task in tool.RATES_FROM]
        found.append(record("sst2", "dense.r10", 0.001, 0.9))
        failed = record("qqp", "dense.r10", 0.001, None)
        for one in failed:
            one |= {"status": "failed", "note": "a loss is not finite"}
        self.assertEqual(tool.chosen_rates(self.load(*found, failed), ("dense",)), {"dense": 3e-4})

    def test_what_is_not_trained_is_named(self):
        one = record("sst2", "dense.r3", 0.0003, 0.8)
        for found, why in (
            ((), "both tasks; run --step rates"),
            ((one,), "both tasks; run --step rates"),
            ((one, record("qqp", "dense.r10", 0.001, 0.8)), "dense.r3 is not trained on both"),
            ((one, record("qqp", "dense.r3", 0.0003, 0.8)), "no learning rate of ff_qkv"),
        ):
            with self.assertRaises(ValueError) as caught:
                tool.chosen_rates(self.load(*found), ("dense", "ff_qkv"))
            self.assertIn(why, str(caught.exception))


class FilesTest(WithFolder):
    def test_nothing_is_trained_on_that_is_evaluated(self):
        glue = self.glue(
            *("MNLI/train_3k.tsv", "MNLI/dev_matched.tsv", "MNLI/xnli_en_dev.tsv"),
            *("QNLI/dev.tsv", "QNLI/split_dev.tsv", "QNLI/split_train.tsv", "SST-2/dev.tsv"),
        )
        trained, evaluated = table_steps.files_of(glue, "mnli")
        self.assertEqual([f.name for f in trained], ["train_3k.tsv", "xnli_en_dev.tsv"])
        self.assertEqual(evaluated.name, "dev_matched.tsv")
        trained, evaluated = table_steps.files_of(glue, "qnli")
        self.assertEqual([f.name for f in trained], ["split_train.tsv"])
        self.assertEqual(evaluated.name, "split_dev.tsv")
        for task in ("sst2", "rte"):
            with self.assertRaises(ValueError):
                table_steps.files_of(glue, task)

    def test_of_mnli_as_it_comes_one_file_is_trained_on(self):
        names = [f"{part}_{kind}" for part in ("dev", "test") for kind in ("matched", "mismatched")]
        names += ["train", "diagnostic", "diagnostic-full"]
        glue = self.glue(*(f"MNLI/{name}.tsv" for name in names))
        trained, evaluated = table_steps.files_of(glue, "mnli")
        self.assertEqual([f.name for f in trained], ["train.tsv"])
        self.assertEqual(evaluated.name, "dev_matched.tsv")

    def test_of_two_copies_one_is_read(self):
        glue = self.glue(*("QQP/train.tsv", "QQP-10k/train.tsv", "QQP-10k/dev.tsv"))
        for copy in ("QQP-10k", "QQP"):
            self.glue(f"{copy}/dev.tsv")
            trained, evaluated = table_steps.files_of(glue, "qqp")
            self.assertEqual({f.parent.name for f in (*trained, evaluated)}, {copy})

    def test_links_are_those_of_now(self):
        glue = self.glue("a/1.tsv", "a/2.tsv")
        for names in (("1.tsv", "2.tsv"), ("2.tsv",)):
            table_steps.linked([glue / "a" / name for name in names], self.folder / "links")
            found = sorted((self.folder / "links").glob("*.tsv"))
            self.assertEqual([f.resolve().name for f in found], list(names))

    def test_links_that_are_right_stay(self):
        glue = self.glue("a/1.tsv")
        made = set()
        for _ in range(2):
            table_steps.linked([glue / "a" / "1.tsv"], self.folder / "links")
            made.add((self.folder / "links" / "1.tsv").lstat().st_mtime_ns)
        self.assertEqual(len(made), 1)


class CommandsTest(WithFolder):
    def commands(self, *flags):
        args = tool.parse(
            [
                "--glue",
                str(self.folder / "glue"),
                "--results",
                str(self.folder),
                "--dry-run",
                *flags,
            ]
        )
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = table_steps.run(
                tool.Plan(args), [args.step] if args.step else tool.STEPS, True
            )
        self.assertEqual(status, 0)
        return out.getvalue().splitlines()

    def test_every_row_starts_from_its_own_weights(self):
        self.glue("SST-2/train.tsv", "SST-2/dev.tsv", "QQP/train.tsv", "QQP/dev.tsv")
        found = self.commands("--text", "a", "--validation", "b", "--tasks", "sst2")
        self.assertIn("table3_pretrain.cfg", found[0])
        rates = [line for line in found if "table3_rates_" in line and not line.startswith("#")]
        self.assertEqual(len(rates), 2 * len(tool.ROWS))
        for line in rates:
            self.assertIn("held_out", line)
            self.assertNotIn("dev.tsv", line)
        soft = next(line for line in rates if "ff_qkv_soft.r3" in line)
        self.assertIn("table3_pretrain/ff_qkv.1/best.ckpt", soft)
        self.assertTrue(any(line.startswith("# finetune: no learning rates") for line in found))
        self.assertIn("--task glue_sst2", found[-1])
        self.assertFalse((self.folder / "held_out").exists())

    def test_commits_that_are_accepted_reach_every_curve(self):
        self.glue("SST-2/train.tsv", "SST-2/dev.tsv", "QQP/train.tsv", "QQP/dev.tsv")
        flags = ("--text", "a", "--validation", "b", "--tasks", "sst2")
        for line in self.commands(*flags, "--accept", "0123abc,4567def"):
            if "perplexity" in line and not line.startswith("#"):
                self.assertIn(" --accept 0123abc,4567def", line)
        self.assertNotIn("--accept", "".join(self.commands(*flags)))

    def test_weights_that_are_missing_are_named(self):
        glue = self.glue("SST-2/train.tsv", "SST-2/dev.tsv")
        flags = ["--step", "rates", "--glue", str(glue), "--results", str(self.folder)]
        plan = tool.Plan(tool.parse(flags))
        with self.assertRaisesRegex(ValueError, "dense is not trained; run --step pretrain"):
            [*plan.rates()]

    def rates_on_record(self):
        """Of the rows of tool.ROWS the best are 0.1, 0.2, ..."""
        rates = (0.1, 0.2, 0.3, 0.4, 0.5)
        self.load(
            *(
                record(task, f"{row}.r{place}", rate, 0.5 + 0.01 * (place == best))
                for task in tool.RATES_FROM
                for best, row in enumerate(tool.ROWS)
                for place, rate in enumerate(rates)
            )
        )
        return rates

    def test_rates_on_record_are_passed_on(self):
        self.glue("RTE/train.tsv", "RTE/dev.tsv")
        rates = self.rates_on_record()
        found = self.commands("--step", "finetune", "--tasks", "rte")
        self.assertEqual(len(found), len(tool.ROWS))
        for line, row, rate in zip(found, tool.ROWS, rates):
            self.assertIn(f"--rows {row} ", line)
            self.assertIn(f"--learning_rate {rate} ", line)
            self.assertNotIn("--seeds", line)

    def test_some_rows_and_seeds(self):
        self.glue("SST-2/train.tsv", "SST-2/dev.tsv", "QQP/train.tsv", "QQP/dev.tsv")
        self.rates_on_record()
        found = self.commands(
            *("--text", "a", "--validation", "b", "--tasks", "sst2"),
            *("--rows", "ff_qkv_soft,dense", "--seeds", "1,2"),
        )
        self.assertEqual(len(found), 1 + 2 * 2 + 2 + 1)
        self.assertIn("--rows ff_qkv,dense ", found[0])  # whose weights these start from
        self.assertEqual(sum("--rows ff_qkv_soft.r3," in line for line in found), 2)
        for line in found:
            self.assertEqual("--seeds 1,2 " in line, "table3_sst2.cfg" in line, line)

    def test_configs_are_there_and_name_these_rows(self):
        folder = ROOT / "experiments" / "configs" / "training"
        names = [f"table3_{task}" for task in tool.FILES]
        for name in names:
            text = (folder / f"{name}.cfg").read_text()
            rows = [
                line[6:].partition(":")[0] for line in text.splitlines() if line[:6] == "row = "
            ]
            self.assertEqual(tuple(rows), tool.ROWS, name)
            self.assertIn(f"experiment = {name}\n", text)
        for task in tool.RATES_FROM:
            text = (folder / f"table3_rates_{task}.cfg").read_text()
            for row in tool.ROWS:
                for rate in ("r3", "r10", "r30"):
                    self.assertIn(f"\nrow = {row}.{rate}: ", text)

    def test_what_is_wrong_is_refused(self):
        for flags, why in (
            (("--tasks", "wnli", "--step", "rates"), "--tasks wnli is none of sst2, qqp"),
            (("--rows", "dense,ff", "--step", "rates"), "--rows ff is none of dense, ff_qkv, "),
            (("--seeds", "1,,2", "--step", "rates"), "--seeds 1,,2: no whole numbers; give"),
            (("--step", "pretrain"), "wants --text and --validation"),
            ((), "wants --text and --validation"),
        ):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
                self.commands(*flags)
            self.assertIn(why, said.getvalue())


if __name__ == "__main__":
    unittest.main()
