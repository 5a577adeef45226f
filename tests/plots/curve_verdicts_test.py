"""Tests of the verdicts on curves in plots/: power, tolerance, controls, closeness, sizes."""

import math
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import curves_test as made_up  # noqa: E402
import summarise  # noqa: E402
import training_curves  # noqa: E402
from curves_test import FIGURE1, curve, failed, record, three  # noqa: E402
from sections import curve_power, curve_verdicts  # noqa: E402

SPREAD = 0.002  # between two seeds of `three`: their sd
SLACK = 2 * math.sqrt(2) * SPREAD


def as_experiment(name, items):
    """The same under another name, trained for it."""
    return [dict(r, experiment=name, key=name + r["key"]) for r in items]


def without(row, items=tuple(FIGURE1)):
    return [r for r in items if r["row"] != row]


# Figure 1 whose sparse rows beat every control.
ENOUGH = without("hash_selector") + three("hash_selector", 1.66)


class Verdicts(made_up.WithCurves):
    def lines(self, items):
        return curve_verdicts.judged(self.load(items))

    def line(self, items, words):
        """The one line whose claim has the words."""
        found = [line for line in self.lines(items) if words in line.claim]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def verdicts_on(self, items, name="fig1_small"):
        known = training_curves.experiments(self.load(items))
        return curve_power.Verdicts(known[name], known)


class PowerTest(Verdicts):
    def test_gap_against_both_spreads(self):
        strength = curve_power.power(self.one(FIGURE1))
        self.assertTrue(strength.decides)
        self.assertAlmostEqual(strength.gap.value, 0.15)
        self.assertIn(
            "sd over seeds 0.0020 of log-perplexities, 0.0000 of this gap: power enough",
            strength.text(),
        )

    def test_a_gap_that_differs_by_seed_decides_nothing(self):
        # Of eight rows one swings: pooled that is 0.014, of the gap itself 0.04.
        wild = without("iso_read_ff") + three("iso_read_ff", 1.75, spread=0.042)
        strength = curve_power.power(self.one(wild))
        self.assertAlmostEqual(strength.paired, 0.04)
        self.assertGreater(strength.gap.value, 5 * strength.spread)
        self.assertFalse(strength.decides)
        self.assertIn("0.0400 of this gap: power not enough", strength.text())

    def test_one_seed_and_a_small_gap_decide_nothing(self):
        single = curve("dense", 1.6) + curve("ff_qkv", 1.61) + curve("iso_read_ff", 1.9)
        strength = curve_power.power(self.one(single))
        self.assertFalse(strength.decides)
        self.assertIn("one seed", strength.text())
        lone = three("dense", 1.6) + curve("iso_read_ff", 1.9)
        strength = curve_power.power(self.one(lone))
        self.assertFalse(strength.decides)
        self.assertIn("unknown of this gap", strength.text())
        weak = three("dense", 1.6) + three("ff_qkv", 1.61) + three("iso_read_ff", 1.65)
        self.assertFalse(curve_power.power(self.one(weak)).decides)

    def test_figures_carry_the_larger_sd_and_the_share(self):
        wild = without("iso_read_ff") + three("iso_read_ff", 1.75, spread=0.042)
        found = summarise.figures(self.load(wild))
        self.assertAlmostEqual(found["fig1.small.power"].value, 0.15)
        self.assertAlmostEqual(found["fig1.small.power"].sd, 0.04)
        self.assertAlmostEqual(found["fig1.small.ff_qkv.share_of_iso_read_ff"].value, 0.02 / 0.15)
        lone = curve("dense", 1.6) + curve("iso_read_ff", 1.9)
        self.assertEqual(summarise.figures(self.load(lone))["fig1.small.power"].sd, 0)
        self.assertNotIn("fig1.small.power", summarise.figures(self.load(curve("dense", 1.6))))


class Figure1Test(Verdicts):
    def verdict(self, items):
        return self.line(items, "FF+QKV reaches").verdict

    def test_enough_needs_a_small_gap_and_every_control_beaten(self):
        self.assertEqual(self.verdict(ENOUGH), "enough: yes")
        self.assertEqual(
            self.verdict(FIGURE1), "enough: no, because `ff_n8` only ties `hash_selector`"
        )
        behind = without("hash_selector") + three("hash_selector", 1.6)
        self.assertEqual(
            self.verdict(behind), "enough: no, because `ff_n8` is behind `hash_selector`"
        )
        wide = without("ff_qkv", ENOUGH) + three("ff_qkv", 1.66)
        self.assertEqual(
            self.verdict(wide),
            "enough: no, because its gap is 0.40 of iso_read_ff's, where 0.25 is enough",
        )
        self.assertEqual(
            self.verdict(without("random_controller", ENOUGH)),
            "close enough, but not compared with `random_controller`",
        )

    def test_a_refusal_brings_its_evidence(self):
        more = [
            record("ff_qkv", metric, value, config={"sparsity": 8, "steps": 300})
            for metric, value in (("hard_soft_gap", 0.0123), ("selection_entropy", 1.25))
        ]
        items = [
            dict(r, config={**r["config"], "sparsity": 8, "steps": 300})
            if r["row"] == "ff_qkv" and r["metric"] == "log_perplexity"
            else r
            for r in FIGURE1
        ]
        evidence = self.line(items + more, "FF+QKV reaches").evidence
        self.assertIn(
            "`ff_qkv`: N 8, steps 300, gap after 200 steps +0.0200, hard − soft +0.0123, "
            "selection entropy 1.25 of at most 2.08 nats",
            evidence,
        )
        self.assertNotIn("selection entropy", self.line(ENOUGH + more, "FF+QKV reaches").evidence)

    def test_without_power_nothing_is_decided(self):
        weak = without("iso_read_ff", ENOUGH) + three("iso_read_ff", 1.69)
        self.assertEqual(self.verdict(weak), "undecided (it would be: enough: yes)")
        single = [r for r in ENOUGH if r["seed"] == 1]
        self.assertEqual(self.verdict(single), "undecided (it would be: enough: yes)")
        self.assertEqual(self.verdict(three("dense", 1.6) + three("ff_qkv", 1.61)), "undecided")

    def test_controls_are_beaten_tied_or_ahead(self):
        def beaten(items):
            return {
                c.split(": `")[1].split("`")[0]: v
                for c, v in self.verdicts(items).items()
                if "beats" in c
            }

        self.assertEqual(
            beaten(FIGURE1),
            {
                "iso_read_ff": "yes",
                "iso_read_model": "yes",
                "random_controller": "yes",
                "hash_selector": "tie",
            },
        )
        worse = without("hash_selector") + three("hash_selector", 1.6)
        self.assertEqual(beaten(worse)["hash_selector"], "no")

    def test_a_control_is_compared_with_the_row_it_was_made_for(self):
        made = [
            dict(r, config={**r["config"], "reference_row": "ff_qkv"})
            if r["row"] == "iso_read_ff"
            else r
            for r in FIGURE1
        ]
        self.assertTrue(
            self.line(made, "with as many weights read a token").claim.startswith("`ff_qkv` beats")
        )

    def test_records_say_which_figure_they_are(self):
        said = {"study": "training", "id": "fig1.small", "title": "Mine"}
        mine = [dict(r, **said) for r in as_experiment("mine", ENOUGH)]
        self.assertEqual(self.lines(mine), self.lines(ENOUGH))
        self.assertNotEqual(self.lines(mine), [])
        self.assertEqual(self.lines(as_experiment("mine", ENOUGH)), [])
        self.assertIn("fig1.small.power", summarise.figures(self.load(mine)))

    def test_c4_and_the_hour_are_judged_too(self):
        rows = (
            three("dense", 1.6)
            + three("ff_qkv", 1.62)
            + three("iso_read_ff", 1.75, config={"reference_row": "ff_qkv"})
        )
        for name, where in (("c4_small", "(c4.small)"), ("hour", "(hour)")):
            line = self.line(as_experiment(name, rows), "FF+QKV reaches")
            self.assertTrue(line.claim.endswith(where))
            self.assertEqual(
                line.verdict,
                "close enough, but not compared with `iso_read_model`, "
                "`random_controller`, `hash_selector`",
            )
            self.assertEqual(self.line(as_experiment(name, rows), "`ff_qkv` beats").verdict, "yes")

    def test_a_failed_row_is_named(self):
        line = self.line(without("ff_qkv") + [failed("ff_qkv", "no memory")], "FF+QKV reaches")
        self.assertEqual(
            (line.verdict, line.evidence), ("not judged", "`ff_qkv` failed: no memory")
        )
        line = self.line(
            without("hash_selector") + [failed("hash_selector", "diverged")], "FF+QKV reaches"
        )
        self.assertIn("not compared with `hash_selector`", line.verdict)
        self.assertIn("; `hash_selector` failed: diverged", line.evidence)


class ToleranceTest(Verdicts):
    def one_seed(self, *rows):
        return as_experiment(
            "fig3_small", [r for row, final in (("dense", 1.598), *rows) for r in curve(row, final)]
        )

    def test_one_seed_takes_the_spread_of_figure_1(self):
        verdicts_on = self.verdicts_on(FIGURE1 + self.one_seed(("ff_n8", 1.6)), "fig3_small")
        self.assertAlmostEqual(verdicts_on.slack, SLACK)
        self.assertEqual(verdicts_on.said("yes"), "yes (sd of fig1.small)")
        self.assertTrue(verdicts_on.power.decides)
        alone = self.verdicts_on(self.one_seed(("ff_n8", 1.6)), "fig3_small")
        self.assertIsNone(alone.slack)
        self.assertEqual(alone.said("yes"), "yes, one seed")

    def test_another_text_or_size_lends_nothing(self):
        mine = self.one_seed(("ff_n8", 1.6))
        for change in ({"data": "d2"}, {"d_model": 64}, {"steps": 9}):
            other = [dict(r, config={**r["config"], **change}) for r in mine]
            self.assertIsNone(self.verdicts_on(FIGURE1 + other, "fig3_small").slack, change)
        mini = as_experiment("fig1_mini", FIGURE1)
        self.assertIsNone(self.verdicts_on(mini + mine, "fig3_small").slack)

    def test_order_of_one_seed_is_said_to_be_by_figure_1(self):
        rows = self.one_seed(("ff_n8", 1.6), ("ff_n16", 1.65))
        self.assertEqual(
            self.line(FIGURE1 + rows, "grows with N").verdict, "reproduced (sd of fig1.small)"
        )
        self.assertEqual(self.line(rows, "grows with N").verdict, "reproduced, one seed")


class ClosenessTest(Verdicts):
    def figure7(self, *finals, lender=()):
        items = three("dense", 1.6) + [
            r for s, final in zip((2, 4, 8), finals) for r in three(f"loss_s{s}", final)
        ]
        return list(lender) + as_experiment("fig7_small", items)

    def test_against_a_quarter_of_the_gap_of_figure_1(self):
        for finals, verdict in (
            ((1.61, 1.62, 1.63), "reproduced"),
            ((1.61, 1.62, 1.65), "partly reproduced"),
            ((1.65, 1.66, 1.67), "not reproduced"),
        ):
            line = self.line(self.figure7(*finals, lender=FIGURE1), "only slightly")
            self.assertEqual(line.verdict, verdict)
            self.assertIn("close: up to +0.0375, 0.25 of fig1.small's iso_read_ff", line.evidence)

    def test_without_it_against_the_seeds(self):
        line = self.line(self.figure7(1.6, 1.602, 1.603), "only slightly")
        self.assertEqual(line.verdict, "reproduced")
        self.assertIn(f"close: up to +{SLACK:.4f}, the seeds' spread", line.evidence)
        self.assertEqual(
            self.line(self.figure7(1.61, 1.62, 1.63), "only slightly").verdict, "not reproduced"
        )

    def test_undecided_without_power_or_any_measure(self):
        weak = three("dense", 1.6) + three("iso_read_ff", 1.64)
        self.assertEqual(
            self.line(self.figure7(1.6, 1.6, 1.6, lender=weak), "only slightly").verdict,
            "undecided (it would be: reproduced)",
        )
        single = as_experiment("fig7_small", curve("dense", 1.6) + curve("loss_s2", 1.61))
        self.assertEqual(
            self.line(single, "only slightly").verdict,
            "undecided: one seed, and no `iso_read_ff` to measure by",
        )

    def test_orders_against_the_spread(self):
        for finals, verdict in (
            ((1.61, 1.62, 1.65), "reproduced"),
            ((1.65, 1.62, 1.61), "not reproduced"),
            ((1.61, 1.611, 1.612), "tie within the seeds' spread"),
        ):
            self.assertEqual(self.line(self.figure7(*finals), "the larger S").verdict, verdict)

    def test_figure_3_is_close_at_the_papers_n_scaled_with_d_ff(self):
        rows = [
            dict(r, config={**r["config"], "d_ff": 1024})
            for r in three("dense", 1.6)
            + three("ff_n4", 1.605)
            + three("ff_n8", 1.63)
            + three("ff_n16", 1.7)
        ]
        base = [dict(r, config={**r["config"], "d_ff": 1024}) for r in FIGURE1]
        line = self.line(base + as_experiment("fig3_small", rows), "is close to dense")
        self.assertTrue(line.claim.startswith("`ff_n8`"))
        self.assertEqual(line.verdict, "reproduced")
        self.assertEqual(
            self.line(as_experiment("fig3_small", rows), "grows with N").verdict, "reproduced"
        )

    def test_a_failed_row_is_named(self):
        items = without("loss_s8", self.figure7(1.61, 1.62, 1.63)) + [
            failed("loss_s8", "diverged", experiment="fig7_small")
        ]
        for words in ("only slightly", "the larger S"):
            self.assertIn("`loss_s8` failed: diverged", self.line(items, words).evidence)


class Figure5Test(Verdicts):
    def figure5(self, **finals):
        return as_experiment(
            "fig5_small",
            three("dense", 1.6) + [r for row, final in finals.items() for r in three(row, final)],
        )

    def best(self, **finals):
        return self.line(self.figure5(**finals), "multiplicative one")

    def test_the_best_products_against_the_best_others(self):
        line = self.best(qkv_mult=1.66, qkv_mult_conv_s4=1.62, qkv_conv=1.65, qkv_low_rank=1.7)
        self.assertEqual(line.verdict, "reproduced")
        self.assertIn("best are `qkv_mult_conv_s4` and `qkv_conv`", line.evidence)
        self.assertEqual(self.best(qkv_mult=1.65, qkv_low_rank=1.62).verdict, "not reproduced")
        self.assertEqual(
            self.best(qkv_mult=1.65, qkv_local=1.652).verdict, "tie within the seeds' spread"
        )

    def test_convolution_is_close_and_multiplication_improves(self):
        items = self.figure5(qkv_mult=1.59, qkv_mult_conv=1.602, qkv_mult_conv_f5=1.7)
        self.assertEqual(self.line(items, "over S and F").verdict, "partly reproduced")
        self.assertEqual(self.line(items, "even improves").verdict, "reproduced")
        items = self.figure5(qkv_mult=1.602, qkv_mult_conv=1.6)
        self.assertEqual(self.line(items, "over S and F").verdict, "reproduced")
        self.assertEqual(self.line(items, "even improves").verdict, "tie within the seeds' spread")


class ExpertsTest(Verdicts):
    def line_of(self, block, switch):
        items = (
            three("dense", 1.6)
            + three("ff_n8", 1.63)
            + three("moe_block", block)
            + three("moe_switch", switch)
        )
        return self.line(as_experiment("moe_small", items), "Mixture")

    def test_each_expert_is_worse_tied_or_better(self):
        for block, switch, verdict, words in (
            (1.7, 1.66, "reproduced", "`moe_block` worse, `moe_switch` worse"),
            (1.7, 1.631, "partly reproduced", "`moe_block` worse, `moe_switch` tie"),
            (1.7, 1.6, "partly reproduced", "`moe_block` worse, `moe_switch` better"),
            (1.631, 1.6, "not reproduced", "`moe_block` tie, `moe_switch` better"),
            (1.631, 1.632, "tie within the seeds' spread", "`moe_block` tie, `moe_switch` tie"),
        ):
            line = self.line_of(block, switch)
            self.assertEqual(line.verdict, verdict)
            self.assertIn(words, line.evidence)


class SizesTest(Verdicts):
    MINI = as_experiment("fig1_mini", FIGURE1)

    def test_small_decides_before_mini(self):
        self.assertTrue(all("fig1.small" in c for c in self.verdicts(FIGURE1 + self.MINI)))

    def test_a_small_one_that_lacks_rows_leaves_it_to_mini(self):
        running = without("ff_qkv") + curve("ff_qkv", 1.6, finished=False)
        line = self.line(running + self.MINI, "FF+QKV reaches")
        self.assertIn("(fig1.mini)", line.claim)
        self.assertIn("; fig1.small lacks `ff_qkv` (unfinished, reached step 300)", line.evidence)
        broken = without("ff_qkv") + [failed("ff_qkv", "no memory")]
        self.assertIn(
            "; fig1.small lacks `ff_qkv` (failed: no memory)",
            self.line(broken + self.MINI, "FF+QKV reaches").evidence,
        )
        no_base = [r for r in FIGURE1 if r["row"] != "dense" or r["metric"] == "evaluation"]
        self.assertIn(
            "fig1.small lacks `dense` of the same seeds",
            self.line(no_base + self.MINI, "FF+QKV reaches").evidence,
        )

    def test_rows_beyond_the_needed_ones_may_be_missing(self):
        lacking = without("qkv_mult") + [failed("qkv_mult", "no memory")]
        self.assertTrue(all("fig1.small" in c for c in self.verdicts(lacking + self.MINI)))


if __name__ == "__main__":
    unittest.main()
