"""Paired contrasts: intervals against printed tables, Holm's steps, verdicts of made-up curves."""

import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "plots"))
import contrasts  # noqa: E402
from values import exactly  # noqa: E402

RUNS = {
    "dense": {1: 3.50, 2: 3.52, 3: 3.49, 4: 3.51, 5: 3.50},
    # Loses 0.10 of the 0.80 that equal reads lose, a little more or less from seed to seed.
    "sparse": {1: 3.61, 2: 3.62, 3: 3.58, 4: 3.61, 5: 3.60},
    "poor": {1: 4.01, 2: 4.02, 3: 3.98, 4: 4.01, 5: 4.00},
    "wild": {1: 3.4, 2: 4.1, 3: 3.3, 4: 4.0, 5: 3.6},
    "equal": {1: 4.30, 2: 4.33, 3: 4.29, 4: 4.30, 5: 4.30},
}
JUDGED = ("sparse", "poor", "wild")


class MadeUp:
    baseline = "dense"

    def __init__(self, seeds=(1, 2, 3, 4, 5), lacking=(), more=()):
        self.seeds, self.lacking = seeds, lacking
        self.planned = {
            row: ("dense", "equal") if row in (*JUDGED, *more) else () for row in (*RUNS, *more)
        }

    def by_seed(self, row, _metric):
        return {
            seed: {"value": value, "status": "ok", "commit": "c"}
            for seed, value in RUNS.get(row, {}).items()
            if seed in self.seeds and (row, seed) not in self.lacking
        }


def said(judged):
    return {name: one.verdict("enough", "not enough") for name, one in judged.items()}


class ContrastsTest(unittest.TestCase):
    def test_differences_are_taken_within_a_seed(self):
        loss = contrasts.weighted(MadeUp(), contrasts.difference("sparse", "dense"))
        self.assertAlmostEqual(loss.value, 0.1)
        # Seeds move both rows by 0.01; the difference by 0.007.
        self.assertAlmostEqual(loss.sd, 0.00707, places=5)
        self.assertAlmostEqual(loss.high - 0.1, 2.776 * 0.00707 / 5**0.5, places=4)
        self.assertEqual((loss.unit, loss.seeds), ("nats/token", 5))
        judged = contrasts.of_experiment(MadeUp())["sparse"]
        # Equal reads lose 0.8 in the mean; a quarter of that is allowed.
        self.assertAlmostEqual(judged.contrast.value.value, 0.1 - 0.8 / 4, places=6)

    def test_verdicts_go_by_the_interval(self):
        found = contrasts.of_experiment(MadeUp())
        self.assertEqual(
            said(found), {"sparse": "enough", "poor": "not enough", "wild": "undecided"}
        )
        self.assertEqual([found[row].sign for row in JUDGED], [-1, 1, 0])
        wild = found["wild"].contrast
        self.assertGreater(contrasts.seeds_wanted(wild), wild.seeds)
        self.assertRegex(found["wild"].wanted(), r"^\d+ seeds would decide it")
        self.assertEqual(found["sparse"].wanted(), "")

    def test_several_contrasts_are_held_to_stricter_intervals(self):
        def made(name, p):
            value = exactly(-1, "nats/token")._replace(seeds=5, sd=1)
            return contrasts.Contrast(name, value, p)

        self.assertEqual(said(contrasts.judge([made("a", 0.04)])), {"a": "enough"})
        # 0.04 is above 0.05 / 2, and what comes behind an undecided one is undecided too.
        self.assertEqual(
            said(contrasts.judge([made("a", 0.04), made("b", 0.045)])),
            dict.fromkeys("ab", "undecided (95 % alone would decide)"),
        )
        self.assertEqual(
            said(contrasts.judge([made("a", 0.02), made("b", 0.045)])),
            {"a": "enough", "b": "enough"},
        )

    def test_what_was_named_and_is_not_trained_counts(self):
        p = contrasts.of_experiment(MadeUp())["sparse"].contrast.p
        # So many more that the first step's level falls below its p.
        more = tuple(f"later{n}" for n in range(int(contrasts.LEVEL / p) + 1))
        found = contrasts.of_experiment(MadeUp(more=more))
        self.assertEqual(found["sparse"].contrast.p, p)
        self.assertEqual(found["sparse"].sign, 0)
        self.assertEqual(found["later0"].verdict("enough", "not enough"), "no verdict: not trained")
        self.assertEqual(found["later0"].wanted(), "")
        self.assertIsNone(found["later0"].contrast.value)

    def test_one_seed_decides_nothing(self):
        self.assertIsNone(contrasts.paired([], []))
        alone = contrasts.paired([-0.1], [])
        self.assertEqual((alone.value, alone.low, alone.high), (-0.1, -math.inf, math.inf))
        self.assertEqual(alone.seeds, 1)
        found = contrasts.of_experiment(MadeUp(seeds=(1,)))
        self.assertEqual(set(said(found).values()), {"one seed: no verdict"})
        self.assertIn("one seed cannot say", found["sparse"].wanted())
        self.assertIsNone(contrasts.seeds_wanted(found["sparse"].contrast))

    def test_few_seeds_decide_so_far(self):
        found = said(contrasts.of_experiment(MadeUp(seeds=(1, 2, 3, 4))))
        self.assertEqual(found["poor"], "not enough so far")
        self.assertEqual(found["wild"], "undecided so far")

    def test_seeds_that_all_rows_have(self):
        unfinished = MadeUp(lacking=(("equal", 4), ("equal", 5)))
        self.assertEqual(contrasts.of_experiment(unfinished)["sparse"].contrast.seeds, 3)
        loss = contrasts.weighted(unfinished, contrasts.difference("sparse", "dense"))
        self.assertEqual(loss.seeds, 5)

    def test_no_difference_in_any_seed_is_none(self):
        alike = contrasts.Contrast("a", exactly(0.0, "1")._replace(seeds=5), 1.0)
        self.assertEqual(said(contrasts.judge([alike])), {"a": "undecided"})
        self.assertIsNone(contrasts.seeds_wanted(alike))
        self.assertEqual(contrasts._p(alike.value), 1.0)
        self.assertEqual(contrasts._p(exactly(0.5, "1")._replace(seeds=5)), 0.0)

    def test_what_lies_within_a_margin_is_alike(self):
        def made(name, value, sd, seeds=5):
            value = exactly(value, "nats/token")._replace(seeds=seeds, sd=sd)
            return contrasts.Contrast(name, value, contrasts._p(value))

        # Half-width: 2.776 sd / sqrt(5), which is 0.00745 of 0.006.
        near, wide = made("near", 0.002, 0.006), made("wide", 0.003, 0.006)
        self.assertEqual(said(contrasts.judge([near])), {"near": "undecided"})
        self.assertEqual(said(contrasts.judge([near], 0.01)), {"near": "alike"})
        self.assertEqual(said(contrasts.judge([wide], 0.01)), {"wide": "undecided"})
        # A second one that is not near asks for half of the p, as Holm has it.
        both = contrasts.judge([near, wide], 0.01)
        self.assertEqual(set(said(both).values()), {"undecided"})
        self.assertEqual((both["near"].is_decided, both["near"].near_level), (False, 0.025))
        # Surely above 0 and surely within the margin: it is no nothing.
        small = contrasts.judge([made("small", 0.003, 0.0001)], 0.01)
        self.assertEqual(said(small), {"small": "not enough"})
        few = contrasts.judge([made("few", 0.0, 0.001, seeds=3)], 0.01)
        self.assertEqual(said(few), {"few": "alike so far"})
        self.assertEqual(few["few"].wanted(), "")
        # No number of seeds tells it from 0; being alike takes as many as make the interval as wide as the margin.
        lost = contrasts.judge([made("lost", 0.0, 0.01)], 0.01)["lost"]
        self.assertIsNone(contrasts.seeds_wanted(lost.contrast))
        self.assertEqual(contrasts.seeds_wanted(lost.contrast, margin=0.01), 7)
        self.assertRegex(lost.wanted(), r"^7 seeds would decide it")
        self.assertIsNone(contrasts.seeds_wanted(made("far", 0.02, 0.001), margin=0.01))

    def test_the_undecided_are_held_to_what_the_decided_leave(self):
        found = contrasts.of_experiment(MadeUp())
        self.assertEqual(found["wild"].level, contrasts.LEVEL)
        wild = found["wild"].contrast
        both = contrasts.judge([wild, wild._replace(name="other")])
        self.assertEqual(both["other"].level, contrasts.LEVEL / 2)
        self.assertGreater(contrasts.seeds_wanted(wild, 0.04), contrasts.seeds_wanted(wild))

    def test_a_row_with_another_twin_is_judged_against_the_baseline_too(self):
        made = MadeUp()
        made.planned = {
            "dense": (),
            "sparse": ("dense", "equal"),
            "poor": ("wild", "equal"),
        }
        names = [one.name for one in contrasts.named(made)]
        self.assertEqual(names, ["sparse", "poor", ("poor", "dense")])
        beside = contrasts.of_experiment(made)["poor", "dense"].contrast.value
        self.assertAlmostEqual(beside.value, 0.5 - 0.8 / 4)
        made.planned = {"dense": (), "poor": ("wild", "equal")}
        self.assertEqual([one.name for one in contrasts.named(made)], ["poor"])

    def test_growth_is_the_slope_of_a_line(self):
        weights = contrasts.growth({"a": 1, "b": 2, "c": 4})
        self.assertAlmostEqual(sum(weights.values()), 0)
        rising = {"a": 3.0 + 0.5 * 1, "b": 3.0 + 0.5 * 2, "c": 3.0 + 0.5 * 4}
        self.assertAlmostEqual(sum(w * rising[row] for row, w in weights.items()), 0.5)


if __name__ == "__main__":
    unittest.main()
