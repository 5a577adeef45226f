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
        self.assertIn(
            "| `dense.1` | `another` | ROUGE-1 | 2.00 | 1.00 | 3.00 | above so far |", text
        )
        self.assertNotIn("The paper's Table 5", text)

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

    def test_table_5_says_what_a_row_costs_and_what_the_paper_has(self):
        base = {"experiment": "table5_sumpubmed", "study": "training", "section": "pairs"}
        base |= {"id": "table5.sumpubmed.curve", "key": "k", "seed": 1, "title": "Curves"}
        base |= {"config": {"data": "d"}, "planned": {"rows": ["dense"]}}
        of_curve = [
            record("dense", metric, number, unit=unit, **base)
            for metric, number, unit in (
                ("params", 1e6, "1"),
                ("train_seconds", 600, "s"),
                ("peak_memory_bytes", 2e9, "B"),
                ("log_perplexity", 3.0, "nats/token"),
            )
        ]
        of_table = {"experiment": "table5.sumpubmed", "id": "table5.sumpubmed"}
        scored = [
            record("dense", "rouge1", 0.25, **of_table),
            record("dense", "tokens_per_s", 500, unit="tokens/s", **of_table, low=None, high=None),
            record("dense.first_10", "rouge1", 0.125, **of_table),
            record("dense", "rouge1.above_another", 0.0, **of_table, config={"seeds": 5}),
        ]
        (self.folder / "table9_sumpubmed.md").touch()
        records = self.load([*of_curve, *scored])
        text = make_report.make(records)
        self.assertIn("| `dense` | 10.0 | 2,000 | 500 |", text)
        self.assertIn("| `dense` | 12.5 [11.5, 13.5] | 25.0 [24.0, 26.0] |", text)
        self.assertIn("| Terraformer | 45.40 | 17.86 | 41.21 | 26.33 |", text)
        self.assertIn("[table9_sumpubmed.md](table9_sumpubmed.md)", text)
        self.assertIn("| 0 | -1.00 | 1.00 | undecided |", text)
        found = scores.numbers(records, records.of(scores.SECTION.owns))
        self.assertEqual(found["table5.sumpubmed.dense.peak_mb"].value, 2000)
        self.assertEqual(found["table5.sumpubmed.dense.peak_mb"].unit, "MB")
        self.assertEqual(found["table5.sumpubmed.dense.train_minutes"].unit, "min")
        self.assertEqual(found["table5.sumpubmed.dense.tokens_per_s"].value, 500)

    def test_a_folder_without_scores_has_no_section(self):
        self.assertNotIn("Scores of texts", make_report.make(self.load([])))

    def test_sets_have_a_heading_and_words_of_their_own(self):
        for name, heading, words in (
            ("table5.sumpubmed", "## Table 5: Scores of texts: `table5.sumpubmed`", "ROUGE-LSum"),
            (
                "hierarchy.scisummnet",
                "## Scores of texts: `hierarchy.scisummnet`",
                "Liu and Lapata",
            ),
        ):
            text = make_report.make(self.load([record("flat", "rouge1", 0.3, experiment=name)]))
            self.assertIn(heading, text)
            self.assertIn(words, text)


if __name__ == "__main__":
    unittest.main()
