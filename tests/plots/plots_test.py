"""Tests of plots/ on small made-up records: derivations by hand, damage, gaps, absences."""

import json
import math
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PLOTS = ROOT / "plots"
sys.path[:0] = [str(HERE), str(PLOTS)]

import chart  # noqa: E402
import decode  # noqa: E402
import draw  # noqa: E402
import goals  # noqa: E402
import headline  # noqa: E402
import legacy  # noqa: E402
import make_report  # noqa: E402
import paper  # noqa: E402
import records as rec  # noqa: E402
import report as report_cells  # noqa: E402
import summarise  # noqa: E402
import values  # noqa: E402
from sections import (  # noqa: E402
    batch_sweep,
    context_sweep,
    machine,
    peers,
    stacks,
    table_figures,
    tables,
    width_sweep,
)
from with_folder import WithFolder  # noqa: E402


def record(experiment, row, metric, value, threads=2, status="ok", against="baseline", **more):
    config = {"shape": "800m", "weight_type": "f32", **more.pop("config", {})}
    return {
        "experiment": experiment,
        "row": row,
        "against": against,
        "threads": threads,
        "metric": metric,
        "value": value,
        "unit": "ms",
        "spread": 0.0,
        "status": status,
        "note": "",
        "config": config,
        "commit": "c1",
        "dirty": False,
        "cpu": "a processor",
        "cores": 2,
        "date": "2026-01-01T00:00:00Z",
        **more,
    }


def row(experiment, name, token, block, weights, floor, **more):
    """The records of one row; tokens read and cost at least ten times a block."""
    numbers = {
        "token_ms": token,
        "block_ms": block,
        "block_weights_read": weights,
        "token_weights_read": 10 * weights,
        "block_floor_ms": floor,
        "token_floor_ms": 10 * floor,
    }
    return [record(experiment, name, metric, value, **more) for metric, value in numbers.items()]


TABLE1 = row("table1_800m", "baseline", 40.0, 4.0, 100, 3.6) + row(
    "table1_800m", "ff_qkv", 10.0, 0.8, 20, 0.6, config={"feed_forward": "sparse"}
)


def ceilings(read, fma=300.0):
    return {"ceilings": {"read_gbps": read, "fma_gflops": fma}}


def swept(experiment, family, letter, knob, points, **more):
    """Records of a sweep's rows, points = {setting: {metric: value}}."""
    return [
        record(
            experiment,
            f"{family}_{letter}{x}",
            metric,
            value,
            against=f"dense_{letter}{x}",
            config={knob: x, **more.get("config", {})},
            **{k: v for k, v in more.items() if k != "config"},
        )
        for x, metrics in points.items()
        for metric, value in metrics.items()
    ]


def marked(items, status, **which):
    """The same records, those of `which` fields with another status."""
    return [
        dict(r, status=status) if all(r[k] == v for k, v in which.items()) else r for r in items
    ]


TERRAFORMER = {"shape": "17b", "residual_stack": "reversible", "attention_layers": 2}
TABLE6 = (
    row("table6_17b", "dense", 400.0, 60.0, 1000, 54.0, against="dense", config=TERRAFORMER)
    + row("table6_17b", "ff_qkv", 40.0, 2.0, 20, 1.8, against="dense", config=TERRAFORMER)
    + row("table6_17b", "ff_qkv_loss4", 20.0, 2.0, 10, 1.8, against="dense", config=TERRAFORMER)
)


def stack(family, depth, batch, **metrics):
    """Records of one point of the reversibility experiment."""
    return [
        record(
            "reversibility",
            f"{family}_d{depth}_b{batch}",
            metric,
            value,
            config={"decoder_layers": depth, "batch": batch},
        )
        for metric, value in metrics.items()
    ]


STACKS = (
    [
        r
        for depth, kept in ((2, 40.0), (8, 160.0), (24, 480.0))
        for r in stack("dense_plain", depth, 4, stack_bytes=kept, step_ms=10.0 * depth)
        + stack("dense_reversible", depth, 4, stack_bytes=30.0 + depth / 24, step_ms=13.0 * depth)
    ]
    + stack("dense_plain", 6, 1, stack_bytes=30.0, step_ms=15.0)
    + stack("dense_plain", 6, 4, stack_bytes=120.0, step_ms=60.0)
    + stack("replay_ff", 2, 4, gradient_error=1e-6, reconstruction_error=1e-5)
    + stack("recompute_ff", 2, 4, gradient_error=1e-2, reconstruction_error=1e-5)
)


class ReaderTest(WithFolder):
    def test_latest_record_wins_whatever_its_place(self):
        new = record("e", "r", "block_ms", 2.0, date="2026-02-01T00:00:00Z")
        records = self.load([new, record("e", "r", "block_ms", 1.0)])
        self.assertEqual(records.get("e", "r", 2, "block_ms")["value"], 2.0)

    def test_equal_dates_take_the_later_line(self):
        records = self.load([record("e", "r", "m", 1.0), record("e", "r", "m", 3.0)])
        self.assertEqual(records.get("e", "r", 2, "m")["value"], 3.0)

    def test_damaged_lines_are_named_by_file_and_line(self):
        records = self.load([record("e", "r", "m", 1.0)], '{"experiment": "e\n[1]\n{"row": "r"}\n')
        self.assertEqual(
            [d.split(": ")[0] for d in records.damaged], ["e.jsonl:2", "e.jsonl:3", "e.jsonl:4"]
        )
        self.assertIn("lacks experiment", records.damaged[2])
        self.assertEqual(len(records.all()), 1)

    def test_unknown_status_and_text_value_are_damage(self):
        records = self.load([record("e", "r", "m", 1.0, status="fine"), record("e", "r", "m", "1")])
        self.assertEqual(len(records.damaged), 2)

    def test_later_failure_hides_older_success(self):
        failed = record(
            "e",
            "r",
            "token_ms",
            None,
            status="failed",
            note="no memory",
            date="2026-02-01T00:00:00Z",
        )
        records = self.load([record("e", "r", "block_ms", 1.0), failed])
        self.assertIsNone(records.get("e", "r", 2, "block_ms"))
        self.assertEqual(records.gaps["e", "r", 2], "failed: no memory")

    def test_quick_replaces_full_only_of_another_commit(self):
        later = {"date": "2026-02-01T00:00:00Z", "config": {"quick": True}}
        records = self.load(
            [
                record("e", "r", "m", 1.0),
                record("e", "r", "m", 2.0, **later),
                record("e", "s", "m", 1.0),
                record("e", "s", "m", 2.0, **later, **{"commit": "c2"}),
            ]
        )
        self.assertEqual(records.get("e", "r", 2, "m")["value"], 1.0)
        self.assertEqual(records.get("e", "s", 2, "m")["value"], 2.0)

    def test_all_threads_are_no_more_than_the_cores(self):
        counts = [record("e", "r", "m", 1.0, threads=n) for n in (1, 2, 8)]
        self.assertEqual(self.load(counts).all_threads(), 2)
        self.assertEqual(self.load([dict(r, cores=16) for r in counts]).all_threads(), 8)
        unknown = [{k: v for k, v in r.items() if k != "cores"} for r in counts]
        self.assertEqual(self.load(unknown).all_threads(), 8)

    def test_success_after_failure_closes_the_gap(self):
        records = self.load(
            [
                record("e", "r", "token_ms", None, status="failed"),
                record("e", "r", "token_ms", 1.0, date="2026-02-01T00:00:00Z"),
            ]
        )
        self.assertEqual(records.gaps, {})


class AboutTest(WithFolder):
    def test_a_new_table_of_a_known_study_is_in_summary_report_and_figures(self):
        said = {"study": "decode", "title": "Table 10: windows", "id": "table10"}
        items = [{**r, **said, "experiment": "windows"} for r in TABLE1]
        records = self.load(TABLE1 + items)
        self.assertEqual(
            records.about("windows"),
            rec.About("windows", "decode", "", "Table 10: windows", "table10"),
        )
        self.assertEqual(summarise.summary(records)["table10.ff_qkv.block_speedup"]["value"], 5)
        text = make_report.make(records)
        self.assertLess(text.index("## Table 1, 800M"), text.index("## Table 10: windows"))
        self.assertIn("windows", draw.figures(records))

    def test_what_a_record_leaves_out_is_known_by_name(self):
        items = [
            {**r, "study": "decode", "section": "", "title": "New words", "id": ""} for r in TABLE1
        ]
        self.assertEqual(
            self.load(items).about("table1_800m"),
            rec.About("table1_800m", "decode", "", "New words", "table1.800m"),
        )

    def test_what_older_records_say_of_themselves_is_known_by_name(self):
        records = self.load(TABLE1 + [record("mine", "r", "block_ms", 1.0)])
        self.assertEqual(records.about("table1_800m").id, "table1.800m")
        self.assertEqual(records.about("mine").study, "")
        mine = [{**r, "experiment": "mine"} for r in TABLE1]
        self.assertIn("## mine", make_report.make(self.load(mine)))
        self.assertNotIn("mine", make_report.make(records))

    def test_every_table_of_the_paper_finds_its_line(self):
        for listed in paper.table("rows"):
            if listed["row"]:
                self.assertTrue(paper.lines(listed["experiment"], listed["row"]), listed)


class SettingsTest(unittest.TestCase):
    OLD = {
        "d_model": 8,
        "attention": "full",
        "lsh_chunk": 64,
        "feed_forward": "dense",
        "sparsity": 64,
    }

    def same(self, **more):
        old, new = ({"config": config} for config in (self.OLD, {**self.OLD, **more}))
        return rec.settings(old) == rec.settings(new)

    def test_a_later_knob_that_is_off_sets_no_records_apart(self):
        self.assertTrue(self.same(label_smoothing=0, extra_loss="none", window=False))
        self.assertFalse(self.same(label_smoothing=0.1))

    def test_what_no_component_reads_makes_no_difference(self):
        self.assertTrue(self.same(lsh_chunk=128, sparsity=8, modules=4))
        self.assertFalse(self.same(attention="lsh"))
        self.assertFalse(self.same(d_model=16))
        sparse = {"config": {**self.OLD, "feed_forward": "sparse"}}
        other = {"config": {**sparse["config"], "sparsity": 8}}
        self.assertNotEqual(rec.settings(sparse), rec.settings(other))

    def test_a_later_knob_counts_where_it_is_read_and_is_not_what_it_was(self):
        self.assertTrue(self.same(normaliser="softmax", window_width=129))
        self.assertFalse(self.same(normaliser="entmax15"))
        windows = [
            rec.settings({"config": {**self.OLD, "attention": "window", "window_width": width}})
            for width in (129, 257, 513)
        ]
        self.assertEqual(len({tuple(w.items()) for w in windows}), 3)
        hashed = {**self.OLD, "attention": "lsh"}
        self.assertEqual(
            rec.settings({"config": hashed}),
            rec.settings({"config": {**hashed, "normaliser": "entmax15", "window_width": 9}}),
        )

    def test_lists_of_attentions_read_what_each_of_them_reads(self):
        def read(attention, **more):
            return rec.settings({"config": {**self.OLD, "attention": attention, **more}})

        mixed = "full,window:normaliser=entmax15+banded"
        for knob in ("window_width", "band_width", "normaliser"):
            self.assertIn(knob, read(mixed, **{knob: 9}))
        self.assertNotIn("lsh_chunk", read(mixed, lsh_chunk=9))
        self.assertNotIn("band_width", read("full,window", band_width=9))

    def test_knobs_that_published_curves_lack_are_known(self):
        declared = {
            name
            for path in (ROOT / "models").rglob("*.h")
            for name in re.findall(r'visit\(\s*"(\w+)"', path.read_text(encoding="utf-8"))
            # The scores of a graph are visited as knobs are, and are none.
            if path.name != "knobs.h" and path.parent.name != "sparsefinder"
        }
        published = rec.Records(ROOT / "results" / "published")
        curve = published.get("fig1_small", "dense", 1, "log_perplexity")
        self.assertLessEqual(declared - set(curve["config"]), set(rec.LATER))


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
        few = record("t", "r", "m", 10.0, spread=1.0, repeats=1)
        many = record("t", "r", "m", 10.0, spread=1.0, repeats=100)
        self.assertEqual((values.of_record(few).low, values.of_record(few).high), (10, 10))
        self.assertAlmostEqual(values.of_record(many).high - 10, 1.57 * 2 / 10)

    def test_the_mean_of_seeds_has_students_interval(self):
        seeds = [record("t", "r", "m", v) for v in (1.0, 2.0, 3.0)]
        value = values.over_seeds(seeds)
        self.assertEqual((value.value, value.sd), (2.0, 1.0))
        self.assertAlmostEqual(value.high - 2, 4.30 / math.sqrt(3))
        self.assertEqual(value.seeds, 3)
        # Of one seed nothing is known of others, which is no interval of no width.
        alone = values.over_seeds(seeds[:1])
        self.assertEqual((alone.value, alone.low, alone.high), (1.0, -math.inf, math.inf))

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
WIDTHS = swept(
    "width_sweep",
    "sparse",
    "d",
    "d_model",
    {
        d: {"block_ms": 2.0, "block_floor_ms": floor, "block_bytes": 10e6}
        for d, floor in ((1024, 1.0), (2048, 1.1), (4096, 1.6))
    },
    **ceilings(10.0),
)
DENSE_800M = {"d_model": 1024, "d_ff": 4096}
CONTEXTS = [
    r
    for family, config in (
        ("baseline", DENSE_800M),
        ("ff_qkv", {**DENSE_800M, "projection": "mult_conv"}),
    )
    for r in swept(
        "context_sweep",
        family,
        "c",
        "context",
        {
            # 6 d² weights of projections at 25.165824 GB/s take 1 ms.
            x: {"block_ms": 2.0 + x / 1000, "block_weights_read": 14 * 2**20}
            for x in (0, 500, 4000)
        },
        config=config,
        **ceilings(25.165824),
    )
]
BATCHES = [
    r
    for family, time in (("baseline", 2.0), ("ff", 0.5))
    for r in swept(
        "batch_sweep",
        family,
        "b",
        "batch",
        {
            x: {
                "block_ms": time * x**0.5,
                "token_ms": 100.0,
                "block_floor_ms": time / 2,
                "block_efficiency": 0.5 / x**0.5,
                "rows_touched": 64 * x,
            }
            for x in (1, 4)
        },
    )
]


class SweepTest(WithFolder):
    def test_the_first_width_where_flops_bend_is_named(self):
        records = self.load(WIDTHS)
        over = width_sweep.floors_over_bytes(records, "width_sweep", 2)["sparse"]
        for width, value in ((1024, 1), (2048, 1.1), (4096, 1.6)):
            self.assertAlmostEqual(over[width], value)
        self.assertEqual(width_sweep.flops_bend_from({**over, 2048.0: 1.1}), 4096)
        self.assertIsNone(width_sweep.flops_bend_from({1024.0: 1.0}))
        text = make_report.make(records)
        self.assertIn("| 4096 | – | 2.00 | – | – | 1.60 |", text)
        self.assertIn("first exceeds 1.1 at d_model 4096 (1.60), and is 1.60 at 4096", text)

    def test_times_at_several_bandwidths_give_no_trusted_exponent(self):
        self.assertEqual(
            width_sweep.width_exponents(self.load(WIDTHS), "width_sweep", 2)[
                "sparse", "time"
            ].status,
            "ok",
        )
        mixed = [
            dict(r, **ceilings(20.0)) if values.setting(r, "d_model") == 1024 else r for r in WIDTHS
        ]
        fits = width_sweep.width_exponents(self.load(mixed), "width_sweep", 2)
        self.assertEqual(fits["sparse", "time"].status, "untrusted")
        self.assertEqual(fits["sparse", "bytes"].status, "ok")

    def test_without_ceilings_the_bend_is_not_known(self):
        records = self.load([dict(r, ceilings={}) for r in WIDTHS])
        self.assertEqual(width_sweep.floors_over_bytes(records, "width_sweep", 2), {})

    def test_contexts_name_what_attention_passes(self):
        text = make_report.make(self.load(CONTEXTS))
        self.assertIn(
            "`baseline`: it passes the floor of the projections (1.00 ms: the block's "
            "weights but for the feed-forward's, at the bandwidth beside it) at about "
            "1,000 positions; it passes all that a block takes at 0 positions, "
            "feed-forward and projections together, at about 2,000 positions.",
            text,
        )
        self.assertIn("`ff_qkv`: it passes all", text)
        self.assertIn("What these projections take alone is not recorded.", text)

    def test_batches_compare_blocks_not_tokens(self):
        records = self.load(BATCHES)
        text = make_report.make(records)
        self.assertIn("| `baseline`, ms a block and token | 2.00 | 1.00 |", text)
        self.assertIn("| speed-up of a block | 4.00× | 4.00× |", text)
        self.assertIn("| its roofline limit | 4.00× | 4.00× |", text)
        self.assertIn("| feed-forward rows a block read in 12 steps | 64.0 | 256 |", text)
        top, bottom = batch_sweep.draw(records, "batch_sweep").axes
        self.assertEqual(list(top.lines[0].get_ydata()), [2.0, 1.0])
        self.assertEqual(list(bottom.lines[0].get_ydata()), [4.0, 4.0])


class FigureStatusTest(WithFolder):
    def test_points_that_are_not_ok_are_ringed(self):
        self.assertEqual(
            chart.statuses(context_sweep.draw(self.load(CONTEXTS), "context_sweep")), ""
        )
        doubted = marked(CONTEXTS, "untrusted", row="ff_qkv_c500")
        figure = context_sweep.draw(self.load(doubted), "context_sweep")
        self.assertEqual(chart.statuses(figure), "ringed: untrusted")
        rings = [line for line in figure.axes[0].lines if line.get_label().startswith("_ringed")]
        self.assertEqual([tuple(r.get_xydata()[0]) for r in rings], [(500, 2.5)])
        chart.save(figure, self.folder / "context_sweep")
        self.assertIn(
            "ringed: untrusted, see the report", [text.get_text() for text in figure.texts]
        )

    def test_bars_that_are_not_ok_have_a_star(self):
        self.assertEqual(
            chart.statuses(table_figures.draw_bars(self.load(TABLE1), "table1_800m")), ""
        )
        doubted = marked(TABLE1, "extrapolated", row="ff_qkv", metric="token_ms")
        figure = table_figures.draw_bars(self.load(doubted), "table1_800m")
        self.assertEqual(chart.statuses(figure), "starred (*): extrapolated")
        self.assertEqual([t.get_text() for t in figure.axes[1].texts], ["2.62", "4*", "5", "6"])


# Counts as the driver writes them; the last row skips what is zero.
TABLE2 = (
    [dict(r, experiment="table2") for r in TABLE1 if r["row"] == "baseline"]
    + row("table2", "n64", 20.0, 2.0, 50, 1.8, config={"feed_forward": "sparse", "sparsity": 64})
    + row(
        "table2", "dense_relu_skip", 4.0, 0.4, 75, 2.7, config={"feed_forward": "dense_relu_skip"}
    )
    + [
        record("table2", name, metric, value)
        for name, values in (
            ("baseline", (772050176, 4e9, 4e8, 4096)),
            ("n64", (787778816, 2e9, 2e8, 64)),
            ("dense_relu_skip", (772050176, 3e9, 3e8, 4000)),
        )
        for metric, value in zip(
            ("parameters", "token_bytes", "block_bytes", "rows_touched"), values
        )
    ]
)


class Table2Test(WithFolder):
    def test_counts_stand_in_a_table_of_their_own(self):
        text = make_report.make(self.load(TABLE2))
        self.assertIn(
            "| row | parameters | weights read a token | a block | MB a token | a block "
            "| feed-forward rows |",
            text,
        )
        self.assertIn("| `n64` | 787,778,816 | 500 | 50.0 | 2,000 | 200 | 64.0 |", text)
        self.assertIn(
            "| `dense_relu_skip` | 772,050,176 | 750 | 75.0 | 3,000 | 300 | 4,000 |", text
        )

    def test_what_skips_zeros_is_shown_without_rank(self):
        records = self.load(TABLE2)
        text = make_report.make(records)
        mark = re.search(
            r"\| `dense_relu_skip`(\[\d+\]) \| – \| 4\.00 \| – \| – \| – \| – \| – \|", text
        )
        self.assertTrue(mark)
        note = mark.group(1).strip("[]")
        self.assertIn(f"\n{note}. Skips weights of zero activations; not ranked.", text)
        self.assertIn("(`baseline`: ours, 40.0 ms)", text)
        found = summarise.summary(records)
        self.assertIn("table2.dense_relu_skip.token_ms", found)
        self.assertFalse([n for n in found if "relu_skip" in n and "speedup" in n])
        lines = {
            line.get_label(): line
            for line in table_figures.draw_sparsity(records, "table2").axes[0].lines
        }
        ours = next(
            c
            for c in table_figures.draw_sparsity(records, "table2").axes[0].containers
            if c.get_label() == "ours"
        )
        self.assertEqual(list(ours.lines[0].get_xdata()), [1, 64])
        self.assertEqual(list(lines["ours, floor"].get_xdata()), [1, 64])

    def test_the_dense_row_is_n1_too(self):
        found = summarise.summary(self.load(TABLE2))
        self.assertEqual(found["table2.n1.token_ms"], found["table2.baseline.token_ms"])


class LimitTest(WithFolder):
    def test_a_share_above_its_limit_tells_how_far_ceilings_differed(self):
        # The sparse row's machine was faster: its floor is too small for the baseline's time.
        items = row("table1_800m", "baseline", 40.0, 4.0, 100, 3.6, **ceilings(30.0)) + row(
            "table1_800m", "ff_qkv", 10.0, 0.8, 20, 0.9, **ceilings(24.0)
        )
        text = make_report.make(self.load(items))
        self.assertRegex(text, r"\| 4\.00× \| 1\.25\[\d+\] \|")
        self.assertIn(
            "`ff_qkv`, a block at 2 threads: above its limit; the two rows' ceilings, "
            "this one's and those of `baseline`, differed by 25.0% in reading and 0.0% "
            "in multiply-adds.",
            text,
        )
        self.assertNotIn("above its limit", make_report.make(self.load(TABLE1)))

    def test_rates_of_two_instructions_do_not_differ(self):
        items = [
            row(
                "table1_800m",
                name,
                token,
                block,
                weights,
                floor,
                config={"kernels": kernels},
                **ceilings(30.0, fma),
            )
            for name, token, block, weights, floor, kernels, fma in (
                ("baseline", 40.0, 4.0, 100, 3.6, "simd", 500.0),
                ("ff_qkv_dot.bf16", 10.0, 0.8, 20, 0.9, "bf16_dot", 1000.0),
            )
        ]
        text = make_report.make(self.load(items[0] + items[1]))
        self.assertIn("above its limit", text)
        self.assertNotIn("in multiply-adds", text)


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
        ids = {
            name: known[3]
            for name, known in legacy.EXPERIMENTS.items()
            if known[:2] == ("decode", "")
        }
        rows = {
            experiment: re.findall(
                r"^row = ([^:\s]+)",
                (ROOT / "experiments" / "configs" / "decode" / f"{experiment}.cfg").read_text(),
                re.MULTILINE,
            )
            for experiment in ids
        }
        known = {
            f"{prefix}.{name}.{ending}"
            for experiment, prefix in ids.items()
            for name in rows[experiment]
            for ending in tables.ENDINGS
        }
        named = [
            name
            for goal in goals.GOALS
            for name in goal.ids
            if name.startswith("table") and not name.startswith("table4")
        ]
        self.assertGreater(len(named), 20)
        self.assertEqual([name for name in named if name not in known], [])


class ReversibilityTest(WithFolder):
    def test_curves_hold_the_other_setting(self):
        records = self.load(STACKS)

        def xs(metric, over):
            return [
                x for x, _ in stacks.curve(records, "reversibility", "dense_plain", metric, over)
            ]

        self.assertEqual(xs("step_ms", "decoder_layers"), [2, 6, 8, 24])
        self.assertEqual(xs("stack_bytes", "batch"), [1, 4])
        self.assertEqual(stacks.depths(records, "reversibility"), [2, 6, 8, 24])

    def test_figures_by_hand(self):
        found = summarise.figures(self.load(STACKS))
        for name, value in (
            ("activation_growth", 31 / (30 + 2 / 24)),
            ("plain_activation_growth", 12),
            ("step_cost", 1.3),
            ("stack_bytes", 31),
            ("recompute_ff.gradient_error", 1e-2),
        ):
            self.assertAlmostEqual(found[f"reversible.{name}"].value, value, msg=name)
        self.assertNotIn("reversible.step_cost_over_stored", found)

    def test_rows_of_other_layers_have_ids_tables_and_curves(self):
        other = [dict(r, row=r["row"].replace("dense", "low_rank")) for r in STACKS]
        other = [dict(r, row=r["row"].replace("recompute_ff", "recompute_sru")) for r in other]
        records = self.load(STACKS + other)
        found = summarise.figures(records)
        self.assertAlmostEqual(found["reversible.low_rank.plain_activation_growth"].value, 12)
        self.assertAlmostEqual(found["reversible.recompute_sru.gradient_error"].value, 1e-2)
        text = make_report.make(records)
        self.assertIn("| training step, ms: low_rank, reversible | 26.0 | – | 104 | 312 |", text)
        self.assertIn("| gradient, `recompute_sru` | 0.01 |", text)
        labels = stacks.draw(records, "reversibility").axes[0].get_legend_handles_labels()[1]
        self.assertIn("low_rank, plain", labels)

    def test_nothing_measured_gives_nothing(self):
        records = self.load(TABLE1)
        self.assertEqual(stacks.numbers(records, records.of(stacks.SECTION.owns)), {})
        self.assertNotIn("Reversible stacks", make_report.make(records))

    def test_report_and_verdict(self):
        records = self.load(STACKS)
        text = make_report.make(records)
        self.assertIn("## Reversible stacks", text)
        self.assertIn("| training step, ms: dense, reversible | 26.0 | – | 104 | 312 |", text)
        self.assertIn("| gradient, `recompute_ff` | 0.01 |", text)
        verdict = {c: (v, e) for c, v, e, *_ in make_report.verdicts(records)}[
            "Reversible blocks keep activations from growing with depth (§4.2)"
        ]
        self.assertEqual(verdict[0], "reproduced")
        self.assertIn("24 blocks keeps 1.03× what 2 keep, a plain one 12×", verdict[1])


class SummaryTest(WithFolder):
    def test_ids_values_and_one_thread_prefix(self):
        one = row("table1_800m", "baseline", 80.0, 8.0, 100, 7.0, threads=1)
        found = summarise.summary(self.load(TABLE1 + one))
        self.assertEqual(
            found["table1.800m.ff_qkv.block_speedup"],
            {
                "value": 5.0,
                "low": 5.0,
                "high": 5.0,
                "unit": "x",
                "state": "",
                "sittings": 1,
                "status": "ok",
                "commit": "c1",
            },
        )
        self.assertEqual(found["threads1.table1.800m.baseline.block_ms"]["value"], 8)
        self.assertNotIn("threads1.table1.800m.ff_qkv.block_ms", found)

    def test_bf16_rows_join_their_table(self):
        items = row("table1_17b_bf16", "baseline.bf16", 300.0, 50.0, 100, 40, against="")
        self.assertIn("table1.17b.baseline.bf16.block_ms", summarise.summary(self.load(items)))

    def test_terraformer_ids(self):
        items = (
            TABLE6
            + row("table6_17b_bf16", "dense.bf16", 300.0, 50.0, 100, 40, against="dense.bf16")
            + row("table8", "transformer", 40.0, 4.0, 100, 3.6, against="transformer")
            + row("table8", "terraformer", 5.0, 0.4, 10, 0.3, against="transformer")
            + STACKS
        )
        found = summarise.summary(self.load(items))
        for name, value in (
            ("table6.ff_qkv_loss4.token_speedup", 20),
            ("table6.dense.bf16.token_ms", 300),
            ("table8.terraformer.token_speedup", 8),
            ("reversible.plain_activation_growth", 12),
        ):
            self.assertAlmostEqual(found[name]["value"], value, msg=name)
        self.assertNotIn("threads1.reversible.step_cost", found)

    def test_peer_ids(self):
        items = [
            record("peers_17b", "baseline", "block_ms", 100.0),
            record("peers_17b", "openblas", "block_ms", 110.0),
            record("peers_python", "17b.jax.ff_qkv_cross", "block_ms", 9.0),
            record("peers_python", "17b.pytorch.ff_qkv_cross", "block_ms", 19.0),
            record("peers_python", "17b.jax", "block_ms", 120.0),
        ]
        found = summarise.summary(self.load(items))
        self.assertEqual(
            {k for k in found if k.startswith("peers")},
            {
                "peers.17b.ours.block_ms",
                "peers.17b.openblas.block_ms",
                "peers.17b.openblas.over_ours",
                "peers.17b.fastest.over_ours",
                "peers.17b.jax.over_ours",
                "peers.17b.jax.block_ms",
                "peers.17b.jax.ff_qkv_cross.block_ms",
                "peers.17b.pytorch.ff_qkv_cross.block_ms",
            },
        )
        self.assertEqual(found["peers.17b.fastest.over_ours"]["whose"], "openblas")
        self.assertAlmostEqual(found["peers.17b.fastest.over_ours"]["value"], 1.1)

    def test_dirty_commits_show(self):
        found = summarise.summary(self.load([dict(r, dirty=True) for r in TABLE1]))
        self.assertEqual(found["table1.800m.baseline.block_ms"]["commit"], "c1-dirty")


class PaperTest(unittest.TestCase):
    def test_rows_find_their_published_numbers(self):
        self.assertEqual(paper.published("table1_800m", "ff_qkv").block_speedup, 3.05)
        self.assertEqual(paper.published("table1_17b_bf16", "ff_qkv_cross.bf16").token_ms, 183)
        self.assertIsNone(paper.published("table1_17b", "ff_qkv"))
        self.assertIsNone(paper.published("table1_17b", "ff_qkv_cross_loss4"))
        self.assertAlmostEqual(paper.published("table6_17b_bf16", "ff_qkv_loss4.bf16").token_ms, 97)
        self.assertAlmostEqual(paper.published("table6_17b", "ff_qkv_loss4").token_speedup, 37.64)
        self.assertIn("Transformer", paper.published("table6_17b", "ff").note)
        self.assertAlmostEqual(paper.published("table8", "sparse_transformer").token_ms, 61)
        self.assertAlmostEqual(paper.published("table8", "terraformer").token_speedup, 1.92)
        self.assertIsNone(paper.published("table8", "sparse_transformer_loss4"))
        self.assertAlmostEqual(paper.published("table2", "n128").token_speedup, 160 / 89)
        self.assertAlmostEqual(paper.published("table2", "moe64").token_ms, 110)
        self.assertAlmostEqual(paper.published("table7", "s8").token_ms, 148)
        self.assertIsNone(paper.published("table2", "n8"))


class ReportTest(WithFolder):
    def test_numbers_have_three_digits_without_exponent(self):
        for value, text in (
            (1595, "1,595"),
            (12.34, "12.3"),
            (0.04561, "0.0456"),
            (1, "1.00"),
            (0, "0"),
            (None, "–"),
        ):
            self.assertEqual(report_cells.number(value), text)

    def test_statuses_gaps_and_damage_are_shown(self):
        items = [dict(r, status="extrapolated") if r["metric"] == "token_ms" else r for r in TABLE1]
        items.append(
            record("table1_800m", "qkv", "token_ms", None, status="failed", note="too big")
        )
        text = make_report.make(self.load(items, "nonsense\n"))
        self.assertIn("Extrapolated:", text)
        self.assertIn("1. Failed: too big.", text)
        self.assertIn("| `qkv` | 6.20 | gap [", text)
        self.assertIn("table1_800m.jsonl:14:", text)
        self.assertIn("| 1.90 | 0.800 | 3.05× | 5.00× | 5.00× | 6.00× | 0.833 |", text)
        self.assertNotIn("## Table 2", text)
        self.assertIn(
            "Not measured: 13 claims; `./run_all.sh` measures 9, `./run_all.sh --full` measures 4.",
            text,
        )
        self.assertNotIn("## Goals", text)  # they are the project's, not of a user's machine
        text = make_report.make(self.load(items, "nonsense\n", published=True))
        self.assertRegex(text, r"Not measured: \d+ figures; .*`./run_all.sh --peers` measures 37\.")
        self.assertNotIn("**not measured**", text)
        self.assertIn("--config experiments/configs/decode/table1_800m.cfg", text)

    def test_seats_stand_beside_their_floors(self):
        items = TABLE1 + [
            record("table1_800m", "ff_qkv", f"seat.{seat}.{ending}", value)
            for seat, *values in (("projection", 0.5, 0.25), ("feed_forward", 0.3, 0.27))
            for ending, value in zip(("ms", "floor_ms"), values)
        ]
        records = self.load(items)
        text = make_report.make(records)
        self.assertIn("| row | projections, ms | feed-forward, ms |", text)
        self.assertIn("| `ff_qkv` | 0.500 (0.50) | 0.300 (0.90) |", text)
        self.assertEqual(
            tables.most_lost(records, "table1_800m", "ff_qkv", 2),
            "; 0.25 ms of a block lost in its projections",
        )
        self.assertEqual(tables.parts_table(records, "table1_800m", 1), [])
        self.assertEqual(tables.most_lost(records, "table1_800m", "baseline", 2), "")

    def test_seats_are_those_of_the_models(self):
        source = (ROOT / "models" / "block_part.h").read_text(encoding="utf-8")
        names = re.search(r"kPartNames = \{(.*?)\}", source, re.DOTALL).group(1)
        self.assertEqual(list(tables.PARTS), re.findall(r'"(\w+)"', names))

    def test_tables_1_and_6_stand_side_by_side(self):
        items = TABLE6 + row("table1_17b", "baseline", 420.0, 65.0, 1000, 54.0)
        text = make_report.make(self.load(items))
        self.assertIn(
            "| `dense` | 3,690 | 1.00× | 420 | 1.00× | 3,651 | 1.00× | 400 | 1.00× |", text
        )
        self.assertIn("| `ff_qkv_loss4` | – | – | – | – | 97.0 | 37.6× | 20.0 | 20.0× |", text)
        self.assertIn("to the last digit", text)

    def test_claims_follow_the_numbers(self):
        verdicts = {c: v for c, v, *_ in make_report.verdicts(self.load(TABLE1))}
        self.assertEqual(verdicts["... and an 800M decoder block (Table 1)"], "exceeded")
        self.assertEqual(verdicts["... and a 17B decoder block (Table 1)"], "not measured")
        slow = [
            dict(r, value=2 * r["value"])
            if r["row"] == "ff_qkv" and r["metric"] == "block_ms"
            else r
            for r in TABLE1
        ]
        verdicts = {c: v for c, v, *_ in make_report.verdicts(self.load(slow))}
        self.assertEqual(verdicts["... and an 800M decoder block (Table 1)"], "partly reproduced")

    def test_a_change_the_other_way_is_said(self):
        for token, words in ((42.0, "ours 0.952× (opposite sign)"), (39.0, "ours 1.03×")):
            items = TABLE1 + row("table1_800m", "qkv", token, 4.0, 100, 3.6)
            evidence = {c: e for c, _, e, *_ in make_report.verdicts(self.load(items))}
            self.assertEqual(
                evidence["Sparse QKV alone changes an 800M token little (Table 1)"],
                f"paper 1.05×, {words}",
            )

    def test_the_papers_numbers_come_from_its_tables(self):
        items = (
            TABLE2
            + row("table2", "n128", 19.0, 1.9, 45, 1.7)
            + row("table2", "moe64", 21.0, 2.0, 50, 1.8)
        )
        evidence = " ".join(e for _, _, e, *_ in make_report.verdicts(self.load(items)))
        self.assertIn("paper 1.72× and 1.8×, ours 2× and 2.11×", evidence)
        self.assertIn("paper 93 ms against 110 ms, ours 20 ms against 21 ms", evidence)
        self.assertNotIn("4 ms", evidence)  # of what skips zeros

    def test_claims_of_terraformers(self):
        verdicts = {c: v for c, v, *_ in make_report.verdicts(self.load(TABLE6))}
        self.assertEqual(
            verdicts[
                "Sparse FF, QKV and loss together make a 17B Terraformer's token faster (Table 6)"
            ],
            "partly reproduced",
        )
        self.assertEqual(
            verdicts["... where a sparse loss (S=4) nearly halves the sparse token (Table 6)"],
            "reproduced",
        )


class KernelsTest(unittest.TestCase):
    def test_rates_and_errors(self):
        name = "multiplicative/800m/simd/f32/1"
        runs = machine.read_kernels(
            {
                "benchmarks": [
                    {"name": name, "bytes/s": 2e9, "FLOP/s": 4e9, "%ceiling": 50.0},
                    {"name": "dense/17b/simd/bf16/1", "bytes/s": 5e10, "FLOP/s": 1e11},
                    {
                        "name": "softmax/800m/ref/f32/1",
                        "error_occurred": True,
                        "error_message": "differs",
                    },
                ]
            }
        )
        self.assertEqual(
            (runs[0].kernel, runs[0].shape, runs[0].kernel_set), tuple(name.split("/")[:3])
        )
        self.assertAlmostEqual(runs[0].gbps, 2)
        self.assertAlmostEqual(runs[0].gflops, 4)
        self.assertAlmostEqual(runs[1].intensity, 2)
        self.assertEqual(runs[2].error, "differs")

    def test_threads_are_those_of_the_file(self):
        self.assertEqual(machine.kernel_threads({"context": {"team_threads": "2"}}), 2)
        self.assertEqual(machine.kernel_threads({"context": {}}), 1)
        self.assertEqual(machine.kernel_threads(None), 1)


class RooflineTest(WithFolder):
    def test_the_report_names_threads_and_commit(self):
        (self.folder / "kernels.json").write_text(
            json.dumps(
                {
                    "context": {"team_threads": "2", "commit": "c7"},
                    "benchmarks": [
                        {"name": "dense/17b/simd/f32/1", "bytes/s": 5e10, "FLOP/s": 1e11}
                    ],
                }
            )
        )
        records = self.load(
            [
                record("ceilings", "read_1GiB", "read_gbps", 50.0),
                record("ceilings", "fma", "fma_gflops", 300.0),
            ]
        )
        self.assertIn("Kernels of the roofline at 2 threads, commit c7.", make_report.make(records))
        self.assertEqual(machine.draw(records).axes[0].get_ylabel(), "GFLOP/s (2 threads)")


class HeadlineTest(unittest.TestCase):
    def test_five_sentences_with_the_numbers_of_their_ids(self):
        def value(number, low=None, high=None, **more):
            return values.Value(number, "x", low or number, high or number, "ok", "c", **more)

        found = {
            "ceilings.read_gbps": value(49.6),
            "ceilings.fma_gflops": value(500),
            "table1.800m.ff_qkv_cross.block_speedup": value(10.5, 9.74, 11.3),
            "table1.800m.ff_qkv_cross.roofline_limit": value(12.8),
            "table1.17b.ff_qkv_cross.block_speedup": value(51.8, 51.1, 52.5),
            "table1.17b.ff_qkv_cross.roofline_limit": value(68.6),
            "table1.800m.ff_qkv_cross_cold.block_speedup": value(9.1),
            "peers.800m.eigen.over_ours": value(1.2),
            "peers.800m.jax.over_ours": value(9.9),
            "peers.800m.fastest.over_ours": value(1.04, 1.01, 1.07, whose="jax"),
            "fig1.mini.ff_qkv.gap": value(0.02, -0.01, 0.05),
            "fig1.mini.iso_read_ff.gap": values.Value(0.158, "x", -math.inf, math.inf, "ok", "c"),
        }
        said = headline.sentences(found)
        for sentence, words in zip(
            said,
            (
                "49.6 GB/s and the cores 500 GFLOP/s",
                "10.5× [9.74–11.3] as fast as the fastest dense one; the machine's limits would allow 12.8×. With no weight in a cache it is 9.1×.",
                "At 17B, a block is 51.8× [51.1–52.5]",
                "Of 2 other libraries the fastest dense block takes, of our time, 800M in f32 1.04× [1.01–1.07] (JAX).",
                "(mini), FF+QKV ends +0.020 [-0.010, +0.050] nats a token above dense; a dense feed-forward "
                "of as few reads ends +0.158 (one seed) above it",
            ),
        ):
            self.assertIn(words, sentence)
        self.assertEqual(len(said), 5)
        found["table1.17b.ff_qkv_cross.bf16.block_speedup"] = value(33)
        found["table1.17b.ff_qkv_cross.bf16.roofline_limit"] = value(42.9)
        self.assertIn("At 17B in bf16, a block is 33×", headline.sentences(found)[2])
        self.assertEqual(headline.sentences({}), [])
        self.assertNotIn("untrusted", headline.legend(found))
        found["table1.17b.ff_qkv_cross.token_speedup"] = value(9)._replace(status="untrusted")
        self.assertIn("1 of all 5 speed-ups below are marked untrusted", headline.legend(found))


class ReadmeTest(unittest.TestCase):
    def test_the_headline_table_is_that_of_the_published_results(self):
        done = subprocess.run(
            [sys.executable, PLOTS / "readme_table.py", "--check"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)


class ProgramsTest(WithFolder):
    def run_program(self, name, *arguments):
        return subprocess.run(
            [sys.executable, PLOTS / name, *arguments], capture_output=True, text=True, check=False
        )

    def test_programs_write_their_files_and_draw_what_there_is(self):
        self.load(TABLE1 + TABLE6 + STACKS)
        for name in ("summarise.py", "draw.py", "make_report.py"):
            done = self.run_program(name, "--results", str(self.folder))
            self.assertEqual(done.returncode, 0, done.stderr)
            if name == "draw.py":
                self.assertIn("skipped roofline: ", done.stdout)
        made = {p.name for p in (self.folder / "figures").iterdir()}
        self.assertEqual(
            made,
            {
                f"{name}.{ending}"
                for ending in ("svg", "png")
                for name in ("table1_800m", "table6_17b", "reversibility")
            },
        )
        self.assertIn("figures/table1_800m.png", (self.folder / "report.md").read_text())
        json.loads((self.folder / "summary.json").read_text())

    def test_folder_that_is_none_is_refused_in_a_sentence(self):
        done = self.run_program("summarise.py", "--results", str(self.folder / "nowhere"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("is not a folder", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
