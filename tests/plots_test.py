"""Tests of plots/ on small made-up records: derivations by hand, damage, gaps, absences."""

import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

PLOTS = pathlib.Path(__file__).resolve().parent.parent / "plots"
sys.path.insert(0, str(PLOTS))

import claims  # noqa: E402
import derive  # noqa: E402
import kernel_runs  # noqa: E402
import make_report  # noqa: E402
import paper  # noqa: E402
import records as rec  # noqa: E402
import report_tables  # noqa: E402
import reversibility  # noqa: E402
import summarise  # noqa: E402


def record(experiment, row, metric, value, threads=2, status="ok", against="baseline", **more):
    config = {"shape": "800m", "weight_type": "f32", **more.pop("config", {})}
    return {"experiment": experiment, "row": row, "against": against, "threads": threads,
            "metric": metric, "value": value, "unit": "ms", "spread": 0.0, "status": status,
            "note": "", "config": config, "commit": "c1", "dirty": False, "cpu": "a processor",
            "cores": 2, "date": "2026-01-01T00:00:00Z", **more}


def row(experiment, name, token, block, weights, floor, **more):
    """The records of one row; tokens read and cost at least ten times a block."""
    numbers = {"token_ms": token, "block_ms": block, "block_weights_read": weights,
               "token_weights_read": 10 * weights, "block_floor_ms": floor,
               "token_floor_ms": 10 * floor}
    return [record(experiment, name, metric, value, **more) for metric, value in numbers.items()]


TABLE1 = row("table1_800m", "baseline", 40.0, 4.0, 100, 3.6) \
    + row("table1_800m", "ff_qkv", 10.0, 0.8, 20, 0.6, config={"feed_forward": "sparse"})


TERRAFORMER = {"shape": "17b", "residual_stack": "reversible", "attention_layers": 2}
TABLE6 = row("table6_17b", "dense", 400.0, 60.0, 1000, 54.0, against="dense", config=TERRAFORMER) \
    + row("table6_17b", "ff_qkv", 40.0, 2.0, 20, 1.8, against="dense", config=TERRAFORMER) \
    + row("table6_17b", "ff_qkv_loss4", 20.0, 2.0, 10, 1.8, against="dense", config=TERRAFORMER)


def stack(family, depth, batch, **metrics):
    """Records of one point of the reversibility experiment."""
    return [record("reversibility", f"{family}_d{depth}_b{batch}", metric, value,
                   config={"decoder_layers": depth, "batch": batch})
            for metric, value in metrics.items()]


STACKS = [r for depth, kept in ((2, 40.0), (8, 160.0), (24, 480.0))
          for r in stack("dense_plain", depth, 4, stack_bytes=kept, step_ms=10.0 * depth)
          + stack("dense_reversible", depth, 4, stack_bytes=30.0 + depth / 24,
                  step_ms=13.0 * depth)] \
    + stack("dense_plain", 6, 1, stack_bytes=30.0, step_ms=15.0) \
    + stack("dense_plain", 6, 4, stack_bytes=120.0, step_ms=60.0) \
    + stack("replay_ff", 2, 4, gradient_error=1e-6, reconstruction_error=1e-5) \
    + stack("recompute_ff", 2, 4, gradient_error=1e-2, reconstruction_error=1e-5)


class WithFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def load(self, items, extra=""):
        files = {}
        for item in items:
            files.setdefault(item["experiment"], []).append(json.dumps(item))
        for name, lines in files.items():
            (self.folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n" + extra)
        return rec.Records(self.folder)


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
        self.assertEqual([d.split(": ")[0] for d in records.damaged],
                         ["e.jsonl:2", "e.jsonl:3", "e.jsonl:4"])
        self.assertIn("lacks experiment", records.damaged[2])
        self.assertEqual(len(records.all()), 1)

    def test_unknown_status_and_text_value_are_damage(self):
        records = self.load([record("e", "r", "m", 1.0, status="fine"), record("e", "r", "m", "1")])
        self.assertEqual(len(records.damaged), 2)

    def test_later_failure_hides_older_success(self):
        failed = record("e", "r", "token_ms", None, status="failed", note="no memory",
                        date="2026-02-01T00:00:00Z")
        records = self.load([record("e", "r", "block_ms", 1.0), failed])
        self.assertIsNone(records.get("e", "r", 2, "block_ms"))
        self.assertEqual(records.gaps["e", "r", 2], "failed: no memory")

    def test_quick_replaces_full_only_of_another_commit(self):
        later = {"date": "2026-02-01T00:00:00Z", "config": {"quick": True}}
        records = self.load([record("e", "r", "m", 1.0), record("e", "r", "m", 2.0, **later),
                             record("e", "s", "m", 1.0),
                             record("e", "s", "m", 2.0, **later, **{"commit": "c2"})])
        self.assertEqual(records.get("e", "r", 2, "m")["value"], 1.0)
        self.assertEqual(records.get("e", "s", 2, "m")["value"], 2.0)

    def test_success_after_failure_closes_the_gap(self):
        records = self.load([record("e", "r", "token_ms", None, status="failed"),
                             record("e", "r", "token_ms", 1.0, date="2026-02-01T00:00:00Z")])
        self.assertEqual(records.gaps, {})


class DeriveTest(WithFolder):
    def figures(self, items, row_name="ff_qkv"):
        return derive.row_figures(self.load(items), "table1_800m", row_name, 2)

    def test_ratios_by_hand(self):
        f = self.figures(TABLE1)
        for name, value in (("token_speedup", 4), ("block_speedup", 5), ("reads_limit", 5),
                            ("block_reads_limit", 5), ("roofline_limit", 6),
                            ("token_roofline_limit", 6), ("share_of_roofline", 5 / 6),
                            ("token_share_of_roofline", 4 / 6)):
            self.assertAlmostEqual(f[name].value, value, msg=name)

    def test_spreads_add_in_quadrature(self):
        above = derive.Value(10.0, "ms", 0.3, "ok", "a")
        below = derive.Value(2.0, "ms", 0.08, "untrusted", "b")
        r = derive.ratio(above, below)
        self.assertAlmostEqual(r.value, 5)
        self.assertAlmostEqual(r.spread, 5 * math.hypot(0.03, 0.04))
        self.assertEqual((r.status, r.commit), ("untrusted", "a+b"))

    def test_status_is_the_worst(self):
        items = [dict(r, status="extrapolated") if r["metric"] == "token_ms" else r for r in TABLE1]
        f = self.figures(items)
        self.assertEqual(f["token_speedup"].status, "extrapolated")
        self.assertEqual(f["block_speedup"].status, "ok")

    def test_faster_peer_beside_our_dense_counts_by_ratio(self):
        # Measured when memory was twice as fast: ours 2.0 there and 4.0 here, so 1.5 becomes 3.0.
        peers = [record("peers_800m", "baseline", "block_ms", 2.0),
                 record("peers_800m", "onednn", "block_ms", 1.8),
                 record("peers_800m", "onednn_own", "block_ms", 1.5)]
        f = self.figures(TABLE1 + peers)
        self.assertAlmostEqual(f["block_speedup"].value, 3.0 / 0.8)
        self.assertAlmostEqual(f["token_speedup"].value, 4)
        records = rec.Records(self.folder)
        self.assertEqual(derive.dense_reference(records, "table1_800m", "baseline", 2,
                                                "block_ms")[1], "onednn")
        self.assertEqual(derive.peer(records, "800m", "onednn", 2).value, 1.5)

    def test_peer_alone_counts_by_time_but_not_if_slower_untrusted_or_other_weights(self):
        self.assertAlmostEqual(self.figures(TABLE1 + [
            record("peers_python", "800m.jax", "block_ms", 3.2)])["block_speedup"].value, 4)
        for bad in (record("peers_python", "800m.jax", "block_ms", 9.0),
                    record("peers_python", "800m.jax", "block_ms", 1.0, status="untrusted"),
                    record("peers_python", "800m.jax.ff_qkv_cross", "block_ms", 1.0),
                    record("peers_python", "17b.jax", "block_ms", 1.0),
                    record("peers_python", "800m.jax", "block_ms", 1.0,
                           config={"weight_type": "bf16"})):
            self.assertAlmostEqual(self.figures(TABLE1 + [bad])["block_speedup"].value, 5, msg=bad)

    def test_a_terraformer_takes_peers_by_ratio_only(self):
        alone = [record("peers_python", "17b.jax", "block_ms", 30.0, config={"shape": "17b"})]
        beside = [record("peers_17b", "baseline", "block_ms", 50.0, config={"shape": "17b"}),
                  record("peers_17b", "onednn", "block_ms", 45.0, config={"shape": "17b"})]
        for items, value in ((alone, 60.0), (beside, 54.0)):
            found, _ = derive.dense_reference(self.load(TABLE6 + items), "table6_17b", "dense", 2,
                                              "block_ms")
            self.assertAlmostEqual(found.value, value)

    def test_missing_reference_leaves_ratios_out(self):
        f = self.figures(TABLE1[6:])
        self.assertIn("block_ms", f)
        self.assertNotIn("block_speedup", f)

    def test_exponent_of_an_exact_power(self):
        items = [record("width_sweep", f"sparse_d{d}", "block_bytes", 7 * d ** 1.5,
                        config={"d_model": d}) for d in (512, 1024, 4096)]
        fit = derive.width_exponents(self.load(items), 2)["sparse", "bytes"]
        self.assertAlmostEqual(fit.value, 1.5)
        self.assertAlmostEqual(fit.spread, 0, places=6)
        self.assertIsNone(derive.fit_exponent([(1, fit), (2, fit)]))

    def test_ceilings_take_memory_not_cache_and_the_best_library(self):
        items = [record("ceilings", "read_16MiB", "read_gbps", 200.0, config={"size": 2**24}),
                 record("ceilings", "read_1GiB", "read_gbps", 50.0, config={"size": 2**30}),
                 record("ceilings", "eigen", "gemm_gflops", 300.0),
                 record("ceilings", "onednn", "gemm_gflops", 500.0)]
        found = derive.ceilings(self.load(items), 2)
        self.assertEqual(found["read_gbps"][0].value, 50)
        self.assertEqual((found["gemm_gflops"][0].value, found["gemm_gflops"][1]), (500, "onednn"))

    def test_overtaking_is_where_the_block_doubles(self):
        points = [(x, derive.Value(1 + x / 100, "ms", 0, "ok", "")) for x in (0, 50, 400)]
        self.assertAlmostEqual(report_tables.overtaking(points), 100)
        self.assertIsNone(report_tables.overtaking(points[:2]))


class ReversibilityTest(WithFolder):
    def test_curves_hold_the_other_setting(self):
        records = self.load(STACKS)

        def xs(metric, over):
            return [x for x, _ in reversibility.curve(records, "dense_plain", metric, over)]

        self.assertEqual(xs("step_ms", "decoder_layers"), [2, 6, 8, 24])
        self.assertEqual(xs("stack_bytes", "batch"), [1, 4])
        self.assertEqual(reversibility.depths(records), [2, 6, 8, 24])

    def test_figures_by_hand(self):
        found = reversibility.figures(self.load(STACKS))
        for name, value in (("activation_growth", 31 / (30 + 2 / 24)),
                            ("plain_activation_growth", 12), ("step_cost", 1.3),
                            ("stack_bytes", 31), ("recompute_ff.gradient_error", 1e-2)):
            self.assertAlmostEqual(found[f"reversible.{name}"].value, value, msg=name)
        self.assertNotIn("reversible.step_cost_over_stored", found)

    def test_nothing_measured_gives_nothing(self):
        records = self.load(TABLE1)
        self.assertEqual(reversibility.figures(records), {})
        self.assertNotIn("Reversible stacks", make_report.make(records))

    def test_report_and_verdict(self):
        records = self.load(STACKS)
        text = make_report.make(records)
        self.assertIn("## Reversible stacks", text)
        self.assertIn("| training step, ms: dense, reversible | 26.0 | – | 104 | 312 |", text)
        self.assertIn("| gradient, `recompute_ff` | 0.01 |", text)
        verdict = {c: (v, e) for c, v, e in claims.judged(records, 2)}[
            "Reversible blocks keep activations from growing with depth (§4.2)"]
        self.assertEqual(verdict[0], "reproduced")
        self.assertIn("24 blocks keeps 1.03× what 2 keep, a plain one 12×", verdict[1])


class SummaryTest(WithFolder):
    def test_ids_values_and_one_thread_prefix(self):
        one = row("table1_800m", "baseline", 80.0, 8.0, 100, 7.0, threads=1)
        found = summarise.summary(self.load(TABLE1 + one))
        self.assertEqual(found["table1.800m.ff_qkv.block_speedup"],
                         {"value": 5.0, "unit": "x", "spread": 0.0, "status": "ok", "commit": "c1"})
        self.assertEqual(found["threads1.table1.800m.baseline.block_ms"]["value"], 8)
        self.assertNotIn("threads1.table1.800m.ff_qkv.block_ms", found)

    def test_bf16_rows_join_their_table(self):
        items = row("table1_17b_bf16", "baseline.bf16", 300.0, 50.0, 100, 40, against="")
        self.assertIn("table1.17b.baseline.bf16.block_ms", summarise.summary(self.load(items)))

    def test_terraformer_ids(self):
        items = TABLE6 + row("table6_17b_bf16", "dense.bf16", 300.0, 50.0, 100, 40,
                             against="dense.bf16") \
            + row("table8", "transformer", 40.0, 4.0, 100, 3.6, against="transformer") \
            + row("table8", "terraformer", 5.0, 0.4, 10, 0.3, against="transformer") + STACKS
        found = summarise.summary(self.load(items))
        for name, value in (("table6.ff_qkv_loss4.token_speedup", 20),
                            ("table6.dense.bf16.token_ms", 300),
                            ("table8.terraformer.token_speedup", 8),
                            ("reversible.plain_activation_growth", 12)):
            self.assertAlmostEqual(found[name]["value"], value, msg=name)
        self.assertNotIn("threads1.reversible.step_cost", found)

    def test_peer_ids(self):
        items = [record("peers_17b", "baseline", "block_ms", 100.0),
                 record("peers_17b", "openblas", "block_ms", 110.0),
                 record("peers_python", "17b.jax.ff_qkv_cross", "block_ms", 9.0),
                 record("peers_python", "17b.jax", "block_ms", 120.0)]
        found = summarise.summary(self.load(items))
        self.assertEqual({k for k in found if k.startswith("peers")},
                         {"peers.17b.ours.block_ms", "peers.17b.openblas.block_ms",
                          "peers.17b.jax.block_ms",
                          "peers.17b.jax.ff_qkv_cross.block_ms"})

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
        for value, text in ((1595, "1,595"), (12.34, "12.3"), (0.04561, "0.0456"), (1, "1.00"),
                            (0, "0"), (None, "–")):
            self.assertEqual(report_tables.number(value), text)

    def test_statuses_gaps_and_damage_are_shown(self):
        items = [dict(r, status="extrapolated") if r["metric"] == "token_ms" else r for r in TABLE1]
        items.append(record("table1_800m", "qkv", "token_ms", None, status="failed",
                            note="too big"))
        text = make_report.make(self.load(items, "nonsense\n"))
        self.assertIn("Extrapolated:", text)
        self.assertIn("`table1_800m`, `qkv`, 2 threads: failed: too big.", text)
        self.assertIn("| `qkv` | 6.20 | gap [", text)
        self.assertIn("table1_800m.jsonl:14:", text)
        self.assertIn("| 1.90 | 0.800 | 3.05× | 5.00× | 5.00× | 6.00× | 0.833 |", text)
        self.assertIn("Not measured: no records of `table2`.", text)
        self.assertIn("--config experiments/configs/table1_800m.cfg", text)

    def test_tables_1_and_6_stand_side_by_side(self):
        items = TABLE6 + row("table1_17b", "baseline", 420.0, 65.0, 1000, 54.0)
        text = make_report.make(self.load(items))
        self.assertIn("| `dense` | 3,690 | 1.00× | 420 | 1.00× | 3,651 | 1.00× | 400 | 1.00× |",
                      text)
        self.assertIn("| `ff_qkv_loss4` | – | – | – | – | 97.0 | 37.6× | 20.0 | 20.0× |", text)
        self.assertIn("to the last digit", text)

    def test_claims_follow_the_numbers(self):
        verdicts = {c: v for c, v, _ in claims.judged(self.load(TABLE1), 2)}
        self.assertEqual(verdicts["... and an 800M decoder block (Table 1)"], "reproduced")
        self.assertEqual(verdicts["... and a 17B decoder block (Table 1)"], "not measured")
        slow = [dict(r, value=2 * r["value"]) if r["row"] == "ff_qkv" and r["metric"] == "block_ms"
                else r for r in TABLE1]
        verdicts = {c: v for c, v, _ in claims.judged(self.load(slow), 2)}
        self.assertEqual(verdicts["... and an 800M decoder block (Table 1)"], "partly reproduced")

    def test_claims_of_terraformers(self):
        verdicts = {c: v for c, v, _ in claims.judged(self.load(TABLE6), 2)}
        self.assertEqual(verdicts["Sparse FF, QKV and loss together make a 17B Terraformer's token "
                                  "faster (Table 6)"], "partly reproduced")
        self.assertEqual(verdicts["... where a sparse loss (S=4) nearly halves the sparse token "
                                  "(Table 6)"], "reproduced")


class KernelsTest(unittest.TestCase):
    def test_rates_and_errors(self):
        name = "multiplicative/800m/simd/f32/1"
        runs = kernel_runs.read({"benchmarks": [
            {"name": name, "bytes/s": 2e9, "FLOP/s": 4e9, "%ceiling": 50.0},
            {"name": "dense/17b/simd/bf16/1", "bytes/s": 5e10, "FLOP/s": 1e11},
            {"name": "softmax/800m/ref/f32/1", "error_occurred": True,
             "error_message": "differs"}]})
        self.assertEqual((runs[0].kernel, runs[0].shape, runs[0].kernel_set),
                         tuple(name.split("/")[:3]))
        self.assertAlmostEqual(runs[0].gbps, 2)
        self.assertAlmostEqual(runs[0].gflops, 4)
        self.assertAlmostEqual(runs[1].intensity, 2)
        self.assertEqual(runs[2].error, "differs")


class ProgramsTest(WithFolder):
    def run_program(self, name, *arguments):
        return subprocess.run([sys.executable, PLOTS / name, *arguments], capture_output=True,
                              text=True, check=False)

    def test_programs_write_their_files_and_draw_what_there_is(self):
        self.load(TABLE1 + TABLE6 + STACKS)
        for name in ("summarise.py", "draw.py", "make_report.py"):
            done = self.run_program(name, "--results", str(self.folder))
            self.assertEqual(done.returncode, 0, done.stderr)
            if name == "draw.py":
                self.assertIn("skipped roofline: ", done.stdout)
        made = {p.name for p in (self.folder / "figures").iterdir()}
        self.assertEqual(made, {f"{name}.{ending}" for ending in ("svg", "png")
                                for name in ("table1_800m", "table6_17b", "reversibility")})
        self.assertIn("figures/table1_800m.png", (self.folder / "report.md").read_text())
        json.loads((self.folder / "summary.json").read_text())

    def test_folder_that_is_none_is_refused_in_a_sentence(self):
        done = self.run_program("summarise.py", "--results", str(self.folder / "nowhere"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("is not a folder", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
