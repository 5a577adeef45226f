"""Sweeps over widths, contexts and batches, and what figures mark."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import chart  # noqa: E402
import make_report  # noqa: E402
import values  # noqa: E402
from made_up import TABLE1, ceilings, marked, swept  # noqa: E402
from sections import batch_sweep, context_sweep, table_figures, width_sweep  # noqa: E402
from with_folder import WithFolder  # noqa: E402

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


if __name__ == "__main__":
    unittest.main()
