"""Two runs compared: verdicts by ends of intervals and by the U test, states, machines, commits, mistakes."""

import csv
import io
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from with_results import WithResults, entry, record


def repetitions(name, times, unit="us"):
    """Google Benchmark's entries, its own median among them."""
    each = [
        {"name": name, "run_name": name, "run_type": "iteration", "real_time": t, "time_unit": unit}
        for t in times
    ]
    median = {"run_type": "aggregate", "aggregate_name": "median", "real_time": 1e9}
    return [*each, each[0] | median | {"name": f"{name}_median", "repetitions": len(times)}]


class CompareTest(WithResults):
    tool = "compare.py"

    def compared(self, *arguments):
        """{figure: row} of a comparison of a and b."""
        done = self.run_tool("a", "b", "--output", "jsonl", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {row["figure"]: row for row in map(json.loads, done.stdout.splitlines())}

    def verdicts(self, *arguments):
        return {name: row["verdict"] for name, row in self.compared(*arguments).items()}

    def test_what_is_faster_depends_on_the_unit(self):
        units = {"ms": "slower", "us": "slower", "tokens/s": "faster", "GB/s": "faster"}
        units |= {"1/s": "faster", "x": "larger", "nats/token": "larger", "1": "larger"}
        self.folder("a", {unit: entry(10, 1, unit) for unit in units})
        self.folder("b", {unit: entry(13, 1, unit) for unit in units})
        self.assertEqual(self.verdicts(), units)
        self.folder("b", {unit: entry(7, 1, unit) for unit in units})
        opposite = {"slower": "faster", "faster": "slower", "larger": "smaller"}
        self.assertEqual(self.verdicts(), {unit: opposite[said] for unit, said in units.items()})

    def test_ends_of_intervals_are_divided(self):
        self.folder("a", {"t": entry(10, 1)})
        self.folder("b", {"t": entry(12, 0.5)})
        row = self.compared()["t"]
        self.assertAlmostEqual(row["B / A"], 1.2)
        self.assertAlmostEqual(row["B / A low"], 11.5 / 11)
        self.assertAlmostEqual(row["B / A high"], 12.5 / 9)
        self.assertEqual((row["A low"], row["B high"], row["unit"]), (9, 12.5, "ms"))

    def test_a_common_value_is_no_difference(self):
        self.folder("a", {"touching": entry(10, 1), "apart": entry(10, 1)})
        self.folder("b", {"touching": entry(12, 1), "apart": entry(12.01, 1)})
        self.assertEqual(self.verdicts(), {"touching": "no difference seen", "apart": "slower"})

    def test_single_measurements_and_open_ends_tell_nothing_but_counts_do(self):
        unknown = {"low": None, "high": None}
        names = ("single", "open", "parameters", "alike")
        ours = (entry(4.0), entry(4.0) | unknown, entry(4, unit="weights"), entry(4.0) | unknown)
        theirs = (entry(5, 0.1), entry(9, 0.1), entry(5, unit="weights"), entry(4.0) | unknown)
        self.folder("a", dict(zip(names, ours)))
        self.folder("b", dict(zip(names, theirs)))
        said = ("no interval", "no interval", "larger", "no difference seen")
        self.assertEqual(self.verdicts(), dict(zip(names, said)))
        for name in ("single", "open"):
            self.assertIsNone(self.compared()[name]["B / A low"])

    def test_what_may_be_zero_or_below_has_no_ratio_and_a_verdict(self):
        self.folder("a", {"gap": entry(-0.2, 0.1, "nats/token"), "same": entry(-0.1, 0.2, "1")})
        self.folder("b", {"gap": entry(0.2, 0.1, "nats/token"), "same": entry(0.1, 0.2, "1")})
        found = self.compared()
        self.assertEqual(found["gap"]["verdict"], "larger")
        self.assertEqual(found["same"]["verdict"], "no difference seen")
        self.assertIsNone(found["gap"]["B / A"])

    def test_states_by_name_and_by_read_rate(self):
        def side(rate, **states):
            memory = entry(rate, unit="GB/s", state="only")
            times = {name: entry(10, 0.1, state=state) for name, state in states.items()}
            return times | {"memory.read_gbps": memory}

        self.folder("a", side(75, known="only", lost="only", never=""))
        self.folder("b", side(78, known="fast", lost="", never=""))
        same = "no difference seen"
        found = self.verdicts()
        # Called otherwise, but memory was as fast: a folder of one state and one of two.
        self.assertEqual((found["known"], found["never"]), (same, same))
        self.assertEqual(found["memory.read_gbps"], "no interval")
        self.folder(
            "b", side(50, known="only", lost="", never="") | {"known": entry(20, 0.1, state="only")}
        )
        found = self.verdicts()
        self.assertEqual(found["known"], "different states")
        self.assertEqual(found["memory.read_gbps"], "different states")
        self.assertEqual(found["never"], same)
        self.folder("b", {"lost": entry(12, 0.1)})
        self.assertEqual(self.verdicts(), {"lost": "different states"})

    def test_two_machines_are_named_and_compared_whatever_their_states(self):
        for name, cpu, state, time in (("a", "Zen", "fast", 10), ("b", "Xeon", "only", 20)):
            self.folder(name, {"t": entry(time, 1, state=state)}, [record("r", time, cpu=cpu)])
        done = self.run_tool("a", "b")
        self.assertIn("A: a: Zen, 2 cores; c1", done.stdout)
        self.assertIn("B: b: Xeon, 2 cores; c1", done.stdout)
        self.assertIn("two machines: verdicts tell them apart, not the code", done.stdout)
        self.assertIn(
            "| `t` | ms | 10.00 [9.00, 11.0] | 20.00 [19.0, 21.0] | 2.00 [1.73, 2.33] | – | slower |",
            done.stdout,
        )
        self.assertEqual(done.stdout.splitlines()[-1], "1 slower.")

    def test_what_one_side_lacks_is_counted_and_listed_on_demand(self):
        self.folder("a", {"both": entry(10, 1), "mine": entry(1)})
        self.folder("b", {"both": entry(10, 2), "theirs": entry(2)})
        done = self.run_tool("a", "b")
        self.assertNotIn("`mine`", done.stdout)
        self.assertIn("1 only in A, 1 only in B (--all lists what one side lacks)", done.stdout)
        self.assertEqual(
            self.verdicts("--all"),
            {"both": "no difference seen", "mine": "only in A", "theirs": "only in B"},
        )

    def test_two_dense_times_behind_a_speed_up_are_named(self):
        self.folder("a", {"speedup": entry(10, 1, "x"), "same": entry(10, 1, "x", whose="mkl")})
        self.folder("b", {n: entry(7, 1, "x", whose="mkl") for n in ("speedup", "same")})
        said = {"speedup": "smaller (dense time of ours, mkl)", "same": "smaller"}
        self.assertEqual(self.verdicts(), said)
        self.assertEqual(self.run_tool("a", "b").stdout.splitlines()[-1], "2 smaller.")

    def test_doubtful_figures_say_so(self):
        self.folder("a", {"t": entry(10, 1, status="untrusted")})
        self.folder("b", {"t": entry(20, 1)})
        self.assertIn("10.00 [9.00, 11.0] (untrusted)", self.run_tool("a", "b").stdout)
        self.assertEqual(self.compared()["t"]["A status"], "untrusted")

    def test_csv_goes_alone_to_standard_output(self):
        self.folder("a", {"t": entry(10, 1), "u": entry(1, unit="weights")})
        self.folder("b", {"t": entry(20, 1), "u": entry(1, unit="weights")})
        done = self.run_tool("a", "b", "--output", "csv", "--figures", "t*")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual(len(rows), 1)
        self.assertEqual((rows[0]["figure"], rows[0]["B"], rows[0]["B low"]), ("t", "20", "19"))
        self.assertIn("1 slower", done.stderr)

    def test_a_summary_without_intervals_is_made_again(self):
        old = {"table2.baseline.token_ms": {"value": 5.0, "unit": "ms", "spread": 1.0}}
        self.folder("a", old, [record("baseline", 10.0)])
        self.folder("b", None, [record("baseline", 20.0)])
        row = self.compared("--figures", "table2.baseline.token_ms")["table2.baseline.token_ms"]
        self.assertEqual((row["A"], row["B"], row["verdict"]), (10, 20, "slower"))
        self.assertLess(row["A low"], 10)

    def test_microbenchmarks_go_by_the_u_test_of_nine_repetitions(self):
        times = [100.0 + i for i in range(9)]
        slow = [1000 * (t + 50) for t in times]  # ns
        mixed = [t + (0.5 if i % 2 else -0.5) for i, t in enumerate(times)]
        self.folder(
            "a",
            kernels=[
                *repetitions("slow/real_time", times),
                *repetitions("mixed/real_time", times),
                *repetitions("few/real_time", times),
            ],
        )
        self.folder(
            "b",
            kernels=[
                *repetitions("slow/real_time", slow, "ns"),
                *repetitions("mixed/real_time", mixed),
                *repetitions("few/real_time", times[:8]),
            ],
        )
        found = self.compared()
        slow = found["kernels.slow"]
        self.assertEqual((slow["verdict"], slow["A"], slow["B"]), ("slower", 104, 154))
        self.assertAlmostEqual(slow["p"], 2 / 48620)
        self.assertGreater(slow["B / A low"], 1)
        self.assertNotIn("A low", slow)  # a median of repetitions has no interval
        self.assertEqual(found["kernels.mixed"]["verdict"], "no difference seen")
        self.assertGreater(found["kernels.mixed"]["p"], 0.05)
        few = found["kernels.few"]
        self.assertEqual(few["verdict"], "too few repetitions (8, 9 are needed)")
        self.assertEqual((few["p"], few["B / A low"]), (None, None))

    def test_microbenchmarks_of_records(self):
        def of_layer(times, **more):
            samples = {"columns": ["us"], "rows": [[t] for t in times]}
            return record(
                "ff:dense/f32/t2/real_time",
                times[0],
                "us",
                "layers",
                repeats=9,
                **({"samples": samples} | more),
            )

        times = [10.0 + 0.1 * i for i in range(9)]
        self.folder("a", None, [of_layer(times)])
        self.folder("b", None, [of_layer([t / 2 for t in times])])
        found = self.compared()["layers.ff:dense/f32/t2"]
        self.assertEqual(found["verdict"], "faster")
        self.assertAlmostEqual(found["B / A"], 0.5)
        self.folder("c", None, [of_layer(times, samples=None)])
        done = self.run_tool("a", "c")
        self.assertIn("repetitions not recorded, their median alone", done.stdout)

    def test_commits_and_machines(self):
        def git(*words):
            subprocess.run(
                ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
                cwd=self.root,
                capture_output=True,
                check=True,
            )

        git("init", "--quiet")
        for time, message in ((10, "first"), (20, "second")):
            self.folder("results/published", {"t": entry(time, 1)})
            self.folder("results/published/here", {"t": entry(3 * time, 1)})
            git("add", "--all")
            git("commit", "--quiet", f"--message={message}")
            git("tag", message)
        self.folder("results/local/there", {"t": entry(60, 1)})
        for arguments, wanted in (
            (("first", "second"), (10, 20)),
            (("first", "HEAD", "--folder", "results/published/here"), (30, 60)),
            (("HEAD~1", "results/published"), (10, 20)),
            (("here", "there"), (60, 60)),
        ):
            done = self.run_tool(*arguments, "--output", "jsonl")
            self.assertEqual(done.returncode, 0, done.stderr)
            row = json.loads(done.stdout)
            self.assertEqual((row["A"], row["B"]), wanted, arguments)
        self.refused(
            ("commit 'first'", "no folder 'results/nowhere'", "--folder"),
            *("first", "second", "--folder", "results/nowhere"),
        )
        self.refused(("'nobody' is no folder", "no commit"), "nobody", "second")

    def test_mistakes_name_value_reason_and_remedy(self):
        self.folder("a", {"t": entry(10, 1)})
        self.folder("empty")
        self.folder("broken").joinpath("summary.json").write_text("{")
        self.folder("other", {"t": 3})
        self.folder("old", {"t": {"value": 1.0, "unit": "ms", "spread": 0.1}})
        self.folder("layers", layers=[{"name": "x", "real_time": 1, "time_unit": "years"}])
        self.refused(("'nobody' is no folder", "checkout's root"), "a", "nobody")
        self.refused(("'--output=x' is no folder",), "a", "--", "--output=x")
        self.refused(("'empty' holds no results", "run_all.sh"), "a", "empty")
        for name in ("broken", "other", "old"):
            self.refused((f"{name}/summary.json' cannot be used", "summarise.py"), "a", name)
        self.refused(("layers/layers.json'", "'years'", "bench_layers"), "a", "layers")
        self.refused(("--figures 'x*' fits none of 1", "summary.json"), "a", "a", "--figures", "x*")


if __name__ == "__main__":
    unittest.main()
