"""Tests of contrasts by budget in plots/ on made-up curves: ids, verdicts, what speaks against them, trends."""

import pathlib
import random
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import chart  # noqa: E402
import contrasts  # noqa: E402
import curves_test as made_up  # noqa: E402
import factors_test  # noqa: E402
import make_report  # noqa: E402
import rates_test  # noqa: E402
import summarise  # noqa: E402
from report import Report  # noqa: E402
from sections import curve_verdicts, quality  # noqa: E402

JUDGED = {
    "ff_n16": {"twin": "dense", "equal_reads": "iso_read_ff"},
    "ff_qkv": {"twin": "qkv_mult_conv", "equal_reads": "iso_read_qkv"},
}
# ff_n16 loses a tenth of what equal reads lose, ff_qkv half.
NATS = {
    "dense": 3.5,
    "ff_n16": 3.52,
    "qkv_mult_conv": 3.4,
    "ff_qkv": 3.5,
    "iso_read_ff": 3.7,
    "iso_read_qkv": 3.6,
}
STEPS = {"fig1_1m5": 1000, "fig1_5m": 3333, "fig1": 10000}


def trained(name="fig1", seeds=(1, 2, 3, 4, 5), noise=0.002, **other):
    """Curves of an experiment; `other`: nats of rows in place of NATS'."""
    found = []
    for place, (row, final) in enumerate({**NATS, **other}.items(), start=[*STEPS].index(name)):
        config = {"steps": STEPS[name], "batch": 16, "length": 96, **JUDGED.get(row, {})}
        for seed in seeds:
            # Seeds move all rows together by much, each of its own by little.
            here = final + 0.1 * seed + noise * (seed * (place % 4 + 1) % 5 - 2)
            found += made_up.curve(row, here, seed, experiment=name, config=config)
    return found


def with_stretches(items, spread=0.05):
    """The same with what 20 stretches of 100 tokens lost: rows differ from stretch to stretch, each by itself."""
    found = []
    for r in items:
        if r["metric"] == "log_perplexity":
            rng = random.Random(r["row"])
            apart = [spread * rng.gauss(0, 1) for _ in range(20)]
            middle = sum(apart) / 20
            rows = [[100 * (r["value"] + one - middle), 100] for one in apart]
            r = dict(r, samples={"columns": ["loss", "tokens"], "rows": rows})
        found.append(r)
    return found


class QualityTest(made_up.WithCurves):
    def report(self, items):
        report = Report(self.load(items))
        quality.write(report, [])
        return report.text()

    def against(self, items, row="ff_n16", name="fig1"):
        """What speaks against the verdict on a row."""
        records = self.load(items)
        everywhere = [o for e in quality.experiments(records) for o in quality.judged(e)]
        (one,) = (o for o in everywhere if (o.named.name, o.experiment.name) == (row, name))
        return "; ".join(quality.against(records, one, everywhere))

    def test_the_plateau_of_every_row(self):
        on_plateau = [
            made_up.record("ff_n16", "plateau_share", share, seed, experiment="fig1", config=config)
            for seed, share in ((1, 0.07), (2, 0.09))
            for config in ({"steps": STEPS["fig1"], "batch": 16, "length": 96},)
        ]
        items = trained() + on_plateau
        found = summarise.figures(self.load(items))
        self.assertAlmostEqual(found["quality.fig1.ff_n16.plateau_share"].value, 0.08)
        self.assertIn("| `ff_n16` | 15.4 M | 5 | 8.0 (sd 1.4) |", self.report(items))

    def test_the_longest_plateau_of_short_repaired_curves(self):
        def with_share(name, row, share, **config):
            about = {"experiment": name, "config": {"steps": 1000, "batch": 16, "length": 96}}
            about["config"] |= {"embedding_scale": 8, **config}
            return made_up.curve(row, 4.0, **about) + [
                made_up.record(row, "plateau_share", share, 1, **about)
            ]

        items = with_share("fig1_1m5", "dense", 0.02) + with_share("frontier", "qkv_conv", 0.3)
        items += with_share("start_1m5", "released", 0.6, embedding_scale=1)
        items += with_share("fig1", "long", 0.7, steps=10000)
        # Nine taps that each begin with the variance of one are released, not repaired.
        conv = {"projection": "conv"}
        items += with_share("frontier", "qkv_conv_released", 0.5, **conv, tap_scaling=False)
        items += with_share("frontier", "qkv_conv_taps", 0.2, **conv, tap_scaling=True)
        found = summarise.figures(self.load(items))["quality.plateau_share"]
        self.assertEqual(found.value, 0.3)

    def test_ids_with_intervals_seeds_and_tokens(self):
        found = summarise.summary(self.load(trained(noise=0.002)))
        entry = found["quality.fig1.ff_qkv.contrast"]
        self.assertAlmostEqual(entry["value"], 0.1, places=5)
        self.assertEqual((entry["seeds"], entry["tokens"]), (5, 15_360_000))
        # Seeds' common 0.1 is not in the interval of a difference.
        self.assertLess(entry["high"] - entry["low"], 0.02)
        self.assertGreater(entry["high"] - entry["low"], 0.001)
        self.assertAlmostEqual(found["quality.fig1.ff_qkv.gap"]["value"], 0, places=5)
        self.assertAlmostEqual(
            found["quality.fig1.ff_n16.verdict_contrast"]["value"], 0.02 - 0.2 / 4, places=5
        )
        dense = found["quality.fig1.dense.log_perplexity"]
        self.assertAlmostEqual(dense["value"], 3.8, places=5)
        self.assertGreater(dense["high"] - dense["value"], 0.1)
        self.assertNotIn("quality.fig1.dense.gap", found)
        self.assertNotIn("quality.fig1.dense.contrast", found)

    def test_of_one_seed_the_ends_are_not_known(self):
        found = summarise.summary(self.load(trained(seeds=(1,))))
        entry = found["quality.fig1.ff_n16.verdict_contrast"]
        self.assertEqual((entry["low"], entry["high"], entry["seeds"]), (None, None, 1))
        text = self.report(trained(seeds=(1,)))
        self.assertIn("**one seed: no verdict**", text)
        self.assertIn("how many seeds would decide it one seed cannot say", text)

    def test_experiments_without_twins_are_left_to_the_claims(self):
        records = self.load(made_up.FIGURE1)
        self.assertEqual(quality.numbers(records, []), {})  # Figure 1 has budgets of its own
        self.assertEqual(quality.figures(records, []), {})
        self.assertEqual(self.report(made_up.FIGURE1), "")
        self.assertNotEqual(curve_verdicts.judged(records), [])

    def test_experiments_with_twins_have_one_judge(self):
        records = self.load(trained())
        self.assertEqual(curve_verdicts.judged(records), [])
        text = make_report.make(records)
        self.assertIn("### Contrasts of Figure 1", text)
        self.assertNotIn("*Close*", text)

    def test_a_table_and_two_lines_a_verdict(self):
        lines = self.report(trained()).split("\n")
        (row,) = (text for text in lines if text.startswith("| `ff_n16` | 15.4 M | 5 |"))
        self.assertTrue(row.endswith("| **enough** |"), row)
        (row,) = (text for text in lines if text.startswith("| `ff_qkv` | 15.4 M | 5 |"))
        self.assertTrue(row.endswith("| **not enough** |"), row)
        (row,) = (text for text in lines if text.startswith("| `dense` | 15.4 M | 5 |"))
        self.assertTrue(row.endswith("| – | – | – | – |"), row)
        at = next(i for i, text in enumerate(lines) if text.startswith("| `ff_n16` loses less"))
        self.assertIn("| **enough** | contrast +0.02", lines[at])
        self.assertIn("; 5 seeds |", lines[at])
        self.assertTrue(
            lines[at + 1].startswith("| what speaks against it |  | it still loses +0.02")
        )

    def test_verdicts_of_few_seeds_are_so_far(self):
        lines = self.report(trained(seeds=(1, 2, 3))).split("\n")
        (row,) = (text for text in lines if text.startswith("| `ff_n16` | 15.4 M | 3 |"))
        self.assertRegex(row, r" so far\*\* \|$")

    def test_a_row_under_way_is_no_number(self):
        items = [r for r in trained() if r["row"] != "ff_qkv"]
        items += made_up.curve("ff_qkv", 3.5, experiment="fig1", finished=False)
        self.assertIn("| `ff_qkv` | – | – | – | unfinished, reached step 300 |", self.report(items))

    def test_the_undecided_say_how_many_seeds(self):
        text = self.report(trained(ff_n16=3.549, noise=0.004))
        line = next(t for t in text.split("\n") if t.startswith("| `ff_n16` loses"))
        self.assertRegex(line, r"\| \*\*undecided\*\* \| .* \d+ seeds would decide it, should mean")

    def test_the_baseline_stands_beside_a_row_with_another_twin(self):
        found = summarise.summary(self.load(trained(noise=0.002)))
        # ff_qkv ends at dense; a quarter of what iso_read_ff loses to dense is 0.05.
        self.assertAlmostEqual(
            found["quality.fig1.ff_qkv.verdict_gap"]["value"], 0.0 - 0.2 / 4, places=5
        )
        self.assertNotIn("quality.fig1.ff_n16.verdict_gap", found)
        lines = self.report(trained()).split("\n")
        (line,) = (
            text for text in lines if text.startswith("| `ff_qkv` loses") and "`dense`" in text
        )
        self.assertIn("against `dense` and `iso_read_ff`", line)
        self.assertIn("| **enough** |", line)
        (own,) = (
            text for text in lines if text.startswith("| `ff_qkv` loses") and "its twin" in text
        )
        self.assertIn("| **not enough** |", own)

    def test_a_budget_of_one_seed_is_a_point_and_bends_no_line(self):
        two = trained("fig1_1m5") + trained("fig1_5m")
        before = {t.row: t.slope for t in quality.trends(quality.by_budget(self.load(two)))}
        more = two + trained("fig1", seeds=(1,), ff_n16=3.9)
        records = self.load(more)
        for trend in quality.trends(quality.by_budget(records)):
            self.assertEqual(len(trend.points), 3)
            self.assertEqual(trend.slope, before[trend.row])
        text = self.report(more)
        self.assertNotIn("*one seed: no verdict* at", text)

    def test_contrasts_that_are_planned_count_before_they_are_trained(self):
        rows = [":".join((row, *JUDGED.get(row, {}).values())) for row in NATS]
        later = [f"later{n}:dense:iso_read_ff" for n in range(400)]
        items = trained(ff_n16=3.54, noise=0.004)
        verdicts = {}
        for more in ([], later):
            plan = ",".join(rows + more)
            planned = [dict(r, config={**r["config"], "planned": plan}) for r in items]
            (experiment,) = quality.experiments(self.load(planned))
            verdicts[len(more)] = contrasts.of_experiment(experiment)["ff_n16"].sign
        self.assertEqual(verdicts, {0: -1, 400: 0})
        self.assertIn("\nPlanned, not trained: `later0`, `later1`, ", self.report(planned))

    def test_the_held_out_text_has_an_interval_of_its_own(self):
        found = summarise.summary(self.load(trained()))
        self.assertEqual([name for name in found if "over_text" in name], [])
        self.assertIn("over text: not in these records", self.report(trained()))
        text = with_stretches(trained())
        found = summarise.summary(self.load(text))
        seeds, over_text = (
            found[f"quality.fig1.ff_n16.verdict_contrast{ending}"] for ending in ("", "_over_text")
        )
        self.assertAlmostEqual(seeds["value"], over_text["value"], places=5)
        width, text_width = (one["high"] - one["low"] for one in (seeds, over_text))
        self.assertGreater(abs(width - text_width), 0.001)
        line = next(t for t in self.report(text).split("\n") if t.startswith("| `ff_n16` loses"))
        self.assertRegex(line, r"over text \[-\d.*\] \(20 stretches, 2,000 tokens\); both \[")

    def test_other_text_may_speak_against_a_verdict(self):
        words = "on other text of the kind it might be otherwise"
        self.assertIn(words, self.against(with_stretches(trained(), spread=0.5)))
        self.assertNotIn(words, self.against(with_stretches(trained(), spread=0.001)))

    def test_how_rates_were_chosen_speaks_against_it(self):
        swept = rates_test.swept("ff_n16", {2: 4.1, 4: 4.0, 8: 4.1})
        said = (
            "`rates_1m5` chose rates by one seed, at 1.54 M tokens, which were not swept again at this budget, "
            "on the held-out text that is reported"
        )
        self.assertIn(
            f"{said}, by seeds that are reported, too (1)", self.against(trained() + swept)
        )
        others = trained(seeds=(2, 3, 4, 5, 6)) + swept
        self.assertIn(said, self.against(others))
        self.assertNotIn("by seeds", self.against(others))
        apart = [dict(r, config={**r["config"], "data": "d2"}) for r in swept]
        words = self.against(trained(seeds=(2, 3, 4, 5, 6)) + apart)
        self.assertIn("chose rates by one seed", words)
        self.assertNotIn("held-out text that is reported", words)

    def test_what_speaks_against_a_verdict(self):
        self.assertIn("it still loses +0.02", self.against(trained()))
        nothing_lost = "equal reads' own loss is not surely above 0"
        self.assertIn(nothing_lost, self.against(trained(iso_read_ff=3.5)))
        self.assertNotIn(nothing_lost, self.against(trained()))
        not_enough = self.against(trained(), "ff_qkv")
        self.assertIn("it beats `iso_read_qkv`, which reads as little: -0.1", not_enough)
        self.assertIn("its gap to `dense` is the smaller", not_enough)
        self.assertIn("3 of 5 seeds", self.against(trained(seeds=(1, 2, 3))))
        other = trained() + trained("fig1_1m5", ff_n16=3.69)
        self.assertIn("*not enough* at 1.54 M tokens", self.against(other))
        self.assertIn("*enough* at 15.4 M tokens", self.against(other, name="fig1_1m5"))
        failed = made_up.failed("iso_read_ff", "diverged", seed=9, experiment="fig1")
        self.assertIn("`iso_read_ff` failed: diverged", self.against([*trained(), failed]))
        swept = rates_test.swept("ff_n16", {2: 4.1, 4: 4.0})
        self.assertIn("no worse rate on both sides of `ff_n16`'s", self.against(trained() + swept))
        # What surely helped the row elsewhere, but no other kind of layer.
        changes = factors_test.trained()
        words = self.against(trained(ff_n16=3.69) + changes)
        self.assertRegex(words, r"`better` helps `ff_n16`, -0\.1\d+ \[.*\] at 1\.54 M tokens")
        self.assertNotIn("`better`", self.against(trained() + changes))  # it is enough as it is
        # Asked again of more tokens, that counts.
        again = [
            dict(r, experiment="recipes_16m", config={**r["config"], "steps": 10000})
            for r in factors_test.trained(seeds=(2, 3), noise=0.2)
        ]
        words = self.against(trained(ff_n16=3.69) + changes + again)
        self.assertRegex(
            words, r"`better` helped `ff_n16`, -0\.1.* at 1\.54 M tokens, .* at 15\.4 M"
        )
        dense = [
            dict(r, config={**r["config"], "feed_forward": "dense"}) if r["row"] == "better" else r
            for r in changes
        ]
        self.assertNotIn("`better`", self.against(trained(ff_n16=3.69) + dense))
        # Alone it would be decided; beside another undecided one it is not.
        both = trained(ff_n16=3.541, ff_qkv=3.451, noise=0.004)
        alone = [self.against(both, row) for row in JUDGED]
        self.assertTrue(any("were it the only contrast" in words for words in alone), alone)


class BudgetTest(made_up.WithCurves):
    def falling(self, *contrasts, **more):
        """Figure 1 at three budgets whose ff_n16 lies so far above dense."""
        return [
            r
            for name, contrast in zip(STEPS, contrasts)
            for r in trained(name, ff_n16=3.5 + contrast, **more)
        ]

    def trend(self, items):
        found = quality.trends(quality.by_budget(self.load(items)))
        return next(trend for trend in found if trend.row == "ff_n16")

    def test_the_slope_is_that_of_each_seed(self):
        trend = self.trend(self.falling(0.3, 0.2, 0.1))
        self.assertEqual([tokens for tokens, _ in trend.points], [1_536_000, 5_119_488, 15_360_000])
        self.assertAlmostEqual(trend.slope.value, -0.2, places=2)
        self.assertEqual(trend.slope.seeds, 5)
        self.assertAlmostEqual(trend.at(5_119_488), 0.2, places=2)
        # Another 0.06 at 0.2 a tenfold: twice as many tokens.
        self.assertRegex(trend.reaches(0.04), r"^3\d\.?\d* M \(2\.?\d* × the largest run\), ")

    def test_where_the_paper_is_reached_or_never_will_be(self):
        self.assertEqual(
            self.trend(self.falling(0.1, 0.05, 0.02)).reaches(0.04), "reached at 15.4 M"
        )
        # The interval's end decides whether it is reached.
        near = self.trend(self.falling(0.1, 0.05, 0.039)).reaches(0.04)
        self.assertNotIn("reached", near)
        rising = self.trend(self.falling(0.1, 0.2, 0.3))
        self.assertIn("it rises over them", rising.reaches(0.04))
        slow = self.trend(self.falling(0.3, 0.299, 0.2985, noise=0))
        self.assertTrue(slow.reaches(0.04).startswith("10^15 or more"), slow.reaches(0.04))

    def test_nothing_is_extrapolated_from_a_slope_that_may_be_0(self):
        unsure = self.falling(0.3, 0.3, 0.3)
        self.assertEqual(self.trend(unsure).reaches(0.04), "not extrapolated: the slope may be 0")
        alone = self.trend(self.falling(0.3, 0.2, 0.1, seeds=(1,)))
        self.assertEqual(alone.reaches(0.04), "not extrapolated: one seed")
        apart = trained("fig1_1m5", (1, 2), ff_n16=3.8) + trained("fig1", (3, 4), ff_n16=3.7)
        self.assertIn("no two budgets with the same seeds", self.trend(apart).reaches(0.04))

    def test_nothing_is_extrapolated_from_two_budgets(self):
        falls = self.trend(self.falling(0.3, 0.2))
        self.assertEqual(falls.reaches(0.04), "two budgets: no extrapolation")
        rises = self.trend(self.falling(0.2, 0.3))
        self.assertEqual(rises.reaches(0.04), "rises between these two")

    def test_report_and_figure(self):
        items = self.falling(0.3, 0.2, 0.1)
        report = Report(self.load(items))
        quality.write(report, [])
        text = report.text()
        self.assertIn("### Figure 1 over the budget", text)
        columns = "1.54 M tokens | 5.12 M tokens | 15.4 M tokens |"
        for words in (
            "gap to `dense`",
            "contrast",
            "verdict contrast",
            "verdict contrast to `dense`",
        ):
            self.assertIn(f"| {words} | {columns}", text)
        self.assertIn("| contrast | slope | tokens for +0.04 |", text)
        self.assertIn("Not trained yet: `fig1_16m`.", text)
        records = self.load(items)
        ((name, draw),) = quality.figures(records, []).items()
        self.assertEqual(name, "gap_by_budget")
        above, below = draw(records).axes
        self.assertEqual(above.get_ylabel(), "gap to dense, nats per token")
        self.assertEqual([t.get_text() for t in below.get_xticklabels()], ["1.54", "5.12", "15.4"])
        quality.draw(self.load(self.falling(0.3, 0.2, 0.1, seeds=(1,))))

    def test_rows_without_a_decision_are_counted_and_the_largest_budget_is_figure_1(self):
        def of(**made):
            items = [dict(r, experiment="fig1_16m") for r in trained("fig1", **made)]
            return summarise.summary(self.load(items))

        found = of(noise=0.002)
        self.assertEqual(found["quality.fig1_16m.undecided"]["value"], 0)
        self.assertEqual(found["quality.fig1.undecided"]["value"], 0)
        self.assertEqual(found["quality.fig1.ff_n16.gap"], found["quality.fig1_16m.ff_n16.gap"])
        self.assertEqual(of(seeds=(1,))["quality.fig1.undecided"]["value"], 2)

    def test_one_budget_has_a_table_and_no_trend(self):
        self.assertEqual(quality.figures(self.load(trained()), []), {})
        with self.assertRaises(chart.Missing):
            quality.draw(self.load(trained()))
        report = Report(self.load(trained("fig1_1m5")))
        quality.write(report, [])
        text = report.text()
        self.assertIn("| contrast | 1.54 M tokens |", text)
        self.assertIn("Not trained yet: `fig1_5m`, `fig1_16m`.", text)
        self.assertIn("not extrapolated: no two budgets", text)

    def test_a_row_may_lack_a_budget(self):
        short = [r for r in trained("fig1_5m") if r["row"] != "ff_n16"]
        items = trained("fig1_1m5", ff_n16=3.8) + short + trained("fig1", ff_n16=3.6)
        trend = self.trend(items)
        self.assertEqual([tokens for tokens, _ in trend.points], [1_536_000, 15_360_000])
        self.assertAlmostEqual(trend.slope.value, -0.2, places=2)
        report = Report(self.load(items))
        quality.write(report, [])
        self.assertRegex(report.text(), r"\| `ff_n16` \| \+0\.3\S* \[.*?\] \| – \| \+0\.1")


if __name__ == "__main__":
    unittest.main()
