"""Tests of the long-sequence part of plots/ on small made-up records: crossing, exponents, gaps."""

import math
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import chart  # noqa: E402
import records as rec  # noqa: E402
import report as report_cells  # noqa: E402
import summarise  # noqa: E402
from made_up import MEASURED  # noqa: E402
from sections import attention  # noqa: E402
from with_folder import WithFolder  # noqa: E402

NAME = "long_sequence"


def record(row, metric, value, status="ok", **more):
    config = {
        "length": int(row.rsplit("_l", 1)[-1]) if "_l" in row else 4096,
        **more.pop("config", {}),
    }
    return {
        **MEASURED,
        "experiment": "long_sequence",
        "row": row,
        "against": row,
        "metric": metric,
        "value": value,
        "status": status,
        "config": config,
        **more,
    }


def core(name, length, milliseconds, heap, **more):
    config = {"attention": name, "lsh_chunk": 64, "window_width": 33}
    return [
        record(f"{name}_l{length}", metric, value, against=f"full_l{length}", config=config, **more)
        for metric, value in (
            ("heap_bytes", heap),
            ("peak_bytes", 3 * heap),
            ("step_efficiency", 0.5),
            ("forward_heap_bytes", heap / 2),
            ("forward_peak_bytes", 2 * heap),
            ("forward_efficiency", 0.75),
            ("step_us_per_token", 1e3 * milliseconds / length),
            ("forward_ms", milliseconds / 3),
            ("step_ms", milliseconds),
        )
    ]


def seen(distribution, chunk, rounds, value):
    config = {"distribution": distribution, "lsh_chunk": chunk, "lsh_rounds": rounds}
    return [
        record(f"{distribution}_c{chunk}_r{rounds}", metric, v, config=config)
        for metric, v in (("recall", value), ("density", value / 2))
    ]


# Full grows with the square, LSH linearly: they meet at 2048, half-way between two lengths.
CORES = [
    r
    for length in (512, 1024, 1024 * 4, 16384)
    for r in core("full", length, (length / 2048) ** 2, length * 100)
    + core("lsh", length, length / 2048, length * 40)
] + core("lsh", 32768, 16, 32768 * 40)
# The window's work is that of LSH, halved: it meets full attention at 1024.
WINDOWS = [
    r
    for length in (512, 1024 * 4, 16384)
    for r in core("window", length, length / 4096, length * 10)
]
SKIPPED = record("full_l32768", "step_ms", None, status="skipped", note="too long")
RECALLS = [
    r
    for d in ("random", "clustered")
    for c in (16, 64)
    for n in (1, 2)
    for r in seen(d, c, n, 0.1 * n + c / 1000)
]


class FiguresTest(WithFolder):
    def test_crossing_is_interpolated_between_logarithms(self):
        crossing = attention.crossover(self.load(CORES), NAME, "lsh")
        self.assertAlmostEqual(crossing.value, 2048, delta=0.01)
        self.assertEqual((crossing.unit, crossing.high - crossing.low), ("positions", 0))

    def test_the_last_crossing_counts(self):
        items = CORES + core("full", 256, 99, 1) + core("lsh", 256, 1, 1)
        self.assertAlmostEqual(
            attention.crossover(self.load(items), NAME, "lsh").value, 2048, delta=0.01
        )

    def test_crossing_that_was_not_seen_is_absent(self):
        late = [r for r in CORES if r["config"]["length"] > 2048]
        self.assertIsNone(attention.crossover(self.load(late), NAME, "lsh"))
        early = [r for r in CORES if r["config"]["length"] < 2048]
        self.assertIsNone(attention.crossover(self.load(early), NAME, "lsh"))

    def test_faster_at_every_length_is_known_from_the_shortest_on(self):
        # The longest has been timed once.
        late = [
            dict(r, repeats=1 if r["config"]["length"] > 8192 else 5)
            for r in CORES
            if r["config"]["length"] > 2048
        ]
        crossing = attention.crossing(self.load(late), NAME, "lsh")
        self.assertEqual((crossing.value, crossing.high), (4096, 4096))
        self.assertTrue(math.isnan(crossing.low))
        once = self.load([dict(r, repeats=1) for r in late])
        self.assertIsNone(attention.crossing(once, NAME, "lsh"))
        early = self.load([r for r in CORES if r["config"]["length"] < 2048])
        self.assertIsNone(attention.crossing(early, NAME, "lsh"))
        self.assertAlmostEqual(
            attention.crossing(self.load(CORES), NAME, "lsh").value, 2048, delta=0.01
        )

    def test_spread_of_the_crossing_follows_the_slope(self):
        # So that half an interval is a tenth of the time.
        spread = 0.1 * math.sqrt(10) / (1.57 * 2)
        noisy = [
            dict(r, spread=spread * r["value"], repeats=10) if r["row"].startswith("full") else r
            for r in CORES
        ]
        crossing = attention.crossover(self.load(noisy), NAME, "lsh")
        # The ratio grows as length: a tenth of it is a tenth of the length.
        self.assertGreater(crossing.high - crossing.low, 0)
        self.assertLessEqual(crossing.high - crossing.value, 0.12 * 2048)

    def test_summary_has_the_three_figures(self):
        figures = summarise.figures(self.load(CORES + [SKIPPED]))
        self.assertEqual(
            set(figures), {"lsh.crossover_length", "lsh.speedup_16384", "lsh.memory_exponent"}
        )
        self.assertAlmostEqual(figures["lsh.speedup_16384"].value, 8)
        self.assertAlmostEqual(figures["lsh.memory_exponent"].value, 1)
        self.assertEqual(summarise.figures(rec.Records(self.folder / "nothing")), {})

    def test_a_third_attention_has_figures_under_its_name(self):
        figures = summarise.figures(self.load(CORES + WINDOWS))
        self.assertAlmostEqual(figures["lsh.crossover_length"].value, 2048, delta=0.01)
        self.assertAlmostEqual(figures["lsh.window.crossover_length"].value, 1024, delta=0.01)
        self.assertAlmostEqual(figures["lsh.window.speedup_16384"].value, 16)
        self.assertAlmostEqual(figures["lsh.window.memory_exponent"].value, 1)

    def test_recall_is_sorted_by_chunk_and_rounds(self):
        found = attention.recall(self.load(RECALLS), NAME, "clustered")
        self.assertEqual(list(found), [16, 64])
        self.assertEqual([r for r, _ in found[16]], [1, 2])
        self.assertAlmostEqual(found[64][1][1].value, 0.264)


class SectionTest(WithFolder):
    def test_report_has_numbers_gaps_and_recall(self):
        report = report_cells.Report(self.load(CORES + [SKIPPED] + RECALLS))
        attention.write(report, report.records.of(attention.SECTION.owns))
        text = report.text()
        self.assertIn(
            "| 16,384 | 3.91 | 0.488 | 8.00× | 0.100 | 0.0400 | 0.300 | 0.120 | 0.500 | 0.500 |",
            text,
        )
        self.assertIn("| 32,768 | gap [1] | 0.488 | – |", text)
        self.assertIn(
            "| 16,384 | 1.30 | 0.163 | 8.00× | 0.0500 | 0.0200 | 0.200 | 0.0800 | 0.750 | 0.750 |",
            text,
        )
        self.assertIn("| 32,768 | gap [1] | 0.163 | – |", text)
        self.assertIn("2,048 positions on", text)
        self.assertIn("| 64 | 0.164 (0.0820) | 0.264 (0.132) |", text)
        self.assertIn("\n1. Skipped: too long.", text)

    def test_a_third_attention_has_columns_and_words(self):
        report = report_cells.Report(self.load(CORES + WINDOWS))
        attention.write(report, report.records.of(attention.SECTION.owns))
        text = report.text()
        self.assertIn(
            "| length | full, µs a token | LSH, µs a token | window, µs a token | full / LSH "
            "| full / window | full, kB a token kept | LSH, kB a token kept "
            "| window, kB a token kept |",
            text,
        )
        self.assertIn("| 16,384 | 3.91 | 0.488 | 0.244 | 8.00× | 16.0× | 0.100 |", text)
        self.assertIn("| 1,024 | 0.244 | 0.488 | gap [1] | 0.500× | – |", text)
        self.assertIn("(positions a chunk 64, positions a window 33)", text)
        self.assertIn("Window attention lets a position look at", text)
        self.assertIn("A training step of window attention is faster from about 1,024", text)

    def test_a_row_is_compared_with_the_row_that_it_is_against(self):
        nearer = [dict(r, against=r["row"].replace("window", "lsh")) for r in WINDOWS]
        figures = summarise.figures(self.load(CORES + nearer))
        self.assertAlmostEqual(figures["lsh.window.speedup_16384"].value, 2)

    def test_without_records_there_is_no_section(self):
        report = report_cells.Report(rec.Records(self.folder))
        attention.write(report, report.records.of(attention.SECTION.owns))
        self.assertEqual(report.chapters, [])


class FigureTest(WithFolder):
    def test_it_is_drawn_with_and_without_recall(self):
        for items, panels in ((CORES + RECALLS, 4), (CORES, 2)):
            figure = attention.draw(self.load(items), NAME)
            self.assertEqual(len(figure.axes), panels)
            self.assertEqual(figure.axes[0].get_xscale(), "log")
            shown = [axes.get_legend_handles_labels()[1] for axes in figure.axes[:2]]
            self.assertEqual(
                shown,
                [
                    [f"{name}, {words}" for words in pair for name in ("full", "LSH")]
                    for pair in (("training step", "forward"), ("kept", "peak"))
                ],
            )
            chart.save(figure, self.folder / "long_sequence")
        self.assertTrue((self.folder / "long_sequence.svg").exists())

    def test_every_attention_is_drawn_and_its_crossing_marked(self):
        figure = attention.draw(self.load(CORES + WINDOWS), NAME)
        labels = figure.axes[1].get_legend_handles_labels()[1]
        self.assertEqual(
            labels,
            [
                f"{name}, {words}"
                for words in ("kept", "peak")
                for name in ("full", "LSH", "window")
            ],
        )
        marks = [text.get_text() for text in figure.axes[0].texts]
        self.assertEqual(marks, ["steps equal at 2,048 (LSH)", "steps equal at 1,024 (window)"])

    def test_nothing_to_draw_is_said(self):
        with self.assertRaises(chart.Missing):
            attention.draw(self.load(RECALLS), NAME)


if __name__ == "__main__":
    unittest.main()
