"""Tests of the curves in plots/ on small made-up ones: means, gaps, failures, ids, programs."""

import math
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PLOTS = HERE.parents[1] / "plots"
sys.path[:0] = [str(HERE), str(PLOTS)]

import make_report  # noqa: E402
import summarise  # noqa: E402
import training_curves  # noqa: E402
from made_up import MEASURED  # noqa: E402
from report import Report  # noqa: E402
from sections import curve_verdicts, curves  # noqa: E402
from with_folder import WithFolder  # noqa: E402


def record(row, metric, value, seed=1, experiment="fig1_small", step=None, data="d1", **more):
    config = {"data": data, **more.pop("config", {})}
    if step is not None:
        config["step"] = step
    return {
        **MEASURED,
        "experiment": experiment,
        "row": row,
        "against": "dense",
        "metric": metric,
        "value": value,
        "unit": "nats/token",
        "config": config,
        "seed": seed,
        "key": f"{experiment}.{row}.{seed}.{data}",
        **more,
    }


def curve(row, final, seed=1, finished=True, **more):
    """Three evaluations falling to `final`, and the results."""
    found = [
        record(row, "evaluation", final + 1 - step / 300, seed, step=step, **more)
        for step in (100, 200, 300)
    ]
    if finished:
        found += [
            record(row, metric, value, seed, **more)
            for metric, value in (
                ("params", 1e6),
                ("bits_per_byte", final / 2),
                ("mfu", 0.6),
                ("tokens_per_s", 5e4),
                ("log_perplexity", final),
            )
        ]
    return found


def three(row, final, spread=0.002, **more):
    return [r for seed in (1, 2, 3) for r in curve(row, final + (seed - 2) * spread, seed, **more)]


def failed(row, why, seed=1, **more):
    """As a driver writes it: no value, and no text."""
    found = record(
        row,
        "log_perplexity",
        None,
        seed,
        **{
            "data": "",
            "status": "failed",
            "note": why,
            "key": f"failed {row} {seed}",
            "date": "2026-03-01T00:00:00Z",
            **more,
        },
    )
    del found["value"]
    return found


FIGURE1 = (
    three("dense", 1.6)
    + three("ff_n8", 1.63)
    + three("ff_n16", 1.66)
    + three("ff_qkv", 1.62)
    + three("iso_read_ff", 1.75)
    + three("iso_read_model", 1.9)
    + three("random_controller", 1.64)
    + three("hash_selector", 1.631)
)


class WithCurves(WithFolder):
    def one(self, items, name="fig1_small"):
        return training_curves.experiments(self.load(items))[name]

    def verdicts(self, items):
        return {line.claim: line.verdict for line in curve_verdicts.judged(self.load(items))}


class ExperimentTest(WithCurves):
    def test_results_are_means_over_seeds_with_their_deviation(self):
        e = self.one(FIGURE1)
        value = e.result("dense", "log_perplexity")
        self.assertAlmostEqual(value.value, 1.6)
        self.assertAlmostEqual(value.sd, 0.002)
        self.assertAlmostEqual(value.high - value.value, 4.3027 * 0.002 / 3**0.5, places=6)
        self.assertEqual(value.seeds, 3)

    def test_one_seed_has_no_interval_but_what_is_counted(self):
        e = self.one(curve("dense", 1.6))
        value = e.result("dense", "log_perplexity")
        self.assertEqual((value.low, value.high), (-math.inf, math.inf))
        params = e.result("dense", "params")
        self.assertEqual((params.low, params.high), (1e6, 1e6))
        entry = summarise.summary(self.load(curve("dense", 1.6)))["fig1.small.dense.log_perplexity"]
        self.assertEqual((entry["low"], entry["high"], entry["seeds"]), (None, None, 1))

    def test_the_plan_is_the_newest_records(self):
        old, new = (
            {"config": {"planned": plan}, "date": f"2026-01-0{day}T00:00:00Z"}
            for day, plan in ((1, "dense,a"), (2, "dense,a:dense:b,b,c"))
        )
        items = curve("dense", 1.6, **old) + curve("a", 1.7, **new) + curve("other", 1.7, **old)
        self.assertEqual(
            self.one(items).planned,
            {"dense": (), "a": ("dense", "b"), "b": (), "c": (), "other": ()},
        )
        # Older records say it of themselves alone.
        named = {"twin": "dense", "equal_reads": "b"}
        e = self.one(curve("dense", 1.6) + curve("a", 1.7, config=named))
        self.assertEqual(e.planned, {"dense": (), "a": ("dense", "b")})

    def test_rows_are_as_planned_whatever_was_trained_first(self):
        planned = {"planned": "dense,ff_n8,ff_n16"}
        items = [three(row, 1.6, config=planned) for row in ("ff_n16", "dense")]
        self.assertEqual(self.one(sum(items, [])).rows, ["dense", "ff_n16"])
        # Of curves that do not say, in the file's order.
        items = [three(row, 1.6) for row in ("ff_n16", "dense")]
        self.assertEqual(self.one(sum(items, [])).rows, ["ff_n16", "dense"])

    def test_gaps_are_taken_seed_by_seed(self):
        e = self.one(FIGURE1)
        self.assertAlmostEqual(e.gap("ff_n8").value, 0.03)
        self.assertAlmostEqual(e.gap("ff_n8").sd, 0)
        only = self.one(three("dense", 1.6) + curve("ff_n8", 1.7, seed=3))
        self.assertAlmostEqual(only.gap("ff_n8").value, 1.7 - 1.602)

    def test_points_have_mean_and_range_in_steps_that_all_seeds_reached(self):
        def running(seed, final):
            return [
                r
                for r in curve("dense", final, seed, finished=False)
                if r["config"]["step"] < 100 * (seed + 1)
            ]

        # A seed that has only begun hides nothing of those that ended.
        ended = self.one(curve("dense", 1.2, 1) + running(2, 1.0))
        self.assertEqual([p[0] for p in ended.points("dense")], [100, 200, 300])
        e = self.one(running(2, 1.0) + running(3, 1.2))
        self.assertEqual([p[0] for p in e.points("dense")], [100, 200])
        step, mean, low, high = e.points("dense")[0]
        self.assertAlmostEqual(mean, 1.1 + 1 - 1 / 3)
        self.assertAlmostEqual(high - low, 0.2)
        self.assertEqual(ended.unfinished("dense"), [2])

    def test_seeds_of_other_settings_than_the_newest_do_not_count(self):
        short, long = ({"config": {"steps": steps}} for steps in (2000, 3000))
        later = {"date": "2026-02-01T00:00:00Z"}
        e = self.one(
            three("dense", 1.6, **short)
            + curve("dense", 1.4, 2, **long, **later)
            + three("ff_n8", 1.7, **short)
        )
        self.assertEqual(list(e.by_seed("dense", "log_perplexity")), [2])
        self.assertEqual(len(e.by_seed("ff_n8", "log_perplexity")), 3)
        self.assertEqual(e.seeds("dense"), [2])
        report = Report(None)
        self.assertIn("[1]", curves.other_length(report, e, "ff_n8"))
        self.assertEqual(
            report.notes, ["`fig1_small`, `ff_n8`: 2,000 steps, where `dense` has 3,000."]
        )
        self.assertEqual(curves.other_length(report, e, "dense"), "")

    def test_the_same_text_elsewhere_is_alike(self):
        here, there = (
            self.one(curve("dense", 1.6, config={"corpus": at, "steps": 9}))
            for at in ("a/text", "b/text")
        )
        self.assertTrue(training_curves.alike(here, there))
        self.assertFalse(
            training_curves.alike(here, self.one(curve("dense", 1.6, config={"steps": 8})))
        )

    def test_the_same_weights_elsewhere_are_alike(self):
        def started(path, contents):
            return self.one(curve("dense", 1.6, config={"init_from": path, "init": contents}))

        here = started("a/best.ckpt", "w1")
        self.assertTrue(training_curves.alike(here, started("b/best.ckpt", "w1")))
        self.assertFalse(training_curves.alike(here, started("a/best.ckpt", "w2")))

    def test_a_knob_that_came_later_sets_no_curves_apart(self):
        knobs = {"attention": "full", "steps": 9}
        later = {"normaliser": "softmax", "window_width": 257}
        date = {"date": "2026-02-01T00:00:00Z"}
        old = curve("dense", 1.6, config=knobs)
        new = curve("dense", 1.5, 2, config={**knobs, **later}, **date)
        both = self.one(old + new)
        self.assertEqual(sorted(both.by_seed("dense", "log_perplexity")), [1, 2])
        again = self.one(curve("dense", 1.6, config={**knobs, **later}, **date))
        self.assertTrue(training_curves.alike(both, again))
        sparse = curve("dense", 1.6, config={**knobs, **later, "normaliser": "sparsemax"})
        self.assertFalse(training_curves.alike(both, self.one(sparse)))

    def test_another_text_or_a_repetition_replaces_the_older(self):
        later = {"date": "2026-02-01T00:00:00Z"}
        e = self.one(FIGURE1 + curve("dense", 2.0, data="d2", **later))
        self.assertEqual(e.rows, ["dense"])
        again = [dict(r, key="new", **later) for r in curve("ff_n8", 1.5)]
        e = self.one(FIGURE1 + again)
        self.assertAlmostEqual(e.by_seed("ff_n8", "log_perplexity")[1]["value"], 1.5)
        self.assertEqual(len(e.by_seed("ff_n8", "log_perplexity")), 3)

    def test_a_failed_curve_leaves_the_others(self):
        e = self.one(three("dense", 1.6) + [failed("ff_n8", "no memory")])
        self.assertEqual(e.rows, ["dense", "ff_n8"])
        self.assertEqual(e.data, "d1")
        self.assertIsNone(e.result("ff_n8", "log_perplexity"))
        self.assertEqual(e.state("ff_n8"), "failed: no memory")
        alone = self.one([failed("ff_n8", "no memory")])
        self.assertEqual(alone.state("ff_n8"), "failed: no memory")

    def test_a_failure_replaces_what_was_there_and_is_replaced(self):
        e = self.one(three("dense", 1.6) + three("ff_n8", 1.7) + [failed("ff_n8", "a", seed=2)])
        self.assertEqual(sorted(e.by_seed("ff_n8", "log_perplexity")), [1, 3])
        self.assertEqual(e.failures("ff_n8"), {2: "a"})
        self.assertEqual(e.seeds("ff_n8"), [1, 3])
        again = curve("ff_n8", 1.7, 2, key="retry", date="2026-04-01T00:00:00Z")
        e = self.one(three("dense", 1.6) + [failed("ff_n8", "a", seed=2)] + again)
        self.assertEqual(e.failures("ff_n8"), {})
        self.assertEqual(list(e.by_seed("ff_n8", "log_perplexity")), [2])

    def test_points_up_to_a_failure_are_kept_and_shorten_no_other(self):
        begun = [r for r in curve("ff_n8", 1.7, 2, finished=False) if r["config"]["step"] < 300]
        mine = failed("ff_n8", "diverged", seed=2, key=begun[0]["key"])
        self.assertEqual([p[0] for p in self.one(begun + [mine]).points("ff_n8")], [100, 200])
        both = self.one(begun + [mine] + curve("ff_n8", 1.7, 1))
        self.assertEqual([p[0] for p in both.points("ff_n8")], [100, 200, 300])

    def test_a_failure_on_another_corpus_does_not_count(self):
        wiki, c4 = ({"config": {"corpus": name}} for name in ("wiki", "c4"))
        items = curve("dense", 1.6, **wiki) + [
            failed("ff_n8", "a", **c4),
            failed("ff_n16", "b", **wiki),
        ]
        self.assertEqual(self.one(items).rows, ["dense", "ff_n16"])


class SummaryTest(WithCurves):
    def test_ids(self):
        found = summarise.summary(self.load(FIGURE1 + curve("dense", 1.5, experiment="moe_mini")))
        entry = found["fig1.small.ff_qkv.gap"]
        self.assertAlmostEqual(entry["value"], 0.02)
        self.assertEqual(entry["unit"], "nats/token")
        self.assertAlmostEqual(found["fig1.small.dense.log_perplexity"]["sd"], 0.002)
        self.assertEqual(found["fig1.small.dense.params"]["value"], 1e6)
        self.assertEqual(found["train.mfu"]["value"], 0.6)
        self.assertEqual(found["train.tokens_per_s"]["value"], 5e4)
        self.assertIn("moe.mini.dense.bits_per_byte", found)
        self.assertNotIn("fig1.small.dense.gap", found)

    def test_experts_stand_under_figure_1_where_it_has_their_baseline(self):
        experts = [
            dict(r, experiment="moe_small") for r in three("dense", 1.6) + three("moe_block", 1.7)
        ]
        found = summarise.summary(self.load(FIGURE1 + experts))
        self.assertAlmostEqual(found["fig1.small.moe_block.gap"]["value"], 0.1)
        self.assertEqual(found["fig1.small.moe_block.params"], found["moe.small.moe_block.params"])
        self.assertNotIn("fig1.small.moe_switch.gap", found)
        longer = [dict(r, config={**r["config"], "steps": 9}) for r in experts]
        other = [dict(r, config={**r["config"], "data": "d2"}) for r in experts]
        for items in (longer, other):
            found = summarise.summary(self.load(FIGURE1 + items))
            self.assertIn("moe.small.moe_block.gap", found)
            self.assertNotIn("fig1.small.moe_block.gap", found)


class TrainingSpeedTest(WithCurves):
    def step(self, row, seconds, **more):
        settings = {"d_model": 128, "layers": 3, "batch": 16, "length": 96}
        return record(
            row,
            "step_seconds",
            seconds,
            experiment="peers_training",
            config=settings,
            compiler="torch 9",
            **more,
        )

    def compared(self):
        return [
            self.step("ours", 0.02),
            self.step("pytorch", 0.03, note="torch 9, eager"),
            self.step("pytorch_1_13", 0.07),
            record("ours", "mfu", 0.55, experiment="peers_training"),
            record("ours", "tokens_per_s", 76800.0, experiment="peers_training"),
        ]

    def test_a_table_beside_other_frameworks_and_one_source_of_the_utilisation(self):
        records = self.load(FIGURE1 + self.compared())
        found = summarise.summary(records)
        self.assertAlmostEqual(found["train.vs_pytorch"]["value"], 1.5)
        self.assertAlmostEqual(found["train.vs_pytorch_1_13"]["value"], 3.5)
        self.assertEqual(found["train.mfu"]["value"], 0.55)
        text = make_report.make(records)
        self.assertIn("| PyTorch | 30.0 | 1.50× | 51,200 | torch 9, eager |", text)
        self.assertIn("| PyTorch 1.13 | 70.0 | 3.50× | 21,943 | – |", text)
        self.assertIn("timed in turn with the other frameworks: 55% of the best", text)
        self.assertIn("(blocks 3, d_model 128, batch 16, positions 96)", text)
        self.assertNotIn("60% of the best", text)

    def test_sparse_steps_beside_their_twins(self):
        settings = {"d_model": 128, "layers": 2, "batch": 16, "length": 96}
        steps = [
            record(row, "step_seconds", seconds, experiment="step_cost", config=settings)
            for row, seconds in (("dense", 0.02), ("ff_n16", 0.021))
        ]
        over = record("ff_n16", "over_dense", 1.05, experiment="step_cost", against="dense")
        records = self.load([*steps, over])
        self.assertEqual(summarise.summary(records)["train.ff_n16.over_dense"]["value"], 1.05)
        text = make_report.make(records)
        self.assertIn("| `ff_n16` | 21.0 | `dense` | 20.0 | 1.05× |", text)
        self.assertIn("(blocks 2, d_model 128, batch 16, positions 96)", text)
        # Not the seconds of one alone.
        self.assertNotIn("train.ff_n16.over_dense", summarise.summary(self.load(steps)))

    def test_their_versions_are_no_build_of_ours(self):
        built = [dict(r, compiler="GNU 12") for r in FIGURE1]
        text = make_report.make(self.load(built + self.compared()))
        build = next(line for line in text.split("\n") if line.startswith("| build |"))
        self.assertIn("GNU 12", build)
        self.assertNotIn("torch", build)

    def test_without_the_comparison_the_dense_curve_stands_for_it(self):
        records = self.load(FIGURE1)
        self.assertEqual(summarise.summary(records)["train.mfu"]["value"], 0.6)
        self.assertIn(
            "while training `dense` of fig1.small: 60% of the best linked library's "
            "large product in the same process, 50,000 tokens/s.",
            make_report.make(records),
        )

    def test_a_mini_curve_has_ids_of_its_own(self):
        mini = [dict(r, experiment="fig1_mini") for r in FIGURE1]
        found = summarise.summary(self.load(mini))
        self.assertEqual(found["train.mini.mfu"]["value"], 0.6)
        self.assertNotIn("train.mfu", found)
        both = summarise.summary(self.load(mini + self.compared()))
        self.assertEqual(both["train.mfu"]["value"], 0.55)
        self.assertNotIn("train.mini.mfu", both)

    def test_nothing_trained_has_no_section(self):
        text = make_report.make(self.load([record("n", "block_ms", 1.0, experiment="table2")]))
        self.assertNotIn("## Training steps", text)


class ProgramsTest(WithCurves):
    def run_program(self, name, *arguments):
        return subprocess.run(
            [sys.executable, PLOTS / name, "--results", str(self.folder), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )

    def test_report_has_table_and_verdicts(self):
        text = make_report.make(self.load(FIGURE1))
        self.assertIn("## Perplexity: is sparse enough?", text)
        self.assertIn("| `ff_qkv` | 1,000,000 |", text)
        self.assertIn("+0.0200", text)
        self.assertIn("--config experiments/configs/training/fig1_small.cfg", text)
        self.assertIn("Every claim is one contrast of rows", text)
        self.assertRegex(
            text, r"FF\+QKV reaches .* so far\*\* \| gaps `ff_qkv` \+0\.0200, .*; 3 seeds"
        )

    def test_report_shows_failures_entropy_and_memory(self):
        more = [
            record("ff_qkv", metric, value)
            for metric, value in (
                ("hard_soft_gap", 0.0123),
                ("selection_entropy", 1.25),
                ("peak_memory_bytes", 456e6),
            )
        ]
        text = make_report.make(
            self.load(
                FIGURE1
                + more
                + [failed("qkv_mult", "no memory"), failed("ff_n16", "diverged", seed=2)]
            )
        )
        self.assertIn("| `qkv_mult` | – | – | failed: no memory |", text)
        self.assertIn("| +0.0123 | 1.25 | 456 | 3 |", text)
        self.assertIn("`fig1_small`, `ff_n16`: seed 2 failed: diverged.", text)
        table = next(line for line in text.split("\n") if line.startswith("| `ff_n16`"))
        self.assertTrue(table.endswith("| 2 |"), table)

    def test_a_running_curve_can_be_drawn_and_reported(self):
        self.load(curve("dense", 1.6) + curve("ff_n8", 1.7, finished=False))
        for program in ("plot_curves.py", "draw.py", "summarise.py", "make_report.py"):
            done = self.run_program(program)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "figures" / "fig1_small.png").exists())
        self.assertIn("unfinished, reached step 300", (self.folder / "report.md").read_text())

    def test_of_many_rows_their_ends_are_drawn_the_best_at_the_top(self):
        rows = [f"row_{number:02}" for number in range(13)]
        items = [
            item
            for number, row in enumerate(["dense", *rows])
            for seed in (1, 2)
            for item in curve(row, 9.0 if number == 13 else 1.6 + 0.01 * number, seed)
        ]
        (axes,) = curves.draw(self.load(items), "fig1_small").axes
        names = [text.get_text().partition(",")[0] for text in axes.get_yticklabels()]
        self.assertEqual(names, [*reversed(rows), "dense (baseline)"])
        self.assertEqual([text.get_text() for text in axes.texts], ["9.00 →"])
        self.assertLess(axes.get_xlim()[1], 2)
        few = [item for item in items if item["row"] not in rows[5:]]
        (axes,) = curves.draw(self.load(few), "fig1_small").axes
        self.assertEqual(axes.get_xlabel(), "training steps")

    def test_every_experiment_with_curves_is_drawn(self):
        self.load(
            [dict(r, experiment="mine") for r in curve("dense", 1.6)]
            + [dict(r, experiment="broken") for r in [failed("dense", "no memory")]]
        )
        done = self.run_program("draw.py")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "figures" / "mine.png").exists())
        self.assertIn("skipped broken: no evaluations yet", done.stdout)
        self.run_program("make_report.py")
        self.assertIn("figures/mine.png", (self.folder / "report.md").read_text())
        self.assertEqual(self.run_program("draw.py", "--figures", "mine").returncode, 0)
        done = self.run_program("draw.py", "--figures", "fig1_small")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--figures fig1_small: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
