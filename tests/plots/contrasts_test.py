"""Paired contrasts: intervals against printed tables, Holm's steps, verdicts of made-up curves."""

import math
import pathlib
import sys
import unittest
from types import SimpleNamespace

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "plots"))
import contrasts  # noqa: E402

RUNS = {
    "dense": {1: 3.50, 2: 3.52, 3: 3.49, 4: 3.51, 5: 3.50},
    # Loses 0.10 of the 0.80 that equal reads lose, a little more or less from seed to seed.
    "sparse": {1: 3.61, 2: 3.62, 3: 3.58, 4: 3.61, 5: 3.60},
    "poor": {1: 4.01, 2: 4.02, 3: 3.98, 4: 4.01, 5: 4.00},
    "wild": {1: 3.4, 2: 4.1, 3: 3.3, 4: 4.0, 5: 3.6},
    "equal": {1: 4.30, 2: 4.33, 3: 4.29, 4: 4.30, 5: 4.30},
}


class MadeUp:
    rows = list(RUNS)

    def setting(self, row, knob):
        named = {"twin": "dense", "equal_reads": "equal"}
        return named[knob] if row in ("sparse", "poor", "wild") else ""

    def by_seed(self, row, _metric):
        return {
            seed: {"value": value, "status": "ok", "commit": "c"}
            for seed, value in RUNS[row].items()
        }


class ContrastsTest(unittest.TestCase):
    def test_quantiles_are_those_of_printed_tables(self):
        for p, freedom, wanted in (
            (0.05, 1, 12.706),
            (0.05, 2, 4.303),
            (0.05, 4, 2.776),
            (0.01, 4, 4.604),
            (0.05, 30, 2.042),
        ):
            self.assertAlmostEqual(contrasts.quantile(p, freedom), wanted, places=3)
        self.assertAlmostEqual(contrasts.two_sided_p(2.776, 4), 0.05, places=4)
        self.assertAlmostEqual(contrasts.two_sided_p(-1.0, 1), 0.5)

    def test_differences_are_taken_within_a_seed(self):
        sparse = contrasts.of_experiment(MadeUp())[0]
        self.assertAlmostEqual(sparse.against_twin.value, 0.1)
        # Seeds move both rows by 0.01; the difference by 0.007.
        self.assertAlmostEqual(sparse.against_twin.sd, 0.00707, places=5)
        self.assertAlmostEqual(sparse.against_twin.high - 0.1, 2.776 * 0.00707 / 5**0.5, places=4)
        self.assertAlmostEqual(sparse.judged.value, 0.1 - 0.8 / 4, places=6)

    def test_verdicts_go_by_the_interval(self):
        found = contrasts.of_experiment(MadeUp())
        self.assertEqual(
            contrasts.verdicts(found),
            {"sparse": "enough", "poor": "not enough", "wild": "undecided"},
        )
        wild = found[2]
        self.assertGreater(contrasts.seeds_wanted(wild), wild.seeds)
        self.assertLessEqual(contrasts.seeds_wanted(found[0]), 5)

    def test_several_contrasts_are_held_to_stricter_intervals(self):
        def made(row, p):
            return contrasts.Contrast(row, "", "", None, SimpleNamespace(value=-1), p, 5)

        self.assertEqual(contrasts.verdicts([made("a", 0.04)]), {"a": "enough"})
        # 0.04 is above 0.05 / 2, and what comes behind an undecided one is undecided too.
        self.assertEqual(
            contrasts.verdicts([made("a", 0.04), made("b", 0.045)]),
            {"a": "undecided", "b": "undecided"},
        )
        self.assertEqual(
            contrasts.verdicts([made("a", 0.02), made("b", 0.045)]), {"a": "enough", "b": "enough"}
        )

    def test_one_seed_decides_nothing(self):
        self.assertIsNone(contrasts.paired([], []))
        alone = contrasts.paired([-0.1], [])
        self.assertEqual((alone.value, alone.low, alone.high), (-0.1, -math.inf, math.inf))
        self.assertEqual(alone.seeds, 1)

        class OneSeed(MadeUp):
            def by_seed(self, row, metric):
                return {1: super().by_seed(row, metric)[1]}

        found = contrasts.of_experiment(OneSeed())
        self.assertEqual(set(contrasts.verdicts(found).values()), {"undecided"})
        self.assertIsNone(contrasts.seeds_wanted(found[0]))

    def test_seeds_that_all_rows_have(self):
        class Unfinished(MadeUp):
            def by_seed(self, row, metric):
                found = super().by_seed(row, metric)
                return {seed: found[seed] for seed in found if row != "equal" or seed < 4}

        sparse = contrasts.of_experiment(Unfinished())[0]
        self.assertEqual((sparse.seeds, sparse.against_twin.seeds), (3, 5))

    def test_the_undecided_are_held_to_what_the_decided_leave(self):
        found = contrasts.of_experiment(MadeUp())
        self.assertEqual(contrasts.level_of_undecided(found), contrasts.LEVEL)
        wild = found[2]
        other = wild._replace(row="other")
        self.assertEqual(contrasts.level_of_undecided([wild, other]), contrasts.LEVEL / 2)
        self.assertGreater(contrasts.seeds_wanted(wild, 0.04), contrasts.seeds_wanted(wild))


if __name__ == "__main__":
    unittest.main()
