"""Tests of Sparsefinder's claims on made-up sweeps: differences from their files, rules of the verdicts, the report."""

import json
import pathlib
import subprocess
import sys
import unittest

import numpy

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "plots"), str(ROOT / "tools")]

import records as rec  # noqa: E402
import sparsefinder_differences  # noqa: E402
from report import Report  # noqa: E402
from sections import sparsefinder, sparsefinder_claims  # noqa: E402
from values import Value  # noqa: E402
from with_folder import WithFolder  # noqa: E402

TOOL = ROOT / "tools/sparsefinder_differences.py"
NAMES = ["recall", "sparsity", "precision"]
SEQUENCES = 40
# {method: [(parameter, value, {width: (recall, sparsity)})]}
SWEPT = {
    "distance": [
        ("theta", 1.0, {0: (0.8, 0.85), 3: (0.9, 0.81)}),
        ("theta", 4.0, {0: (0.7, 0.95)}),
    ],
    "kmeans": [
        ("clusters", 4.0, {0: (0.6, 0.82), 3: (0.7, 0.7)}),
        ("clusters", 8.0, {0: (0.5, 0.91)}),
    ],
    "sim_routing": [("clusters", 4.0, {0: (0.4, 0.92)})],
    "sim_window": [("", 0.0, {3: (0.5, 0.93), 5: (0.52, 0.85)})],
    "sim_reformer": [("buckets", 4.0, {0: (0.9, 0.3)}), ("buckets", 8.0, {0: (0.45, 0.5)})],
    "distance_random": [("density", 0.1, {0: (0.3, 0.95)})],
}


class ClaimsTest(WithFolder):
    def sweep(self, teacher, shift=0.0, swept=None):
        """Files as sparsefinder writes them; sequences move all methods together by more than their differences."""
        folder = self.folder / "sparsefinder"
        folder.mkdir(exist_ok=True)
        rng = numpy.random.default_rng(len(teacher))
        common = 0.2 * rng.uniform(-1, 1, SEQUENCES)
        common -= common.mean()
        lines = []
        for method, configurations in (swept or SWEPT).items():
            row, points = f"{teacher}.{method}", []
            base = {"experiment": "sparsefinder", "study": "sparsefinder", "row": row, "threads": 2}
            base |= {"against": f"{teacher}.gold", "unit": "1", "status": "ok", "key": "k"}
            base |= {"commit": "c", "command": "sparsefinder", "date": "2026-01-01"}
            for parameter, value, widths in configurations:
                rows = []
                for width, (recall, sparsity) in widths.items():
                    own = 0.002 * rng.uniform(-1, 1, SEQUENCES)
                    recalls = recall + shift + common + own - own.mean()
                    points.append([recalls, numpy.full(SEQUENCES, sparsity), recalls])
                    rows.append([width, recall + shift, sparsity, recall + shift, 0, 1])
                config = {"grid": "paper", "parameter": parameter, "value": value, "nearest": 1}
                samples = {"columns": ["width", *NAMES, "recall_low", "recall_high"], "rows": rows}
                lines.append(
                    base | {"metric": "recall", "value": 0.5, "config": config, "samples": samples}
                )
            lines.append(base | {"metric": "area", "value": 0.5, "config": {}})
            array = numpy.array(points, dtype=numpy.float32).transpose(0, 2, 1)
            numpy.save(folder / f"{row}.npy", array)
        with open(self.folder / "sparsefinder.jsonl", "a", encoding="utf-8") as file:
            file.writelines(json.dumps(one) + "\n" for one in lines)

    def run_tool(self, *words):
        command = [sys.executable, TOOL, "--results", self.folder, "--draws", "200", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def differences(self):
        done = self.run_tool()
        self.assertEqual(done.returncode, 0, done.stderr)
        return rec.Records(self.folder)

    def test_frontiers_are_compared_over_the_same_sequences(self):
        self.sweep("s_lm.1")
        records = self.differences()
        found = sparsefinder_claims.difference(
            records, "s_lm", ("distance", "kmeans"), "recall_at_80"
        )
        # F(0.8): the best of what leaves out as much, 0.9 and 0.6, though 0.7 of k-means is less sparse.
        self.assertAlmostEqual(found.value, 0.3, places=4)
        self.assertLess(found.high - found.low, 0.003)
        at_90 = sparsefinder_claims.difference(
            records, "s_lm", ("distance", "kmeans"), "recall_at_90"
        )
        self.assertAlmostEqual(at_90.value, 0.2, places=4)

    def test_teachers_of_a_kind_are_drawn_too(self):
        self.sweep("s_lm.1")
        changed = SWEPT | {"distance": [("theta", 1.0, {0: (0.7, 0.95)})]}
        self.sweep("s_lm.22", swept=changed)
        records = self.differences()
        found = sparsefinder_claims.difference(
            records, "s_lm", ("distance", "kmeans"), "recall_at_80"
        )
        self.assertAlmostEqual(found.value, 0.2, places=4)  # of 0.3 and 0.1
        self.assertLess(found.low, 0.11)
        self.assertGreater(found.high, 0.29)

    def test_verdicts(self):
        self.sweep("s_lm.1")
        records = self.differences()
        found = sparsefinder_claims.verdicts(records, "s_lm")
        self.assertEqual([*found], [f"c{i}" for i in range(1, 9)])
        results = {claim: verdict.result for claim, verdict in found.items()}
        # 8 buckets of the Reformer find less than k-means; three methods of C3 are not swept.
        wanted = {"c2": 1, "c4": 1, "c5": 0, "c8": 1} | dict.fromkeys(("c1", "c3", "c6", "c7"))
        self.assertEqual(results, wanted)
        numbers = sparsefinder.numbers(records, records.of(sparsefinder.all_of_it))
        self.assertEqual(numbers["sparsefinder.claims.s_lm.c5"].value, 0)
        self.assertNotIn("sparsefinder.claims.s_lm.c3", numbers)
        # Of every kind together: as the only one.
        self.assertEqual(numbers["sparsefinder.claims.c2"].value, 1)
        self.assertEqual(numbers["sparsefinder.claims.c5"].value, 0)
        self.assertNotIn("sparsefinder.claims.c3", numbers)
        two = {f"sparsefinder.claims.{kind}.c2": numbers["sparsefinder.claims.c2"] for kind in "ab"}
        two["sparsefinder.claims.b.c5"] = numbers["sparsefinder.claims.c5"]
        all_kinds = sparsefinder_claims.of_all_kinds(two, ["a", "b", "c"])
        self.assertEqual([*all_kinds], ["sparsefinder.claims.c5"])  # one fails; c has no c2 yet
        report = Report(records)
        sparsefinder.write(report, records.of(sparsefinder.all_of_it))
        self.assertIn(
            "| C2: recall: distance ≥ k-means ≥ the emulated Routing | **pass** |", report.text()
        )
        self.assertIn("not measured on a teacher", report.text())
        self.assertIn("Of one teacher, `s_lm.1`", report.text())
        self.assertIn("recall, `distance` − `kmeans`: at 80 % +0.300 [", report.text())
        for what, place in (
            ("recall", "0.300], at 8 buckets -0."),
            ("sparsity", "at 4 buckets -0."),
        ):
            self.assertRegex(report.text(), f"{what}, `sim_reformer` − `kmeans`: [^;]*{place}")

    def online(self, nats, logits_moved=2e-7):
        """Adds what a teacher that ran with predicted graphs writes: {method: [(sparsity, recall, nats)]}."""
        base = {"experiment": "sparsefinder", "study": "sparsefinder", "threads": 2, "key": "k"}
        base |= {"unit": "1", "status": "ok", "commit": "c", "command": "s", "date": "2026-01-01"}
        lines = []
        for method, points in nats.items():
            row = {"row": f"s_lm.1.{method}", "against": "s_lm.1.gold"}
            for number, (sparsity, recall, value) in enumerate(points):
                rows = [[100 * (value + 0.1 * (i % 3)), 100] for i in range(12)]
                config = {"parameter": "theta", "value": number, "nearest": 1, "width": 0}
                config |= {"offline_sparsity": sparsity, "offline_recall": recall}
                config["stratum"] = 0.9 if sparsity >= 0.9 else 0.85
                samples = {"columns": ["loss", "weight"], "rows": rows}
                online = {"metric": "online_log_perplexity", "value": value, "config": config}
                lines.append(base | row | online | {"samples": samples})
        gold = base | {"row": "s_lm.1.gold", "against": "s_lm.1.gold"}
        lines.append(gold | {"metric": "online_gold_difference", "value": 2e-7, "config": {}})
        if logits_moved is not None:
            lines.append(
                gold | {"metric": "online_gold_logits", "value": logits_moved, "config": {}}
            )
        config = {"mean_gold_sparsity": 0.91}
        lines.append(gold | {"metric": "gold_sparsity", "value": 0.91, "config": config})
        with open(self.folder / "sparsefinder.jsonl", "a", encoding="utf-8") as file:
            file.writelines(json.dumps(one) + "\n" for one in lines)

    def test_the_model_that_runs_with_predicted_graphs(self):
        self.sweep("s_lm.1")
        # Quality falls with recall; distance at 0.92 costs 0.005 nats, what is less sparse does not count.
        ran = {"gold": [(0, 1, 3.0)], "distance": [(0.86, 0.9, 3.0), (0.92, 0.95, 3.005)]}
        for i, method in enumerate(("kmeans", "sim_routing", "sim_window", "sim_reformer")):
            ran[method] = [(0.91, 0.8 - 0.1 * i, 3.1 + 0.1 * i)]
        self.online(ran)
        records = self.differences()
        at_gold = sparsefinder_claims.difference(
            records, "s_lm", ("distance", "gold"), "nats_at_gold"
        )
        self.assertAlmostEqual(at_gold.value, 0.005, places=6)
        ranks = sparsefinder_claims.difference(records, "s_lm", ("all", "gold"), "rank_correlation")
        self.assertAlmostEqual(ranks.value, 1.0, places=6)
        found = sparsefinder_claims.verdicts(records, "s_lm")
        self.assertEqual([found[claim].result for claim in ("c1", "c6", "c7")], [1, 1, 1])

    def test_losses_that_stay_do_not_hide_logits_that_move(self):
        for moved, result, values in ((2e-7, 1, 2), (2e-5, 0, 2), (None, None, 1)):
            for path in self.folder.glob("*.jsonl"):
                path.unlink()
            self.sweep("s_lm.1")
            self.online({"gold": [(0, 1, 3.0)]}, logits_moved=moved)
            judged = sparsefinder_claims.verdicts(self.differences(), "s_lm")["c1"]
            self.assertEqual((judged.result, len(judged.values)), (result, values))

    def test_quality_at_the_gold_sparsity_lies_between_two_points(self):
        # (denser than 0.91, sparser), in nats beyond the teacher's.
        for extra, wanted in (((0.5, 0.9), 0), ((0.0, 0.9), None), ((0.0, 0.005), 1)):
            for path in self.folder.glob("*.jsonl"):
                path.unlink()
            self.sweep("s_lm.1")
            points = [(s, 0.9, 3.0 + e) for s, e in zip((0.86, 0.92), extra)]
            self.online({"gold": [(0, 1, 3.0)], "distance": [(0.5, 1, 3.0), *points]})
            judged = sparsefinder_claims.verdicts(self.differences(), "s_lm")["c7"]
            self.assertEqual(judged.result, wanted)
            self.assertEqual(len(judged.values), 2)

    def test_controls_have_no_part_in_the_order_of_methods(self):
        names = ("distance", "kmeans", "sim_routing", "sim_window", "sim_reformer")
        point = [("theta", 1.0, {0: (0.5, 0.9)})]
        self.sweep("s_lm.1", swept=SWEPT | dict.fromkeys(("oracle", "random_graph"), point))
        # Of the methods the quality falls as recall rises; an oracle and random graphs at the ends would hide it.
        ran = {name: [(0.91, 0.5 + 0.01 * i, 3.1 + 0.01 * i)] for i, name in enumerate(names)}
        ends = {"oracle": [(0.91, 1.0, 3.0)], "random_graph": [(0.91, 0.1, 6.0)]}
        self.online({"gold": [(0, 1, 3.0)], **ran, **ends})
        pair = ("all", "gold")
        found = sparsefinder_claims.difference(self.differences(), "s_lm", pair, "rank_correlation")
        self.assertAlmostEqual(found.value, -1.0, places=6)

    def test_an_interval_on_both_sides_is_inconclusive(self):
        wide = Value(0.1, "1", -0.1, 0.3, "ok", "c")
        sure = wide._replace(low=0.05)
        worse = Value(-0.1, "1", -0.2, -0.05, "ok", "c")
        for values, wanted in (([sure], 1), ([sure, wide], None), ([sure, worse], 0), ([], None)):
            judged = sparsefinder_claims.by(
                dict(enumerate(values)), lambda v: v.low > 0, lambda v: v.high < 0
            )
            self.assertEqual(judged.result, wanted)
        self.assertIsNone(sparsefinder_claims.by({0: sure, 1: None}, bool, bool).result)

    def test_of_few_teachers_an_interval_holds_the_truth_as_often_as_it_says(self):
        for teachers in (2, 3, 5):
            held = 0
            for trial in range(200):
                rng = numpy.random.default_rng([teachers, trial])
                # Sequences alike: teachers are all that varies.
                each = numpy.repeat(rng.normal(size=(teachers, 1)), 201, axis=1)
                _, low, high = sparsefinder_differences.over_teachers(each, rng)
                held += low <= 0 <= high
            self.assertGreaterEqual(held, 181, teachers)  # of 190; three deviations are 9
        self.assertEqual(sparsefinder_differences.over_teachers([[2.0, 1, 3]], rng)[0], 2.0)

    def test_buckets_are_those_that_all_teachers_have(self):
        def swept(*places):
            return sparsefinder_differences.Sweep(list(places), None, None)

        eight, four = ("buckets", 8.0, 1, 0), ("buckets", 4.0, 1, 0)
        clusters = [("clusters", n, 1, 0) for n in (8.0, 4.0)]
        one, other = (swept(eight, four), swept(*clusters)), (swept(eight), swept(*clusters))
        self.assertEqual({*sparsefinder_differences.shared_buckets([one])}, {4, 8})
        self.assertEqual({*sparsefinder_differences.shared_buckets([one, other])}, {8})

    def test_what_is_recorded_is_not_made_again(self):
        self.sweep("s_lm.1")
        self.differences()
        lines = (self.folder / "sparsefinder_differences.jsonl").read_text().splitlines()
        self.assertIn("is recorded", self.run_tool().stdout)
        again = (self.folder / "sparsefinder_differences.jsonl").read_text().splitlines()
        self.assertEqual(lines, again)

    def test_files_of_another_run_are_refused(self):
        self.assertIn("no sweep of a teacher", self.run_tool().stderr)
        self.sweep("s_lm.1")
        path = self.folder / "sparsefinder/s_lm.1.distance.npy"
        whole = numpy.load(path)
        for array, why in ((whole[:-1], "points"), (whole + 0.5, "of another run")):
            numpy.save(path, array)
            done = self.run_tool()
            self.assertEqual(done.returncode, 1)
            self.assertIn(why, done.stderr)
            self.assertIn("--force", done.stderr)


if __name__ == "__main__":
    unittest.main()
