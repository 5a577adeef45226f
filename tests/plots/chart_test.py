"""What figures share: legends that fit, names of points that cover each other nowhere."""

import itertools
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import chart  # noqa: E402


class ChartTest(unittest.TestCase):
    def tearDown(self):
        chart.pyplot().close("all")

    def test_a_legend_has_as_many_columns_as_fit(self):
        for words, columns in (("short", 2), ("words enough to fill most of a column", 1)):
            figure, (axes,) = chart.new(2.0)
            for n in range(3):
                axes.plot([0, 1], [n, n], label=f"{words} {n}")
            chart.legend_above(axes, *axes.get_legend_handles_labels())
            legend = axes.get_legend()
            self.assertEqual(legend._ncols, columns)
            self.assertLessEqual(legend.get_window_extent().width, figure.bbox.width)

    def test_a_figure_that_cannot_be_written_ends_in_a_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder) / "figures"
            place.write_text("a file where the folder of figures belongs", encoding="utf-8")
            figure, _ = chart.new(2.0)
            with self.assertRaises(SystemExit) as stopped:
                chart.save(figure, place / "table1")
            self.assertIn(f"{place / 'table1'} cannot be written", str(stopped.exception))
            self.assertIn("--results", str(stopped.exception))

    def test_names_cover_neither_each_other_nor_points(self):
        figure, (axes,) = chart.new(2.8)
        points = [(0.4 + 0.03 * n, 0.5 + 0.04 * (n % 3), f"row_{n}") for n in range(9)]
        points.append((1.0, 1.0, "at_the_very_edge"))
        for x, y, _ in points:
            axes.plot(x, y, label="_ringed untrusted", **chart.RING)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        chart.label_points(axes, points)
        chart.explain_statuses(figure)
        figure.draw_without_rendering()
        boxes = [chart.extent(text) for text in axes.texts]
        self.assertEqual([text.get_text() for text in axes.texts], [name for *_, name in points])
        for one, other in itertools.combinations(boxes, 2):
            self.assertFalse(one.overlaps(other))
        for box in boxes:
            self.assertTrue(box.x0 >= 0 and box.x1 <= figure.bbox.width)
            for x, y, _ in points:
                place = axes.transData.transform((x, y))
                self.assertFalse(box.contains(*place))


if __name__ == "__main__":
    unittest.main()
