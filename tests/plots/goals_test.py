"""Goals and their verdicts."""

import math
import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "plots")]

import decode  # noqa: E402
import goals  # noqa: E402
import make_report  # noqa: E402
import values  # noqa: E402
from made_up import TABLE1, TABLE6, ceilings, record, row  # noqa: E402
from sections import tables  # noqa: E402
from with_folder import WithFolder  # noqa: E402


class GoalsTest(WithFolder):
    def lines(self, items):
        return {(line[1], line[0].comparison): line for line in goals.judged(self.load(items))}

    def verdict(self, items, name, comparison=">="):
        return self.lines(items)[name, comparison][3]

    def test_met_missed_and_not_measured(self):
        name = "table1.800m.ff_qkv.token_speedup"
        self.assertEqual(self.verdict(TABLE6, name), "not measured")
        self.assertEqual(self.verdict(TABLE1, name), "met")  # 4 of 3
        slow = [
            dict(r, value=14.0) if (r["row"], r["metric"]) == ("ff_qkv", "token_ms") else r
            for r in TABLE1
        ]
        self.assertEqual(self.verdict(slow, name), "missed")  # 2.86

    def test_the_end_of_the_interval_decides(self):
        goal = goals.Goal("", ">=", 3.0, ())
        least = goals.Goal("", "<=", 3.0, ())
        sure, unsure = (values.Value(3.2, "x", low, 3.4, "ok", "c") for low in (3.1, 2.9))
        self.assertEqual([goals.verdict(goal, v) for v in (sure, unsure)], ["met", "missed"])
        self.assertEqual(
            goals.verdict(least, values.Value(2.8, "x", 2.7, 3.1, "ok", "c")), "missed"
        )

    def test_a_goal_may_be_about_the_interval_or_the_seeds(self):
        value = values.Value(0.1, "nats/token", 0.09, 0.12, "ok", "c", sd=0.02)._replace(seeds=5)
        for part, met, missed in ((goals.HALF, 0.015, 0.014), (goals.SD, 0.02, 0.019)):
            for bar, verdict in ((met, "met"), (missed, "missed")):
                goal = goals.Goal("", "<=", bar + 1e-9, (), part=part)
                self.assertEqual(goals.verdict(goal, value), verdict, (part, bar))
        self.assertAlmostEqual(goals.part(goal, value).value, 0.02)
        self.assertEqual(goals.verdict(goal, value._replace(seeds=2)), "missed so far")
        self.assertEqual(
            goals.verdict(goals.Goal("", "<=", 0.2, ()), value._replace(seeds=2)), "met so far"
        )
        one = value._replace(low=-math.inf, high=math.inf, seeds=1)
        self.assertEqual(goals.verdict(goal, one), "undecided, one seed")

    def test_a_goal_beyond_the_machines_limits_says_so(self):
        def value(number):
            return values.Value(number, "x", number, number, "ok", "c")

        found = {"r.block_speedup": value(20), "r.block_efficiency": value(0.8)}
        found["r.block_overlap_efficiency"] = value(0.5)
        for bar, is_out in ((39, False), (41, True)):
            words = goals.reach(goals.Goal("", ">=", bar, ()), "r.block_speedup", found)
            self.assertIn("at its floor it would be 25.0×, overlapped 40.0×", words)
            self.assertEqual("out of reach" in words, is_out)
        self.assertEqual(goals.reach(goals.Goal("", ">=", 1, ()), "r.token_speedup", found), "")

    def test_a_time_beyond_the_machines_limits_says_so(self):
        def value(number, unit="1"):
            return values.Value(number, unit, number, number, "ok", "c")

        found = {"r.token_ms": value(20, "ms"), "r.token_efficiency": value(0.8)}
        found["r.token_overlap_efficiency"] = value(0.5)
        for bar, is_out in ((11, False), (9, True)):
            words = goals.reach(goals.Goal("", "<=", bar, ()), "r.token_ms", found)
            self.assertIn("at its floor it would be 16.0 ms, overlapped 10.0 ms", words)
            self.assertEqual("out of reach" in words, is_out)

    def test_a_goal_for_fast_memory_is_not_asked_of_slower_one(self):
        goal = goals.Goal("", "<=", 10, (), gbps=45)

        def read(gbps):
            return values.Value(gbps, "GB/s", gbps, gbps, "ok", "c")

        self.assertTrue(goals.is_asked(goal, {}))
        self.assertTrue(goals.is_asked(goal, {goals.READ: read(45)}))
        self.assertFalse(goals.is_asked(goal, {goals.READ: read(44)}))
        slow = {goals.READ: read(60), goals.READ + goals.headline.SLOW: read(35)}
        self.assertTrue(goals.is_asked(goal, slow))
        self.assertFalse(goals.is_asked(goal, slow, goals.headline.SLOW))

    def test_what_has_no_interval_is_undecided(self):
        goal = goals.Goal("", ">=", 0.97, ())
        one = values.Value(1.07, "x", -math.inf, math.inf, "untrusted", "c")
        self.assertEqual(goals.verdict(goal, one), "undecided, no interval")
        self.assertEqual(goals.verdict(goal, one._replace(seeds=1)), "undecided, one seed")

    def test_a_verdict_is_to_be_one(self):
        goal = goals.Goal("", "!=", 0, ())
        for code, wanted in ((1, "met"), (-1, "met"), (0, "undecided")):
            value = values.Value(code, "1", code, code, "ok", "c")
            self.assertEqual(goals.verdict(goal, value), wanted)
        self.assertEqual(goals.verdict(goal, None), "not measured")
        self.assertEqual(goals.wanted(goal, "1"), "≠ 0")

    def test_to_be_decided_is_an_interval_that_leaves_the_bar_out(self):
        goal = goals.Goal("", "!=", 0, ())
        ends = {(0.01, 0.02): "met", (-0.02, -0.01): "met", (-0.01, 0.02): "undecided"}
        for (low, high), wanted in ends.items():
            value = values.Value((low + high) / 2, "1", low, high, "ok", "c", seeds=5)
            self.assertEqual(goals.verdict(goal, value), wanted)
            self.assertEqual(goals.verdict(goal, value._replace(seeds=3)), wanted + " so far")

    def test_a_doubted_figure_says_so_in_its_verdict(self):
        name = "table1.800m.ff_qkv.token_speedup"
        doubted = [
            dict(r, status="untrusted") if (r["row"], r["metric"]) == ("ff_qkv", "token_ms") else r
            for r in TABLE1
        ]
        self.assertEqual(self.verdict(doubted, name), "met but untrusted")

    def test_a_speed_up_between_two_bandwidths_is_doubted_its_share_is_not(self):
        def figures(rate):
            items = row("table1_800m", "baseline", 40.0, 4.0, 100, 3.6, **ceilings(50.0)) + row(
                "table1_800m", "ff_qkv", 10.0, 0.8, 20, 0.6, **ceilings(rate)
            )
            return decode.row_figures(self.load(items), "table1_800m", "ff_qkv", 2)

        for rate, status in ((52.0, "ok"), (80.0, "untrusted")):
            found = figures(rate)
            self.assertEqual(
                {found[n].status for n in ("token_speedup", "block_speedup", "roofline_limit")},
                {status},
            )
            self.assertEqual(found["share_of_roofline"].status, "ok")

    def test_rows_measured_long_after_their_baseline_or_again_say_so(self):
        def at(name, metric, value, date, **more):
            return record("table7", name, metric, value, date=date, **more)

        items = [
            at("baseline", "token_ms", 2.0, "2026-01-01T10:00:00Z"),
            at("s2", "token_ms", 1.0, "2026-01-01T10:20:00Z"),
            at("s4", "token_ms", 1.1, "2026-01-01T10:20:00Z"),
            at("s4", "token_ms", 1.0, "2026-01-01T11:00:00Z"),
        ]
        text = make_report.make(self.load(items))
        self.assertEqual(text.count("60 minutes apart from `baseline`"), 1)
        self.assertEqual(text.count("minutes apart"), 1)
        self.assertEqual(text.count("the last of 2 measurements by this code"), 1)

    def test_a_missed_time_tells_what_the_hardware_allows(self):
        name = "table6.ff_qkv_loss4.bf16"
        items = row(
            "table6_17b_bf16", "ff_qkv_loss4.bf16", 20.0, 2.0, 10, 1.25, **ceilings(24.0)
        ) + [
            record("table6_17b_bf16", "ff_qkv_loss4.bf16", metric, value, **ceilings(24.0))
            for metric, value in (("token_bytes", 3e8), ("token_flops", 3.2e9))
        ]
        self.assertEqual(self.verdict(items, f"{name}.token_ms", "<="), "missed")
        text = make_report.make(self.load(items, published=True))
        self.assertIn(
            f"| `{name}.token_ms` | 20.0 ms | ≤ 10 ms | **missed** | token 20.0 ms, "
            "floor 12.5 ms at 24.0 GB/s and 300 GFLOP/s for 300 MB and 3,200 MFLOP |",
            text,
        )

    def test_a_library_counts_at_equal_bandwidth_where_that_is_known(self):
        items = [
            record("peers_800m", "baseline", "block_ms", 2.0, **ceilings(40.0)),
            record("peers_800m", "eigen", "block_ms", 1.8, **ceilings(44.0)),
            record("peers_800m", "onednn", "block_ms", 1.8),
        ]
        name = "peers.800m.eigen.over_ours_at_equal_bandwidth"
        self.assertEqual(self.verdict(items, name), "met")  # 0.99
        self.assertEqual(self.verdict(items, "peers.800m.onednn.over_ours"), "missed")  # 0.90

    def test_differences_over_seeds_go_by_their_interval(self):
        goal = goals.Goal("", ">", 0, ())

        def verdict(value, half, seeds=5):
            made = values.Value(value, "1", value - half, value + half, "ok", "c", seeds=seeds)
            return goals.verdict(goal, made)

        self.assertEqual(
            [verdict(0.3, 0.1), verdict(0.1, 0.1), verdict(0.3, math.inf, 1), verdict(0, 0)],
            ["met", "missed", "undecided, one seed", "missed"],
        )

    def test_every_figure_of_a_table_is_one_of_its_config(self):
        known = set()
        for config in (ROOT / "experiments" / "configs" / "decode").glob("*.cfg"):
            text = config.read_text()
            prefix = re.search(r"^id = (\S+)", text, re.MULTILINE)
            known |= {
                f"{prefix[1]}.{name}.{ending}"
                for name in re.findall(r"^row = ([^:\s]+)", text, re.MULTILINE)
                for ending in tables.ENDINGS
                if prefix
            }
        named = [
            name
            for goal in goals.GOALS
            for name in goal.ids
            if name.startswith("table")
            and not name.startswith(("table3", "table4", "table5.memory", "table5.sumpubmed"))
        ]
        self.assertGreater(len(named), 20)
        self.assertEqual([name for name in named if name not in known], [])


if __name__ == "__main__":
    unittest.main()
