"""The section of attention patterns: graphs as they lie beside the records, and their numbers."""

import pathlib
import sys
import unittest

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import chart  # noqa: E402
import report as report_cells  # noqa: E402
from made_up import MEASURED  # noqa: E402
from sections import attention_patterns  # noqa: E402
from with_folder import WithFolder  # noqa: E402

NAME = "attention_patterns"


def attention(row, density):
    return [
        {
            **MEASURED,
            "experiment": NAME,
            "study": NAME,
            "section": "",
            "title": "Who sees whom",
            "id": "",
            "row": row,
            "against": "full",
            "threads": 1,
            "metric": metric,
            "value": value,
            "unit": "1",
            "config": {"attention": row},
        }
        for metric, value in (("distance", 2.5), ("entropy", 1.25), ("density", density))
    ]


RECORDS = attention("full", 1.0) + attention("full_entmax15", 0.25)


class PatternsTest(WithFolder):
    def write_graphs(self):
        folder = self.folder / "patterns" / NAME
        folder.mkdir(parents=True)
        # Of two layers; the first one's two heads see different keys.
        array = numpy.zeros((2, 2, 4, 4), dtype=numpy.uint8)
        array[0, 0] = numpy.tril(numpy.ones((4, 4)))
        array[0, 1] = numpy.eye(4)
        numpy.save(folder / "full.graph.npy", array)

    def test_report_has_the_numbers_of_heads(self):
        records = self.load(RECORDS)
        report = report_cells.Report(records)
        attention_patterns.write(report, records.of(attention_patterns.SECTION.owns))
        text = report.text()
        self.assertIn("| attention | density (1) | entropy (nats) | distance (positions) |", text)
        self.assertIn("| full entmax15 | 0.250 | 1.25 | 2.50 |", text)

    def test_the_picture_is_the_mean_of_the_first_layers_heads(self):
        records = self.load(RECORDS)
        self.write_graphs()
        shares = attention_patterns.shares(attention_patterns.graph(records, NAME, "full"))
        self.assertEqual(shares[3].tolist(), [0.5, 0.5, 0.5, 1.0])
        self.assertEqual(shares[0].tolist(), [1.0, 0.0, 0.0, 0.0])
        figure = attention_patterns.draw(records, NAME)
        titles = [axes.get_title() for axes in figure.axes]
        self.assertEqual(titles, ["full", "", ""])
        chart.save(figure, self.folder / NAME)
        self.assertTrue((self.folder / f"{NAME}.svg").exists())

    def test_without_graphs_nothing_is_drawn(self):
        with self.assertRaises(chart.Missing):
            attention_patterns.draw(self.load(RECORDS), NAME)


if __name__ == "__main__":
    unittest.main()
