"""Tests of the verdicts on curves in plots/: claims as contrasts, seeds, controls, closeness, what counts, sizes."""

import pathlib
import random
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import curves_test as made_up  # noqa: E402
from curves_test import FIGURE1, curve, failed, record  # noqa: E402
from sections import curve_verdicts, quality  # noqa: E402

SEEDS = (1, 2, 3, 4, 5)


def noise(row, seed):
    return random.Random(f"{row} {seed}").gauss(0, 0.002)


def seeded(row, final, seeds=SEEDS, **more):
    """Curves of a row whose seeds move by 0.1 with all rows, and by a few thousandths of their own."""
    return [
        r for seed in seeds for r in curve(row, final + 0.1 * seed + noise(row, seed), seed, **more)
    ]


def as_experiment(name, items):
    """The same under another name, trained for it."""
    return [dict(r, experiment=name, key=name + r["key"]) for r in items]


def planned(items, *rows):
    """The same with a plan of these rows."""
    return [dict(r, config={**r["config"], "planned": ",".join(rows)}) for r in items]


def of(name, seeds=SEEDS, **finals):
    """An experiment of `dense` at 1.6 and these rows."""
    items = [
        r for row, final in {"dense": 1.6, **finals}.items() for r in seeded(row, final, seeds)
    ]
    return as_experiment(name, items)


ENOUGH = {
    "ff_n8": 1.63,
    "ff_qkv": 1.62,
    "qkv_mult": 1.605,
    "iso_read_ff": 1.8,
    "iso_read_model": 1.9,
    "random_controller": 1.7,
    "hash_selector": 1.57,
}


class Verdicts(made_up.WithCurves):
    def lines(self, items):
        return curve_verdicts.judged(self.load(items))

    def line(self, items, words):
        """The one line whose claim has the words."""
        found = [line for line in self.lines(items) if words in line.claim]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def verdict(self, items, words):
        return self.line(items, words).verdict


class SeedsTest(Verdicts):
    def test_verdicts_go_by_intervals_over_seeds(self):
        for final, verdict in ((1.62, "reproduced"), (1.75, "not reproduced"), (1.65, "undecided")):
            items = of("fig1_small", **{**ENOUGH, "ff_qkv": final})
            self.assertEqual(self.verdict(items, "FF+QKV reaches"), verdict)

    def test_one_seed_has_no_verdict_in_any_figure(self):
        items = (
            of("fig1_small", seeds=(1,), **ENOUGH)
            + of("fig3_small", seeds=(1,), ff_n8=1.6, ff_n16=1.9)
            + of("fig5_small", seeds=(1,), qkv_mult=1.5, qkv_mult_conv=1.6, qkv_conv=1.9)
            + of("fig7_small", seeds=(1,), loss_s2=1.6, loss_s4=1.7)
            + of("moe_small", seeds=(1,), ff_n8=1.6, moe_block=1.9, moe_switch=1.9)
            + of("table8_small", seeds=(1,), sparse_transformer=1.7, terraformer_175k=1.6)
        )
        lines = self.lines(items)
        self.assertEqual({line.verdict for line in lines}, {"one seed: no verdict"})
        for words in ("Fig 1", "Fig 3", "Fig 5", "Fig 7", "Mixture", "Table 8"):
            self.assertTrue(any(words in line.claim for line in lines), words)
        self.assertTrue(all("one seed" in line.evidence for line in lines))

    def test_few_seeds_decide_so_far(self):
        items = of("moe_small", seeds=(1, 2, 3), ff_n8=1.6, moe_block=1.9, moe_switch=1.9)
        self.assertEqual(self.verdict(items, "`moe_block`"), "reproduced so far")

    def test_what_is_undecided_says_how_many_seeds(self):
        items = of("fig1_small", **{**ENOUGH, "ff_qkv": 1.65})
        self.assertRegex(
            self.line(items, "FF+QKV reaches").evidence, r"\d+ seeds would decide it|a thousand"
        )
        self.assertNotIn("would decide", self.line(of("fig1_small", **ENOUGH), "FF+QKV").evidence)

    def test_seeds_are_paired(self):
        # Seeds move rows by 0.1 each, far more than 0.02: only pairs tell.
        items = of("table8_small", sparse_transformer=1.62, terraformer_175k=1.6)
        self.assertEqual(self.verdict(items, "Table 8"), "reproduced")
        shuffled = [
            dict(r, value=r["value"] + 0.1 * (3 * r["seed"] % 5 - r["seed"]))
            if r["row"] == "terraformer_175k" and r["metric"] == "log_perplexity"
            else r
            for r in items
        ]
        self.assertEqual(self.verdict(shuffled, "Table 8"), "undecided")

    def test_the_budget_with_rates_of_their_own_comes_before_small_figures(self):
        small = of("table8_small", sparse_transformer=1.62, terraformer_175k=1.6)
        larger = of("table8_5m", sparse_transformer=1.6, terraformer_175k=1.62)
        line = self.line(small + larger, "Table 8")
        self.assertEqual(line.verdict, "not reproduced")
        self.assertIn("table8.5m", line.claim)

    def test_claims_that_are_not_trained_yet_count(self):
        # Below dense by 1, 2, 3, 1, 2 thousandths: p is 0.009.
        items = [
            r
            for seed in SEEDS
            for row, final in (
                ("dense", 1.6),
                ("qkv_mult", 1.6 - 0.001 * (1, 2, 3, 1, 2)[seed - 1]),
            )
            for r in as_experiment("fig5_small", curve(row, final, seed))
        ]
        more = [f"qkv_mult_conv_f{n}" for n in range(40)]
        found = {
            len(plan): self.verdict(planned(items, "dense", "qkv_mult", *plan), "even improves")
            for plan in ([], more)
        }
        self.assertEqual(found, {0: "reproduced", 40: "undecided (95 % alone would decide)"})


class Figure1Test(Verdicts):
    def test_controls_are_beaten_or_not(self):
        items = of("fig1_small", **ENOUGH)
        found = {
            line.claim.split(": `")[1].split("`")[0]: line.verdict
            for line in self.lines(items)
            if "beats" in line.claim
        }
        self.assertEqual(
            found,
            {
                "iso_read_ff": "reproduced",
                "iso_read_model": "reproduced",
                "random_controller": "reproduced",
                "hash_selector": "not reproduced",
            },
        )

    def test_hard_controls_stand_beside_a_hard_row(self):
        items = of("fig1_small", **ENOUGH)
        line = self.line(items, "hash of the token id")
        self.assertTrue(line.claim.startswith("`ff_n8` beats"))
        self.assertIn("`hash_selector` selects hard in every step", line.evidence)
        self.assertNotIn("selects hard", self.line(items, "as many weights read a").evidence)
        both = of("fig1_small", **ENOUGH, ff_n8_hard=1.5)
        line = self.line(both, "hash of the token id")
        self.assertTrue(line.claim.startswith("`ff_n8_hard` beats"))
        self.assertEqual(line.verdict, "reproduced")
        self.assertNotIn("selects hard", line.evidence)

    def test_a_refusal_brings_its_evidence(self):
        items = of("fig1_small", **{**ENOUGH, "ff_qkv": 1.75})
        items = [
            dict(r, config={**r["config"], "sparsity": 8, "steps": 300})
            if r["row"] == "ff_qkv"
            else r
            for r in items
        ]
        more = [
            record("ff_qkv", metric, value, key=items[0]["key"].replace("dense", "ff_qkv"))
            for metric, value in (("hard_soft_gap", 0.0123), ("selection_entropy", 1.25))
        ]
        evidence = self.line(items + more, "FF+QKV reaches").evidence
        self.assertIn("hard − soft +0.0123, selection entropy 1.25 of at most 2.08 nats", evidence)
        self.assertIn("`ff_qkv`: N 8, steps 300, gap after 200 steps +0.1", evidence)

    def test_a_control_is_compared_with_the_row_it_was_made_for(self):
        made = [
            dict(r, config={**r["config"], "reference_row": "ff_qkv"})
            if r["row"] == "iso_read_ff"
            else r
            for r in of("fig1_small", **ENOUGH)
        ]
        claim = self.line(made, "with as many weights read a token").claim
        self.assertTrue(claim.startswith("`ff_qkv` beats"))

    def test_records_say_which_figure_they_are(self):
        said = {"study": "training", "id": "fig1.small", "title": "Mine"}
        here = of("fig1_small", **ENOUGH)
        mine = [dict(r, **said) for r in as_experiment("mine", here)]
        self.assertEqual(self.lines(mine), self.lines(here))
        self.assertNotEqual(self.lines(mine), [])
        self.assertEqual(self.lines(as_experiment("mine", here)), [])

    def test_c4_and_the_hour_are_judged_too(self):
        for name, where in (("c4_small", "(c4.small)"), ("hour", "(hour)")):
            line = self.line(of(name, ff_qkv=1.62, iso_read_ff=1.8), "FF+QKV reaches")
            self.assertTrue(line.claim.endswith(where))
            self.assertEqual(line.verdict, "reproduced")

    def test_a_failed_row_is_named(self):
        finals = {row: final for row, final in ENOUGH.items() if row != "ff_qkv"}
        items = of("fig1_small", **finals) + [failed("ff_qkv", "no memory")]
        line = self.line(items, "FF+QKV reaches")
        self.assertEqual(
            (line.verdict, line.evidence), ("not judged", "`ff_qkv` failed: no memory")
        )


class RateTest(Verdicts):
    def at(self, rate_of):
        """Figure 1 with rate_of(row) as learning rates."""
        return [
            dict(r, config={**r["config"], "learning_rate": rate_of(r["row"])})
            for r in of("fig1_small", **{**ENOUGH, "ff_qkv": 1.65})
        ]

    def test_one_rate_for_all_rows_decides_nothing(self):
        lines = self.lines(self.at(lambda row: 0.04))
        self.assertEqual(
            {line.verdict for line in lines}, {"decides nothing (one learning rate for all)"}
        )
        for line in lines:
            self.assertIn("contrast ", line.evidence)
            self.assertNotIn("would decide", line.evidence)

    def test_rates_that_differ_leave_the_verdicts(self):
        own = self.at(lambda row: 0.008 if row == "ff_qkv" else 0.016)
        self.assertEqual(self.verdict(own, "FF+QKV reaches"), "undecided")
        self.assertEqual(self.verdict(own, "`hash_selector`"), "not reproduced")


class ClosenessTest(Verdicts):
    def test_against_a_quarter_of_the_loss_of_equal_reads(self):
        # iso_read_ff of Figure 1 loses 0.2.
        lender = of("fig1_small", **ENOUGH)
        for final, verdict in ((1.61, "reproduced"), (1.7, "not reproduced")):
            line = self.line(lender + of("fig7_small", loss_s2=final), "only slightly")
            self.assertEqual(line.verdict, verdict)
            self.assertIn("`iso_read_ff` of fig1.small", line.evidence)

    def test_what_is_borrowed_is_as_far_above_the_baseline_as_there(self):
        lender = of("fig1_small", **ENOUGH)
        mine = of("fig7_small", loss_s2=1.63)
        moved = [
            dict(r, value=r["value"] + 1) if r["metric"] == "log_perplexity" else r for r in mine
        ]
        numbers = [
            self.line(lender + items, "only slightly").evidence.split("contrast ")[1].split(" ")[0]
            for items in (mine, moved)
        ]
        self.assertEqual(*numbers)

    def test_without_it_nothing_is_close(self):
        self.assertEqual(
            [c.claim for c in self.lines(of("fig7_small", loss_s2=1.61)) if "slightly" in c.claim],
            [],
        )
        other = [
            dict(r, config={**r["config"], "data": "d2"}) for r in of("fig7_small", loss_s2=1.6)
        ]
        lines = self.lines(of("fig1_small", **ENOUGH) + other)
        self.assertEqual([line for line in lines if "slightly" in line.claim], [])

    def test_seeds_that_were_not_trained_beside_it_do_not_count(self):
        lender = of("fig1_small", seeds=(1, 2), **ENOUGH)
        line = self.line(lender + of("fig7_small", loss_s2=1.61), "only slightly")
        self.assertIn("2 seeds", line.evidence)

    def test_figure_3_is_close_at_the_papers_n_scaled_with_d_ff(self):
        def wide(items):
            return [dict(r, config={**r["config"], "d_ff": 1024}) for r in items]

        rows = of("fig3_small", ff_n4=1.605, ff_n8=1.61, ff_n16=1.8)
        line = self.line(wide(of("fig1_small", **ENOUGH) + rows), "is close to dense")
        self.assertTrue(line.claim.startswith("`ff_n8`"))
        self.assertEqual(line.verdict, "reproduced")


class GrowthTest(Verdicts):
    def test_the_slope_decides(self):
        for finals, verdict in (
            ((1.61, 1.64, 1.67), "reproduced"),
            ((1.67, 1.64, 1.61), "not reproduced"),
            ((1.61, 1.67, 1.61), "undecided"),
        ):
            rows = {f"loss_s{s}": final for s, final in zip((2, 4, 8), finals)}
            self.assertEqual(self.verdict(of("fig7_small", **rows), "the larger S"), verdict)
        rows = of("fig3_small", ff_n4=1.61, ff_n8=1.64, ff_n16=1.7)
        line = self.line(rows, "grows with N")
        self.assertEqual(line.verdict, "reproduced")
        self.assertRegex(line.evidence, r"contrast \+0\.04\S* \[\S+ \S+\] nats a doubling of N;")

    def test_one_row_does_not_grow_and_a_missing_one_is_named(self):
        self.assertEqual(self.lines(of("fig7_small", loss_s2=1.6)), [])
        items = planned(
            of("fig7_small", loss_s2=1.61, loss_s4=1.67), "dense", "loss_s2", "loss_s4", "loss_s8"
        )
        self.assertIn("without `loss_s8`", self.line(items, "the larger S").evidence)


class Figure5Test(Verdicts):
    def test_one_named_product_against_every_other_kind(self):
        items = of(
            "fig5_small", qkv_mult_conv=1.62, qkv_mult_conv_s4=1.3, qkv_conv=1.7, qkv_low_rank=1.58
        )
        self.assertEqual(self.verdict(items, "better than `qkv_conv`"), "reproduced")
        # A better one found afterwards, qkv_mult_conv_s4, does not stand in for it.
        self.assertEqual(self.verdict(items, "better than `qkv_low_rank`"), "not reproduced")

    def test_a_repaired_start_is_compared_with_its_like(self):
        rows = dict(qkv_mult_conv=1.6, qkv_conv=1.7, qkv_conv_taps=1.5, qkv_mult_conv_taps=1.55)
        items = of("fig5_small", **rows)
        self.assertEqual(
            self.verdict(items, "`qkv_mult_conv` is better than `qkv_conv`"), "reproduced"
        )
        line = self.line(items, "both begun with the variance of one tap")
        self.assertEqual(line.verdict, "not reproduced")
        del rows["qkv_mult_conv_taps"]
        self.assertFalse(
            any("both begun" in one.claim for one in self.lines(of("fig5_small", **rows)))
        )

    def test_a_row_that_reads_all_of_its_weights_says_so(self):
        for kind, is_said in (("dense", True), ("sparse", False)):
            items = of("fig7_small", loss_s2=1.61, iso_read_ff=1.8)
            items = [dict(r, config={**r["config"], "feed_forward": kind}) for r in items]
            evidence = self.line(items, "`loss_s2`").evidence
            self.assertEqual(
                "`loss_s2` reads all of its weights, as many as `dense`" in evidence, is_said
            )
            self.assertNotIn("`iso_read_ff` reads all", evidence)

    def test_a_row_that_hardly_left_the_plateau_says_so(self):
        items = of("fig5_small", qkv_mult_conv=1.62, qkv_conv=1.7)
        for share, is_said in ((0.28, True), (0.05, False)):
            more = [
                dict(r, metric="plateau_share", value=share, key=r["key"])
                for r in items
                if (r["row"], r["metric"]) == ("qkv_conv", "log_perplexity")
            ]
            evidence = self.line(items + more, "better than `qkv_conv`").evidence
            self.assertEqual(
                "`qkv_conv` spends 28% of its steps on the plateau" in evidence, is_said
            )

    def test_multiplication_alone_improves(self):
        for final, verdict in ((1.5, "reproduced"), (1.7, "not reproduced")):
            items = of("fig5_small", qkv_mult=final)
            self.assertEqual(self.verdict(items, "even improves"), verdict)


class ExpertsTest(Verdicts):
    def test_each_expert_is_a_claim_in_both_regimes(self):
        items = of("moe_small", ff_n8=1.63, moe_block=1.7, moe_switch=1.6)
        self.assertEqual(self.verdict(items, "`moe_block` than `ff_n8`"), "reproduced")
        self.assertEqual(self.verdict(items, "`moe_switch` than `ff_n8`"), "not reproduced")
        self.assertIn("selects hard", self.line(items, "`moe_switch` than `ff_n8`").evidence)
        hard = {"ff_n8_hard": 1.5, "moe_block_hard": 1.7}
        items = of("moe_small", ff_n8=1.63, moe_block=1.7, moe_switch=1.6, **hard)
        for theirs in ("moe_block_hard", "moe_switch"):
            line = self.line(items, f"`{theirs}` than `ff_n8_hard`")
            self.assertEqual(line.verdict, "reproduced")
            self.assertNotIn("selects hard", line.evidence)


class ControlsTest(Verdicts):
    """Controls of the choice at rates of their own, beside what always selects hard as they do."""

    def at(self, **finals):
        rows = {"hard_always": 1.65, "dense": 1.6, **finals}
        items = [r for row, final in rows.items() for r in seeded(row, final)]
        about = {"study": "training", "section": "factors", "id": "controls.1m5", "title": "Mine"}
        return [dict(r, **about) for r in as_experiment("controls_1m5", items)]

    def test_each_control_is_a_claim_about_the_row_that_always_selects_hard(self):
        items = self.at(random_controller=1.7, hash_selector=1.55)
        self.assertEqual(self.verdict(items, "`random_controller`"), "reproduced")
        line = self.line(items, "`hash_selector`")
        self.assertEqual(line.verdict, "not reproduced")
        self.assertTrue(line.claim.startswith("`hard_always` beats a hash of the token id"))
        self.assertIn("(controls.1m5)", line.claim)
        self.assertNotIn("selects hard", line.evidence)


class SizesTest(Verdicts):
    SMALL, MINI = of("fig1_small", **ENOUGH), of("fig1_mini", **ENOUGH)

    def test_small_decides_before_mini(self):
        self.assertTrue(
            all("fig1.small" in line.claim for line in self.lines(self.SMALL + self.MINI))
        )

    def test_a_small_one_that_lacks_rows_leaves_it_to_mini(self):
        without = [r for r in self.SMALL if r["row"] != "ff_qkv"]
        running = without + curve("ff_qkv", 1.6, finished=False)
        line = self.line(running + self.MINI, "FF+QKV reaches")
        self.assertIn("(fig1.mini)", line.claim)
        self.assertIn("; fig1.small lacks `ff_qkv` (unfinished, reached step 300)", line.evidence)
        broken = [*without, failed("ff_qkv", "no memory")]
        self.assertIn(
            "; fig1.small lacks `ff_qkv` (failed: no memory)",
            self.line(broken + self.MINI, "FF+QKV reaches").evidence,
        )

    def test_the_frontier_decides_before_figures_of_their_own(self):
        own = of("fig3_small", ff_n8=1.61, ff_n16=1.7) + of("fig7_small", loss_s2=1.61, loss_s4=1.7)
        frontier = [
            dict(r, id="frontier") for r in of("frontier", ff_n8=1.7, ff_n16=1.6, iso_read_ff=1.8)
        ]
        by = {line.claim: line.verdict for line in self.lines(own + frontier)}
        grows = "Log-perplexity grows with N (Fig 3: N=128 slightly worse)"
        self.assertEqual(by.get(f"{grows} (frontier)"), "not reproduced", by)
        self.assertNotIn(f"{grows} (fig3.small)", by)
        # It lacks rows of Figure 7.
        self.assertTrue(any("(fig7.small)" in claim for claim in by), by)

    def test_a_figure_of_more_tokens_and_rates_of_its_own_decides_before_the_frontier(self):
        def of_tokens(items, steps, rates=True, **about):
            config = {"steps": steps, "batch": 16, "length": 96}
            return [
                dict(
                    r,
                    config={
                        **r["config"],
                        **config,
                        "learning_rate": 0.004 if rates and r["row"] == "dense" else 0.008,
                    },
                    **about,
                )
                for r in items
            ]

        frontier = of("frontier", ff_n16=1.6, ff_n32=1.7, iso_read_ff=1.8)
        frontier = of_tokens(frontier, 1000, id="frontier")
        own = of("fig3_5m", ff_n16=1.65, ff_n32=1.6, iso_read_ff=1.8)
        grows = "Log-perplexity grows with N (Fig 3: N=128 slightly worse)"
        for steps, rates, where in (
            (3333, True, "fig3.5m"),
            (3333, False, "frontier"),
            (1000, True, "frontier"),
        ):
            larger = of_tokens(own, steps, rates, id="fig3.5m")
            claims = [line.claim for line in self.lines(frontier + larger)]
            self.assertIn(f"{grows} ({where})", claims)
        # What is close to dense has still more tokens in Figure 1.
        figure1 = of_tokens(of("fig1_16m", ff_n16=1.5, iso_read_ff=1.8), 10416, id="fig1.16m")
        for r in figure1:
            if r["row"] == "ff_n16":
                r["config"] |= {"twin": "dense", "equal_reads": "iso_read_ff"}
        larger = of_tokens(own, 3333, id="fig3.5m")
        # More under another recipe is not Figure 1.
        other = of_tokens(figure1, 20832, experiment="epsilon_32m", id="epsilon.32m")
        claims = [line.claim for line in self.lines(frontier + larger + other + figure1)]
        self.assertIn(
            "`ff_n16`, for the paper's N=64, is close to dense (Fig 3) (fig1.16m)", claims
        )
        self.assertIn(f"{grows} (fig3.5m)", claims)

    def test_a_claim_whose_rows_have_a_larger_budget_is_judged_there(self):
        def sized(items, steps, **about):
            config = {"steps": steps, "batch": 16, "length": 96}
            return [dict(r, config={**r["config"], **config}, **about) for r in items]

        finals = {"qkv_mult": 1.7, "qkv_conv": 2, "qkv_local": 2, "qkv_low_rank": 2}
        frontier = sized(
            of("frontier", qkv_mult_conv=1.59, iso_read_ff=1.8, **finals), 1000, id="frontier"
        )

        def budget(name, seeds=SEEDS):
            found = of(name, seeds, qkv_mult_conv=1.75, iso_read_ff=1.8, ff_n16=1.7)
            for r in found:
                if r["row"] == "ff_n16":
                    r["config"] = {**r["config"], "twin": "dense", "equal_reads": "iso_read_ff"}
            return found

        larger = budget("fig1_5m")
        close = "close to dense (Fig 5)"
        self.assertEqual(self.verdict(frontier, close), "reproduced")
        line = self.line(frontier + sized(larger, 3333, id="fig1.5m"), close)
        self.assertEqual(line.verdict, "not reproduced")
        self.assertIn("(fig1.5m)", line.claim)
        self.assertIn("at 1.54 M tokens (frontier) -0.0", line.evidence)
        # Fewer seeds of a still larger budget do not take the place of more.
        for seeds, name in ((SEEDS[:2], "fig1.5m"), (SEEDS, "fig1.16m")):
            added = sized(budget("fig1_16m", seeds), 10416, id="fig1.16m")
            line = self.line(frontier + sized(larger, 3333, id="fig1.5m") + added, close)
            self.assertIn(f"({name})", line.claim)
        # Figure 1 has no other projection at that budget, and no more tokens at this one.
        both = frontier + sized(larger, 3333, id="fig1.5m")
        self.assertIn("(frontier)", self.line(both, "better than `qkv_local`").claim)
        same = frontier + sized(larger, 1000, id="fig1.5m")
        self.assertEqual(self.verdict(same, close), "reproduced")
        other_text = [dict(r, config={**r["config"], "data": "other"}) for r in larger]
        other = frontier + sized(other_text, 3333, id="fig1.5m")
        self.assertEqual(self.verdict(other, close), "reproduced")

    def test_claims_without_a_decision_are_counted_whatever_for(self):
        finals = {"qkv_mult": 1.7, "qkv_mult_conv": 1.62, "qkv_conv": 1.9}
        for seeds, undecided in ((SEEDS, 0), (SEEDS[:1], 3)):
            items = of("fig5_small", seeds=seeds, iso_read_ff=1.9, **finals)
            claims = curve_verdicts.judged(self.load(items), curve_verdicts.OF_FRONTIER)
            self.assertEqual(len(claims), 3)
            (value,) = quality.undecided(claims).values()
            self.assertEqual(value.value, undecided)
        self.assertEqual(quality.undecided([]), {})

    def test_the_figure_of_curves_test_has_three_seeds(self):
        lines = self.lines(FIGURE1)
        self.assertTrue(lines)
        self.assertTrue(all(line.verdict.endswith(" so far") for line in lines), lines)


if __name__ == "__main__":
    unittest.main()
