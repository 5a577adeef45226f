"""What plots/ derives from records, by hand: ratios, intervals, who divides a speed-up."""

import math
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import contrasts  # noqa: E402
import decode  # noqa: E402
import make_report  # noqa: E402
import records as rec  # noqa: E402
import summarise  # noqa: E402
import values  # noqa: E402
from made_up import TABLE1, TABLE6, ceilings, record, row  # noqa: E402
from sections import context_sweep, machine, peers, width_sweep  # noqa: E402
from with_folder import WithFolder  # noqa: E402


class DeriveTest(WithFolder):
    def figures(self, items, row_name="ff_qkv"):
        return decode.row_figures(self.load(items), "table1_800m", row_name, 2)

    def test_ratios_by_hand(self):
        f = self.figures(TABLE1)
        for name, value in (
            ("token_speedup", 4),
            ("block_speedup", 5),
            ("reads_limit", 5),
            ("block_reads_limit", 5),
            ("roofline_limit", 6),
            ("token_roofline_limit", 6),
            ("share_of_roofline", 5 / 6),
            ("token_share_of_roofline", 4 / 6),
        ):
            self.assertAlmostEqual(f[name].value, value, msg=name)

    def test_relative_uncertainties_add_in_quadrature(self):
        above = values.Value(10.0, "ms", 10 / 1.03, 10.3, "ok", "a")
        below = values.Value(2.0, "ms", 2 / 1.04, 2.08, "untrusted", "b")
        r = values.ratio(above, below)
        self.assertAlmostEqual(r.value, 5)
        self.assertAlmostEqual(r.high, 5 * 1.05)
        self.assertAlmostEqual(r.low, 5 / 1.05)
        self.assertEqual((r.status, r.commit), ("untrusted", "a+b"))
        again = values.product(r, below._replace(unit="ms"))
        self.assertAlmostEqual(again.value, 10)
        self.assertAlmostEqual(again.high, 10 * (1 + math.hypot(0.05, 0.04)))
        # An interval that holds 0 bounds no ratio.
        self.assertEqual(values.ratio(above, below._replace(low=-1.0)).high, math.inf)

    def test_intervals_of_records_by_their_quartiles(self):
        few = record("t", "r", "m", 10.0, spread=1.0, repeats=1, unit="B")
        many = record("t", "r", "m", 10.0, spread=1.0, repeats=100)
        self.assertEqual((values.of_record(few).low, values.of_record(few).high), (10, 10))
        # Of what was timed once nothing is known, of what was counted once all.
        once = values.of_record(dict(few, unit="ms"))
        self.assertEqual((once.low, once.high), (-math.inf, math.inf))
        self.assertAlmostEqual(values.of_record(many).high - 10, 1.57 * 2 / 10)

    def test_the_mean_of_seeds_has_students_interval(self):
        seeds = [record("t", "r", "m", v) for v in (1.0, 2.0, 3.0)]
        value = values.over_seeds(seeds)
        self.assertEqual((value.value, value.sd), (2.0, 1.0))
        self.assertAlmostEqual(value.high - 2, 4.3027 / math.sqrt(3), places=4)
        self.assertEqual(value.seeds, 3)
        # Of one seed nothing is known of others, which is no interval of no width.
        alone = values.over_seeds(seeds[:1])
        self.assertEqual((alone.value, alone.low, alone.high), (1.0, -math.inf, math.inf))

    def test_quantiles_are_those_of_printed_tables(self):
        for p, freedom, wanted in (
            (0.05, 1, 12.706),
            (0.05, 2, 4.303),
            (0.05, 4, 2.776),
            (0.01, 4, 4.604),
            (0.05, 30, 2.042),
            (0.05, math.inf, 1.960),
        ):
            self.assertAlmostEqual(values.student(freedom, p), wanted, places=3)
        self.assertAlmostEqual(values.two_sided_p(2.776, 4), 0.05, places=4)
        self.assertAlmostEqual(values.two_sided_p(-1.0, 1), 0.5)

    def test_the_same_numbers_have_one_interval(self):
        records = [record("a", "b", "ms", value) for value in (1.0, 2.0, 4.0)]
        mean, paired = values.over_seeds(records), contrasts.paired([1.0, 2.0, 4.0], [])
        self.assertEqual((mean.low, mean.high), (paired.low, paired.high))

    def test_status_is_the_worst(self):
        items = [dict(r, status="extrapolated") if r["metric"] == "token_ms" else r for r in TABLE1]
        f = self.figures(items)
        self.assertEqual(f["token_speedup"].status, "extrapolated")
        self.assertEqual(f["block_speedup"].status, "ok")

    def test_faster_peer_beside_our_dense_counts_by_ratio(self):
        # Measured when memory was twice as fast: ours 2.0 there and 4.0 here, so 1.5 becomes 3.0.
        others = [
            record("peers_800m", "baseline", "block_ms", 2.0),
            record("peers_800m", "onednn", "block_ms", 1.8),
            record("peers_800m", "onednn_own", "block_ms", 1.5),
        ]
        f = self.figures(TABLE1 + others)
        self.assertAlmostEqual(f["block_speedup"].value, 3.0 / 0.8)
        self.assertAlmostEqual(f["token_speedup"].value, 4)
        records = rec.Records(self.folder)
        self.assertEqual(
            decode.dense_reference(records, "table1_800m", "baseline", 2, "block_ms")[1], "onednn"
        )
        self.assertEqual(peers.peer(records, "800m", "onednn", 2)["value"], 1.5)

    def test_peer_alone_counts_by_time_but_not_if_slower_untrusted_or_other_weights(self):
        self.assertAlmostEqual(
            self.figures(TABLE1 + [record("peers_python", "800m.jax", "block_ms", 3.2)])[
                "block_speedup"
            ].value,
            4,
        )
        for bad in (
            record("peers_python", "800m.jax", "block_ms", 9.0),
            record("peers_python", "800m.jax", "block_ms", 1.0, status="untrusted"),
            record("peers_python", "800m.jax.ff_qkv_cross", "block_ms", 1.0),
            record("peers_python", "17b.jax", "block_ms", 1.0),
            record("peers_python", "800m.jax", "block_ms", 1.0, config={"weight_type": "bf16"}),
        ):
            self.assertAlmostEqual(self.figures(TABLE1 + [bad])["block_speedup"].value, 5, msg=bad)

    def test_the_fastest_dense_of_a_weight_type_divides_and_narrower_ones_never_do(self):
        bf16 = [
            record("table1_800m_bf16", f"{name}.bf16", "block_ms", value, against="baseline.bf16")
            for name, value in (("baseline", 2.0), ("ff_qkv", 0.5))
        ]
        for r in bf16:
            r["config"] = {**r["config"], "weight_type": "bf16"}
        theirs = [
            record("peers_python", f"800m.{name}", "block_ms", value, config={"weight_type": kind})
            for name, kind, value in (
                ("mkl", "f32", 3.6),
                ("ggml", "f32", 3.2),
                ("onednn_current.bf16", "bf16", 1.5),
                ("ggml.bf16", "bf16", 1.8),
                ("ggml.q8_0", "q8_0", 1.0),
                ("ggml.q4_0", "q4_0", 0.25),
            )
        ]
        records = self.load(TABLE1 + bf16 + theirs)
        for table, row_of, value, whose in (
            ("table1_800m", "baseline", 3.2, "ggml"),
            ("table1_800m_bf16", "baseline.bf16", 1.5, "onednn_current"),
        ):
            found = decode.dense_reference(records, table, row_of, 2, "block_ms")
            self.assertEqual((found[0].value, found[1]), (value, whose))
        found = summarise.summary(records)
        for name, value in (
            ("table1.800m.ff_qkv.block_speedup", 3.2 / 0.8),
            ("table1.800m.ff_qkv.bf16.block_speedup", 1.5 / 0.5),
            ("peers.800m.mkl.over_ours", 0.9),
            ("peers.800m.ggml.bf16.over_ours", 0.9),
            ("peers.800m.ggml.q4_0.over_ours", 0.125),  # over our bf16
            ("peers.800m.ggml.q4_0.block_ms", 0.25),
        ):
            self.assertAlmostEqual(found[name]["value"], value, msg=name)
        text = make_report.make(records)
        self.assertIn("| 800m dense, ggml | 3.20 | 4.00 | 0.800 |", text)
        self.assertIn("| 800m dense bf16, onednn_current | 1.50 | 2.00 | 0.750 |", text)
        self.assertRegex(text, r"\| 800m dense q4_0, ggml\[\d+\] \| 0.250 \| 2.00 \| 0.125 \|")
        self.assertIn("a yardstick beside our bf16 block", text)

    def test_a_peer_alone_counts_at_equal_bandwidth_where_both_are_known(self):
        ours = [{**r, **ceilings(30.0)} for r in TABLE1]
        # 3.2 ms at 40 GB/s would be 4.27 ms at ours: no faster than our 4.0.
        for bandwidth, expected in ((40.0, 5), (20.0, 4 * 3.2 / 4 * 20 / 30 / 0.8)):
            peer = record("peers_python", "800m.jax", "block_ms", 3.2, **ceilings(bandwidth))
            self.assertAlmostEqual(self.figures(ours + [peer])["block_speedup"].value, expected)

    def test_a_terraformer_takes_peers_by_ratio_only(self):
        alone = [record("peers_python", "17b.jax", "block_ms", 30.0, config={"shape": "17b"})]
        beside = [
            record("peers_17b", "baseline", "block_ms", 50.0, config={"shape": "17b"}),
            record("peers_17b", "onednn", "block_ms", 45.0, config={"shape": "17b"}),
        ]
        for items, value in ((alone, 60.0), (beside, 54.0)):
            found, _ = decode.dense_reference(
                self.load(TABLE6 + items), "table6_17b", "dense", 2, "block_ms"
            )
            self.assertAlmostEqual(found.value, value)

    def test_dense_by_bf16_dot_counts_where_memory_was_as_fast(self):
        ours = [{**r, **ceilings(30.0)} for r in TABLE1]
        for milliseconds, bandwidth, status, expected, whose in (
            (3.0, 31.0, "ok", 3.0, "ours by bf16_dot"),
            (3.0, 60.0, "ok", 4.0, "ours"),
            (3.0, 31.0, "untrusted", 4.0, "ours"),
            (5.0, 31.0, "ok", 4.0, "ours"),
        ):
            twin = record(
                "table1_800m",
                "baseline_dot.bf16",
                "block_ms",
                milliseconds,
                status=status,
                **ceilings(bandwidth),
            )
            found, name = decode.dense_reference(
                self.load(ours + [twin]), "table1_800m", "baseline", 2, "block_ms"
            )
            self.assertEqual((found.value, name), (expected, whose))

    def test_missing_reference_leaves_ratios_out(self):
        f = self.figures(TABLE1[6:])
        self.assertIn("block_ms", f)
        self.assertNotIn("block_speedup", f)

    def test_exponent_of_an_exact_power(self):
        items = [
            record("width_sweep", f"sparse_d{d}", "block_bytes", 7 * d**1.5, config={"d_model": d})
            for d in (512, 1024, 4096)
        ]
        fit = width_sweep.width_exponents(self.load(items), "width_sweep", 2)["sparse", "bytes"]
        self.assertAlmostEqual(fit.value, 1.5)
        self.assertAlmostEqual(fit.high - fit.low, 0, places=6)
        self.assertIsNone(values.fit_exponent([(1, fit), (2, fit)]))

    def test_ceilings_take_memory_not_cache_and_the_best_library(self):
        items = [
            record("ceilings", "read_16MiB", "read_gbps", 200.0, config={"size": 2**24}),
            record("ceilings", "read_1GiB", "read_gbps", 50.0, config={"size": 2**30}),
            record("ceilings", "eigen", "gemm_gflops", 300.0),
            record("ceilings", "onednn", "gemm_gflops", 500.0),
        ]
        found = machine.ceilings(self.load(items), 2)
        self.assertEqual(found["read_gbps"][0].value, 50)
        self.assertEqual((found["gemm_gflops"][0].value, found["gemm_gflops"][1]), (500, "onednn"))

    def test_overtaking_is_where_the_block_doubles(self):
        points = [(x, values.exactly(1 + x / 100, "ms")) for x in (0, 50, 400)]
        self.assertAlmostEqual(context_sweep.overtaking(points), 100)
        self.assertIsNone(context_sweep.overtaking(points[:2]))

    def test_what_skips_zeros_is_not_ranked(self):
        skips = row(
            "table1_800m", "skips", 1.0, 0.1, 50, 1.8, config={"feed_forward": "dense_relu_skip"}
        )
        f = self.figures(TABLE1 + skips, "skips")
        self.assertEqual(f["token_ms"].value, 1)
        self.assertFalse(
            {name for name in f if "speedup" in name or "limit" in name or "share" in name}
        )
        self.assertAlmostEqual(self.figures(TABLE1 + skips)["token_speedup"].value, 4)

    def test_peers_at_equal_bandwidth(self):
        # 3 ms at 20 GB/s would be 1.5 ms at 40, and 2 ms at 40 stay 2 ms.
        items = [
            record("peers_800m", "baseline", "block_ms", 2.0, **ceilings(40.0)),
            record("peers_800m", "eigen", "block_ms", 2.2, **ceilings(40.0)),
            record("peers_800m", "eigen_own", "block_ms", 3.0, **ceilings(20.0)),
        ]
        records = self.load(items)
        theirs, ours = (
            peers.peer(records, "800m", "eigen", 2),
            peers.peers_dense(records, "800m", 2),
        )
        self.assertEqual(theirs["row"], "eigen_own")
        self.assertAlmostEqual(decode.at_equal_bandwidth(theirs, ours).value, 0.75)
        self.assertIsNone(
            decode.at_equal_bandwidth(dict(theirs, ceilings={"read_gbps": 0.0}), ours)
        )
        found = summarise.summary(records)
        self.assertAlmostEqual(found["peers.800m.eigen.over_ours"]["value"], 1.5)
        self.assertAlmostEqual(
            found["peers.800m.eigen.over_ours_at_equal_bandwidth"]["value"], 0.75
        )
        text = make_report.make(records)
        self.assertRegex(text, r"\| 800m dense, eigen \| 3.00 \| 2.00 \| 1.50\[\d+\] \| 0.750 \|")
        self.assertEqual(found["peers.800m.eigen.over_ours"]["status"], "untrusted")
        self.assertEqual(found["peers.800m.eigen.over_ours_at_equal_bandwidth"]["status"], "ok")
        self.assertIn("multiplied by the read bandwidth", text)

    def test_the_faster_way_counts_where_a_bandwidth_is_unknown(self):
        items = [
            record("peers_800m", "eigen", "block_ms", 2.2, **ceilings(40.0)),
            record("peers_800m", "eigen_own", "block_ms", 3.0),
        ]
        self.assertEqual(peers.peer(self.load(items), "800m", "eigen", 2)["row"], "eigen")


# 10 MB at 10 GB/s take 1 ms: memory alone up to 2048, FLOPs a tenth and a half more from 4096 on.


if __name__ == "__main__":
    unittest.main()
