"""Tests of the report's section on single layers."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "plots"))

import make_report  # noqa: E402
import records as rec  # noqa: E402
from sections import layers  # noqa: E402


def entry(name, microseconds, weights, percent=None):
    made = {
        "name": name + "/real_time",
        "run_type": "iteration",
        "real_time": microseconds,
        "time_unit": "us",
        "weights": weights,
    }
    return made if percent is None else {**made, "percent_of_ceiling": percent}


DOCUMENT = {
    "context": {"commit": "c9", "shape": "800m"},
    "benchmarks": [
        entry("feed_forward:sparse/f32/t2", 50.0, 150e3, 60.0),
        entry("feed_forward:dense/f32/t2", 900.0, 8e6, 91.0),
        entry("feed_forward:dense/bf16/t2", 460.0, 8e6, 90.0),
        entry("feed_forward:dense/f32/t1", 1500.0, 8e6, 89.0),
        entry("attention:full/f32/t2", 3.0, 0.0),
        {
            "name": "loss:dense/f32/t2/real_time",
            "error_occurred": True,
            "error_message": "too little memory",
        },
    ],
}


class LayersTest(unittest.TestCase):
    def test_steps_and_failures_are_read(self):
        steps, failed = layers.read(DOCUMENT)
        self.assertEqual(steps["feed_forward", "dense", 1, "f32"], layers.Step(1500.0, 8e6, 0.89))
        self.assertIsNone(steps["attention", "full", 2, "f32"].share)
        self.assertEqual(failed, ["`loss:dense/f32/t2`: too little memory"])
        self.assertEqual(layers.read(None), ({}, []))

    def test_a_line_a_layer_with_many_weights_first_and_gaps_shown(self):
        lines = layers.table(layers.read(DOCUMENT)[0], 2)
        self.assertEqual(
            lines[2:],
            [
                "| feed_forward `dense` | 8,000 | 900 | 0.910 | 460 | 0.900 |",
                "| feed_forward `sparse` | 150 | 50.0 | 0.600 | – | – |",
                "| attention `full` | – | 3.00 | – | – | – |",
            ],
        )

    def test_the_report_has_them_by_threads(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "layers.json").write_text(json.dumps(DOCUMENT))
            text = make_report.make(rec.Records(folder))
        self.assertIn("every layer of the 800M shape", text)
        self.assertIn("Commit c9.", text)
        self.assertLess(text.index("**2 threads**"), text.index("**1 thread**"))
        self.assertIn("- `loss:dense/f32/t2`: too little memory", text)


if __name__ == "__main__":
    unittest.main()
