"""Tests of experiments that change one thing a row, on made-up curves: differences, verdicts, what was changed."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import chart  # noqa: E402
import contrasts  # noqa: E402
import curves_test as made_up  # noqa: E402
import summarise  # noqa: E402
from report import Report  # noqa: E402
from sections import factors  # noqa: E402

NAME = "recipes_1m5"
ABOUT = {"study": "training", "section": "factors", "title": "Recipes", "id": "recipes.1m5"}
PLANNED = "ff_n16,better,worse,alike,never"
KNOBS = {
    "ff_n16": {"hard_steps": 0, "selection_noise": -1},
    "better": {"hard_steps": 1000, "selection_noise": -1},
    "worse": {"hard_steps": 0, "selection_noise": 0},
    "alike": {"hard_steps": 0, "selection_noise": -1, "d_ff": 1900},
}
# Seeds move all rows by much, each of its own by little.
NATS = {"ff_n16": 4.5, "better": 4.4, "worse": 4.7, "alike": 4.5}


def trained(seeds=(2, 3, 4, 5, 6), rows=tuple(NATS), noise=0.004):
    found = []
    for place, row in enumerate(rows):
        config = {"steps": 1000, "batch": 16, "length": 96, "d_ff": 1920, "planned": PLANNED}
        config |= {"feed_forward": "sparse", "sparsity": 16, **KNOBS[row]}
        for seed in seeds:
            own = NATS[row] + 0.1 * seed + noise * (seed * (place + 1) % 5 - 2)
            about = {"experiment": NAME, "against": "ff_n16", "config": config, **ABOUT}
            found += made_up.curve(row, own, seed, **about)
    return found


class FactorsTest(made_up.WithCurves):
    def report(self, items):
        report = Report(self.load(items))
        factors.write(report, report.records.of(factors.OWNS))
        return report.text()

    def test_how_rows_begin_is_told_where_they_begin_otherwise(self):
        def begun(*shares):
            return [
                made_up.record(row, metric, value, seed, experiment=NAME, config={"steps": 1000})
                for row, share in zip(NATS, shares)
                for metric, value in (("token_share", share), ("plateau_share", 0.1))
                for seed in (2, 3)
            ]

        other = begun(0.5, 0.015, 0.5, 0.5)
        text = self.report(trained(seeds=(2, 3)) + other)
        self.assertIn("of the first input the token's, %", text)
        self.assertIn("| 1.5 | 10.0 |", self.row(trained(seeds=(2, 3)) + other, "better"))
        found = summarise.summary(self.load(trained(seeds=(2, 3)) + other))
        self.assertAlmostEqual(found[f"quality.{NAME}.better.token_share"]["value"], 0.015)
        text = self.report(trained(seeds=(2, 3)) + begun(0.5, 0.5, 0.5, 0.5))
        self.assertNotIn("first input", text)

    def row(self, items, name):
        (found,) = (
            text for text in self.report(items).splitlines() if text.startswith(f"| `{name}`")
        )
        return found

    def test_differences_are_taken_within_a_seed(self):
        found = summarise.summary(self.load(trained()))
        entry = found[f"quality.{NAME}.better.difference"]
        self.assertAlmostEqual(entry["value"], -0.1, places=5)
        self.assertLess(entry["high"] - entry["low"], 0.03)
        self.assertEqual(entry["seeds"], 5)
        self.assertEqual(found[f"quality.{NAME}.ff_n16.log_perplexity"]["tokens"], 1_536_000)
        self.assertNotIn(f"quality.{NAME}.ff_n16.difference", found)

    def test_verdicts_go_by_the_interval(self):
        items = trained()
        self.assertIn("**helps**", self.row(items, "better"))
        self.assertIn("**hurts**", self.row(items, "worse"))
        self.assertIn("**undecided**", self.row(items, "alike"))
        self.assertIn("\nPlanned, not trained: `never`.\n", self.report(items))

    def test_a_change_that_moves_less_than_the_papers_digits_is_alike(self):
        items = trained(noise=0.0004)
        self.assertIn("**alike** |", self.row(items, "alike"))
        entry = summarise.summary(self.load(items))[f"quality.{NAME}.undecided"]
        self.assertEqual(entry["value"], 1)  # never

    def test_changes_without_a_decision_are_counted_trained_or_not(self):
        entry = summarise.summary(self.load(trained()))[f"quality.{NAME}.undecided"]
        self.assertEqual(entry["value"], 2)  # alike, never

    def test_rows_that_were_planned_make_intervals_stricter(self):
        items = trained(seeds=(2, 3), rows=("ff_n16", "better"), noise=0.0004)
        experiment = factors.experiments(self.load(items))[0]
        one = factors.judged(experiment)["better"]
        self.assertLess(one.contrast.p, 0.05)
        self.assertEqual(one.is_sure, one.contrast.p <= 0.05 / 4)

    def test_says_what_was_changed_and_not_what_was_solved_for(self):
        items = trained()
        self.assertIn("| hard_steps=1000 |", self.row(items, "better"))
        self.assertIn("| selection_noise=0 |", self.row(items, "worse"))
        self.assertIn("| – |", self.row(items, "alike"))

    def test_one_seed_has_no_verdict(self):
        self.assertIn("one seed: no verdict", self.row(trained(seeds=(2,)), "better"))

    def test_nothing_without_the_first_row(self):
        self.assertEqual(self.report(trained(rows=("better",))), "")

    def test_figure_has_a_place_a_row(self):
        records = self.load(trained())
        figure = factors.draw(records, NAME)
        names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        self.assertEqual(names, ["better", "worse", "alike"])
        chart.pyplot().close(figure)
        with self.assertRaises(chart.Missing):
            factors.draw(self.load(trained(rows=("ff_n16",))), NAME)

    def test_figure_shows_intervals_of_three_seeds_on(self):
        for seeds, is_shown in (((2,), False), ((2, 3), False), ((2, 3, 4), True)):
            figure = factors.draw(self.load(trained(seeds=seeds)), NAME)
            low, high = figure.axes[0].lines[1].get_xdata()
            self.assertEqual(high > low, is_shown, seeds)
            # A mark without an interval would look surer than its neighbours.
            is_hollow = figure.axes[0].lines[0].get_markerfacecolor() == "white"
            self.assertEqual(is_hollow, not is_shown, seeds)
            self.assertIn(contrasts.seeds_text(len(seeds)), figure.axes[0].get_xlabel())
            self.assertEqual("hollow" in figure.axes[0].get_xlabel(), not is_shown)
            chart.pyplot().close(figure)


if __name__ == "__main__":
    unittest.main()
