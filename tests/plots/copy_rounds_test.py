"""Tests of the copy task's table in plots/ on made-up curves: trained with so many rounds, evaluated with others."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import curves_test as made_up  # noqa: E402
import summarise  # noqa: E402
from report import Report  # noqa: E402
from sections import copy_rounds  # noqa: E402


def evaluated(row, accuracy, experiment, **about):
    return [
        made_up.record(row, metric, value, 1, experiment=experiment, study="training", **about)
        for metric, value in (
            ("accuracy", accuracy),
            ("sequence_accuracy", accuracy / 2),
            ("log_perplexity", 1.0),
        )
    ]


CROSS = {"section": "copy_rounds", "title": "Rounds", "id": "copy_rounds.cross"}
RECORDS = [
    *evaluated("lsh1", 0.5, "copy_rounds", section="training", id="copy_rounds"),
    *evaluated("lsh2", 0.8, "copy_rounds", section="training", id="copy_rounds"),
    *evaluated("lsh1.as_lsh2", 0.6, "copy_rounds_cross", **CROSS),
]


class CopyRoundsTest(made_up.WithCurves):
    def test_a_row_is_what_was_trained_and_a_column_what_it_is_evaluated_with(self):
        report = Report(self.load(RECORDS))
        copy_rounds.write(report, report.records.of(copy_rounds.OWNS))
        text = report.text()
        self.assertIn("| trained | `lsh1` | `lsh2` |", text)
        self.assertIn("| `lsh1` | 50.0 | 60.0 |", text)
        self.assertIn("| `lsh2` | – | 80.0 |", text)
        self.assertIn("| `lsh1` | 25.0 | 30.0 |", text)

    def test_ids(self):
        found = summarise.figures(self.load(RECORDS))
        self.assertEqual(found["copy_rounds.lsh1.as_lsh2.accuracy"].value, 0.6)
        self.assertEqual(found["copy_rounds.lsh2.as_lsh2.sequence_accuracy"].value, 0.4)


if __name__ == "__main__":
    unittest.main()
