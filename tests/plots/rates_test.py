"""Tests of sweeps of learning rates in plots/ on made-up curves: best rates, brackets, divergence, doubts."""

import math
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import chart  # noqa: E402
import curves_test as made_up  # noqa: E402
import summarise  # noqa: E402
from report import Report  # noqa: E402
from sections import rates  # noqa: E402

NAME = "rates_1m5"
ABOUT = {"study": "training", "section": "rates", "title": "Rates", "id": "rates.1m5"}
DIVERGED = "the loss has exploded; no checkpoint. Lower learning_rate 0.008 or raise warmup_steps"


def swept(row, finals, experiment=NAME, steps=1000, **more):
    """A curve for each {thousandths: nats}."""
    found = []
    for rate, final in finals.items():
        config = {"learning_rate": rate / 1000, "steps": steps, "batch": 16, "length": 96}
        found += made_up.curve(
            f"{row}.r{rate}", final, experiment=experiment, config=config, **{**ABOUT, **more}
        )
    return found


def failed(row, why):
    return made_up.failed(row, why, experiment=NAME, **ABOUT)


DENSE = swept("dense", {16: 4.0, 2: 3.9, 4: 3.7, 8: 3.8})
SPARSE = swept("ff_n16", {2: 4.1, 4: 4.0, 8: 3.95})


class RatesTest(made_up.WithCurves):
    def sweeps(self, items):
        ((_, each),) = rates.experiments(self.load(items))
        return {sweep.row: sweep for sweep in each}

    def report(self, items):
        report = Report(self.load(items))
        rates.write(report, report.records.of(rates.OWNS))
        return report.text()

    def test_the_best_rate_and_what_stands_beside_it(self):
        found = self.sweeps(DENSE + SPARSE)
        self.assertEqual([t.rate for t in found["dense"].trials], [0.002, 0.004, 0.008, 0.016])
        self.assertEqual(found["dense"].best.rate, 0.004)
        self.assertEqual(found["dense"].bracket, (0.002, 0.008))
        self.assertTrue(found["dense"].is_bracketed)
        self.assertEqual(found["ff_n16"].bracket, (0.004, None))
        self.assertFalse(found["ff_n16"].is_bracketed)

    def test_one_rate_is_no_sweep(self):
        items = swept("dense", {4: 3.7}) + SPARSE
        self.assertEqual(list(self.sweeps(items)), ["ff_n16"])
        self.assertIn("so it is of 0 of 1 rows", self.report(items))

    def test_a_run_that_diverged_is_worse_and_another_failure_says_nothing(self):
        up_to_4 = swept("dense", {2: 3.9, 4: 3.7})
        found = self.sweeps([*up_to_4, failed("dense.r8", DIVERGED)])
        self.assertEqual(found["dense"].bracket, (0.002, 0.008))
        self.assertIn(
            "| `dense` | 3.9000 | **3.7000** | diverged | 0.004 | yes |",
            self.report([*up_to_4, failed("dense.r8", DIVERGED)]),
        )
        found = self.sweeps([*up_to_4, failed("dense.r8", "no memory")])
        self.assertFalse(found["dense"].is_bracketed)
        self.assertEqual(rates.experiments(self.load([failed("dense.r8", DIVERGED)])), [])

    def test_ids(self):
        found = summarise.figures(self.load(DENSE + SPARSE))
        best = found["quality.rates_1m5.dense.best_rate"]
        self.assertEqual((best.value, best.low, best.high), (0.004, 0.002, 0.008))
        self.assertEqual((best.seeds, best.tokens), (1, 1_536_000))
        self.assertEqual(found["quality.rates_1m5.ff_n16.best_rate"].high, math.inf)
        self.assertEqual(found["quality.rates_1m5.bracketed"].value, 1)
        self.assertEqual(found["quality.rates_1m5.bracketed_share"].value, 0.5)
        self.assertEqual([name for name in found if not name.startswith("quality.")], [])

    def test_what_was_planned_and_not_swept_counts(self):
        planned = "dense.r2,dense.r4,ff_n16.r4,ff_n16.r8,moe.r2,moe.r4,once.r4"
        items = [dict(r, config={**r["config"], "planned": planned}) for r in DENSE + SPARSE]
        found = summarise.figures(self.load(items))
        self.assertAlmostEqual(found["quality.rates_1m5.bracketed_share"].value, 1 / 3)
        self.assertIn("1 of 2 rows; 1 of all planned ones were not swept yet.", self.report(items))

    def test_report_and_figure(self):
        text = self.report(DENSE + SPARSE)
        self.assertIn("## Rates", text)
        self.assertIn("1 of 2 rows", text)
        self.assertIn("| row | 0.002 | 0.004 | 0.008 | 0.016 | best rate |", text)
        self.assertIn("| `ff_n16` | 4.1000 | 4.0000 | **3.9500** | – | 0.008 | no |", text)
        self.assertIn("training/rates_1m5.cfg", text)
        self.assertEqual(self.report(made_up.FIGURE1), "")
        records = self.load(DENSE + SPARSE)
        ((name, draw),) = rates.figures(records, records.of(rates.OWNS)).items()
        self.assertEqual(name, NAME)
        axes = draw(records).axes[0]
        stars = [line for line in axes.lines if line.get_label() == "_best"]
        self.assertEqual([star.get_xdata()[0] for star in stars], [0.004, 0.008])
        with self.assertRaises(chart.Missing):
            rates.draw(self.load([failed("dense.r8", DIVERGED)]), NAME)

    def test_means_of_unlike_seeds_and_the_text_are_told(self):
        alike = self.report(DENSE + SPARSE)
        self.assertNotIn("seed)", alike)
        self.assertIn("at each learning rate, of one seed;", alike)
        again = [dict(r, seed=2, key=f"second {r['key']}") for r in swept("dense", {4: 3.72})]
        text = self.report(DENSE + SPARSE + again)
        self.assertIn("| 3.9000 (one seed) | **3.7100** (2 seeds) | 3.8000 (one seed) |", text)
        self.assertNotIn("the text for choosing", text)
        named = [dict(r, config={**r["config"], "validation": "tune.jsonl"}) for r in DENSE]
        self.assertIn(
            "on `tune.jsonl`, which is reported, too;", self.report(named + made_up.FIGURE1)
        )
        apart = [dict(r, config={**r["config"], "data": "d2"}) for r in named]
        text = self.report(apart + made_up.FIGURE1)
        self.assertIn("on `tune.jsonl`, the text for choosing;", text)

    def test_doubts_of_rates_that_rows_were_trained_at(self):
        config = {"learning_rate": 0.004}
        figure = made_up.curve("dense", 3.5, config=config) + made_up.curve(
            "ff_n16", 3.6, config=config
        )
        experiment = self.one(figure)
        records = self.load(DENSE + SPARSE)
        self.assertEqual(rates.doubts(records, experiment, ["dense", "other"]), [])
        self.assertEqual(
            rates.doubts(records, experiment, ["ff_n16"]),
            [
                "`ff_n16` was trained at the rate 0.004, the sweep's best is 0.008",
                "no worse rate on both sides of `ff_n16`'s 0.008",
            ],
        )
        wider = self.one([dict(r, config={**r["config"], "d_model": 256}) for r in figure])
        self.assertEqual(rates.doubts(records, wider, ["ff_n16"]), [])
        more = swept("ff_n16", {2: 4, 4: 3.8, 8: 3.9}, "rates_5m", steps=3000, id="rates.5m")
        both = self.load(DENSE + SPARSE + more)
        self.assertEqual(len(rates.doubts(both, experiment, ["ff_n16"])), 2)  # as many tokens
        size = {"steps": 3000, "batch": 16, "length": 96}
        longer = self.one([dict(r, config=r["config"] | size) for r in figure])
        self.assertEqual(rates.doubts(both, longer, ["ff_n16"]), [])
        # Of one seed, of the text and seed that are reported: the budget is told where it is another.
        (said,) = rates.choice(records, longer, ["ff_n16"])
        self.assertIn("`rates_1m5` chose rates by one seed, at 1.54 M tokens, which were not", said)
        (said,) = rates.choice(both, longer, ["ff_n16"])
        self.assertNotIn("not swept again", said)


if __name__ == "__main__":
    unittest.main()
