"""The U test against all arrangements of small samples, and against published critical values."""

import itertools
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import rank_test


def by_all_splits(one, other):
    """The share of all splits of the values whose U is as far from the middle, or farther."""
    together, m, n = [*one, *other], len(one), len(other)
    middle = m * n / 2
    distance = abs(rank_test.u_statistic(one, other) - middle)
    splits = list(itertools.combinations(range(m + n), m))
    far = 0
    for split in splits:
        here = [together[i] for i in split]
        there = [together[i] for i in range(m + n) if i not in split]
        far += abs(rank_test.u_statistic(here, there) - middle) >= distance - 1e-9
    return far / len(splits)


def with_u(u, n=9):
    """Samples of n values each without ties, in which u pairs have the first's value larger."""
    other = [10.0 * i for i in range(n)]
    one = [-1.0 - i for i in range(n)]
    for i in range(n):
        passed = min(n, u)
        one[i] = 10.0 * passed - 5 + 0.1 * i if passed else one[i]
        u -= passed
    return one, other


class RankTest(unittest.TestCase):
    def test_exact_as_by_all_splits(self):
        draw = random.Random(1)
        for m, n in ((1, 4), (3, 3), (4, 5), (6, 4)):
            one = [draw.gauss(0, 1) for _ in range(m)]
            other = [draw.gauss(0.8, 1) for _ in range(n)]
            self.assertAlmostEqual(
                rank_test.p_value(one, other), by_all_splits(one, other), places=12
            )
            self.assertEqual(rank_test.p_value(one, other), rank_test.p_value(other, one))

    def test_critical_value_of_nine_repetitions(self):
        # Of two samples of 9, two-sided, 0.05: U = 17 is significant, 18 is not.
        for u, significant in ((0, True), (17, True), (18, False), (40, False)):
            one, other = with_u(u)
            self.assertEqual(rank_test.u_statistic(one, other), u)
            self.assertEqual(rank_test.p_value(one, other) < 0.05, significant, u)
        self.assertAlmostEqual(rank_test.p_value(*with_u(0)), 2 / 48620, places=12)

    def test_ties_go_by_the_normal_approximation(self):
        one, other = [1, 2, 2, 3, 3, 4, 5], [2, 3, 4, 4, 5, 6, 6]
        self.assertAlmostEqual(
            rank_test.p_value(one, other), by_all_splits(one, other), delta=0.015
        )
        self.assertEqual(rank_test.p_value([1.0] * 9, [1.0] * 9), 1.0)

    def test_long_samples_are_close_to_exact_ones(self):
        draw = random.Random(2)
        one = [draw.gauss(0, 1) for _ in range(50)]
        other = [draw.gauss(0.4, 1) for _ in range(50)]
        exact = rank_test.p_value(one, other)
        # One value more is beyond what is counted exactly.
        near = rank_test.p_value([*one, 0.0], other)
        self.assertLess(exact, 0.2)
        self.assertAlmostEqual(exact, near, delta=0.02)

    def test_the_interval_of_the_ratio_lacks_one_where_the_test_sees_a_difference(self):
        draw = random.Random(3)
        seen = set()
        for shift in (0, 0.02, 0.04, 0.06) * 10:
            one = [draw.gauss(1 + shift, 0.03) for _ in range(9)]
            other = [draw.gauss(1, 0.03) for _ in range(10)]
            value, low, high = rank_test.ratio(one, other)
            self.assertTrue(low <= value <= high)
            differs = rank_test.p_value(one, other) < rank_test.ALPHA
            self.assertEqual(differs, not low < 1 < high)
            seen.add(differs)
        self.assertEqual(seen, {True, False})
        self.assertEqual(rank_test.ratio([2.0] * 3, [1.0] * 3)[1:], (0.0, float("inf")))
        long = [draw.gauss(1, 0.03) for _ in range(60)]
        _, low, high = rank_test.ratio(long, [1.1 * x for x in long])
        self.assertTrue(low < 1 / 1.1 < high < 1)


if __name__ == "__main__":
    unittest.main()
