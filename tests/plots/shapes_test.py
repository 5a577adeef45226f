"""The section of published models on small made-up records."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import chart  # noqa: E402
import report as report_cells  # noqa: E402
import summarise  # noqa: E402
from made_up import MEASURED  # noqa: E402
from sections import shapes  # noqa: E402
from with_folder import WithFolder  # noqa: E402

NAME = "note_shapes"


def model(row, milliseconds, **config):
    return [
        {
            **MEASURED,
            "experiment": NAME,
            "study": "decode",
            "section": "shapes",
            "title": "Models",
            "id": "shapes",
            "row": row,
            "against": row,
            "metric": metric,
            "value": value,
            "config": {"decoder_layers": 12, "d_model": 768, "context": 1012, **config},
        }
        for metric, value in (
            ("parameters", 124e6),
            ("token_bytes", 0.5e9),
            ("token_floor_ms", milliseconds / 2),
            ("token_efficiency", 0.5),
            ("token_ms", milliseconds),
        )
    ]


MODELS = [
    *model("gpt", 20, attention="full", encoder=True, encoder_layers=0, differs="gelu,post_norm"),
    *model("bart", 30, attention="full", encoder=False, encoder_layers=6, source_length=1024),
    *model("hashed", 40, attention="lsh", encoder=True, encoder_layers=0, normaliser="entmax15"),
]


class ShapesTest(WithFolder):
    def test_a_row_a_model_with_what_it_has_otherwise(self):
        records = self.load(MODELS)
        report = report_cells.Report(records)
        shapes.SECTION.write(report, records.of(shapes.SECTION.owns))
        text = report.text()
        start = "| `gpt` | 12 | 768 | full | 1,012 | – | 20.0 | 0.500 | 0.500 | 124 |"
        self.assertIn(f"{start} gelu, post norm |", text)
        self.assertIn("| `bart` | 12 | 768 | full | 1,012 | 1,024 | 30.0 |", text)
        self.assertIn("| `hashed` | 12 | 768 | lsh, entmax15 | 1,012 | – | 40.0 |", text)

    def test_numbers_and_figure(self):
        records = self.load(MODELS)
        found = summarise.figures(records)
        self.assertEqual(found["shapes.bart.token_ms"].value, 30)
        self.assertEqual(found["shapes.bart.token_efficiency"].value, 0.5)
        figure = shapes.draw(records, NAME)
        labels = figure.axes[0].get_legend_handles_labels()[1]
        self.assertEqual(sorted(labels), ["floor", "full", "lsh"])
        chart.save(figure, self.folder / NAME)
        with self.assertRaises(chart.Missing):
            shapes.draw(self.load([]), NAME)


if __name__ == "__main__":
    unittest.main()
