"""Tests of the decode paths in plots/ on made-up curves: differences within a seed, choices and what drawing would give."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import curves_test as made_up  # noqa: E402
import summarise  # noqa: E402
from report import Report  # noqa: E402
from sections import decode_paths  # noqa: E402

SPARSE = {"feed_forward": "sparse", "sparsity": 4, "length": 3, "steps": 10, "batch": 2}


def decoded(row, seed, reference, f32, bf16, config, **choices):
    found = made_up.curve(row, reference, seed, config=config)
    metrics = {
        "decode_reference_log_perplexity": reference,
        "decode_log_perplexity.f32": f32,
        "decode_log_perplexity.bf16": bf16,
        **{f"selection_{name}": value for name, value in choices.items()},
    }
    return found + [
        made_up.record(row, metric, value, seed, config=config) for metric, value in metrics.items()
    ]


def both():
    dense = SPARSE | {"feed_forward": "dense"}
    return [
        *decoded("dense", 1, 4.0, 4.00001, 4.002, dense),
        *decoded("ff_n4", 1, 4.1, 4.1, 4.103, SPARSE, reuse_1=0.5, chance=0.3, touched=0.6),
        *decoded("ff_n4", 2, 4.3, 4.3, 4.304, SPARSE, reuse_1=0.7, chance=0.3, touched=0.6),
    ]


class DecodePathsTest(made_up.WithCurves):
    def report(self, items):
        report = Report(self.load(items))
        decode_paths.write(report, report.records.of(decode_paths.OWNS))
        return report.text()

    def test_paths_are_differences_to_the_trainer_within_a_seed(self):
        found = summarise.summary(self.load(both()))
        names = [name for name in found if name.startswith("decode_path.")]
        start = next(name for name in names if name.endswith(".ff_n4.bf16")).removesuffix("bf16")
        self.assertAlmostEqual(found[start + "bf16"]["value"], 0.0035)
        self.assertEqual(found[start + "bf16"]["seeds"], 2)
        self.assertAlmostEqual(found[start + "f32"]["value"], 0)
        self.assertAlmostEqual(found[start + "reuse_1"]["value"], 0.6)
        self.assertNotIn(start + "bf16_dot", found)
        self.assertFalse(any(".dense.reuse" in name for name in names))

    def test_tables_say_what_was_chosen_beside_what_drawing_gives(self):
        text = self.report(both())
        self.assertIn("| `dense` | 1 | 4.0000 [–] | +1.0e-05 | +2.0e-03 | – |", text)
        # Of four options in three tokens: 1 - (3/4)^3.
        self.assertIn("| `ff_n4` | 0.600 | – | – | – | – | 0.300 | 0.250 | 0.600 | 0.578 |", text)
        self.assertNotIn("| `dense` | – |", text)

    def test_curves_that_were_not_decoded_are_not_there(self):
        self.assertEqual(self.report(made_up.curve("dense", 4.0)), self.report([]))


if __name__ == "__main__":
    unittest.main()
