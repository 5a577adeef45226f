"""tools/glue_baselines.py: files as they come, the regression on words it can tell, measures by hand, records."""

import contextlib
import io
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import glue_baselines as tool  # noqa: E402

needs_scikit_learn = unittest.skipIf(tool.sklearn is None, "python3-sklearn is not installed")


class WithFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_bytes(text.encode("utf-8"))
        return str(path)


class ReadingTest(WithFolder):
    def test_files_are_read_as_they_come(self):
        mrpc = self.write(
            "mrpc.tsv",
            '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t3\t4\tHe said .\t" So\r\n',
        )
        self.assertEqual(tool.rows_of(mrpc), ([("He said .", '" So')], ["1"], "Quality"))
        cola = self.write("cola.tsv", "gj04\t0\t*\tThey drank.\ngj04\t1\t\tIt is.")
        self.assertEqual(
            tool.rows_of(cola), ([("They drank.",), ("It is.",)], ["0", "1"], "cola_label")
        )
        for part in (1, 2):
            self.write(f"rte_{part}.tsv", f"sentence1\tsentence2\tlabel\na\tb{part}\tentailment\n")
        texts, labels, column = tool.rows_of(self.folder / "rte_*.tsv")
        self.assertEqual(texts, [("a", "b1"), ("a", "b2")])
        self.assertEqual((labels, column), (["entailment"] * 2, "label"))

    def test_broken_files_are_refused_by_file_and_line(self):
        def refusal(text):
            with self.assertRaises(ValueError) as caught:
                tool.rows_of(self.write("bad.tsv", text))
            return str(caught.exception)

        self.assertIn("bad.tsv:3: 1 fields, 2 columns", refusal("sentence\tlabel\na\t1\nb\n"))
        self.assertIn("no column of labels", refusal("index\tsentence\n0\ta\n"))
        self.assertIn("is empty", refusal("\n"))
        self.assertIn("no rows", refusal("sentence\tlabel\n"))
        with self.assertRaisesRegex(ValueError, "no file fits"):
            tool.rows_of(self.folder / "none.tsv")

    def test_words_belong_to_their_columns(self):
        self.assertEqual(
            tool.words_of(("He didn't, he_did", "HE")),
            [(0, "did"), (0, "didn't"), (0, "he"), (1, "he")],
        )


@needs_scikit_learn
class RegressionTest(unittest.TestCase):
    ROWS = (
        ("good film", "x"),
        ("good", "x"),
        ("bad film", "x"),
        ("bad bad", "x"),
        ("film", "good"),
    )
    LABELS = ("1", "1", "0", "0", "0")

    def test_features_are_words_in_their_columns_of_length_1(self):
        model = tool.bag_of_words().fit(self.ROWS, self.LABELS)
        bags = model[:-1].transform(self.ROWS).toarray()
        known = model[0].vocabulary_
        self.assertEqual(set(known), {(0, "bad"), (0, "film"), (0, "good"), (1, "good"), (1, "x")})
        for (first, second), bag in zip(self.ROWS, bags):
            words = {(0, word) for word in first.split()} | {(1, second)}
            for word, place in known.items():
                expected = 1 / math.sqrt(len(words)) if word in words else 0
                self.assertAlmostEqual(bag[place], expected)

    def test_words_speak_for_their_labels(self):
        model = tool.bag_of_words().fit(self.ROWS, self.LABELS)
        weights = dict(zip(sorted(model[0].vocabulary_), model[-1].coef_[0]))
        self.assertGreater(weights[0, "good"], 0)
        self.assertLess(weights[0, "bad"], 0)
        self.assertLess(weights[1, "good"], 0)
        self.assertEqual(list(model.predict([("good unknown", "x"), ("bad", "x")])), ["1", "0"])
        # At the least of its objective, the penalty's slope is the cross-entropy's.
        bags = model[:-1].transform(self.ROWS).toarray()
        missed = [float(one) for one in self.LABELS] - model.predict_proba(self.ROWS)[:, 1]
        for slope, weight in zip(bags.T @ missed, model[-1].coef_[0]):
            self.assertAlmostEqual(slope, weight, places=3)


@needs_scikit_learn
class MeasuresTest(unittest.TestCase):
    """The same numbers as in tests/tasks/metrics_test.cpp."""

    def test_of_two_classes(self):
        truth, told = list("1110000000"), list("1101110000")
        hits, misses, alarms, rejections = 2, 1, 3, 4
        scores = tool.scores_of("Quality", truth, told)
        self.assertAlmostEqual(scores["label_accuracy"], 0.6)
        self.assertAlmostEqual(scores["f1"], 2 * hits / (2 * hits + misses + alarms))
        self.assertAlmostEqual(
            tool.scores_of("cola_label", truth, told)["matthews"],
            (hits * rejections - alarms * misses) / math.sqrt(3 * 5 * 5 * 7),
        )
        self.assertEqual(tool.scores_of("cola_label", truth, ["1"] * 10)["matthews"], 0)
        self.assertEqual(tool.scores_of("Quality", ["0", "0"], ["0", "0"])["f1"], 0)
        self.assertEqual(tool.scores_of("label", ["a", "b"], ["a", "a"]), {"label_accuracy": 0.5})

    def test_of_numbers(self):
        scores = tool.scores_of("score", ["1", "2", "3", "4"], ["1.0", "3.0", "2.0", "4.0"])
        self.assertAlmostEqual(scores["pearson"], 0.8)
        self.assertAlmostEqual(scores["spearman"], 0.8)
        self.assertEqual(scores["label_accuracy"], 0.5)
        tied = tool.scores_of("score", ["1", "2", "2", "4"], ["0.2", "0.4", "0.6", "5.0"])
        self.assertAlmostEqual(tied["spearman"], 4.5 / math.sqrt(4.5 * 5))
        self.assertIsNone(tool.scores_of("score", ["1", "2"], ["1.0", "1.0"])["pearson"])
        fifths = [tool.told_as(s, "score") for s in ("4.75", "0.5", "2.5", "3.5", "5.000")]
        self.assertEqual(fifths, ["4.8", "0.4", "2.4", "3.6", "5.0"])


@needs_scikit_learn
class ProgramTest(WithFolder):
    def test_scores_become_records(self):
        rows = "".join(f"{word} film {i}\t{label}\n" for i in range(6) for word, label in WORDS)
        corpus = self.write("train.tsv", "sentence\tlabel\n" + rows)
        held_out = self.write("dev.tsv", "sentence\tlabel\na good one\t1\nbad\t0\nbad x\t0\n")
        rows = tool.read(corpus, held_out)
        self.assertEqual((len(rows.texts), len(rows.truth)), (18, 3))
        self.assertEqual(tool.majority(rows), ["1", "1", "1"])
        self.assertEqual(tool.regression(rows), ["1", "0", "0"])
        self.assertEqual(tool.read(corpus, held_out, 2).truth, ["1", "0"])
        alike = self.write("alike.tsv", "sentence\tlabel\na\t1\nb\t1\n")
        self.assertEqual(tool.regression(tool.read(alike, held_out)), ["1", "1", "1"])

        program = [sys.executable, ROOT / "tools" / "glue_baselines.py", "--task", "glue_sst2"]
        texts = ["--corpus", corpus, "--validation", held_out]
        done = subprocess.run(
            [*program, *texts, "--results", self.folder / "results"],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertIn("glue_sst2 bag_of_words: label_accuracy 1.0000", done.stdout)
        lines = (self.folder / "results" / "glue_baselines.jsonl").read_text("utf-8").splitlines()
        records = {(r["row"], r["metric"]): r for r in map(json.loads, lines)}
        self.assertEqual(
            {at: r["value"] for at, r in records.items()},
            {
                ("glue_sst2.majority", "label_accuracy"): 1 / 3,
                ("glue_sst2.bag_of_words", "label_accuracy"): 1.0,
            },
        )
        broken = self.write("broken.tsv", "sentence\tlabel\n\na\n")
        done = subprocess.run(
            [*program, "--corpus", broken, *texts[2:], "--results", self.folder / "results"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(
            done.stderr,
            f"glue_baselines.py: {broken}:3: 1 fields, 2 columns; mend the line\n",
        )
        for record in records.values():
            self.assertEqual((record["status"], record["study"]), ("ok", "peers"))
            self.assertEqual(record["config"]["examples"], 3)

    def test_rows_of_another_task_or_that_were_learnt_from_are_refused(self):
        corpus = self.write("train.tsv", "sentence\tlabel\ngood\t1\nbad\t0\n")
        for task, why in (
            ("glue_rte", "glue_rte wants label and sentence1, sentence2"),
            ("foo", "--task foo: known are glue_mnli"),
            ("glue_sst2", "have the same rows"),
        ):
            done = subprocess.run(
                [
                    *(sys.executable, ROOT / "tools" / "glue_baselines.py", "--task", task),
                    *("--corpus", corpus, "--validation", corpus),
                    *("--results", self.folder / "results"),
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(why, done.stderr)
            self.assertFalse((self.folder / "results" / "glue_baselines.jsonl").exists())

    def test_what_is_recorded_is_not_fitted_again(self):
        corpus = self.write("train.tsv", "sentence\tlabel\ngood\t1\nbad\t0\n")
        held_out = self.write("dev.tsv", "sentence\tlabel\ngood one\t1\nbad\t0\n")
        results = self.folder / "results"
        command = ["glue_baselines.py", "--task", "glue_sst2", "--corpus", corpus]
        command += ["--validation", held_out, "--results", str(results)]

        def run(*more):
            """(fits, lines of records)"""
            with (
                mock.patch.object(sys, "argv", [*command, *more]),
                mock.patch.object(tool, "bag_of_words", wraps=tool.bag_of_words) as fitted,
                contextlib.redirect_stdout(io.StringIO()) as said,
            ):
                tool.main()
            lines = (results / "glue_baselines.jsonl").read_text("utf-8").count("\n")
            self.assertEqual(said.getvalue().count("already recorded"), 0 if fitted.called else 2)
            return fitted.call_count, lines

        self.assertEqual(run(), (1, 2))
        self.assertEqual(run(), (0, 2))
        self.assertEqual(run("--force"), (1, 4))
        self.assertEqual(run("--examples", "1"), (1, 6))
        with mock.patch.object(tool, "program", lambda: "another"):
            self.assertEqual(run(), (1, 8))


# Twice as often good as bad.
WORDS = (("good", 1), ("bad", 0), ("good", 1))

if __name__ == "__main__":
    unittest.main()
