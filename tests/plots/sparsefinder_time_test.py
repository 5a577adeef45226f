"""Tests of what predicted graphs take: a line an attention, its gain beside its time, ids."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import report as report_cells  # noqa: E402
from made_up import MEASURED  # noqa: E402
from sections import sparsefinder_time  # noqa: E402
from with_folder import WithFolder  # noqa: E402


def records(row, sparsity, times, gains=(), threads=1):
    """times, gains: {run: value}."""
    found = {"sparsity": sparsity}
    found |= {f"{run}_us_token": value for run, value in times.items()}
    found |= {f"{run}_speedup": value for run, value in dict(gains).items()}
    return [
        {
            **MEASURED,
            "experiment": "sparsefinder_time",
            "study": "sparsefinder_time",
            "row": row,
            "against": ".".join(row.split(".")[:2]) + ".full_entmax15",
            "threads": threads,
            "metric": metric,
            "value": value,
            "config": {"sequences": 8, "positions": 256},
            "command": "sparsefinder_time --checkpoint a",
        }
        for metric, value in found.items()
    ]


RECORDS = [
    *records("s_lm.1.full_softmax", 0.0, {"decode": 4.0, "forward": 2.0, "train": 6.0}),
    *records("s_lm.1.full_entmax15", 0.0, {"decode": 5.0, "forward": 3.0, "train": 8.0}),
    *records(
        "s_lm.1.distance.0.9",
        0.91,
        {"decode": 8.0, "forward": 1.0, "train": 12.0},
        {"decode": 0.5, "forward": 2.0, "train": 0.5},
    ),
    *records("s_mlm.1.full_softmax", 0.0, {"forward": 2.5, "train": 6.5}),
]


class SparsefinderTime(WithFolder):
    def setUp(self):
        super().setUp()
        self.records = self.load(RECORDS)
        self.own = self.records.of(sparsefinder_time.OWNS)

    def test_every_number_has_an_id(self):
        found = sparsefinder_time.numbers(self.records, self.own)
        self.assertEqual(found["sparsefinder.s_lm.1.distance.0.9.train_speedup"].value, 0.5)
        self.assertEqual(found["sparsefinder.s_lm.1.full_entmax15.decode_us_token"].value, 5.0)
        self.assertEqual(found["sparsefinder.s_lm.1.distance.0.9.sparsity"].value, 0.91)
        self.assertNotIn("sparsefinder.s_lm.1.full_softmax.train_speedup", found)

    def test_a_teacher_has_a_table_with_gains_beside_times(self):
        report = report_cells.Report(self.records)
        sparsefinder_time.write(report, self.own)
        text = report.text()
        self.assertEqual(text.count("## Sparsefinder on the clock"), 2)
        self.assertIn(
            "| `distance.0.9` | 0.910 | 8.00 (0.500×) | 1.00 (2.00×) | 12.0 (0.500×) |", text
        )
        self.assertIn("| `full_softmax` | 0 | 4.00 | 2.00 | 6.00 |", text)
        # What looks at later positions is not decoded.
        self.assertIn("| `full_softmax` | 0 | – | 2.50 | 6.50 |", text)
        self.assertIn("teacher `s_lm.1`, 256 tokens, 1 thread\n", text)
        self.assertIn("of 8 held-out sequences of 256 tokens", text)

    def test_rows_of_other_threads_stand_apart(self):
        more = records("s_lm.1.kmeans.0.9", 0.9, {"forward": 1.0, "train": 3.0}, threads=2)
        found = self.load([*RECORDS, *more])
        report = report_cells.Report(found)
        sparsefinder_time.write(report, found.of(sparsefinder_time.OWNS))
        (_, of_two) = report.text().split("256 tokens, 2 threads")
        self.assertIn("`kmeans.0.9`", of_two)
        self.assertNotIn("`distance.0.9`", of_two.partition("## ")[0])


if __name__ == "__main__":
    unittest.main()
