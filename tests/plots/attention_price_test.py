"""Attentions' nats beside the time of their cores, on made-up curves and times."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import chart  # noqa: E402
import curves_test as made_up  # noqa: E402
import summarise  # noqa: E402
from made_up import record  # noqa: E402
from report import Report  # noqa: E402
from sections import attention_price  # noqa: E402

CURVES = "attention_quality"
STEPS = ("attention", "attention_quality_steps", "step_ms", "_l2048", {"length": 2048})
DECODES = ("attention_decode", "attention_quality_decode", "decode_us", "_c2047", {"context": 2047})
# Nats, ms a step, µs a decoded token: of window and strided neither is faster and better; full has nothing for it,
# and lsh decodes slower still.
ROWS = {
    "full": (4.95, 200.0, 40.0),
    "window": (4.90, 30.0, 10.0),
    "strided": (4.88, 50.0, 20.0),
    "lsh": (4.94, 80.0, 90.0),
}
TRAINED = {"steps": 610, "batch": 4, "length": 2048, "d_model": 128}


def trained(seeds=(1,)):
    return [
        made
        for row, (nats, *_) in ROWS.items()
        for seed in seeds
        for made in made_up.curve(
            row,
            nats,
            seed,
            experiment=CURVES,
            against="full",
            config=TRAINED | {"attention": row},
        )
    ]


def timed(which, number, factor=1.0):
    study, experiment, metric, ending, config = which
    return [
        record(
            experiment,
            row + ending,
            metric,
            figures[number] * factor,
            threads=1,
            against=f"full{ending}",
            study=study,
            section="trained",
            title="Timed",
            id=CURVES,
            config={"attention": row, **config},
        )
        for row, figures in ROWS.items()
    ]


BOTH = timed(STEPS, 1) + timed(DECODES, 2)


class AttentionPriceTest(made_up.WithCurves):
    def text(self, items):
        report = Report(self.load(items))
        own = report.records.of(attention_price.SECTION.owns)
        attention_price.write(report, own)
        return report.text()

    def drawn(self, items):
        records = self.load(items)
        own = records.of(attention_price.SECTION.owns)
        (draw,) = attention_price.figures(records, own).values()
        return draw(records)

    def test_numbers_are_microseconds_a_token(self):
        found = summarise.figures(self.load(trained() + BOTH))
        # 200 ms over 2,048 positions.
        self.assertAlmostEqual(found["attention_quality.full.step_us_token"].value, 200e3 / 2048)
        self.assertEqual(found["attention_quality.window.decode_us_token"].value, 10.0)
        units = {
            found[f"attention_quality.{at}_us_token"].unit for at in ("full.step", "window.decode")
        }
        self.assertEqual(units, {"us"})

    def test_longer_than_what_was_trained_does_not_count(self):
        longer = (*STEPS[:3], "_l4096", {"length": 4096})
        items = trained() + timed(STEPS, 1) + timed(longer, 1, factor=9.0)
        found = summarise.figures(self.load(items))
        self.assertAlmostEqual(found["attention_quality.full.step_us_token"].value, 200e3 / 2048)
        text = self.text(items)
        self.assertIn("over 2,048 positions at 1 thread", text)
        self.assertIn("long_sequence --threads 1 --lengths 2048 --config", text)

    def test_the_frontier_is_told_apart_by_what_is_timed(self):
        text = self.text(BOTH + trained())
        self.assertIn(
            "a training step over 2,048 positions at 1 thread and of a token decoded behind 2,047 positions at 1",
            text,
        )
        lines = {
            cells[1]: cells
            for cells in (line.split(" | ") for line in text.splitlines())
            if len(cells) > 5
            for cells in [["", cells[0].strip("| "), *cells[1:]]]
        }
        self.assertEqual(lines["window"][-1], "training, decoding |")
        self.assertEqual(lines["strided"][-1], "training, decoding |")
        self.assertEqual(lines["full"][-1], "no |")
        self.assertIn("6.67×", lines["window"][5])  # 200 over 30 ms
        self.assertIn("0.444×", lines["LSH"][7])  # 40 over 90 µs
        # Training comes first whatever was recorded first.
        self.assertLess(text.index("training step, µs"), text.index("token decoded, µs"))

    def test_a_panel_for_each_that_was_timed(self):
        self.assertEqual(len(self.drawn(trained() + BOTH).axes), 2)
        self.assertEqual(len(self.drawn(trained() + timed(STEPS, 1)).axes), 1)

    def test_times_without_curves_are_no_picture(self):
        self.assertEqual(self.text(BOTH), "")
        with self.assertRaises(chart.Missing):
            self.drawn(BOTH)


if __name__ == "__main__":
    unittest.main()
