"""Tests of the report's section on scored texts."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "plots"))

import make_report  # noqa: E402
from sections import scores  # noqa: E402
from with_folder import WithFolder  # noqa: E402


def record(row, metric, value, half=0.01, **more):
    return {
        "experiment": "summaries",
        "study": "scores",
        "section": "",
        "row": row,
        "against": "",
        "threads": 1,
        "metric": metric,
        "unit": "1",
        "value": value,
        "low": value - half,
        "high": value + half,
        "spread": half,
        "repeats": 100,
        "status": "ok",
        "note": "",
        "config": {},
        "command": "score",
        "commit": "c1",
        "date": "2026-01-01T00:00:00Z",
        **more,
    }


class ScoresTest(WithFolder):
    def load_scores(self):
        return self.load(
            [
                record("dense.1", "rouge1", 0.25),
                record("dense.1", "rouge1.stemmed", 0.3),
                record("dense.1", "rouge1.above_another", 0.02),
                record("lead", "rouge1", 0.375),
            ]
        )

    def test_rows_stand_by_their_score_with_the_scorer_s_own_interval(self):
        records = self.load_scores()
        text = make_report.make(records)
        self.assertIn("## Scores of texts: `summaries`", text)
        self.assertIn("| row | ROUGE-1 |", text)
        self.assertIn("| `lead` | 37.5 [36.5, 38.5] |\n| `dense.1` | 25.0 [24.0, 26.0] |", text)
        self.assertIn("| row, words stemmed | ROUGE-1 |", text)
        self.assertIn("| `dense.1` | `another` | ROUGE-1 | 2.00 | 1.00 | 3.00 |", text)

    def test_numbers_have_the_row_and_the_metric(self):
        records = self.load_scores()
        found = scores.numbers(records, records.of(scores.SECTION.owns))
        self.assertEqual(
            set(found),
            {
                "summaries.dense.1.rouge1",
                "summaries.dense.1.rouge1.stemmed",
                "summaries.dense.1.rouge1.above_another",
                "summaries.lead.rouge1",
            },
        )
        self.assertAlmostEqual(found["summaries.lead.rouge1"].low, 0.365)

    def test_a_folder_without_scores_has_no_section(self):
        self.assertNotIn("Scores of texts", make_report.make(self.load([])))


if __name__ == "__main__":
    unittest.main()
