"""Tests of what is recorded of training steps timed in turn."""

import statistics
import unittest

import compare_training


class Summary(unittest.TestCase):
    def test_low_and_high_are_the_quartiles_that_records_hold(self):
        found = compare_training.summary([{"value": v} for v in (5.0, 1.0, 2.0, 4.0, 3.0)])
        self.assertEqual((found["value"], found["low"], found["high"]), (3.0, 2.0, 4.0))
        self.assertEqual((found["spread"], found["repeats"]), (1.0, 5))

    def test_one_round_has_no_spread(self):
        found = compare_training.summary([{"value": 2.0}])
        self.assertEqual((found["low"], found["high"], found["spread"]), (2.0, 2.0, 0.0))
        self.assertEqual(found["value"], statistics.median([2.0]))


if __name__ == "__main__":
    unittest.main()
