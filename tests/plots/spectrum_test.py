"""Spectra of attention matrices in the report, beside what a rank costs, on made-up records."""

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
from sections import spectrum  # noqa: E402

NAME = "attention_spectrum"
CONFIG = {"positions": 8, "d_model": 16, "n_heads": 2, "sequences": 3, "causal": "true"}


def layer(row, shares, rank, **more):
    metrics = {f"singular_share_{2**i}": share for i, share in enumerate(shares)}
    return [
        record(
            NAME,
            row,
            metric,
            value,
            threads=1,
            study=NAME,
            title=NAME,
            id=NAME,
            config=CONFIG | more,
            key=f"{row} {more}",
            command=f"attention_spectrum --checkpoint FILE --rows {row}",
        )
        for metric, value in [*metrics.items(), ("rank_90", rank)]
    ]


SPECTRA = layer("full.1.layer1", (0.2, 0.4, 0.7, 1.0), 7) + layer(
    "full.1.layer2", (0.6, 0.8, 0.95, 1.0), 4
)


def trained():
    found = []
    for row, nats, knobs in (
        ("full", 5.0, {"attention": "full"}),
        ("linformer_k2", 5.3, {"attention": "linformer", "linformer_rank": 2}),
        ("linformer_k4", 5.1, {"attention": "linformer", "linformer_rank": 4}),
    ):
        found += made_up.curve(
            row, nats, 1, experiment="linformer_rank", against="full", config=knobs
        )
    return found


class SpectrumTest(made_up.WithCurves):
    def text(self, items):
        report = Report(self.load(items))
        spectrum.write(report, report.records.of(spectrum.SECTION.owns))
        return report.text()

    def test_numbers_are_ranks_and_shares_at_a_quarter(self):
        found = summarise.figures(self.load(SPECTRA))
        self.assertEqual(found["spectrum.full.1.layer1.rank_90"].value, 7)
        self.assertEqual(found["spectrum.full.1.layer2.share_2"].value, 0.8)

    def test_what_a_rank_costs_stands_below_what_it_holds(self):
        text = self.text(SPECTRA + trained())
        self.assertIn("**8 positions, causal, 16 wide, 2 heads, 3 sequences**", text)
        self.assertEqual(text.count("Repeat: `attention_spectrum --checkpoint FILE`"), 1)
        self.assertIn("| attention | 1 | 2 | 4 | 8 | nine tenths in |", text)
        self.assertIn("| `full.1.layer2` | 0.600 | 0.800 | 0.950 | 1.00 | 4 |", text)
        (paid,) = [line for line in text.splitlines() if line.startswith("| Linformer of")]
        cells = [cell.strip() for cell in paid.strip("|").split("|")]
        self.assertTrue(cells[2].startswith("+0.3000"), cells)
        self.assertTrue(cells[3].startswith("+0.1000"), cells)
        self.assertEqual(cells[1], cells[4])

    def test_a_newer_measurement_takes_the_place_of_all_of_the_older(self):
        text = self.text(SPECTRA + layer("full.1.layer1", (0.3, 0.6, 1.0), 3, positions=4))
        self.assertIn("**4 positions, causal", text)
        self.assertIn("| `full.1.layer1` | 0.300 | 0.600 | 1.00 | 3 |", text)
        self.assertNotIn("0.200", text)

    def test_a_failure_leaves_what_was_measured(self):
        (failed,) = layer("full.1.layer1", (), 0, positions=2)
        failed |= {"value": None, "status": "failed", "note": "too few sequences", "config": {}}
        self.assertEqual(self.text([*SPECTRA, failed]), self.text(SPECTRA))

    def test_without_curves_nothing_is_said_of_costs(self):
        self.assertNotIn("Linformer of this rank", self.text(SPECTRA))

    def test_a_curve_an_attention(self):
        records = self.load(SPECTRA)
        (draw,) = spectrum.figures(records, records.of(spectrum.SECTION.owns)).values()
        (axes,) = draw(records).axes
        self.assertEqual(len(axes.get_legend().get_texts()), 2)

    def test_nothing_is_drawn_of_nothing(self):
        records = self.load(trained())
        with self.assertRaises(chart.Missing):
            spectrum.draw(records, NAME)


if __name__ == "__main__":
    unittest.main()
