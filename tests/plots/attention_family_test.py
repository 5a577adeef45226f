"""Sections of all attentions, over length and over cached positions, on small made-up records."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import chart  # noqa: E402
import report as report_cells  # noqa: E402
import summarise  # noqa: E402
from made_up import MEASURED  # noqa: E402
from sections import attention_decode, attention_lengths  # noqa: E402
from with_folder import WithFolder  # noqa: E402

NAME, DECODE = "attention_lengths", "attention_decode"


def record(experiment, row, against, metric, value, config, **more):
    decodes = experiment == DECODE
    return {
        **MEASURED,
        "experiment": experiment,
        "study": "attention_decode" if decodes else "attention",
        "section": "" if decodes else "lengths",
        "title": "All of them",
        "id": "attention",
        "row": row,
        "against": against,
        "metric": metric,
        "value": value,
        "config": config,
        **more,
    }


def core(name, attention, length, milliseconds, pairs, against="full", **knobs):
    config = {"attention": attention, "length": length, "causal": True, **knobs}
    numbers = [
        ("peak_bytes", 4000.0 * length),
        ("step_efficiency", 0.5),
        ("forward_ms", milliseconds / 3),
        ("step_ms", milliseconds),
    ]
    if pairs:
        numbers.insert(0, ("pairs", float(pairs)))
    return [
        record(NAME, f"{name}_l{length}", f"{against}_l{length}", metric, value, config)
        for metric, value in numbers
    ]


# The window's work is linear; it meets full attention at 2048. Its pairs are a quarter of full's at
# 4096, its time half.
LENGTHS = [
    r
    for length in (1024, 4096, 16384)
    for r in core("full", "full", length, (length / 2048) ** 2, length * length // 2)
    + core("window", "window", length, length / 2048, length * 512, window_width=1023)
    + core("performer", "performer", length, length / 100, None, performer_features=256)
]


def step(name, context, microseconds, cache):
    config = {"attention": name, "context": context}
    return [
        record(DECODE, f"{name}_c{context}", f"full_c{context}", metric, value, config)
        for metric, value in (
            ("cache_bytes", cache),
            ("decode_floor_us", microseconds / 2),
            ("decode_efficiency", 0.5),
            ("decode_us", microseconds),
        )
    ]


STEPS = [
    r
    for context in (256, 4096, 8192)
    for r in step("full", context, context / 100, context * 8e3) + step("window", context, 10, 2e6)
]


class LengthsTest(WithFolder):
    def test_numbers_are_those_of_the_records(self):
        found = summarise.figures(self.load(LENGTHS))
        # 4 ms over 4096 positions.
        self.assertAlmostEqual(found["attention.full.train_us_token_4096"].value, 4e3 / 4096)
        self.assertEqual(found["attention.full.train_us_token_4096"].unit, "us")
        self.assertAlmostEqual(found["attention.full.forward_us_token_4096"].value, 4e3 / 3 / 4096)
        self.assertAlmostEqual(found["attention.full.gemm_share_4096"].value, 0.5)
        self.assertAlmostEqual(found["attention.window.crossover_length"].value, 2048, delta=0.01)
        self.assertAlmostEqual(found["attention.window.speedup_4096"].value, 2)
        self.assertAlmostEqual(found["attention.window.speedup_16384"].value, 8)
        # 16 times fewer pairs, 8 times less time.
        self.assertAlmostEqual(found["attention.window.share_of_pairs_16384"].value, 0.5)
        self.assertEqual(found["attention.window.share_of_pairs_16384"].commit, "c1")
        self.assertNotIn("attention.performer.share_of_pairs_16384", found)
        self.assertNotIn("attention.performer.crossover_length", found)

    def test_report_has_ratios_of_time_and_of_pairs(self):
        report = report_cells.Report(self.load(LENGTHS))
        attention_lengths.write(report, report.records.of(attention_lengths.SECTION.owns))
        text = report.text()
        self.assertIn("| window | `window`: window_width 1023 |", text)
        self.assertIn("| full | 0.244 | 0.977 | 3.91 |", text)
        self.assertIn("| full / window | 0.500× (1.00) | 2.00× (4.00) | 8.00× (16.0) |", text)
        self.assertIn("| window | full | 2,048 | 2,048 | 8.00× | 0.500 |", text)
        self.assertIn("| performer | full | beyond 16,384 | beyond 16,384 | 0.391× | – |", text)

    def test_a_point_that_was_left_out_says_why(self):
        skipped = record(
            NAME,
            "full_l65536",
            "full_l65536",
            "step_ms",
            None,
            {},
            status="skipped",
            note="too long",
        )
        more = core("window", "window", 65536, 32, 65536 * 512, window_width=1023)
        report = report_cells.Report(self.load([*LENGTHS, *more, skipped]))
        attention_lengths.write(report, report.records.of(attention_lengths.SECTION.owns))
        text = report.text()
        self.assertIn("| full | 0.244 | 0.977 | 3.91 | gap [1] |", text)
        self.assertIn("1. Skipped: too long.", text)

    def test_every_attention_has_a_curve_of_its_own_look(self):
        figure = attention_lengths.draw(self.load(LENGTHS), NAME)
        labels = figure.axes[0].get_legend_handles_labels()[1]
        self.assertEqual(sorted(labels), ["full", "performer", "window"])
        self.assertEqual(len(figure.axes), 3)
        chart.save(figure, self.folder / NAME)
        self.assertTrue((self.folder / f"{NAME}.svg").exists())
        looks = {str(chart.one_of_many(i)) for i in range(40)}
        self.assertEqual(len(looks), 40)

    def test_nothing_is_written_or_drawn_of_nothing(self):
        report = report_cells.Report(self.load([]))
        attention_lengths.write(report, report.records.of(attention_lengths.SECTION.owns))
        self.assertEqual(report.chapters, [])
        with self.assertRaises(chart.Missing):
            attention_lengths.draw(self.load([]), NAME)


class DecodeTest(WithFolder):
    def test_numbers_are_those_of_the_records(self):
        found = summarise.figures(self.load(STEPS))
        self.assertAlmostEqual(found["attention.full.decode_us_token_4096"].value, 40.96)
        self.assertAlmostEqual(found["attention.full.decode_efficiency"].value, 0.5)
        self.assertAlmostEqual(found["attention.full.cache_bytes_4096"].value, 4096 * 8e3)
        # 10 µs at every context: full takes them at 1,000 positions.
        crossing = found["attention.window.decode_crossover_length"].value
        self.assertAlmostEqual(crossing, 1000, delta=0.01)

    def test_report_and_figure(self):
        records = self.load(STEPS)
        report = report_cells.Report(records)
        attention_decode.write(report, records.of(attention_decode.SECTION.owns))
        text = report.text()
        self.assertIn("| full | 2.56 (0.50) | 41.0 (0.50) | 81.9 (0.50) | – |", text)
        self.assertIn("| window | 10.0 (0.50) | 10.0 (0.50) | 10.0 (0.50) | 1,000 |", text)
        self.assertIn("| window | 2,000 | 2,000 | 2,000 |", text)
        figure = attention_decode.draw(records, DECODE)
        self.assertEqual(len(figure.axes), 2)
        chart.save(figure, self.folder / DECODE)
        with self.assertRaises(chart.Missing):
            attention_decode.draw(self.load([]), DECODE)


if __name__ == "__main__":
    unittest.main()
