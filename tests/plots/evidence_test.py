"""States from reads, pairs of rounds, intervals of blocks."""

import pathlib
import random
import statistics
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "plots"))
import evidence


def decode(number, at, read, token_ms):
    return evidence.Decode("turns", number, at, read, {"token_ms": token_ms})


class States(unittest.TestCase):
    def setUp(self):
        self.draw = random.Random(7)

    def test_two_heaps_are_two_states_however_uneven(self):
        for slow in (0.05, 0.5, 0.95):
            reads = [
                self.draw.gauss(*((50, 1.5) if self.draw.random() < slow else (75, 2)))
                for _ in range(400)
            ]
            states = evidence.states_of(reads)
            self.assertTrue(55 < states.border < 70, states)
            self.assertEqual((states.name(51), states.name(74)), ("slow", "fast"))
            self.assertAlmostEqual(states.shares["slow"], slow, delta=0.06)
            self.assertAlmostEqual(states.centres["fast"], 75, delta=2)

    def test_one_heap_is_one_state_whatever_its_width(self):
        for width in (0.2, 2, 8):
            reads = [max(5, self.draw.gauss(60, width)) for _ in range(400)]
            self.assertIsNone(evidence.states_of(reads).border, width)
        even = [self.draw.uniform(40, 80) for _ in range(400)]
        self.assertEqual(evidence.states_of(even).name(41), "only")

    def test_a_few_odd_readings_make_no_state(self):
        reads = [self.draw.gauss(60, 1) for _ in range(400)] + [20.0, 21.0, 20.5]
        self.assertIsNone(evidence.states_of(reads).border)
        self.assertIsNone(evidence.states_of([60.0]).border)

    def test_heaps_that_hardly_differ_are_one_state(self):
        reads = [60 + self.draw.uniform(0, 0.1) + 5 * (i % 2) for i in range(400)]
        self.assertIsNone(evidence.states_of(reads).border)


class Pairs(unittest.TestCase):
    def setUp(self):
        draw = random.Random(3)
        self.above, self.below = [], []
        for number in range(200):
            # The machine gets slower and faster; both rows of a round meet it alike.
            fast = number // 25 % 2 == 0
            mood = draw.uniform(1, 2)
            read = draw.gauss(75 if fast else 50, 1)
            self.above.append(decode(number, 2.0 * number, read, (8 if fast else 12) * mood))
            self.below.append(
                decode(number, 2.0 * number + 1, read, 2 * mood * draw.gauss(1, 0.02))
            )
        self.states = evidence.states_of([d.read for d in self.above + self.below])

    def test_ratios_of_a_round_lose_what_both_rows_suffered(self):
        for name, expected in (("fast", 4), ("slow", 6)):
            found = evidence.paired(self.above, self.below, "token_ms", (self.states, name))
            self.assertAlmostEqual(found.value, expected, delta=0.05)
            self.assertTrue(found.low <= found.value <= found.high, found)
            self.assertTrue((found.high - found.low) / found.value < 0.03, found)
            self.assertEqual(found.rounds, 100)

    def test_rounds_of_one_row_only_do_not_count(self):
        found = evidence.paired(self.above, self.below[50:], "token_ms")
        self.assertEqual(found.rounds, 150)
        self.assertIsNone(evidence.paired(self.above, [], "token_ms"))

    def test_rounds_of_different_turns_are_no_pairs(self):
        others = [d._replace(group="other turns") for d in self.below]
        self.assertIsNone(evidence.paired(self.above, others, "token_ms"))

    def test_a_pair_across_two_states_does_not_count(self):
        half = [d._replace(read=75.0) for d in self.below]
        found = evidence.paired(self.above, half, "token_ms", (self.states, "slow"))
        self.assertIsNone(found)

    def test_few_blocks_give_the_whole_range(self):
        found = evidence.paired(self.above[:12], self.below[:12], "token_ms")
        self.assertLess(found.blocks, evidence.FEWEST_BLOCKS)
        ratios = [
            a.values["token_ms"] / b.values["token_ms"] for a, b in zip(self.above, self.below)
        ][:12]
        self.assertEqual((found.low, found.high), (min(ratios), max(ratios)))
        self.assertEqual(found.value, statistics.median(ratios))

    def test_the_interval_covers_as_often_as_it_says(self):
        # Moods of 5 s: single rounds resampled would be sure of too much.
        covered = 0
        for trial in range(40):
            draw = random.Random(100 + trial)
            rounds, mood = [], 0.0
            for number in range(300):
                if number % 5 == 0:
                    mood = draw.gauss(0, 1)
                rounds.append((1.0 * number, 10 + mood + draw.gauss(0, 0.2)))
            found = evidence.interval(rounds)
            covered += found.low <= 10 <= found.high
        self.assertGreaterEqual(covered, 34)


class Recomputed(unittest.TestCase):
    def test_decodes_are_read_from_the_closing_record(self):
        record = {
            "samples": {
                "columns": ["round", "at_s", "state_read_gbps", "token_ms"],
                "rows": [[0, 0.5, 51.0, 3.0], [2, 4.5, 52.0, 5.0], [3, 6.0, 51.5, 4.0]],
            }
        }
        found = evidence.decodes_of(record)
        self.assertEqual([d.round for d in found], [0, 2, 3])
        self.assertEqual(evidence.alone(found, "token_ms").value, 4.0)
        self.assertEqual(evidence.decodes_of({}), [])


if __name__ == "__main__":
    unittest.main()
