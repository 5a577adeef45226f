"""Tests of the frontier in plots/ on made-up curves and decodes: pairs, hull, ladder, models that are not those trained."""

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
from sections import frontier  # noqa: E402

ABOUT = {"study": "decode", "section": "frontier", "title": "Frontier", "against": "dense"}
SPARSE = {"feed_forward": "sparse", "sparsity": 16}
# (nats, ms, weights read, knobs): small is fast, sparse better at nearly its speed, slow worse than dense at its.
ROWS = {
    "dense": (4.0, 0.4, 100, {}),
    "small": (4.4, 0.1, 20, {"d_ff": 512}),
    "ff_n16": (4.1, 0.12, 25, SPARSE),
    "slow": (4.2, 0.5, 100, {"projection": "mult_conv"}),
}
TRAINED = {"steps": 1000, "batch": 16, "length": 96, "d_model": 128, "d_ff": 2048}


def trained(name="fig1_1m5", seeds=(1, 2), **more):
    found = []
    for row, (nats, _, _, knobs) in ROWS.items():
        for seed in seeds:
            config = {"feed_forward": "dense", **TRAINED, **knobs, **more}
            found += made_up.curve(row, nats + 0.01 * seed, seed, experiment=name, config=config)
    return found


def decoded(width=128, name="", **other):
    """Records of a table; other: knobs of all rows."""
    found = []
    for row, (_, ms, reads, knobs) in ROWS.items():
        config = {
            "feed_forward": "dense",
            **TRAINED,
            **knobs,
            "d_model": width,
            **other,
        }
        for metric, value in (
            ("token_weights_read", reads),
            ("token_flops", 2 * reads),
            ("token_floor_ms", ms / 2),
            ("token_ms", ms),
        ):
            found.append(
                record(
                    name or f"frontier_{width}",
                    row,
                    metric,
                    value,
                    threads=1,
                    config=config,
                    id=f"frontier.{width}",
                    **ABOUT,
                )
            )
    return found


def in_states(items):
    """The same with decodes: half of them in slow memory, where all takes twice its time."""
    found = []
    for item in items:
        if item["metric"] == "token_ms":
            ms = item["value"]
            rows = [
                [n, 2.0 * n, 1, ms * factor, ms * factor / 2, 60.0 / factor]
                for n in range(40)
                for factor in [1 if n < 20 else 2]
            ]
            columns = ["round", "at_s", "kept", "token_ms", "token_floor_ms", "state_read_gbps"]
            item = item | {"samples": {"group": "turns", "columns": columns, "rows": rows}}
        found.append(item)
    return found


class FrontierTest(made_up.WithCurves):
    def report(self, items):
        report = Report(self.load(items))
        frontier.write(report, report.records.of(frontier.OWNS))
        return report.text()

    def test_rows_are_nats_time_floor_and_reads(self):
        found = summarise.summary(self.load(trained() + decoded()))
        self.assertAlmostEqual(found["frontier.ff_n16.nats"]["value"], 4.115)
        self.assertEqual(found["frontier.ff_n16.nats"]["seeds"], 2)
        self.assertEqual(found["frontier.ff_n16.nats"]["tokens"], 1536000)
        self.assertEqual(found["frontier.ff_n16.ms_token"]["value"], 0.12)
        self.assertEqual(found["frontier.ff_n16.floor_ms"]["value"], 0.06)
        self.assertEqual(found["frontier.ff_n16.reads"]["value"], 25)

    def test_rows_are_counted_and_their_decode_paths_are_checked_once_all_have_one(self):
        decoded_by = [
            made_up.record(
                row,
                metric,
                4 + (place + 1) * apart * 1e-6,
                1,
                experiment="fig1_1m5",
                config=TRAINED,
            )
            for place, row in enumerate(ROWS)
            for metric, apart in (
                ("decode_reference_log_perplexity", 0),
                ("decode_log_perplexity.f32", -1),
            )
        ]
        found = summarise.figures(self.load(trained() + decoded() + decoded_by))
        self.assertEqual(found["frontier.rows"].value, 4)
        self.assertAlmostEqual(found["frontier.decode_difference"].value, 4e-6)
        found = summarise.figures(self.load(trained() + decoded() + decoded_by[2:]))
        self.assertEqual(found["frontier.rows"].value, 4)
        self.assertNotIn("frontier.decode_difference", found)

    def test_another_width_has_times_under_its_own_name_and_no_nats(self):
        found = summarise.summary(self.load(trained() + decoded(1024)))
        self.assertEqual(found["frontier.frontier_1024.small.ms_token"]["value"], 0.1)
        self.assertEqual([name for name in found if name.endswith(".nats")], [])
        self.assertIn("times of this one's", self.report(trained() + decoded(1024)))

    def test_rows_in_bf16_have_the_nats_of_their_own_decode_path(self):
        shifts = {"ff_n16": (4e-4, 6e-4), "dense": (0.0, 1e-4)}  # a seed each
        items = [
            made_up.record(row, f"decode_{path}", 4 + by, seed, "fig1_1m5", config=TRAINED)
            for row, each in shifts.items()
            for seed, shift in enumerate(each, start=1)
            for path, by in (("reference_log_perplexity", 0.0), ("log_perplexity.bf16", shift))
        ]
        items += [
            dict(r, row=r["row"] + ending)
            for ending in (".bf16", "_dot.bf16")
            for r in decoded(name="frontier_128_bf16")
        ]
        records = self.load(trained() + items)
        found = summarise.figures(records)
        self.assertAlmostEqual(found["frontier.ff_n16.bf16.nats"].value, 4.115 + 5e-4)
        self.assertEqual(found["frontier.ff_n16.bf16.nats"].seeds, 2)
        # What was never decoded so has a time alone.
        for row in ("small.bf16", "ff_n16_dot.bf16"):
            self.assertNotIn(f"frontier.{row}.nats", found)
        curves = frontier.curves_of(records, ["dense.bf16", "ff_n16.bf16"])
        more = frontier.above(curves, "ff_n16.bf16")
        self.assertAlmostEqual(more.value, 0.1 + 4.5e-4)
        self.assertGreater(more.high, more.value)  # seeds differ by what bf16 does
        self.assertIsNone(frontier.above(curves, "dense.bf16"))
        self.assertIn("| `ff_n16_dot.bf16` | – |", self.report(trained() + items))
        frontier.draw(records, "frontier_128_bf16")

    def test_on_the_frontier_is_what_nothing_beats_in_both(self):
        records = self.load(trained() + decoded())
        curves = frontier.curves_of(records, ROWS)
        points = frontier.points(records, "frontier_128", curves)
        self.assertEqual(frontier.hull(points), ["small", "ff_n16", "dense"])
        self.assertEqual(frontier.hull([]), [])

    def test_the_ladder_goes_from_flops_to_the_clock(self):
        records = self.load(trained() + decoded())
        found = frontier.ladder(records, "frontier_128", "small", "dense")
        self.assertEqual([round(step.value, 6) for step in found], [5, 5, 4, 4])
        text = self.report(trained() + decoded())
        self.assertIn("| `small` | 4.4150 ", text)
        self.assertIn("| yes | 5.00× | 5.00× | 4.00× | 4.00× |", text)

    def test_what_stands_on_an_untrusted_time_is_marked(self):
        doubted = [
            dict(r, status="untrusted") if (r["row"], r["metric"]) == ("small", "token_ms") else r
            for r in decoded()
        ]
        text = self.report(trained() + doubted)
        self.assertIn("| 0.100[1] | 50% | yes[1] | 5.00× | 5.00× | 4.00× | 4.00×[1] |", text)
        self.assertIn("1. Untrusted:", text)
        self.assertIn("*measured* is the median of ratios within rounds", text)
        self.assertNotIn("[1]", self.report(trained() + decoded()))

    def test_a_figure_shows_seeds_and_their_interval_from_three_on(self):
        for seeds in ((1, 2), (1, 2, 3)):
            records = self.load(trained(seeds=seeds) + decoded())
            (axes,) = frontier.draw(records, "frontier_128").axes
            self.assertEqual({bars.has_yerr for bars in axes.containers}, {len(seeds) > 2})
            single = [each for each in axes.lines if each.get_label() == "_of a seed"]
            self.assertEqual({len(each.get_ydata()) for each in single}, {len(seeds)})

    def test_rows_stand_above_the_baseline_seed_by_seed(self):
        text = self.report(trained() + decoded())
        self.assertIn("| `small` | 4.4150 [4.3515, 4.4785] | +0.4000 [+0.4000, +0.4000] |", text)

    def test_two_states_have_times_and_tables_of_their_own(self):
        items = trained() + in_states(decoded())
        found = summarise.summary(self.load(items))
        for suffix, factor in (("", 1), ("@slow", 2)):
            time = found[f"frontier.ff_n16.ms_token{suffix}"]
            self.assertAlmostEqual(time["value"], 0.12 * factor)
            self.assertAlmostEqual(
                found[f"frontier.ff_n16.floor_ms{suffix}"]["value"], 0.06 * factor
            )
            self.assertEqual(time["state"], "slow" if suffix else "fast")
        self.assertIn("frontier.ff_n16.nats", found)
        self.assertNotIn("frontier.ff_n16.nats@slow", found)
        text = self.report(items)
        fast, slow = text.split("**One thread, slow state**")
        self.assertIn("**One thread, fast state**", fast)
        for part, ms in ((fast, "0.120"), (slow, "0.240")):
            line = next(line for line in part.split("\n") if line.startswith("| `ff_n16` |"))
            self.assertIn(f"| {ms} |", line)
        figure = frontier.draw(self.load(items), "frontier_128")
        self.assertIn("fast state", figure.axes[0].get_xlabel())

    def test_a_model_that_was_not_trained_is_named(self):
        self.assertIn("models as trained", self.report(trained() + decoded()))
        text = self.report(trained() + decoded(d_ff=1024))
        self.assertIn("`ff_n16` differs in d_ff", text)

    def test_a_twin_says_what_trained_choices_change_and_is_no_row(self):
        twin = [
            dict(r, row="ff_n16_own", value=r["value"] * (2 if r["metric"] == "token_ms" else 1))
            for r in decoded()
            if r["row"] == "ff_n16"
        ]
        touched = [
            record("frontier_128", row, "rows_touched", n, threads=1, id="frontier.128", **ABOUT)
            for row, n in (("ff_n16", 500), ("ff_n16_own", 900))
        ]
        items = trained() + decoded() + twin + touched
        text = self.report(items)
        self.assertIn("| `ff_n16` | 0.500×", text)
        self.assertIn("| 500 | 900 |", text)
        self.assertNotIn("| `ff_n16_own` |", text)
        self.assertNotIn("trained over own", self.report(trained() + decoded()))
        records = self.load(items)
        points = frontier.points(records, "frontier_128", frontier.curves_of(records, ROWS))
        self.assertEqual(sorted(p.row for p in points), sorted(ROWS))

    def test_of_several_experiments_that_of_the_most_tokens_counts(self):
        both = trained() + trained("fig1_5m", steps=3333)
        curves = frontier.curves_of(self.load(both + decoded()), ROWS)
        self.assertEqual(curves.name, "fig1_5m")

    def test_what_more_tokens_make_of_a_gap_stands_beside(self):
        # All four rows count at the budget with the most of them: the table's own.
        more = [r for r in trained("fig1_5m", steps=3333) if r["row"] in ("dense", "ff_n16")]
        for r in more:
            if r["row"] == "ff_n16":
                r["config"] |= {"twin": "dense", "equal_reads": "small"}
                r["value"] += 0.5
        text = self.report(trained() + more + decoded())
        (line,) = [one for one in text.splitlines() if one.startswith("| `ff_n16` |")]
        self.assertIn("| above, 5.12 M tokens |", text)
        self.assertEqual(line.split("|")[4].split()[0], "+0.6000")
        self.assertNotIn("above, ", self.report(trained() + decoded()).split("## ")[1])

    def test_without_curves_or_with_one_row_there_is_nothing(self):
        self.assertEqual(self.report(decoded()), self.report([]))
        with self.assertRaises(chart.Missing):
            frontier.draw(self.load(decoded()), "frontier_128")
        figure = frontier.draw(self.load(trained() + decoded()), "frontier_128")
        labels = [text.get_text() for text in figure.axes[0].texts]
        self.assertEqual(sorted(labels), sorted(ROWS))

    def test_names_keep_off_the_texts_of_the_axes(self):
        figure, (axes,) = chart.new(2)
        axes.set(xlim=(0, 1), ylim=(0, 1), ylabel="nats")
        near = [(0.02 + 0.03 * i, 0.1 * j, "") for i in range(20) for j in range(11)]
        chart.label_points(axes, [(0.0, y, f"row_of_{y}") for y in (0.3, 0.5, 0.7)] + near)
        texts = [axes.yaxis.label, *axes.get_yticklabels()]
        of_axes = [text.get_window_extent() for text in texts]
        for name in axes.texts:
            if name.get_text():
                covers = any(chart.extent(name).overlaps(box) for box in of_axes)
                self.assertFalse(covers, name.get_text())
        chart.pyplot().close(figure)

    def test_what_stayed_long_on_the_plateau_is_named_and_not_drawn(self):
        def with_share(share):
            about = {"experiment": "fig1_1m5", "config": TRAINED}
            long = [made_up.record("slow", "plateau_share", share, s, **about) for s in (1, 2)]
            figure = frontier.draw(self.load(trained() + long + decoded()), "frontier_128")
            (axes,) = figure.axes
            found = [text.get_text() for text in axes.texts], axes.get_xlabel()
            chart.pyplot().close(figure)
            return found

        drawn, words = with_share(0.28)
        self.assertEqual(sorted(drawn), sorted(set(ROWS) - {"slow"}))
        self.assertIn("not drawn, being long on the plateau: slow", words)
        drawn, words = with_share(0.08)
        self.assertEqual((sorted(drawn), "not drawn" in words), (sorted(ROWS), False))


if __name__ == "__main__":
    unittest.main()
