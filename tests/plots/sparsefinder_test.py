"""Tests of the Sparsefinder part of plots/ on small made-up records: steps, numbers, figure, report."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import chart  # noqa: E402
import report as report_cells  # noqa: E402
from sections import scores, sparsefinder  # noqa: E402
from with_folder import WithFolder  # noqa: E402

COLUMNS = ["width", "recall", "sparsity", "mass_recall"]


def record(method, metric, value, config=None, samples=None, key="k1", date="2026-01-01"):
    return {
        "experiment": "sparsefinder",
        "study": "sparsefinder",
        "row": f"s_lm.1.{method}",
        "against": "s_lm.1.gold",
        "threads": 2,
        "metric": metric,
        "value": value,
        "unit": "1",
        "status": "ok",
        "config": config or {},
        "samples": samples,
        "key": key,
        "commit": "c1",
        "command": f"sparsefinder --rows s_lm.1.{method} --checkpoint a",
        "date": date,
    }


def configuration(method, value, rows, **more):
    config = {"grid": "paper", "parameter": "theta", "value": value, "nearest": 1}
    return record(method, "recall", rows[0][1], config, {"columns": COLUMNS, "rows": rows}, **more)


def closing(method, area):
    config = {"area_low": area - 0.1, "area_high": area + 0.1, "draws": 50, "points": 2}
    numbers = [(f"recall_at_{p}", area / 2) for p in (80, 90, 95)]
    return [
        *(record(method, name, value, config) for name, value in numbers),
        record(method, "recall_at_gold", 0.0, {"recall_at_gold_high": 0.5}),
        record(method, "area", area, config),
    ]


GOLD = record(
    "gold",
    "gold_sparsity",
    0.9,
    {"mean_gold_sparsity": 0.9, "draws": 50},
    {
        "columns": ["gold_sparsity", "support", "local", "first"]
        + [f"pairs_from_{start}" for start in (0, 32, 64, 128)],
        "rows": [[0.8, 4, 0.5, 0.1, 0.4, 0.2, 0.3, 0.1], [1.0, 2, 0.7, 0.3, 0.9, 0.1, 0, 0]],
    },
)
RECORDS = [
    GOLD,
    configuration("distance", 1.0, [[0, 0.5, 0.9, 0.6], [3, 0.6, 0.8, 0.7]]),
    configuration("distance", 9.0, [[0, 0.4, 0.7, 0.5], [3, 1.0, 0.1, 1.0]]),
    configuration("distance", 9.0, [[0, 1.0, 1.0, 1.0]], key="older"),
    *closing("distance", 0.6),
    configuration("random_graph", 0.1, [[0, 0.1, 0.9, 0.1]]),
    *closing("random_graph", 0.2),
]


def online(method, sparsity, nats):
    """Twelve sequences of 100 tokens whose losses move together."""
    rows = [[100 * (nats + 0.1 * (i % 3)), 100] for i in range(12)]
    config = {"parameter": "theta", "value": sparsity, "nearest": 1, "width": 0}
    config |= {"offline_sparsity": sparsity, "offline_recall": 0.5}
    samples = {"columns": ["loss", "weight"], "rows": rows}
    return record(method, "online_log_perplexity", nats, config, samples)


HEADS = GOLD | {"config": {**GOLD["config"], "layers": 1}}
RAN = [
    *RECORDS[1:],
    HEADS,
    online("gold", 0, 3.0),
    online("distance", 0.85, 3.0625),
    online("distance", 0.92, 3.25),
    online("distance", 0.99, 3.125),
    online("random_graph", 0.85, 4.0),
]


class Online(WithFolder):
    def test_loss_at_a_sparsity_is_that_of_the_least_sparse_point_that_leaves_out_as_much(self):
        records = self.load(RAN)
        found = sparsefinder.numbers(records, records.of(sparsefinder.OWNS))
        for method, place, wanted in (
            ("distance", "80", 0.0625),
            ("distance", "90", 0.25),
            ("distance", "gold", 0.25),
            ("distance", "95", 0.125),
            ("random_graph", "80", 1.0),
        ):
            value = found[f"sparsefinder.s_lm.1.{method}.quality_at_{place}"]
            self.assertAlmostEqual(value.value, wanted)
            # Sequences differ, but each is above its own by as much.
            self.assertAlmostEqual(value.high, value.low)
        self.assertNotIn("sparsefinder.s_lm.1.random_graph.quality_at_90", found)

    def test_what_ran_on_other_sequences_is_left_out(self):
        other = online("random_graph", 0.85, 4.0)
        other["samples"]["rows"] = other["samples"]["rows"][:5]
        records = self.load([*RAN[:-1], other])
        found = sparsefinder.numbers(records, records.of(sparsefinder.OWNS))
        self.assertNotIn("sparsefinder.s_lm.1.random_graph.quality_at_80", found)
        self.assertIn("sparsefinder.s_lm.1.distance.quality_at_80", found)

    def test_the_report_has_a_line_a_method_and_two_figures(self):
        records = self.load(RAN)
        report = report_cells.Report(records)
        sparsefinder.write(report, records.of(sparsefinder.OWNS))
        self.assertIn("| `random_graph` | +1.0000 [+1.0000, +1.0000] | – | – | – |", report.text())
        self.assertIn("on 12 sequences", report.text())
        drawn = sparsefinder.figures(records, records.of(sparsefinder.OWNS))
        self.assertEqual([*drawn], ["sparsefinder_s_lm_1", "sparsefinder_s_lm_1_heads"])
        figure = drawn["sparsefinder_s_lm_1"](records)
        steps = {str(one.get_label()): one for one in figure.axes[2].get_lines()}
        self.assertEqual(list(steps["distance"].get_xdata()), [0, 0.85, 0.92, 0.99])
        self.assertEqual(list(steps["distance"].get_ydata()), [0.0625, 0.0625, 0.25, 0.125])
        chart.pyplot().close(figure)
        figure = drawn["sparsefinder_s_lm_1_heads"](records)
        self.assertEqual(figure.axes[0].get_images()[0].get_array().tolist(), [[0.8, 1.0]])
        chart.pyplot().close(figure)


def of_translator(made):
    made = dict(made)
    made |= {name: made[name].replace("s_lm", "s_mt") for name in ("row", "against")}
    sparsity = made["config"].get("offline_sparsity")
    if sparsity:
        made["config"] = made["config"] | {"stratum": 0.9 if sparsity == 0.92 else 0.8}
    return made


def text(method, metric, value):
    name = f"s_mt.1.{method}"
    about = {"experiment": "translations", "study": "scores", "threads": 1, "repeats": 200}
    about |= {"row": name, "low": value - 1, "high": value + 1, "spread": 1, "note": ""}
    return of_translator(record(method, metric, value)) | about


ABOVE = "bleu.above_s_mt.1.full"
TEXTS = [
    text("full", "bleu", 12.0),
    text("full.greedy", ABOVE, -0.5),
    *(text(f"distance.{s}", ABOVE, v) for s, v in (("0.5", 0.1), ("0.8", -0.25), ("0.9", -1.5))),
    text("distance.gold", ABOVE, 0.25),
    *(text(f"random_graph.{s}", ABOVE, v) for s, v in (("0.8", -3.0), ("0.9", -2.0))),
]


class Texts(WithFolder):
    def test_texts_by_predicted_graphs_stand_by_method_and_sparsity(self):
        records = self.load([*map(of_translator, RAN), *TEXTS])
        report = report_cells.Report(records)
        sparsefinder.write(report, records.of(sparsefinder.OWNS))
        said = report.text()
        self.assertIn("BLEU of 200 texts", said)
        self.assertIn("| method, BLEU above full attention | at 80 % | at 90 % | at gold |", said)
        first, second = (
            said.index(f"| `{m}` | {v} [")
            for m, v in (("distance", "-0.25"), ("random_graph", "-3.00"))
        )
        self.assertLess(first, second)
        self.assertIn("| `random_graph` | -3.00 [-4.00, -2.00] | -2.00 [-3.00, -1.00] | – |", said)

    def test_they_are_not_told_again_among_the_scores(self):
        records = self.load(TEXTS)
        report = report_cells.Report(records)
        scores.write(report, records.of(scores.SECTION.owns))
        self.assertIn("| `s_mt.1.full.greedy` | `s_mt.1.full` | BLEU | -0.500 |", report.text())
        self.assertNotIn("distance", report.text())

    def test_the_figure_has_a_panel_of_them_where_points_were_run(self):
        records = self.load([*map(of_translator, RAN), *TEXTS])
        figure = sparsefinder.draw(records, "sparsefinder", "s_mt.1")
        lines = {str(one.get_label()): one for one in figure.axes[3].get_lines()}
        # A stratum stands where its point lies; the denser of two, since the other is the one at the gold sparsity.
        self.assertEqual(list(lines["distance"].get_xdata()), [0.85, 0.92])
        self.assertEqual(list(lines["distance"].get_ydata()), [-0.25, -1.5])
        chart.pyplot().close(figure)
        figure = sparsefinder.draw(self.load([*map(of_translator, RAN)]), "sparsefinder", "s_mt.1")
        self.assertEqual(len(figure.axes), 3)
        chart.pyplot().close(figure)


class Sparsefinder(WithFolder):
    def test_a_frontier_has_steps_and_no_slopes(self):
        points = [(0.9, 0.5), (0.8, 0.6), (0.7, 0.4), (0.1, 1.0), (0.8, 0.55)]
        self.assertEqual(sparsefinder.frontier(points), [(0.9, 0.5), (0.8, 0.6), (0.1, 1.0)])
        for sparsity, best in ((0.95, 0), (0.9, 0.5), (0.85, 0.5), (0.8, 0.6), (0.75, 0.6), (0, 1)):
            self.assertEqual(sparsefinder.at(points, sparsity), best)

    def test_points_are_of_the_run_that_was_closed(self):
        records = self.load(RECORDS)
        found = sparsefinder.closings(records, "sparsefinder")
        self.assertEqual(set(found), {"s_lm.1"})
        closed = found["s_lm.1"]["distance"]
        points = sparsefinder.points(records, "sparsefinder", closed)
        self.assertEqual(sorted(points), [(0.1, 1.0), (0.7, 0.4), (0.8, 0.6), (0.9, 0.5)])
        masses = sparsefinder.points(records, "sparsefinder", closed, "mass_recall")
        self.assertIn((0.8, 0.7), masses)
        self.assertEqual(sparsefinder.points(records, "sparsefinder", closed, grid="extended"), [])

    def test_numbers_have_the_intervals_over_sequences(self):
        records = self.load(RECORDS)
        numbers = sparsefinder.numbers(records, records.of(sparsefinder.OWNS))
        area = numbers["sparsefinder.s_lm.1.distance.area"]
        self.assertEqual((area.value, round(area.low, 6), round(area.high, 6)), (0.6, 0.5, 0.7))
        self.assertEqual(numbers["sparsefinder.s_lm.1.gold.gold_sparsity"].value, 0.9)

    def test_other_ranks_stand_in_a_table_of_their_own(self):
        def of_rank(made, rank):
            name = made["row"] + (f"_rank{rank}" if rank != 4 else "")
            return dict(made, row=name, config={**made["config"], "rank": rank})

        usual = [of_rank(r, 4) for r in closing("distance", 0.6)]
        other = [of_rank(r, 8) for r in closing("distance", 0.7)]
        other = [dict(r, value=0.5) if r["metric"] == "recall_at_gold" else r for r in other]
        records = self.load([*RECORDS[:4], *usual, *other])
        report = report_cells.Report(records)
        sparsefinder.write(report, records.of(sparsefinder.OWNS))
        self.assertIn("| method, F at gold | rank 4 | rank 8 |", report.text())
        self.assertIn("| `distance` | – | 0.500 |", report.text())
        self.assertNotIn("distance_rank8", report.text())
        found = sparsefinder.numbers(records, records.of(sparsefinder.OWNS))
        self.assertEqual(found["sparsefinder.s_lm.1.distance_rank8.area"].value, 0.7)
        records = self.load(RECORDS)
        self.assertEqual(
            sparsefinder.rank_lines(report_cells.Report(records), "sparsefinder", "s_lm.1"), []
        )

    def test_a_sweep_takes_what_its_parts_take(self):
        id_of_it = "sparsefinder.s_lm.1.sweep_s"
        seconds = [record(m, "sweep_s", 20.0, {}) for m in ("gold", "distance", "random_graph")]
        for kept, wanted in ((3, 60.0), (2, None)):
            records = self.load(RECORDS + seconds[:kept])
            found = sparsefinder.numbers(records, records.of(sparsefinder.OWNS)).get(id_of_it)
            self.assertEqual(found and found.value, wanted)

    def test_seeds_of_a_task_are_taken_together(self):
        def of_seed(one, area):
            rows = [GOLD, *closing("distance", area)]
            return [
                dict(r, row=r["row"].replace("s_lm.1", one), against=f"{one}.gold") for r in rows
            ]

        records = self.load(
            of_seed("s_lm.1", 0.6) + of_seed("s_lm.2", 0.8) + of_seed("s_lm_512.1", 0.1)
        )
        found = sparsefinder.numbers(records, records.of(sparsefinder.OWNS))
        pooled = found["sparsefinder.lm.distance.area"]
        self.assertAlmostEqual(pooled.value, 0.7)
        self.assertEqual(pooled.seeds, 2)
        self.assertLess(pooled.low, 0)  # Student's, of two
        self.assertAlmostEqual(found["sparsefinder.lm.distance.recall_at_80"].value, 0.35)
        self.assertNotIn("sparsefinder.lm.distance.recall_at_95", found)

    def test_the_figure_has_steps_to_the_left_and_the_gold_line(self):
        records = self.load(RECORDS)
        ((name, draw),) = sparsefinder.figures(records, records.of(sparsefinder.OWNS)).items()
        self.assertEqual(name, "sparsefinder_s_lm_1")
        figure = draw(records)
        lines = {str(one.get_label()): one for one in figure.axes[0].get_lines()}
        self.assertEqual(lines["distance"].get_drawstyle(), "steps-pre")
        self.assertEqual(list(lines["distance"].get_xdata()), [0, 0.1, 0.8, 0.9])
        self.assertEqual(list(lines["distance"].get_ydata()), [1.0, 1.0, 0.6, 0.5])
        self.assertTrue(any(list(one.get_xdata()) == [0.9, 0.9] for one in lines.values()))
        chart.pyplot().close(figure)

    def test_the_report_names_the_best_first_and_what_heads_do(self):
        records = self.load(RECORDS)
        report = report_cells.Report(records)
        sparsefinder.write(report, records.of(sparsefinder.OWNS))
        text = report.text()
        self.assertLess(text.index("| `distance` | 2 "), text.index("| `random_graph` | 2 "))
        self.assertIn("Gold graphs of 2 heads: sparsity 0.900, 3.0 keys a query", text)
        self.assertIn("20% on the first; 20% of the pairs lie 64 or more positions apart.", text)
        self.assertIn("60% within 5 positions", text)
        self.assertIn("50 resamples", text)
        # Of the paper's grid: at 80 % 0.6 of the pairs, with 0.7 of the probability; at 90 %, all.
        extended = configuration("distance", 7.0, [[0, 0.9, 0.95, 0.9]])
        extended["config"] = {**extended["config"], "grid": "extended"}
        report = report_cells.Report(self.load([*RECORDS, extended]))
        sparsefinder.write(report, report.records.of(sparsefinder.OWNS))
        self.assertIn("| `distance` | 4 | 0.600 | 0.500 | – | 0.700 | 0.600 | – |", report.text())
        self.assertIn("Repeat: `sparsefinder --checkpoint a`", text)

    def test_no_configuration_as_sparse_is_a_dash(self):
        records = self.load(RECORDS)
        report = report_cells.Report(records)
        sparsefinder.write(report, records.of(sparsefinder.OWNS))
        # Recall at the gold sparsity is 0, of no configuration; its own interval goes to 0.5.
        self.assertRegex(report.text(), r"\| `distance` \| 2 \|.* \| – \| 0\.600 \[")


if __name__ == "__main__":
    unittest.main()
