"""States from reads, pairs of rounds, intervals of blocks."""

import pathlib
import random
import statistics
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "plots"))
import evidence
import legacy


def decode(number, at, read, token_ms):
    return evidence.Decode("turns", number, at, read, {"token_ms": token_ms}, read)


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

    def test_odd_readings_hide_no_state(self):
        reads = [self.draw.gauss(50, 1.5) for _ in range(400)]
        reads += [self.draw.gauss(80, 2.5) for _ in range(550)]
        reads += [self.draw.uniform(2, 35) for _ in range(30)]
        states = evidence.states_of(reads)
        self.assertTrue(55 < states.border < 73, states)
        self.assertAlmostEqual(states.shares["fast"], 0.56, delta=0.01)

    def test_heaps_that_hardly_differ_are_one_state(self):
        reads = [60 + self.draw.uniform(0, 0.1) + 5 * (i % 2) for i in range(400)]
        self.assertIsNone(evidence.states_of(reads).border)

    def test_a_reading_is_of_the_state_whose_decodes_had_such_reads(self):
        reads = [30.0] * 100 + [60.0] * 100 + [90.0]  # one odd read in a hundred makes no range
        states = evidence.states_of(reads)
        for read, name in ((31, "slow"), (62, "fast"), (58, "fast"), (45, ""), (90, ""), (25, "")):
            self.assertEqual(states.of_reading(read), name, read)
        only = evidence.states_of([50.0, 51.0, 52.0])
        self.assertEqual([only.of_reading(read) for read in (48, 54, 30)], ["only", "only", ""])

    def test_a_heap_with_a_tail_is_one_state(self):
        reads = [self.draw.gauss(60, 0.3) for _ in range(368)]
        reads += [self.draw.uniform(42, 59) for _ in range(32)]
        self.assertIsNone(evidence.states_of(reads).border)
        for times in (1, 10):
            reads = [self.draw.gauss(60, 0.5) for _ in range(340 * times)]
            reads += [60 - self.draw.expovariate(0.15) for _ in range(60 * times)]
            self.assertIsNone(evidence.states_of([max(r, 20) for r in reads]).border, times)

    def test_a_state_with_a_tail_towards_another_is_one_of_two(self):
        slow = [self.draw.gauss(36, 1.5) for _ in range(300)]
        fast = [max(44, 64 - abs(self.draw.gauss(0, 8))) for _ in range(500)]
        states = evidence.states_of(slow + fast)
        self.assertTrue(40 < states.border < 45, states)
        self.assertAlmostEqual(states.shares["slow"], 3 / 8, delta=0.01)


class Blocks(unittest.TestCase):
    def test_are_of_ten_seconds_at_least_and_keep_every_round(self):
        for seconds, lengths in ((20, [5, 5]), (26, [5, 8]), (30, [5, 5, 5]), (6, [3])):
            rounds = [(2.0 * n, n) for n in range(seconds // 2)]
            blocks = evidence.blocks_of(rounds)
            self.assertEqual([len(block) for block in blocks], lengths)
            self.assertEqual(sum(blocks, []), [n for _, n in rounds])

    def test_groups_have_blocks_of_their_own(self):
        decodes = [
            evidence.Decode(group, n, 2.0 * n, 60.0, {"token_ms": 1.0})
            for group in ("first", "second")
            for n in range(7)  # 14 s, of which a second block would have 4
        ]
        self.assertEqual(evidence.alone(decodes, "token_ms").blocks, 2)

    def test_few_blocks_are_less_sure_than_as_many_again(self):
        few = [[10.0 + n, 10.5 + n] for n in range(5)]
        widths = [(r := evidence.interval(few * times)).high - r.low for times in (1, 4)]
        self.assertGreater(widths[0], 1.5 * widths[1])
        found = evidence.interval(few)
        self.assertTrue(10.0 <= found.low < found.value < found.high <= 14.5, found)

    def test_intervals_of_few_blocks_cover_as_often_as_they_say(self):
        for blocks in (3, 4, 6):
            covered, trials = 0, 300
            for trial in range(trials):
                draw = random.Random(trial)
                moods = [draw.gauss(30, 1) for _ in range(blocks)]
                found = evidence.interval(
                    [[m + draw.gauss(0, 0.3) for _ in range(8)] for m in moods]
                )
                covered += found.low <= 30 <= found.high
            self.assertGreaterEqual(covered / trials, 0.92, blocks)  # resampled, of 6: 0.90


class Apart(unittest.TestCase):
    def test_a_ratio_of_two_alone_has_the_interval_of_both(self):
        above = evidence.Ratio(10.0, 9.0, 11.0, 40, 8)
        below = evidence.Ratio(2.0, 1.9, 2.1, 30, 6)
        found = evidence.apart(above, below)
        self.assertEqual((found.value, found.rounds, found.blocks), (5.0, 30, 6))
        self.assertTrue(found.high > 5 * 1.1 and found.low < 5 / 1.1, found)
        self.assertLess(found.high, 11 / 1.9)  # the two are independent
        self.assertIsNone(evidence.apart(None, below))


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

    def test_a_slow_read_that_the_rows_own_reads_deny_is_of_no_state(self):
        slow = next(n for n, d in enumerate(self.above) if self.states.name(d.read) == "slow")
        # GB/s over the row's own bytes, and what memory gave of that at least.
        for own, rounds in (((75.0, 74.0), 99), ((75.0, 52.0), 100), ((50.0, 49.0), 100)):
            above = list(self.above)
            above[slow] = above[slow]._replace(own=own)
            found = evidence.paired(above, self.below, "token_ms", (self.states, "slow"))
            self.assertEqual(found.rounds, rounds, own)
        above[0] = above[0]._replace(own=(50.0, 50.0))  # nor is a fast one
        found = evidence.paired(above, self.below, "token_ms", (self.states, "fast"))
        self.assertEqual(found.rounds, 99)

    def test_a_decode_during_which_the_state_changed_is_of_none(self):
        for before in (50.0, None):  # slow, or nobody knows
            above = list(self.above)
            above[3] = above[3]._replace(before=before, values={"token_ms": 1e3})
            found = evidence.paired(above, self.below, "token_ms", (self.states, "fast"))
            self.assertEqual(found.rounds, 99)
            self.assertLess(evidence.alone(above, "token_ms", (self.states, "fast")).high, 17)

    def test_every_long_token_counts_over_its_round_of_the_other_row(self):
        tokens = [
            d._replace(at=d.at + 0.1 * n, values={"token_ms": d.values["token_ms"] * factor})
            for d in self.above
            for n, factor in enumerate((0.99, 1.0, 1.01))
        ]
        tokens[0] = tokens[0]._replace(read=50.0)  # memory changed; the two that follow still count
        for above, below, expected in (
            (tokens, self.below, 4),
            (self.below, tokens, 1 / 4),
        ):
            found = evidence.paired(above, below, "token_ms", (self.states, "fast"))
            self.assertEqual(found.rounds, 299)
            self.assertAlmostEqual(found.value / expected, 1, delta=0.02)

    def test_a_pair_across_two_states_does_not_count(self):
        half = [d._replace(read=75.0, before=75.0) for d in self.below]
        found = evidence.paired(self.above, half, "token_ms", (self.states, "slow"))
        self.assertIsNone(found)

    def test_few_blocks_give_the_whole_range(self):
        found = evidence.paired(self.above[:10], self.below[:10], "token_ms")
        self.assertLess(found.blocks, evidence.FEWEST_BLOCKS)
        ratios = [
            a.values["token_ms"] / b.values["token_ms"] for a, b in zip(self.above, self.below)
        ][:10]
        self.assertEqual((found.low, found.high), (min(ratios), max(ratios)))
        self.assertEqual(found.value, statistics.median(ratios))

    def test_the_interval_covers_as_often_as_it_says(self):
        # Moods of 5 s: single rounds resampled would be sure of too much.
        covered = 0
        for trial in range(200):
            draw = random.Random(100 + trial)
            rounds, mood = [], 0.0
            for number in range(300):
                if number % 5 == 0:
                    mood = draw.gauss(0, 1)
                rounds.append((1.0 * number, 10 + mood + draw.gauss(0, 0.2)))
            found = evidence.interval(evidence.blocks_of(rounds))
            covered += found.low <= 10 <= found.high
        self.assertGreaterEqual(covered, 181)  # of 190 that are expected; three deviations are 9


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

    def test_the_read_before_an_older_decode_is_the_one_after_the_decode_before_it(self):
        def record(row, group, rows, *more):
            columns = ["round", "at_s", "state_read_gbps", *more]
            return {
                "experiment": "table",
                "row": row,
                "samples": {"group": group, "columns": columns, "rows": rows},
            }

        records = [
            record("a", "turns", [[0, 2.0, 51.0], [1, 5.0, 75.0]]),
            record("b", "turns", [[0, 1.0, 52.0], [1, 7.0, 50.0]]),
            record("a", "other turns", [[0, 3.0, 20.0]]),
            record("c", "turns", [[0, 4.0, 60.0, 30.0]], "read_before_gbps"),
            {"experiment": "table", "row": "without"},
        ]
        legacy.fill_reads_before(records)
        befores = [[d.before for d in evidence.decodes_of(record)] for record in records]
        self.assertEqual(befores, [[52.0, 51.0], [None, 75.0], [None], [30.0], []])


class Floors(unittest.TestCase):
    # (bytes, FLOPs, how many): bound by memory, by arithmetic, and near where one turns into the other.
    PHASES = ((8e6, 1e6, 3), (1e5, 5e6, 2), (1e6, 1.2e7, 1))

    def decodes(self, ratios, overlapping=False):
        """At ceilings of so many FLOPs a byte."""
        draw = random.Random(5)
        found = []
        for ratio in ratios:
            read = draw.uniform(30, 60)
            floor = evidence.floor_of(self.PHASES, overlapping, read, ratio * read)
            values = {"read_gbps": read, "fma_gflops": ratio * read, "floor_ms": floor}
            found.append(evidence.Decode("turns", 0, 0.0, 50.0, values))
        return found

    def test_a_floor_is_the_sum_of_its_phases(self):
        # 3 x 0.16 + 2 x 0.01 + 0.024 ms at 50 GB/s and 500 GFLOP/s; 25.2 MB together.
        self.assertAlmostEqual(evidence.floor_of(self.PHASES, False, 50, 500), 0.524)
        self.assertAlmostEqual(evidence.floor_of(self.PHASES, True, 50, 500), 0.504)

    def test_a_floor_at_other_rates_comes_from_decodes_at_their_own(self):
        decodes = self.decodes((8, 9.7, 10.1, 11, 13, 16, 19))
        for ratio in (8.5, 11.9, 12.1, 15, 19):  # between two that lie on one line
            wanted = evidence.floor_of(self.PHASES, False, 40, 40 * ratio)
            found = evidence.floor_at(decodes, "floor_ms", 40, 40 * ratio)
            self.assertAlmostEqual(found / wanted, 1, delta=2e-3)
        # Beyond them along their line: all phases stay bound as they are.
        for ratio in (14, 30):
            wanted = evidence.floor_of(self.PHASES, False, 40, 40 * ratio)
            found = evidence.floor_at(self.decodes((20, 21, 22)), "floor_ms", 40, 40 * ratio)
            self.assertAlmostEqual(found / wanted, 1, delta=1e-6)

    def test_decodes_alike_say_nothing_of_other_rates(self):
        self.assertIsNone(evidence.floor_at(self.decodes((12, 12.001)), "floor_ms", 40, 480))
        self.assertIsNone(evidence.floor_at([], "floor_ms", 40, 480))
        lacking = [decode("", 0, 50, 1.0)._replace(values={"floor_ms": 1.0})]
        self.assertIsNone(evidence.floor_at(lacking, "floor_ms", 40, 480))


if __name__ == "__main__":
    unittest.main()
