"""Tests of the perplexity part of plots/ on small made-up curves: means, gaps, power, verdicts."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PLOTS = pathlib.Path(__file__).resolve().parent.parent / "plots"
sys.path.insert(0, str(PLOTS))

import curves  # noqa: E402
import make_report  # noqa: E402
import records as rec  # noqa: E402
import summarise  # noqa: E402


def record(row, metric, value, seed=1, experiment="fig1_small", step=None, data="d1", **more):
    config = {"data": data, **more.pop("config", {})}
    if step is not None:
        config["step"] = step
    return {"experiment": experiment, "row": row, "against": "dense", "threads": 2,
            "metric": metric, "value": value, "unit": "nats/token", "spread": 0.0, "status": "ok",
            "note": "", "config": config, "commit": "c1", "dirty": False, "cpu": "a processor",
            "cores": 2, "seed": seed, "key": f"{experiment}.{row}.{seed}.{data}",
            "date": "2026-01-01T00:00:00Z", **more}


def curve(row, final, seed=1, finished=True, **more):
    """Three evaluations falling to `final`, and the results."""
    found = [record(row, "evaluation", final + 1 - step / 300, seed, step=step, **more)
             for step in (100, 200, 300)]
    if finished:
        found += [record(row, metric, value, seed, **more) for metric, value in
                  (("params", 1e6), ("bits_per_byte", final / 2), ("mfu", 0.6),
                   ("tokens_per_s", 5e4), ("log_perplexity", final))]
    return found


def three(row, final, spread=0.002, **more):
    return [r for seed in (1, 2, 3) for r in curve(row, final + (seed - 2) * spread, seed, **more)]


FIGURE1 = three("dense", 1.6) + three("ff_n8", 1.63) + three("ff_n16", 1.66) \
    + three("ff_qkv", 1.62) + three("iso_read_ff", 1.75) + three("iso_read_model", 1.9) \
    + three("random_controller", 1.64) + three("hash_selector", 1.631)


class WithFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def load(self, items):
        files = {}
        for item in items:
            files.setdefault(item["experiment"], []).append(json.dumps(item))
        for name, lines in files.items():
            (self.folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        return rec.Records(self.folder)

    def one(self, items, name="fig1_small"):
        return curves.experiments(self.load(items))[name]

    def verdicts(self, items):
        return {line.claim: line.verdict for line in curves.judged(self.load(items))}


class ExperimentTest(WithFolder):
    def test_results_are_means_over_seeds_with_their_deviation(self):
        e = self.one(FIGURE1)
        value = e.result("dense", "log_perplexity")
        self.assertAlmostEqual(value.value, 1.6)
        self.assertAlmostEqual(value.spread, 0.002)
        self.assertAlmostEqual(e.seed_spread(), 0.002)

    def test_gaps_are_taken_seed_by_seed(self):
        e = self.one(FIGURE1)
        self.assertAlmostEqual(e.gap("ff_n8").value, 0.03)
        self.assertAlmostEqual(e.gap("ff_n8").spread, 0)
        only = self.one(three("dense", 1.6) + curve("ff_n8", 1.7, seed=3))
        self.assertAlmostEqual(only.gap("ff_n8").value, 1.7 - 1.602)

    def test_points_have_mean_and_range_in_steps_that_all_seeds_reached(self):
        running = [r for r in curve("dense", 1.0, 2, finished=False)
                   if r["config"]["step"] < 300]
        e = self.one(curve("dense", 1.2, 1) + running)
        self.assertEqual([p[0] for p in e.points("dense")], [100, 200])
        step, mean, low, high = e.points("dense")[0]
        self.assertAlmostEqual(mean, 1.1 + 1 - 1 / 3)
        self.assertAlmostEqual(high - low, 0.2)
        self.assertEqual(e.unfinished("dense"), [2])

    def test_another_text_or_a_repetition_replaces_the_older(self):
        later = {"date": "2026-02-01T00:00:00Z"}
        e = self.one(FIGURE1 + curve("dense", 2.0, data="d2", **later))
        self.assertEqual(e.rows, ["dense"])
        again = [dict(r, key="new", **later) for r in curve("ff_n8", 1.5)]
        e = self.one(FIGURE1 + again)
        self.assertAlmostEqual(e.by_seed("ff_n8", "log_perplexity")[1]["value"], 1.5)
        self.assertEqual(len(e.by_seed("ff_n8", "log_perplexity")), 3)

    def test_a_failed_curve_leaves_the_others(self):
        failed = record("ff_n8", "log_perplexity", None, status="failed", data="",
                        date="2026-03-01T00:00:00Z")
        e = self.one(three("dense", 1.6) + [failed])
        self.assertEqual(e.rows, ["dense"])


class SummaryTest(WithFolder):
    def test_ids(self):
        found = summarise.summary(self.load(FIGURE1 + curve("dense", 1.5, experiment="moe_mini")))
        entry = found["fig1.small.ff_qkv.gap"]
        self.assertAlmostEqual(entry["value"], 0.02)
        self.assertEqual(entry["unit"], "nats/token")
        self.assertAlmostEqual(found["fig1.small.dense.log_perplexity"]["spread"], 0.002)
        self.assertEqual(found["fig1.small.dense.params"]["value"], 1e6)
        self.assertEqual(found["train.mfu"]["value"], 0.6)
        self.assertEqual(found["train.tokens_per_s"]["value"], 5e4)
        self.assertIn("moe.mini.dense.bits_per_byte", found)
        self.assertNotIn("fig1.small.dense.gap", found)


class VerdictTest(WithFolder):
    def test_power_and_share(self):
        e = self.one(FIGURE1)
        strength = curves.power(e)
        self.assertTrue(strength.decides)
        self.assertAlmostEqual(strength.gap.value, 0.15)
        verdicts = self.verdicts(FIGURE1)
        self.assertEqual([v for c, v in verdicts.items() if "FF+QKV reaches" in c], ["reproduced"])

    def test_without_power_nothing_is_decided(self):
        weak = three("dense", 1.6) + three("ff_qkv", 1.61) + three("iso_read_ff", 1.65)
        self.assertFalse(curves.power(self.one(weak)).decides)
        self.assertEqual([v for c, v in self.verdicts(weak).items() if "FF+QKV reaches" in c],
                         ["undecided (it would be: reproduced)"])
        single = curve("dense", 1.6) + curve("ff_qkv", 1.61) + curve("iso_read_ff", 1.9)
        strength = curves.power(self.one(single))
        self.assertFalse(strength.decides)
        self.assertIn("one seed", strength.text())

    def test_controls_are_beaten_tied_or_ahead(self):
        found = {c.split(": `")[1].split("`")[0]: v for c, v in self.verdicts(FIGURE1).items()
                 if "beats" in c}
        self.assertEqual(found, {"iso_read_ff": "yes", "iso_read_model": "yes",
                                 "random_controller": "yes", "hash_selector": "tie"})
        worse = [r for r in FIGURE1 if r["row"] != "hash_selector"] + three("hash_selector", 1.6)
        found = {c.split(": `")[1].split("`")[0]: v for c, v in self.verdicts(worse).items()
                 if "beats" in c}
        self.assertEqual(found["hash_selector"], "no")

    def test_orders_against_the_spread(self):
        def rows(*finals):
            return three("dense", 1.0) + [r for s, final in zip((2, 4, 8), finals)
                                          for r in three(f"loss_s{s}", final)]
        for finals, verdict in (((1.01, 1.02, 1.05), "reproduced"),
                                ((1.05, 1.02, 1.01), "not reproduced"),
                                ((1.01, 1.011, 1.012), "tie within the seeds' spread")):
            items = [dict(r, experiment="fig7_small") for r in rows(*finals)]
            e = self.one(items, "fig7_small")
            self.assertEqual(curves.ordered(e, ["loss_s2", "loss_s4", "loss_s8"]), verdict)

    def test_small_decides_before_mini(self):
        mini = [dict(r, experiment="fig1_mini", key="m" + r["key"]) for r in FIGURE1]
        self.assertTrue(all("fig1.small" in c for c in self.verdicts(FIGURE1 + mini)))


class ProgramsTest(WithFolder):
    def run_program(self, name, *arguments):
        return subprocess.run([sys.executable, PLOTS / name, "--results", str(self.folder),
                               *arguments], capture_output=True, text=True, check=False)

    def test_report_has_power_table_and_verdicts(self):
        text = make_report.make(self.load(FIGURE1))
        self.assertIn("## Perplexity: is sparse enough?", text)
        self.assertIn("power enough", text)
        self.assertIn("| `ff_qkv` | 1,000,000 |", text)
        self.assertIn("+0.0200", text)
        self.assertIn("--config experiments/configs/training/fig1_small.cfg", text)

    def test_a_running_curve_can_be_drawn_and_reported(self):
        self.load(curve("dense", 1.6) + curve("ff_n8", 1.7, finished=False))
        for program in ("plot_curves.py", "draw.py", "summarise.py", "make_report.py"):
            done = self.run_program(program)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "figures" / "fig1_small.png").exists())
        self.assertIn("unfinished, reached step 300", (self.folder / "report.md").read_text())


if __name__ == "__main__":
    unittest.main()
