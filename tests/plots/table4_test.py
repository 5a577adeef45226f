"""Tests of Table 4 and of Table 8's perplexities in plots/ on made-up records."""

import math
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import chart  # noqa: E402
import curves_test as made_up  # noqa: E402
import summarise  # noqa: E402
import training_curves  # noqa: E402
from report import Report  # noqa: E402
from sections import curves, number_tasks  # noqa: E402

NAME = "table4_reduced"


def row(name, tokens, sequences, **more):
    """A finished row: one seed for each pair of accuracies."""
    found = []
    for seed, (token, sequence) in enumerate(zip(tokens, sequences), start=1):
        settings = {"digits_max": 16, "eval_digits_min": 32, "eval_digits_max": 38}
        for metric, value in (
            ("params", 2e5),
            ("accuracy", token),
            ("sequence_accuracy", sequence),
            ("trained_length_accuracy", 0.999),
            ("log_perplexity", 1.0),
        ):
            found.append(made_up.record(name, metric, value, seed, NAME, config=settings, **more))
        found.append(made_up.record(name, "evaluation", 1.0, seed, NAME, step=100, **more))
    return found


REDUCED = (
    row("transformer.copy", (0.3, 0.4, 0.2, 0.35, 0.25), (0, 0, 0, 0, 0))
    + row("terraformer.copy", (0.9, 1.0, 0.99, 0.98, 0.97), (0.5, 1.0, 0.9, 0.8, 0.7))
    + row("transformer.addition", (0.3, 0.4, 0.2, 0.35, 0.25), (0, 0, 0, 0, 0))
    + row("terraformer.addition", (0.3, 0.5, 0.2, 0.4, 0.3), (0, 0, 0, 0, 0))
    + row("no_sru.copy", (0.5, 0.4, 0.45), (0, 0.1, 0))
)


class Table4Test(made_up.WithCurves):
    def of(self, items):
        records = self.load(items)
        return records, number_tasks.experiments(records)[NAME]

    def test_means_with_deviations_and_the_best(self):
        records, _ = self.of(REDUCED)
        found = summarise.figures(records)
        entry = found["table4_reduced.terraformer.copy.token_accuracy"]
        self.assertAlmostEqual(entry.value, 0.968)
        self.assertAlmostEqual(entry.sd, 0.0396232, places=6)
        self.assertAlmostEqual(
            found["table4_reduced.terraformer.copy.token_accuracy.best"].value, 1.0
        )
        self.assertAlmostEqual(
            found["table4_reduced.no_sru.copy.sequence_accuracy.best"].value, 0.1
        )
        self.assertEqual(found["table4_reduced.transformer.addition.sequence_accuracy"].value, 0)

    def test_differences_are_paired_and_have_a_verdict(self):
        _, e = self.of(REDUCED)
        value = number_tasks.difference(e, "copy", "token_accuracy")
        self.assertAlmostEqual(value.value, 0.968 - 0.3)
        # Of 0.6, 0.6, 0.79, 0.63 and 0.72: not of both rows' deviations in quadrature, 0.088.
        self.assertAlmostEqual(value.sd, 0.084083, places=5)
        self.assertAlmostEqual(value.high - value.value, 2.776 * 0.084083 / math.sqrt(5), places=4)
        self.assertEqual((value.seeds, value.unit), (5, "1"))
        self.assertEqual(number_tasks.verdict(e, "copy", "token_accuracy"), ("ahead", ""))
        word, wanted = number_tasks.verdict(e, "addition", "token_accuracy")
        self.assertEqual(word, "undecided")
        self.assertRegex(wanted, r"^\d+ seeds would decide it")
        # Nothing right in any seed of either.
        alike = number_tasks.verdict(e, "addition", "sequence_accuracy")
        self.assertEqual(alike, ("alike in every seed", ""))
        missing = number_tasks.verdict(e, "addition", "token_accuracy", "no_sru")
        self.assertEqual(missing, ("not measured", ""))
        _, behind = self.of(
            row("transformer.copy", (0.9, 0.91, 0.92, 0.9, 0.9), (0, 0, 0, 0, 0))
            + row("terraformer.copy", (0.4, 0.41, 0.44, 0.4, 0.39), (0, 0, 0, 0, 0))
        )
        self.assertEqual(number_tasks.verdict(behind, "copy", "token_accuracy")[0], "behind")

    def test_seeds_that_swing_together_tell(self):
        # Seeds move both by 0.4; the difference is 0.02 in all of them.
        _, e = self.of(
            row("transformer.copy", (0.1, 0.3, 0.5, 0.4, 0.2), (0, 0, 0, 0, 0))
            + row("terraformer.copy", (0.121, 0.32, 0.519, 0.42, 0.22), (0, 0, 0, 0, 0))
        )
        self.assertEqual(number_tasks.verdict(e, "copy", "token_accuracy")[0], "ahead")

    def test_what_is_ahead_near_chance_says_so(self):
        for shift, word in ((0, "ahead, both near chance"), (0.06, "ahead")):
            records, e = self.of(
                row("transformer.addition", (0.115, 0.104, 0.128, 0.12, 0.106), (0, 0, 0, 0, 0))
                + row(
                    "terraformer.addition",
                    [share + shift for share in (0.166, 0.159, 0.145, 0.165, 0.143)],
                    (0, 0, 0, 0, 0),
                )
            )
            self.assertEqual(number_tasks.verdict(e, "addition", "token_accuracy")[0], word)
        report = Report(records)
        number_tasks.write(report, [])
        self.assertIn("By chance a digit is right in 10 % of cases", report.text())

    def test_a_difference_of_fewer_seeds_than_the_means_says_of_how_many(self):
        _, e = self.of(REDUCED)
        table = "\n".join(number_tasks.difference_table(e))
        self.assertNotIn("seeds)", table)
        (line,) = number_tasks.parts_table(e)[2:]  # no_sru has 3 seeds, the Terraformer 5
        self.assertIn("| +51.3 [+25.8, +76.8] (3 seeds) **", line)

    def test_a_part_that_is_not_trained_yet_counts(self):
        # With every difference that is planned each is held to less.
        tokens = (0.30, 0.43, 0.21, 0.39, 0.31)
        items = row("transformer.copy", (0.3, 0.4, 0.2, 0.35, 0.25), (0, 0, 0, 0, 0)) + row(
            "terraformer.copy", tokens, (0.1, 0.2, 0.15, 0.1, 0.2)
        )
        plan = "transformer.copy,terraformer.copy,no_sru.copy,no_reversible.copy"
        more = [dict(r, config={**r["config"], "planned": plan}) for r in items]
        counts = [len(number_tasks.judged(self.of(each)[1])) for each in (items, more)]
        self.assertEqual(counts, [2, 6])
        levels = [
            number_tasks.judged(self.of(each)[1])["copy", "token_accuracy", "transformer"].level
            for each in (items, more)
        ]
        self.assertLess(levels[1], levels[0])

    def test_one_seed_decides_nothing(self):
        _, e = self.of(
            row("transformer.copy", (0.3,), (0,)) + row("terraformer.copy", (0.9,), (0.5,))
        )
        word, wanted = number_tasks.verdict(e, "copy", "token_accuracy")
        self.assertEqual(word, "one seed: no verdict")
        self.assertIn("one seed cannot say", wanted)

    def test_report_shows_every_seed_beside_the_paper(self):
        records, _ = self.of(REDUCED)
        report = Report(records)
        number_tasks.write(report, [])
        text = report.text()
        self.assertIn("trained on at most 16 digits, evaluated on 32 to 38", text)
        self.assertIn(
            "| copy, sequences | 0.0 | 78.0 (sd 19.2) | +78.0 [+54.1, +101.9] | **ahead** | 0 | 93.9 |",
            text,
        )
        self.assertIn("90.0 100.0 99.0 98.0 97.0", text)
        self.assertIn("| `no_sru.copy` | 200,000 | 99.9 |", text)
        self.assertIn("--config experiments/configs/training/table4_reduced.cfg", text)

    def test_accuracy_by_length(self):
        extra = [
            made_up.record(
                f"{model}.copy",
                f"accuracy.to_{digits}_digits",
                value,
                seed,
                NAME,
                config={"digits_max": 16},
            )
            for model, values in (("transformer", (1, 0.5)), ("terraformer", (1, 0.7)))
            for digits, value in zip((16, 38), values)
            for seed in (1, 2)
        ]
        records, e = self.of(REDUCED + extra)
        points = number_tasks.by_digits(e, "terraformer.copy", "token_accuracy")
        self.assertEqual([(x, v.value) for x, v in points], [(16, 1), (38, 0.7)])
        self.assertEqual(number_tasks.by_digits(e, "terraformer.copy", "sequence_accuracy"), [])
        lines = number_tasks.digits_table(e, "copy")
        self.assertIn("| digits, up to | 16 | 38 |", lines)
        self.assertIn("| `transformer.copy` | 100.0 | 50.0 |", lines)
        self.assertEqual(number_tasks.digits_table(e, "addition"), [])
        chart.save(number_tasks.draw_lengths(records, NAME), self.folder / "lengths")
        with self.assertRaises(chart.Missing):
            number_tasks.draw_lengths(self.of(REDUCED)[0], NAME)

    def test_nothing_trained_leaves_no_trace(self):
        records = self.load(made_up.FIGURE1)
        report = Report(records)
        number_tasks.write(report, [])
        self.assertEqual(report.chapters, [])
        self.assertFalse([name for name in summarise.figures(records) if "table4" in name])
        with self.assertRaises(chart.Missing):
            number_tasks.draw_accuracies(records, NAME)

    def test_unfinished_rows_say_how_far_they_are(self):
        running = [made_up.record("terraformer.copy", "evaluation", 1.0, 1, NAME, step=300)]
        records, e = self.of(row("transformer.copy", (0.3,), (0,)) + running)
        self.assertIn(
            "unfinished, reached step 300", "\n".join(number_tasks.rows_table(Report(records), e))
        )
        self.assertEqual(number_tasks.verdict(e, "copy", "token_accuracy"), ("not measured", ""))
        chart.save(number_tasks.draw_accuracies(records, NAME), self.folder / "table4_reduced")

    def test_parts_are_judged_by_leaving_them_out(self):
        records, e = self.of(REDUCED)
        found = summarise.figures(records)
        entry = found["table4_reduced.difference.no_sru.copy.token_accuracy"]
        # Over the three seeds that both have.
        self.assertAlmostEqual(entry.value, (0.4 + 0.6 + 0.54) / 3)
        self.assertEqual(entry.seeds, 3)
        self.assertNotIn("table4_reduced.difference.no_sru.addition.token_accuracy", found)
        self.assertNotIn("table4_reduced.difference.no_reversible.copy.token_accuracy", found)
        word, _ = number_tasks.verdict(e, "copy", "token_accuracy", "no_sru")
        self.assertEqual(word, "undecided so far (95 % alone would decide)")
        (line,) = number_tasks.parts_table(e)[2:]
        self.assertTrue(line.startswith("| without the SRU | +51.3 [+25.8, +76.8] ("), line)
        self.assertTrue(line.endswith("| not measured | not measured |"), line)
        report = Report(records)
        number_tasks.write(report, [])
        self.assertIn(line, report.text())
        self.assertEqual(
            number_tasks.parts_table(self.of(row("transformer.copy", (1,), (1,)))[1]), []
        )

    def test_failed_rows_and_seeds_are_named(self):
        items = REDUCED + [
            made_up.failed("no_reversible.copy", "diverged", experiment=NAME),
            made_up.failed("no_sru.copy", "no memory", seed=3, experiment=NAME),
        ]
        records, e = self.of(items)
        report = Report(records)
        text = "\n".join(number_tasks.rows_table(report, e))
        self.assertIn("| `no_reversible.copy` | failed: diverged |", text)
        self.assertIn("| `no_sru.copy`[1] |", text)
        self.assertEqual(
            report.notes, ["`table4_reduced`, `no_sru.copy`: seed 3 failed: no memory."]
        )

    def test_curves_of_text_are_apart_and_still_drawn(self):
        records = self.load(made_up.FIGURE1 + REDUCED)
        self.assertEqual(list(training_curves.experiments(records)), ["fig1_small"])
        own = records.of(curves.SECTION.owns)
        self.assertEqual([about.name for about in own], ["fig1_small"])
        self.assertFalse([n for n in curves.numbers(records, own) if "table4" in n])
        chart.save(number_tasks.draw_accuracies(records, NAME), self.folder / "points")
        chart.save(curves.draw(records, NAME), self.folder / "curves")
        self.assertTrue((self.folder / "points.png").exists())


def three(name, final):
    return made_up.three(
        name, final, experiment="table8_small", config={"steps": 2100, "batch": 64}
    )


class Table8Test(made_up.WithCurves):
    CURVES = (
        three("transformer", 1.5)
        + three("sparse_transformer", 1.56)
        + three("terraformer_175k", 1.52)
    )

    def rename_baseline(self, items):
        return [dict(r, against="transformer") for r in items]

    def test_rows_stand_beside_the_papers(self):
        records = self.load(self.rename_baseline(self.CURVES))
        lines = curves.paper_table(training_curves.experiments(records)["table8_small"])
        self.assertEqual(len(lines), 5)
        self.assertIn("| paper: batch, a device (of 8) |", lines[0])
        self.assertIn("| 2,100 | 64 | 1.5200 (sd 0.0020) | +0.0200", lines[-1])
        self.assertIn("| 175,000 | 16 | 1.59 | +0.02 |", lines[-1])

    def test_verdict(self):
        for final, expected in (
            (1.52, "reproduced so far"),
            (1.7, "not reproduced so far"),
        ):
            items = (
                three("transformer", 1.5)
                + three("sparse_transformer", 1.56)
                + three("terraformer_175k", final)
            )
            verdicts = self.verdicts(self.rename_baseline(items))
            self.assertEqual([v for c, v in verdicts.items() if "Table 8" in c], [expected])

    def test_ids(self):
        records = self.load(self.rename_baseline(self.CURVES))
        found = summarise.figures(records)
        self.assertAlmostEqual(found["table8.small.terraformer_175k.gap"].value, 0.02)
        self.assertIn("table8.small.transformer.log_perplexity", found)


if __name__ == "__main__":
    unittest.main()
