"""The sampling error of held-out text: paired over stretches, against brute force, apart from the interval over seeds."""

import math
import pathlib
import random
import statistics
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "plots"))
import contrasts  # noqa: E402
import held_out  # noqa: E402
from values import student  # noqa: E402

WEIGHTS = contrasts.difference("sparse", "dense")


class Curves:
    """{row: {seed: [(loss, tokens)]}} as an experiment."""

    def __init__(self, held):
        self.held = held

    def by_seed(self, row, _metric):
        return {
            seed: {
                "value": sum(loss for loss, _ in rows) / sum(tokens for _, tokens in rows),
                "status": "ok",
                "commit": "c",
                "samples": {"columns": ["loss", "tokens"], "rows": [list(one) for one in rows]},
            }
            for seed, rows in self.held.get(row, {}).items()
        }


def made(stretches=40, hard=1.0, own=0.02, seeds=(1, 2), rng=None):
    """Two rows on text whose stretches differ by `hard` nats a token, the rows' differences by `own`."""
    rng = rng or random.Random(7)
    level = [4 + hard * rng.gauss(0, 1) for _ in range(stretches)]
    apart = [0.1 + own * rng.gauss(0, 1) for _ in range(stretches)]
    return Curves(
        {
            "dense": {s: [(100 * one, 100) for one in level] for s in seeds},
            "sparse": {
                s: [(100 * (one + more), 100) for one, more in zip(level, apart)] for s in seeds
            },
        }
    )


class HeldOutTest(unittest.TestCase):
    def test_is_the_interval_of_a_mean_over_stretches(self):
        curves = made(stretches=20)
        found = held_out.over_text(curves, WEIGHTS)
        pairs = zip(*(curves.held[row][1] for row in ("sparse", "dense")))
        each = [(a - b) / 100 for (a, _), (b, _) in pairs]
        half = student(19) * statistics.stdev(each) / math.sqrt(20)
        self.assertAlmostEqual(found.value.value, statistics.fmean(each))
        self.assertAlmostEqual(found.value.high - found.value.value, half)
        self.assertEqual((found.stretches, found.tokens, found.value.seeds), (20, 2000, 2))
        over_seeds = contrasts.weighted(curves, WEIGHTS)
        self.assertAlmostEqual(over_seeds.value, found.value.value)

    def test_what_is_common_to_rows_does_not_count(self):
        easy, hard = (held_out.over_text(made(hard=spread), WEIGHTS) for spread in (0.01, 2.0))
        width = [one.value.high - one.value.low for one in (easy, hard)]
        self.assertAlmostEqual(*width, places=9)

    def test_covers_as_often_as_it_says(self):
        rng = random.Random(3)
        inside = 0
        for _ in range(400):
            value = held_out.over_text(made(rng=rng), WEIGHTS).value
            inside += value.low <= 0.1 <= value.high
        self.assertTrue(370 <= inside <= 393, inside)  # of 400, 95 % are 380

    def test_neighbours_are_joined(self):
        self.assertEqual(held_out._joined([1] * 60), [2] * 30)
        self.assertEqual(sum(held_out._joined([1] * 200)), 200)
        self.assertEqual(len(held_out._joined([1] * 200)), held_out.MOST)
        # Runs of stretches that are alike, as of one document, are one piece of news.
        alike = made(stretches=20).held
        apart = zip(*([loss for loss, _ in alike[row][1]] for row in ("sparse", "dense")))
        losses = [sparse - dense for sparse, dense in apart for _ in range(10)]
        _, taken_apart = held_out._of_stretches(losses, [100] * 200)
        _, joined = held_out._of_stretches(*map(held_out._joined, (losses, [100] * 200)))
        self.assertGreater(joined, 1.7 * taken_apart)

    def test_what_is_not_recorded_or_not_the_same_has_none(self):
        curves = made()
        self.assertIsNone(held_out.over_text(curves, contrasts.difference("sparse", "other")))
        other = made()
        other.held["dense"][2] = [(loss, 50) for loss, _ in other.held["dense"][2]]
        self.assertIsNone(held_out.over_text(other, WEIGHTS))
        one = made(stretches=1)
        self.assertIsNone(held_out.over_text(one, WEIGHTS))

        class Old(Curves):
            def by_seed(self, row, metric):
                found = super().by_seed(row, metric)
                return {s: {k: r[k] for k in r if k != "samples"} for s, r in found.items()}

        self.assertIsNone(held_out.over_text(Old(curves.held), WEIGHTS))

    def test_both_are_wider_than_either(self):
        text = held_out.over_text(made(), WEIGHTS).value
        seeds = text._replace(low=text.value - 0.03, high=text.value + 0.03)
        both = held_out.both(seeds, text)
        half = text.high - text.value
        self.assertAlmostEqual(both.high - both.value, math.hypot(0.03, half))
        self.assertAlmostEqual(both.value - both.low, math.hypot(0.03, half))


if __name__ == "__main__":
    unittest.main()
