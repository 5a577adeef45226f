"""Libraries beside our dense block in two states of memory: windows, batches, turns, the fastest, what it divides."""

import copy
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [
    str(HERE),
    str(ROOT / "plots"),
    str(ROOT / "tools"),
    str(ROOT / "experiments/peers"),
]
import headline  # noqa: E402
import make_report  # noqa: E402
import records as rec  # noqa: E402
import sampling  # noqa: E402
import states  # noqa: E402
import states_test as made_up  # noqa: E402
import summarise  # noqa: E402
import values  # noqa: E402
from made_up import MEASURED  # noqa: E402
from sections import peers  # noqa: E402
from with_folder import WithFolder  # noqa: E402

# In the made-up sittings our dense block takes 1.01 ms where memory is fast, at 60.3 GB/s, and 2.02 ms where it is slow, at
# 30.15 GB/s; the sparse one 0.202 ms in both.
FAST, SLOW = 60.3, 30.15
CONFIG = {"shape": "800m", "weight_type": "f32", "blocks_held": 24, "decoder_layers": 24}
SPEEDUP = "table1.800m.ff_qkv.block_speedup"


def peer_record(row, **more):
    kind = "bf16" if row.endswith(".bf16") else "f32"
    config = {
        "shape": "800m",
        "peer": "one",
        "variant": "dense",
        "weight_type": kind,
        "seconds": 10,
    }
    return {
        **MEASURED,
        "experiment": "peers_python",
        "study": "peers",
        "section": "",
        "row": row,
        "against": "",
        "metric": "block_ms",
        "date": "2026-01-04T00:00:00Z",
        **more,
        "config": config | more.get("config", {}),
    }


def window(row, block_ms, rate, spread=0.01, **more):
    """As peers wrote it before there were batches; spread: between its quartiles; rate: GB/s beside it, or None."""
    half = block_ms * spread / 2
    numbers = {"value": block_ms, "low": block_ms - half, "high": block_ms + half, "spread": half}
    limits = {"ceilings": {"read_gbps": rate, "fma_gflops": 300.0} if rate else {}}
    return peer_record(row, repeats=100, **(numbers | limits | more))


def batches(row, found, size=48_000_000):
    """The records of a peer whose batches, (block ms, GB/s before, GB/s after), follow each other every 3 s."""
    taken = [
        sampling.Batch(3.0 * n, [24e-3 * ms], before, after)
        for n, (ms, before, after) in enumerate(found)
    ]
    samples = sampling.table(taken, False, 24, size)
    numbers = sampling.numbers(samples)
    config = {"config": {"batches": len(found), "decoder_layers": 24, "blocks_held": 24}}
    made = []
    for metric in ("block_efficiency", "block_ms"):
        low, middle, high = numbers[metric]
        ends = {"value": middle, "low": low, "high": high, "spread": (high - low) / 2}
        about = {"metric": metric, "repeats": numbers["repeats"], **ends, **config}
        made.append(peer_record(row, ceilings={"read_gbps": numbers["read_gbps"]}, **about))
    made[-1]["samples"] = {"group": row, **samples}
    return made


def renamed(records, names, **more):
    """Records of rows under other names, others left out."""
    return [
        r | {"row": names[r["row"]], "against": names["baseline"], **more}
        for r in records
        if r["row"] in names
    ]


def linked(name, number, factor):
    """A library that took turns with our dense row and needed so many times its time."""
    ours = made_up.sitting(
        name, number, experiment="peers_800m", study="decode", section="peers", config=CONFIG
    )
    ours = renamed(ours, {"baseline": "baseline"})
    theirs = [copy.deepcopy(r) | {"row": "eigen"} for r in ours]
    for record in theirs:
        times = {"token_ms": factor, "block_ms": factor}
        scale = times | dict.fromkeys(states.EFFICIENCIES, 1 / factor)
        for end in ("value", "low", "high", "spread"):
            if end in record:
                record[end] *= scale.get(record["metric"], 1)
        for line in record.get("samples", {}).get("rows", []):
            for column in ("token_ms", "block_ms"):
                line[made_up.COLUMNS.index(column)] *= factor
    return ours + theirs


class PeersTest(WithFolder):
    def setUp(self):
        super().setUp()
        for number in (1, 2):
            name = f"2026-01-0{number}T0000Z"
            self.sitting(name, made_up.sitting(name, number, config=CONFIG), kind="headline")

    def sitting(self, name, records, kind="libraries"):
        folder = self.folder / "sittings" / name
        folder.mkdir(parents=True)
        about = {"kind": kind, "commit": "c1", "machine": "m", "minutes": 9, "complete": True}
        about |= {"began": f"{name[:10]}T00:00:00Z", "ended": f"{name[:10]}T00:09:30Z"}
        (folder / "sitting.json").write_text(json.dumps(about))
        for record in records:
            with open(folder / f"{record['experiment']}.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(record | {"date": about["began"]}) + "\n")

    def libraries(self, *records, number=4):
        self.sitting(f"2026-01-0{number}T0000Z", records)
        return self.found()

    def found(self):
        return summarise.figures(rec.Records(self.folder))

    def report(self):
        return make_report.make(rec.Records(self.folder))

    def test_a_window_counts_in_the_state_of_its_reading_alone(self):
        found = self.libraries(window("800m.jax", 0.9, FAST), window("800m.mkl", 1.5, SLOW))
        for library, there, other, ratio, speedup in (
            ("jax", "", "@slow", 0.9 / 1.01, 5),
            ("mkl", "@slow", "", 1.5 / 2.02, 10),
        ):
            name = f"peers.800m.{library}.over_ours_at_equal_bandwidth"
            self.assertNotIn(name + other, found)
            self.assertNotIn(f"peers.800m.{library}.block_ms{other}", found)
            self.assertAlmostEqual(found[name + there].value, ratio, delta=0.01)
            self.assertEqual(found[name + there].state, "slow" if there else "fast")
            # It divides: a block, and a token that has its blocks.
            for kind in ("block", "token"):
                value = found[f"table1.800m.ff_qkv.{kind}_speedup{there}"]
                self.assertAlmostEqual(value.value, speedup * ratio, delta=0.05)
                self.assertEqual(value.whose, library)

    def test_bandwidth_is_that_of_the_fixed_read(self):
        # 2 % faster while memory was 2 % faster is as fast as ours.
        found = self.libraries(window("800m.jax", 1.01 / 1.02, 1.02 * FAST))
        self.assertAlmostEqual(
            found["peers.800m.jax.over_ours_at_equal_bandwidth"].value, 1, delta=0.007
        )
        self.assertAlmostEqual(found["peers.800m.jax.over_ours"].value, 1 / 1.02, delta=0.007)
        # Our own ceiling, over whatever the row reads, is 60.0 GB/s: the fixed read beside it is not.
        view, _ = states.views(rec.Records(self.folder), 2)[0]
        ours = view.get("table1_800m", "baseline", 2, "block_ms")["ceilings"]
        self.assertEqual(ours["read_gbps"], 60.0)
        self.assertAlmostEqual(ours["state_read_gbps"], FAST, delta=0.1)

    def test_a_reading_that_no_decode_had_is_of_no_state(self):
        before = self.found()[SPEEDUP]
        found = self.libraries(window("800m.jax", 0.5, 45.0))
        self.assertFalse([name for name in found if "jax" in name or "fastest" in name])
        self.assertEqual(found[SPEEDUP], before)
        self.assertIn(
            "read as in no state that decodes were in: `800m.jax` (45.0 GB/s)", self.report()
        )

    def test_sittings_are_asked_for_their_state_before_they_are_pooled(self):
        for number, block_ms, rate in ((4, 0.94, FAST), (5, 1.9, SLOW), (6, 0.96, FAST)):
            self.sitting(f"2026-01-0{number}T0000Z", [window("800m.jax", block_ms, rate)])
        found = self.found()
        fast, slow = (found[f"peers.800m.jax.block_ms{s}"] for s in ("", "@slow"))
        self.assertAlmostEqual(fast.value, 0.95)
        self.assertEqual(fast.sittings, 2)
        self.assertEqual((slow.value, slow.sittings), (1.9, 1))
        self.assertLess(fast.low, 0.94)
        self.assertGreater(fast.high, 0.96)

    def test_without_a_reading_it_divides_nothing_and_is_not_trusted(self):
        before = self.found()[SPEEDUP]
        found = self.libraries(window("800m.jax", 0.5, None))
        self.assertEqual(found[SPEEDUP], before)
        self.assertEqual(found["peers.800m.jax.over_ours"].status, "untrusted")
        self.assertNotIn("peers.800m.jax.over_ours_at_equal_bandwidth", found)
        self.assertNotIn("peers.800m.fastest.over_ours", found)
        self.assertIn(peers.NO_READING_NOTE, self.report())

    def test_a_window_is_no_surer_than_its_whiskers_and_its_reading(self):
        found = self.libraries(window("800m.jax", 1.0, FAST, spread=0.01))
        time = found["peers.800m.jax.block_ms"]
        self.assertAlmostEqual(time.low, 0.995 - 0.015)
        self.assertAlmostEqual(time.high, 1.005 + 0.015)
        self.assertEqual(time.status, "ok")
        plain, equal = (
            found[f"peers.800m.jax.over_ours{ending}"] for ending in ("", peers.EQUAL_BANDWIDTH)
        )
        self.assertGreater(plain.value - plain.low, 0.015)
        self.assertGreater(equal.value - equal.low, plain.value - plain.low)
        self.assertLess(equal.low, equal.value / 1.025)
        self.assertIn("One window of 10 s between two readings of memory", self.report())

    def test_a_doubtful_window_divides_and_makes_doubtful(self):
        for more in ({"spread": 0.1}, {"note": "unstable: the ceilings differed"}):
            with self.subTest(more):
                found = self.libraries(window("800m.jax", 0.9, FAST, **more))
                self.assertEqual(found["peers.800m.jax.block_ms"].status, "untrusted")
                self.assertEqual(
                    (found[SPEEDUP].whose, found[SPEEDUP].status), ("jax", "untrusted")
                )
                for path in self.folder.glob("sittings/2026-01-04T0000Z/*"):
                    path.unlink()
                (self.folder / "sittings/2026-01-04T0000Z").rmdir()

    def test_what_beats_its_floor_is_neither_the_fastest_nor_divides(self):
        before = self.found()[SPEEDUP]
        found = self.libraries(
            window("800m.jax", 0.5, FAST, status="untrusted"), window("800m.mkl", 1.2, FAST)
        )
        self.assertEqual(found[SPEEDUP], before)
        self.assertEqual(found["peers.800m.fastest.over_ours"].whose, "mkl")
        said = "so not counted and dividing nothing: 800m f32 jax, 0.49"
        self.assertIn(said, self.report())

    def test_one_measured_alone_is_set_against_our_row_of_its_sitting(self):
        # In that sitting our dense row was 4 % slower beside the same reads: so may theirs be.
        ours = linked("2026-01-04T0000Z", 4, 1.04)
        ours = [r | {"row": "baseline"} for r in ours if r["row"] == "eigen"]
        found = self.libraries(*ours, window("800m.jax", 1.02, FAST, spread=0.001))
        ratio = 1.02 / (1.01 * 1.04)
        self.assertAlmostEqual(found["peers.800m.fastest.over_ours"].value, ratio, delta=0.005)
        self.assertAlmostEqual(found[SPEEDUP].value, 5 * ratio, delta=0.03)

    def test_batches_have_states_medians_and_intervals_of_their_own(self):
        moods = [0.98 + 0.004 * (n % 10) for n in range(40)]
        fast = [(0.9 * mood, 60.0, 60.2) for mood in moods]
        between = [(7.0, 60.0, 30.0)]  # rejected: of both states
        slow = [(1.8 * mood, 30.0, 30.1) for mood in moods]
        records = batches("800m.jax", fast + between + slow)
        found = self.libraries(*records)
        middle = statistics.median(moods)
        for suffix, ms, state in (("", 0.9, "fast"), ("@slow", 1.8, "slow")):
            time = found[f"peers.800m.jax.block_ms{suffix}"]
            self.assertAlmostEqual(time.value, ms * middle, places=5)
            self.assertEqual((time.state, time.status), (state, "ok"))
            self.assertGreater(time.low, ms * min(moods))  # of blocks resampled, not the range
            self.assertLess(time.high, ms * max(moods))
        view, _ = states.views(rec.Records(self.folder), 2)[0]
        share = view.get("peers_python", "800m.jax", 2, "block_efficiency")
        self.assertAlmostEqual(share["value"], 48e6 / 60.1 / 1e6 / (0.9 * middle), delta=0.002)
        self.assertEqual(found[SPEEDUP].whose, "jax")
        self.assertNotIn("One window", self.report())

    def test_few_batches_have_their_whole_range(self):
        values_ms = [0.94, 0.95, 0.96, 0.95, 0.94, 0.95, 0.96]
        found = self.libraries(*batches("800m.jax", [(ms, 60.0, 60.0) for ms in values_ms]))
        time = found["peers.800m.jax.block_ms"]
        self.assertEqual((time.low, time.value, time.high), (0.94, 0.95, 0.96))
        self.assertIn(peers.FEW_BLOCKS_NOTE, self.report())

    def test_batches_that_beat_their_floor_do_not_divide(self):
        before = self.found()[SPEEDUP]
        found = self.libraries(*batches("800m.jax", [(0.5, 60.0, 60.0)] * 8))
        self.assertEqual(found["peers.800m.jax.block_ms"].status, "untrusted")
        self.assertEqual(found[SPEEDUP].value, before.value)

    def test_a_floor_that_is_beaten_by_little_is_doubted_and_not_the_time(self):
        floor = 48e6 / 60e9 * 1e3
        for efficiency, is_counted in ((1.07, True), (1.12, False)):
            made = batches("800m.jax", [(floor / efficiency, 60.0, 60.0)] * 8)
            made = [r | {"status": "untrusted"} for r in made]
            found = self.libraries(*made)
            self.assertEqual(found[SPEEDUP].whose == "jax", is_counted, efficiency)
            self.assertEqual("Faster than our fastest read" in self.report(), is_counted)
            self.assertEqual("so not counted and dividing nothing" in self.report(), not is_counted)
            if is_counted:
                self.assertEqual(found[SPEEDUP].status, "untrusted")
                self.assertEqual(found["peers.800m.fastest.over_ours"].whose, "jax")
            for path in self.folder.glob("sittings/2026-01-04T0000Z/*"):
                path.unlink()
            (self.folder / "sittings/2026-01-04T0000Z").rmdir()

    def test_a_library_met_once_takes_no_interval_from_the_fastest(self):
        def value(middle, half):
            return values.Value(middle, "x", middle - half, middle + half, "ok", "c")

        pairs = {"mkl": value(0.94, 0.1), "jax": value(1.2, math.inf)}
        of_pair = [(library, "f32", library, None) for library in pairs]
        with (
            mock.patch.object(peers, "dense_pairs", return_value=of_pair),
            mock.patch.object(peers.decode, "counts", return_value=True),
            mock.patch.object(peers, "over_ours", lambda _, theirs, __: (None, pairs[theirs])),
        ):
            found = peers.fastest(self.load([]), "800m", "f32", 2)
            self.assertEqual((found.whose, found.low), ("mkl", 0.84))
            pairs["jax"] = value(0.9, math.inf)
            found = peers.fastest(self.load([]), "800m", "f32", 2)
            self.assertEqual((found.whose, found.low), ("jax", -math.inf))

    def test_linked_libraries_count_by_rounds(self):
        found = self.libraries(*linked("2026-01-04T0000Z", 4, 0.95))
        for suffix, speedup in (("", 5), ("@slow", 10)):
            ratio = found[f"peers.800m.eigen.over_ours{suffix}"]
            self.assertAlmostEqual(ratio.value, 0.95, places=5)
            self.assertLess(ratio.high - ratio.low, 1e-5)  # whatever moved both rows of a round
            self.assertEqual(ratio, found[f"peers.800m.eigen.over_ours_at_equal_bandwidth{suffix}"])
            for kind in ("block", "token"):
                value = found[f"table1.800m.ff_qkv.{kind}_speedup{suffix}"]
                self.assertAlmostEqual(value.value, 0.95 * speedup, delta=0.02)
                self.assertEqual(value.whose, "eigen")

    def test_the_fastest_is_named_by_weights_and_state_with_the_lowest_end_of_all(self):
        bf16 = renamed(
            made_up.sitting(
                "2026-01-04T0000Z",
                4,
                experiment="table1_800m_bf16",
                config=CONFIG | {"weight_type": "bf16"},
            ),
            {"baseline": "baseline.bf16", "ff_qkv": "ff_qkv.bf16"},
        )
        found = self.libraries(
            *bf16,
            window("800m.mkl", 0.95, FAST, spread=0.001),
            window("800m.jax", 0.96, FAST, spread=0.02),
            window("800m.ggml", 1.9, SLOW),
            window("800m.onednn_current.bf16", 0.98, FAST),
            window("800m.ggml.q4_0", 0.3, FAST, config={"weight_type": "q4_0"}),
        )
        for name, whose in (
            ("peers.800m.fastest.over_ours", "mkl"),
            ("peers.800m.fastest.over_ours@slow", "ggml"),
            ("peers.800m.fastest.bf16.over_ours", "onednn_current"),
        ):
            self.assertEqual(found[name].whose, whose, name)
        least = found["peers.800m.fastest.over_ours"]
        lows = [
            found[f"peers.800m.{one}.over_ours_at_equal_bandwidth"].low for one in ("mkl", "jax")
        ]
        self.assertLess(lows[1], lows[0])
        self.assertEqual(least.low, lows[1])
        self.assertEqual(found["table1.800m.ff_qkv.bf16.block_speedup"].whose, "onednn_current")
        entry = summarise.summary(rec.Records(self.folder))["peers.800m.fastest.over_ours"]
        self.assertEqual((entry["whose"], entry["state"]), ("mkl", "fast"))
        said = " ".join(headline.sentences(found))
        self.assertIn("800M in f32 ", said)
        self.assertIn("(MKL, fast) and ", said)
        self.assertIn("(ggml, slow); 800M in bf16 ", said)
        brief = headline.whose_dense(found)
        self.assertIn("800M f32 0.94", brief)
        self.assertIn("(oneDNN, fast)", brief)
        self.assertLess(len(brief.split()), 30)
        text = self.report()
        self.assertIn("**All threads (2), slow state**", text)
        self.assertIn("The fastest of other libraries: 800m f32 ggml, ", text)
        self.assertRegex(
            text,
            r"\| `peers.800m.fastest.over_ours` \| 0.94[^|]*\| ≥ 0.97× \| \*\*missed\*\* \| 0.94",
        )
        self.assertIn("Dense time of mkl.", text)

    def test_readme_says_whose_dense_or_that_none_was_measured(self):
        self.assertIn("No library has been measured on this machine yet", headline.whose_dense({}))
        value = values.Value(0.987, "x", 0.9, 1.1, "ok", "c", whose="eigen")
        said = headline.whose_dense({"peers.17b.fastest.bf16.over_ours": value})
        self.assertEqual(
            said,
            "Fastest other dense block over ours: 17B bf16 0.987× (Eigen); the faster divides.",
        )

    def test_verdicts_and_goals_say_what_holds_in_either_state(self):
        text = self.report()
        self.assertIn("**exceeded (fast), exceeded (slow)**", text)
        line = next(line for line in text.split("\n") if "an 800M decoder block (Table 1)" in line)
        self.assertRegex(
            line,
            r"fast memory: paper 3.05×, ours (4\.99|5(\.0\d)?)×.*\. Slow memory: .*ours (9\.99|10(\.\d)?)×",
        )
        line = next(
            line for line in text.split("\n") if "| `table1.800m.ff_qkv.token_speedup` |" in line
        )
        self.assertRegex(line, r"\*\*met\*\* \| (9\.9|10)[^|]*\*\*met\*\* \|")
        self.assertIn("| in slow memory |", text)

    def test_sweeps_have_tables_of_each_state(self):
        rows = {"baseline": "dense_d1024", "ff_qkv": "sparse_d1024"}
        sweep = renamed(
            made_up.sitting("2026-01-04T0000Z", 4, experiment="width_sweep", section="width"),
            rows,
            config=CONFIG | {"d_model": 1024},
            study="decode",
        )
        more = []  # widths enough for an exponent
        for width in (2048, 4096):
            for record in sweep:
                config = {"config": record["config"] | {"d_model": width}}
                more.append(record | config | {"row": record["row"].replace("1024", str(width))})
        self.libraries(*sweep, *more)
        text = self.report()
        fast, slow = text.split("## Width sweep")[1].split("**All threads (2), slow state**")[:2]
        slow = slow.split("**One thread")[0]
        for part, dense, speedup in ((fast, r"1\.0[01]", "5"), (slow, r"2\.0[123]", "10")):
            line = next(line for line in part.split("\n") if line.startswith("| 1024 |"))
            found = re.match(rf"\| 1024 \| {dense} \| 0\.20\d \| ([\d.]+)× \|", line)
            self.assertTrue(found, line)
            self.assertAlmostEqual(float(found[1]), float(speedup), delta=0.02)

    def test_the_checker_makes_peers_times_again(self):
        fast = [(0.9 + 0.001 * n, 60.0, 60.2) for n in range(10)]
        self.libraries(*batches("800m.jax", fast), *linked("2026-01-04T0000Z", 4, 0.95))

        def checked():
            summary = summarise.summary(rec.Records(self.folder))
            (self.folder / "summary.json").write_text(json.dumps(summary))
            return self.check()

        code, said = checked()
        self.assertEqual(code, 0, said)
        self.assertIn("11 times and 2 of 8 speed-ups of the summary, ", said)
        path = self.folder / "summary.json"
        summary = json.loads(path.read_text())
        for name in ("peers.800m.jax.block_ms", "peers.800m.eigen.block_ms@slow"):
            path.write_text(json.dumps(summary | {name: summary[name] | {"value": 0.5}}))
            self.assertIn(f"{name}: ", self.check()[1])
        edited = self.folder / "sittings/2026-01-04T0000Z/peers_python.jsonl"
        edited.write_text(edited.read_text().replace('"value": 0.9', '"value": 0.8'))
        self.assertIn("peers_python, 800m.jax, 2 threads, block_ms: recorded", checked()[1])

    def check(self):
        done = subprocess.run(
            [sys.executable, ROOT / "tools/check_published.py", self.folder, "--least", "2"],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    unittest.main()
