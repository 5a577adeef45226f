"""Peers' records with made-up peers and a made-up driver `ceilings`; no framework is needed."""

import contextlib
import io
import json
import os
import statistics
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import block  # noqa: E402
import ceilings  # noqa: E402
import run_peers  # noqa: E402
import sampling  # noqa: E402
import time_one  # noqa: E402

SAMPLES = {
    "columns": list(sampling.COLUMNS),
    "rows": [[0, 0.0, 1, 9, 1.9, 50.0, 51.0], [1, 3.0, 1, 8, 2.1, 51.0, 50.0]],
}
TIMED = {
    "status": "ok",
    "repeats": 2,
    "block_ms": [1.95, 2.0, 2.05],
    "block_efficiency": None,
    "samples": SAMPLES,
    "ceilings": {},
    "unstable": False,
    "blocks_held": 24,
    "layers": 24,
    "way": "linear",
    "versions": "framework 1",
    "note": "",
}


def program(folder, name, text):
    path = Path(folder) / name
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


def driver(folder, rates):
    """A program like `ceilings` that reads one rate after another, the last for ever."""
    rest = Path(folder) / "rates"
    rest.write_text(json.dumps(rates))
    return program(
        folder,
        "ceilings",
        f"""
import json, pathlib, sys
rest = pathlib.Path({str(rest)!r})
rates = json.loads(rest.read_text())
rest.write_text(json.dumps(rates[1:] or rates))
results = pathlib.Path(sys.argv[sys.argv.index("--results") + 1])
rows = sys.argv[sys.argv.index("--rows") + 1].split(",")
values = {{"read_1GiB": ("read_gbps", rates[0]), "fma": ("fma_gflops", 300.0)}}
with open(results / "ceilings.jsonl", "w") as file:
    for row in rows:
        file.write(json.dumps({{"row": row, "metric": values[row][0], "value": values[row][1]}}) + "\\n")
""",
    )


class CeilingsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_all_limits_or_the_read_alone(self):
        path = driver(self.folder, [50.0])
        self.assertEqual(ceilings.measure(path, 2), {"read_gbps": 50.0, "fma_gflops": 300.0})
        self.assertEqual(ceilings.measure(path, 2, ("read_gbps",)), {"read_gbps": 50.0})

    def test_a_driver_that_fails_is_named_with_its_last_words(self):
        failing = program(self.folder, "failing", "import sys\nsys.exit('error: no memory')")
        silent = program(self.folder, "silent", "")
        for path, words in (
            (failing, "no memory"),
            (silent, "silent"),
            (Path("/nonexistent"), "/nonexistent"),
        ):
            with self.assertRaises(ceilings.Unmeasured) as caught:
                ceilings.measure(path, 1)
            self.assertIn(words, str(caught.exception))


class SamplingTest(unittest.TestCase):
    """With a clock that only batches and reads move."""

    def setUp(self):
        self.now = 0.0
        self.batches = 0

    def run_batch(self):
        self.now += 1.0
        self.batches += 1
        return [0.1 * self.batches, 0.2 * self.batches, 0.6 * self.batches]

    def take(self, rates, seconds=6):
        """Reads one rate after another, the last for ever."""
        rest = list(rates)

        def read():
            self.now += 2.0
            return rest.pop(0) if len(rest) > 1 else rest[0]

        return sampling.take(self.run_batch, read, seconds, clock=lambda: self.now)

    def test_a_steady_machine_gives_as_many_batches_as_the_seconds_hold(self):
        found, unstable = self.take([50.0, 52.0])
        self.assertFalse(unstable)
        self.assertEqual(len(found), 6)
        self.assertEqual([batch.at for batch in found], [3.0 * n for n in range(6)])
        self.assertEqual((found[0].before, found[0].after, found[1].before), (50.0, 52.0, 52.0))

    def test_a_batch_between_two_states_is_rejected_and_made_up_for(self):
        found, unstable = self.take([50.0, 50.0, 80.0])
        self.assertEqual((len(found), unstable), (7, False))
        rows = sampling.table(found, unstable, 1, 0)["rows"]
        self.assertEqual([row[2] for row in rows], [1, 0, 1, 1, 1, 1, 1])

    def test_of_a_restless_machine_all_batches_count_and_time_ends(self):
        found, unstable = self.take([50.0, 80.0] * 100)
        self.assertEqual((len(found), unstable), (12, True))
        rows = sampling.table(found, unstable, 1, 0)["rows"]
        self.assertEqual({row[2] for row in rows}, {1})

    def test_numbers_are_made_again_from_the_table(self):
        found, unstable = self.take([50.0, 50.0, 80.0])
        samples = sampling.table(found, unstable, 2, 8_000_000)
        lines = [dict(zip(samples["columns"], row)) for row in samples["rows"]]
        self.assertEqual(lines[2]["block_ms"], 1e3 * 0.6 / 2)  # of 0.3, 0.6 and 1.8 s, two blocks
        self.assertEqual(lines[2]["tokens"], 3)
        self.assertAlmostEqual(lines[0]["block_floor_ms"], 0.16)  # 8 MB at 50 GB/s
        self.assertEqual((lines[1]["read_gbps"], lines[1]["state_read_gbps"]), (65.0, 80.0))
        kept = [line for line in lines if line["kept"]]
        numbers = sampling.numbers(samples)
        self.assertEqual(numbers["repeats"], 6)
        self.assertEqual(numbers["block_ms"][1], statistics.median(k["block_ms"] for k in kept))
        self.assertEqual(
            numbers["block_efficiency"][1],
            statistics.median(k["block_floor_ms"] / k["block_ms"] for k in kept),
        )
        self.assertEqual(numbers["read_gbps"], 80.0)

    def test_without_reads_there_are_times_alone(self):
        found, unstable = self.take([None])
        samples = sampling.table(found, unstable, 1, 8_000_000)
        self.assertEqual(samples["columns"], list(sampling.COLUMNS))
        numbers = sampling.numbers(samples)
        self.assertEqual((numbers["block_efficiency"], numbers["read_gbps"]), (None, None))
        self.assertEqual(numbers["repeats"], 6)

    def test_a_short_measurement_has_three_short_batches(self):
        self.assertEqual((sampling.least_batches(2), sampling.least_batches(10)), (3, 6))
        self.assertAlmostEqual(sampling.batch_seconds(2), 2 / 3)
        self.assertEqual(sampling.batch_seconds(10), sampling.BATCH_SECONDS)

    def test_without_the_driver_or_if_it_fails_the_peer_is_timed_all_the_same(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            found, _, limits = time_one.sampled(lambda: [1.0], 0, Path("/nonexistent"), 1)
        self.assertIn("without ceilings", said.getvalue())
        self.assertEqual((found[0].before, limits), (None, {}))
        self.assertEqual(time_one.sampled(lambda: [1.0], 0, None, 1)[2], {})

    def test_the_first_tokens_of_a_batch_do_not_count(self):
        class Slow:
            steps = 0

            def step(self, x, t):
                self.steps += 1
                self.last = t

        peer = Slow()
        run = time_one.tokens_of(peer, 4, 0)
        self.assertEqual(len(run()), time_one.FEWEST_TOKENS)
        self.assertEqual(peer.steps, time_one.FEWEST_TOKENS + time_one.WARM_TOKENS)
        run()
        self.assertEqual(peer.last, peer.steps - 1)  # a batch goes on where the one before ended


class RunPeersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def peer(self, outcome):
        """A program like time_one.py that notes its arguments and prints the outcome."""
        text = (
            f"import os, sys\nwith open({str(self.folder / 'calls')!r}, 'a') as calls:\n"
            "    print(os.environ['GLIBC_TUNABLES'], *sys.argv[1:], file=calls)\n"
        )
        return program(
            self.folder,
            "peer.py",
            text + (f"print({json.dumps(outcome)!r})" if outcome else "sys.exit(3)"),
        )

    def calls(self):
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def run_peers(self, outcome, *arguments, ceilings_program="/nonexistent/ceilings"):
        """(records, what was printed)."""
        command = [
            "run_peers.py",
            "--results",
            str(self.folder / "results"),
            "--ceilings",
            str(ceilings_program),
            *arguments,
        ]
        said = io.StringIO()
        with (
            mock.patch.object(sys, "argv", command),
            mock.patch.object(run_peers, "TIME_ONE", self.peer(outcome)),
            contextlib.redirect_stdout(said),
        ):
            run_peers.main()
        lines = (self.folder / "results" / "peers_python.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines], said.getvalue()

    def test_a_dense_row_has_its_time_and_its_efficiency_beside_ceilings(self):
        outcome = {
            **TIMED,
            "block_efficiency": [0.79, 0.8, 0.82],
            "ceilings": {"read_gbps": 50.0, "fma_gflops": 300.0},
        }
        records, _ = self.run_peers(
            outcome, "--rows", "800m.pytorch", "--threads", "1", ceilings_program=sys.executable
        )
        self.assertEqual([r["metric"] for r in records], ["block_efficiency", "block_ms"])
        efficiency, block_ms = records
        for record, numbers in ((efficiency, [0.79, 0.8, 0.82]), (block_ms, [1.95, 2.0, 2.05])):
            self.assertEqual([record[end] for end in ("low", "value", "high")], numbers)
        # The lines that these are made of, as decodes have them: in the closing record alone.
        self.assertNotIn("samples", efficiency)
        self.assertEqual(block_ms["samples"]["rows"], SAMPLES["rows"])
        self.assertRegex(block_ms["samples"]["group"], r"^800m\.pytorch, 1 threads, 2\S+Z, \d+$")
        self.assertEqual((block_ms["config"]["batches"], block_ms["repeats"]), (2, 2))
        for record in records:
            self.assertEqual(record["ceilings"], {"read_gbps": 50.0, "fma_gflops": 300.0})
            self.assertEqual((record["status"], record["key"]), ("ok", block_ms["key"]))
            self.assertNotIn("unstable", record["note"])
        self.assertIn(
            "--peer pytorch --shape 800m --variant dense --dtype f32 --threads 1", self.calls()[0]
        )
        self.assertIn(f"--ceilings {sys.executable}", self.calls()[0])

    def test_rows_of_libraries_name_their_weights(self):
        names = [row[0] for row in run_peers.ROWS]
        self.assertEqual(len(names), len(set(names)))
        rows = "800m.onednn_current,17b.mkl.bf16,800m.ggml.q4_0"
        records, _ = self.run_peers(
            {**TIMED, "huge_page_share": 0.98}, "--rows", rows, "--threads", "1"
        )
        self.assertEqual(
            [(r["config"]["peer"], r["config"]["weight_type"]) for r in records],
            [("onednn", "f32"), ("mkl", "bf16"), ("ggml", "q4_0")],
        )
        self.assertEqual(records[0]["config"]["huge_page_share"], 0.98)
        self.assertIn("--peer ggml --shape 800m --variant dense --dtype q4_0", self.calls()[2])

    def test_memory_is_asked_for_in_huge_pages_beside_what_the_user_asks_for(self):
        rows = ("--rows", "800m.mkl", "--threads", "1")
        with mock.patch.dict(os.environ):
            os.environ.pop("GLIBC_TUNABLES", None)
            self.run_peers(TIMED, *rows)
            os.environ["GLIBC_TUNABLES"] = "glibc.malloc.check=0"
            self.run_peers(TIMED, *rows, "--force")
        tunables = [line.split()[0] for line in self.calls()]
        huge = "glibc.malloc.hugetlb=1"
        self.assertEqual(tunables, [huge, f"glibc.malloc.check=0:{huge}"])

    def test_an_unstable_row_says_so(self):
        outcome = {**TIMED, "ceilings": {"read_gbps": 50.0, "fma_gflops": 300.0}, "unstable": True}
        records, _ = self.run_peers(outcome, "--rows", "800m.jax.ff_qkv_cross", "--threads", "1")
        self.assertEqual(
            [r["metric"] for r in records], ["block_ms"]
        )  # what a sparse block reads is not known
        self.assertTrue(records[0]["note"].startswith("unstable"))

    def test_faster_than_the_floor_is_untrusted(self):
        outcome = {
            **TIMED,
            "block_efficiency": [1.1, 1.2, 1.3],
            "ceilings": {"read_gbps": 50.0, "fma_gflops": 300.0},
        }
        records, _ = self.run_peers(outcome, "--rows", "800m.jax", "--threads", "1")
        self.assertEqual({r["status"] for r in records}, {"untrusted"})
        self.assertIn("120.0 %", records[-1]["note"])

    def test_a_missing_driver_is_said_once_and_rows_go_on(self):
        records, said = self.run_peers(TIMED, "--rows", "800m.pytorch,800m.jax", "--threads", "1")
        self.assertEqual([(r["metric"], r["ceilings"]) for r in records], [("block_ms", {})] * 2)
        self.assertEqual(said.count("/nonexistent/ceilings is missing"), 1)
        self.assertNotIn("--ceilings", " ".join(self.calls()))

    def test_finished_rows_are_not_repeated_and_failed_ones_are(self):
        rows = ("--rows", "17b.jax", "--threads", "1")
        records, said = self.run_peers(None, *rows)
        self.assertEqual((records[0]["status"], records[0]["value"]), ("failed", None))
        self.assertIn("ended with status 3", records[0]["note"])
        scaled = {**TIMED, "status": "scaled_down", "blocks_held": 1, "note": "1 of 6 blocks held"}
        records, _ = self.run_peers(scaled, *rows)
        self.assertEqual([r["status"] for r in records], ["failed", "scaled_down"])
        self.assertIn("1 of 6 blocks held", records[1]["note"])
        again, said = self.run_peers(scaled, *rows)
        self.assertEqual(len(again), 2)
        self.assertIn("already recorded", said)
        forced, _ = self.run_peers(scaled, *rows, "--force")
        self.assertEqual(len(forced), 3)

    def test_mistakes_are_named(self):
        blocked = self.folder / "file"
        blocked.write_text("")
        for arguments, words in (
            (["--rows", "nobody"], "known rows"),
            (["--threads", "two"], "give numbers"),
            (["--threads", "0"], "this process may use"),
            (["--results", str(blocked)], "choose another with --results"),
        ):
            with self.assertRaises(SystemExit) as caught:
                self.run_peers(TIMED, *arguments)
            self.assertIn(words, str(caught.exception))
        self.assertEqual(self.calls(), [])


class NumpyPeer:
    """The definition itself as a peer."""

    NAME, WAYS = "numpy", {"only": None}

    class Peer:
        def __init__(self, shape, variant, way, dtype):
            self.shape, self.variant, self.weights, self.states = shape, variant, [], []

        def add_block(self, weights, state):
            self.weights.append(weights)
            self.states.append({name: value.copy() for name, value in state.items()})

        def step(self, x, t):
            for weights, state in zip(self.weights, self.states):
                x = block.reference_step(self.shape, self.variant, weights, state, x, t)
            return x


class Refusing:
    """The definition, and a way that this processor lacks."""

    NAME, WAYS = "numpy", {"lacking": None, "only": None}

    @staticmethod
    def Peer(shape, variant, way, dtype):
        if way == "lacking":
            raise RuntimeError("no such instruction")
        return NumpyPeer.Peer(shape, variant, way, dtype)


class TimeOneTest(unittest.TestCase):
    def outcome_of(self, *arguments, available=1 << 40, peer=NumpyPeer):
        command = [
            "time_one.py",
            "--peer",
            "pytorch",
            "--shape",
            "tiny",
            "--seconds",
            "0.01",
            "--threads",
            str(len(os.sched_getaffinity(0))),
            *arguments,
        ]
        with (
            mock.patch.object(sys, "argv", command),
            mock.patch.dict(sys.modules, {"pytorch_peer": peer}),
            mock.patch.dict(os.environ),
            mock.patch.object(time_one, "available_bytes", lambda: available),
            contextlib.redirect_stdout(io.StringIO()) as said,
        ):
            time_one.main()
        return json.loads(said.getvalue().splitlines()[-1])

    def test_all_blocks_are_held_where_they_fit(self):
        outcome = self.outcome_of()
        self.assertEqual((outcome["status"], outcome["blocks_held"]), ("ok", block.LAYERS["tiny"]))
        self.assertEqual((outcome["layers"], outcome["ceilings"]), (block.LAYERS["tiny"], {}))
        self.assertEqual(len(outcome["samples"]["rows"]), outcome["repeats"])
        self.assertEqual(outcome["samples"]["columns"], list(sampling.COLUMNS))
        self.assertIsNone(outcome["block_efficiency"])

    def test_fewer_blocks_are_scaled_down(self):
        size = block.weight_bytes(block.SHAPES["tiny"], "dense", 4)
        outcome = self.outcome_of(
            available=int(3.4 * size / 0.9)
        )  # a block and what its making takes
        self.assertEqual((outcome["status"], outcome["blocks_held"]), ("scaled_down", 2))
        self.assertIn("2 of 3 blocks", outcome["note"])
        self.assertEqual(self.outcome_of(available=size)["status"], "skipped")

    def test_a_library_that_is_not_there_is_skipped_with_the_remedy(self):
        outcome = self.outcome_of("--peer", "mkl")
        self.assertEqual(outcome["status"], "skipped")
        self.assertIn("build_libraries.py makes it", outcome["note"])

    def test_a_way_that_is_refused_is_left_out(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            outcome = self.outcome_of(peer=Refusing)
        self.assertEqual((outcome["status"], outcome["way"]), ("ok", "only"))
        self.assertIn("lacking: no such instruction, not timed", said.getvalue())

    def test_where_all_ways_are_refused_the_row_is_skipped(self):
        class Lacking(Refusing):
            WAYS = {"lacking": None}

        with contextlib.redirect_stderr(io.StringIO()):
            outcome = self.outcome_of(peer=Lacking)
        self.assertEqual(
            (outcome["status"], outcome["note"]), ("skipped", "lacking: no such instruction")
        )

    def test_other_weights_than_the_peers_are_noticed(self):
        """The definition's weights are narrowed, the peer's, which should do it itself, are not."""
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(self.outcome_of("--dtype", "q4_0")["status"], "untrusted")
            self.assertEqual(self.outcome_of("--dtype", "bf16")["status"], "ok")

    def test_of_quantised_blocks_there_are_more_than_any_cache_holds(self):
        sizes = {"f32": 60_000_000, "bf16": 30_000_000, "q4_0": 8_000_000}
        wanted = {
            dtype: time_one.blocks_wanted(
                mock.Mock(shape="800m", variant="dense", dtype=dtype), size
            )
            for dtype, size in sizes.items()
        }
        self.assertEqual(wanted, {"f32": 24, "bf16": 24, "q4_0": 175})
        sparse = mock.Mock(shape="800m", variant="ff_qkv_cross", dtype="f32")
        self.assertEqual(time_one.blocks_wanted(sparse, 100_000_000), block.LAYERS["800m"])

    def test_ceilings_stand_beside_the_time_and_take_their_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = ("--ceilings", str(driver(folder, [50.0])), "--variant", "ff_qkv_cross")
            outcome = self.outcome_of(*arguments)
            self.assertEqual(
                (outcome["ceilings"], outcome["unstable"]),
                ({"read_gbps": 50.0, "fma_gflops": 300.0}, False),
            )
            self.assertIsNone(outcome["block_efficiency"])  # of a sparse block
            self.assertEqual(self.outcome_of(*arguments, available=1 << 30)["status"], "skipped")
            dense = self.outcome_of(*arguments[:2])
            lines = [dict(zip(dense["samples"]["columns"], r)) for r in dense["samples"]["rows"]]
            size = block.weight_bytes(block.SHAPES["tiny"], "dense", 4)
            for line in lines:
                self.assertEqual((line["read_before_gbps"], line["state_read_gbps"]), (50.0, 50.0))
                self.assertAlmostEqual(line["block_floor_ms"], size / 50e6, places=6)
            self.assertIsNotNone(dense["block_efficiency"])


if __name__ == "__main__":
    unittest.main()
