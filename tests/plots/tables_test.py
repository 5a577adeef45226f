"""Tables that have more than times: what they count, limits, stacks, kernels, the roofline."""

import json
import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import make_report  # noqa: E402
import records as rec  # noqa: E402
import summarise  # noqa: E402
from made_up import STACKS, TABLE1, TABLE2, ceilings, record, row, stack  # noqa: E402
from sections import machine, stacks, table_figures  # noqa: E402
from with_folder import WithFolder  # noqa: E402


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

    def test_peak_memory_of_the_deepest_is_a_share_of_the_plain_stack_s(self):
        self.assertNotIn("reversible.peak_share", summarise.figures(self.load(STACKS)))
        peaks = [
            r
            for stack_name, depth, peak in (
                ("plain", 2, 30.0),
                ("plain", 24, 200.0),
                ("reversible", 2, 25.0),
                ("reversible", 24, 50.0),
            )
            for r in stack(f"dense_{stack_name}", depth, 4, peak_memory_bytes=peak)
        ]
        found = summarise.figures(self.load(STACKS + peaks))
        self.assertAlmostEqual(found["reversible.peak_share"].value, 0.25)
        self.assertAlmostEqual(found["reversible.peak_share_24"].value, 0.25)
        self.assertAlmostEqual(found["reversible.peak_share_2"].value, 25 / 30)

    def test_the_whole_model_is_the_line_through_what_was_measured(self):
        self.assertFalse([k for k in summarise.figures(self.load(STACKS)) if ".whole_" in k])
        items = [
            dict(r, config=r["config"] | {"whole_blocks": 24, "max_length": 250})
            for depth in (1, 2)
            for r in stack("dense_plain", depth, 4, step_ms=1e3 + 500 * depth, stack_bytes=2e6)
        ]
        # A sweep over batches beside it, measured last, is not what tokens are counted by.
        items += [
            dict(r, config=r["config"] | {"whole_blocks": 24, "max_length": 250})
            for r in stack("dense_plain", 1, 16, step_ms=9e3, stack_bytes=9e6)
        ]
        records = self.load(items)
        found = summarise.figures(records)
        step = found["reversible.dense_plain.whole_step_s"]
        self.assertAlmostEqual(step.value, 1 + 0.5 * 24)
        self.assertEqual((step.unit, step.status, step.extrapolated), ("s", "extrapolated", True))
        self.assertAlmostEqual(found["reversible.dense_plain.whole_ms_token"].value, 13)
        self.assertAlmostEqual(found["reversible.dense_plain.whole_kept_kb_token"].value, 2)
        self.assertNotIn("reversible.dense_plain.whole_peak_gb", found)
        text = make_report.make(records)
        self.assertIn("**All 24 blocks, extrapolated**", text)
        # An uncertain step of either depth counts as far as the line carries it.
        uncertain = [
            dict(r, spread=5.0, repeats=9) if r["metric"] == "step_ms" else r for r in items
        ]
        wide = summarise.figures(self.load(uncertain))["reversible.dense_plain.whole_step_s"]
        half = rec.interval(uncertain[0])[1] - uncertain[0]["value"]
        self.assertAlmostEqual(wide.high - wide.value, 1e-3 * half * (23 + 22))
        own = records.of(stacks.SECTION.owns)
        self.assertIn("not measured", stacks.verdicts(records, own)[0].verdict)

    def test_what_is_not_swept_has_no_panel(self):
        def panels(items):
            axes = stacks.draw(self.load(items), "reversibility").axes
            return [(a.get_ylabel(), a.get_xlabel()) for a in axes]

        batches = ("kept by the stack, MB", "sequences")
        self.assertIn(batches, panels(STACKS))
        of_one_batch = [r for r in STACKS if not r["row"].endswith("_b1")]
        self.assertNotIn(batches, panels(of_one_batch))
        self.assertEqual(len(panels(of_one_batch)), 2)  # what is kept, and steps
        with self.assertRaises(stacks.chart.Missing):
            panels([r for r in of_one_batch if "_d2_" in r["row"]])

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


if __name__ == "__main__":
    unittest.main()
