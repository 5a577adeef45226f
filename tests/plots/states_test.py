"""Two sittings in two states of memory: figures of each state, pairs, the published headline's checker."""

import json
import math
import pathlib
import random
import re
import statistics
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / "plots"),
    str(ROOT / "tools"),
    str(pathlib.Path(__file__).resolve().parent),
]
import chart  # noqa: E402
import check_published  # noqa: E402
import decode  # noqa: E402
import draw  # noqa: E402
import evidence  # noqa: E402
import first_screen  # noqa: E402
import headline  # noqa: E402
import machine  # noqa: E402
import make_report  # noqa: E402
import records as rec  # noqa: E402
import report as report_cells  # noqa: E402
import states  # noqa: E402
import summarise  # noqa: E402
import values  # noqa: E402
from sections import machine as limits  # noqa: E402
from sections import table_figures, tables  # noqa: E402
from with_folder import WithFolder  # noqa: E402

COLUMNS = (
    "round",
    "at_s",
    "kept",
    "token_ms",
    "block_ms",
    "token_floor_ms",
    "block_floor_ms",
    "token_overlap_floor_ms",
    "block_overlap_floor_ms",
    "state_read_gbps",
    "barrier_us",
    "pressure",
    "read_gbps",
)
RATE = {"fast": 60.0, "slow": 30.0}


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"value": middle, "low": low, "high": high, "spread": (high - low) / 2}


def decodes(sitting, sparse, waiting, rounds):
    """Rows of samples; the dense row follows memory, the sparse one is 2 ms in either state.

    waiting: share of the time in which some task waited for a processor.
    """
    draw = random.Random(sitting)
    rows = []
    for number in range(rounds):
        fast = number < rounds // 2
        rate = RATE["fast" if fast else "slow"]
        mood = 1 + 0.02 * draw.random()  # both rows of a round meet it alike
        own = 1 + 0.001 * random.Random(number + sparse).random()
        token = (2.0 if sparse else 600 / rate) * mood * own
        floor = (30 if sparse else 540) / rate
        read = rate * (1 + 0.01 * draw.random())
        rows.append(
            [number, 2.0 * number, 1, token, token / 10, floor, floor / 10, floor / 2, floor / 20]
            + [read, 0.3 if fast else 0.07, waiting, rate]
        )
    return rows


def sitting(name, number, waiting=0.01, rounds=120, **more):
    """Records of one: a dense and a sparse row."""
    found = []
    for row in ("baseline", "ff_qkv"):
        rows = decodes(number, row != "baseline", waiting, rounds)
        shared = {
            "experiment": "table1_800m",
            "row": row,
            "against": "baseline",
            "threads": 2,
            "unit": "ms",
            "repeats": len(rows),
            "status": "untrusted",
            "note": "held; confidence interval 40 %",
            "config": {"blocks_held": 24, "decoder_layers": 24},
            "commit": "c1",
            "dirty": False,
            "cpu": "a processor",
            "cores": 2,
            "date": f"2026-01-0{number}T00:00:00Z",
            **more,
        }
        for metric in (*states.COLUMNS, *states.EFFICIENCIES):
            over, under = states.EFFICIENCIES.get(metric, (metric, None))
            values = [
                r[COLUMNS.index(over)] / (r[COLUMNS.index(under)] if under else 1) for r in rows
            ]
            found.append(shared | {"metric": metric} | quartiles(values))
        counted = {"metric": "token_bytes", "value": 4e6, "status": "ok"}
        found.append(shared | counted)
        found.append(shared | {"metric": "read_gbps", "value": 45.0, "unit": "GB/s"})
        closing = next(r for r in found if (r["row"], r["metric"]) == (row, "token_ms"))
        found.remove(closing)
        found.append(
            closing | {"samples": {"columns": COLUMNS, "rows": rows, "group": f"{name}.1"}}
        )
    return found


class Sittings(WithFolder):
    def setUp(self):
        super().setUp()
        for number in (1, 2, 3):
            self.add(number)

    def add(self, number, about=None, **more):
        name = f"2026-01-0{number}T0000Z"
        folder = self.folder / "sittings" / name
        folder.mkdir(parents=True, exist_ok=True)
        said = {"kind": "headline", "commit": "c1", "machine": "m", "minutes": 9, "complete": True}
        said |= {"began": f"2026-01-0{number}T00:00:00Z", "ended": f"2026-01-0{number}T00:09:30Z"}
        (folder / "sitting.json").write_text(json.dumps(said | (about or {})))
        (folder / "machine.json").write_text(json.dumps(machine.describe() | {"l3_bytes": 10**6}))
        lines = [json.dumps(r) for r in sitting(name, number, **more)]
        (folder / "table1_800m.jsonl").write_text("\n".join(lines) + "\n")

    def summary(self):
        return summarise.summary(rec.Records(self.folder))

    def test_each_state_has_its_own_figures(self):
        found = self.summary()
        fast, slow = (found[f"table1.800m.baseline.token_ms{s}"] for s in ("", "@slow"))
        self.assertAlmostEqual(fast["value"], 10.1, delta=0.05)
        self.assertAlmostEqual(slow["value"], 20.2, delta=0.1)
        self.assertEqual((fast["state"], slow["state"]), ("fast", "slow"))
        # Trusted in its state, however far both states together lie apart.
        self.assertEqual((fast["status"], fast["sittings"]), ("ok", 3))
        speedups = [found[f"table1.800m.ff_qkv.token_speedup{s}"] for s in ("", "@slow")]
        for entry, wanted in zip(speedups, (5, 10)):
            self.assertAlmostEqual(entry["value"], wanted, delta=0.01)
            # Pairs of a round: what moves both rows alike is not in the interval.
            self.assertLess(entry["high"] - entry["low"], 0.002 * wanted)
        self.assertAlmostEqual(found["table1.800m.ff_qkv.token_roofline_limit"]["value"], 18)
        self.assertAlmostEqual(found["memory.barrier_us"]["value"], 0.3)
        self.assertAlmostEqual(found["memory.share@slow"]["value"], 0.5)

    def test_barriers_of_a_block_cost_what_one_costs_in_a_state(self):
        counts = {"part.projection.barriers": 12, "part.feed_forward.barriers": 4}
        for path in self.folder.glob("sittings/*/*.jsonl"):
            first = json.loads(path.read_text().splitlines()[-1])
            first.pop("samples")
            lines = [
                json.dumps(first | {"metric": metric, "value": value, "unit": "barriers"})
                for metric, value in counts.items()
            ]
            path.write_text("\n".join(lines) + "\n" + path.read_text())
        at = ("table1_800m", "ff_qkv", 2)
        told = [tables.barriers(view, *at) for view, _ in states.views(rec.Records(self.folder), 2)]
        self.assertEqual(
            told,
            [
                "; 16 barriers in a block, 0.0048 ms at 0.30 µs",
                "; 16 barriers in a block, 0.0011 ms at 0.070 µs",
            ],
        )
        self.assertEqual(tables.barriers(rec.Records(self.folder), *at), "; 16 barriers in a block")
        self.assertEqual(
            tables.barriers(rec.Records(self.folder), "table1_800m", "baseline", 2), ""
        )

    def test_limits_stand_on_one_read_rate(self):
        phases = {"baseline": (1.2e9, 1e9, 1), "ff_qkv": (6e7, 1e8, 1)}
        at = COLUMNS.index
        for path in self.folder.glob("sittings/*/*.jsonl"):
            records = [json.loads(line) for line in path.read_text().splitlines()]
            for closing in (r for r in records if r.get("samples")):
                size, flops, _ = phases[closing["row"]]
                held = closing["samples"]
                held["columns"] = [*COLUMNS, "fma_gflops"]
                for row in held["rows"]:
                    if closing["row"] == "ff_qkv":  # caches hold a part of what it reads
                        row[at("read_gbps")] *= 1.2
                    row[at("read_gbps")] *= 1 + 0.01 * row[0] / 120
                    read = row[at("read_gbps")]
                    row[at("token_floor_ms")] = 1e-6 * max(size / read, flops / 1000)
                    row.append(1000.0)
                if "02T" in str(path):
                    held["phases"] = {"token": [phases[closing["row"]]], "block": []}
            path.write_text("\n".join(map(json.dumps, records)) + "\n")
        limit = "table1.800m.ff_qkv.token_roofline_limit"
        found = self.summary()
        for suffix in ("", "@slow"):
            # By phases where any sitting has them: 1.2 GB over 60 MB, not over what 1.2 times the rate makes of them.
            self.assertAlmostEqual(found[limit + suffix]["value"], 20)
            self.assertEqual(found[limit + suffix]["status"], "ok")
        said = self.check()[1]
        self.assertIn(", 4 limits: ", said)
        self.assertNotIn("_limit", said)
        path = self.folder / "summary.json"
        wrong = json.loads(path.read_text())
        wrong[limit]["value"] *= 1.2
        path.write_text(json.dumps(wrong))
        self.assertIn(f"{limit}: 24", self.checked()[1])
        for path in self.folder.glob("sittings/*02T*/*.jsonl"):
            path.write_text(re.sub(r', "phases": \{.*?\}', "", path.read_text()))
        self.assertNotIn("phases", path.read_text())
        self.assertAlmostEqual(self.summary()[limit]["value"], 20, places=4)

    def test_every_sitting_counts(self):
        whole = self.summary()["table1.800m.baseline.token_ms"]
        for number, sittings in ((4, 4), (5, 4)):
            self.add(number, {"machine": "other"} if number == 5 else None)
            self.assertEqual(self.summary()["table1.800m.baseline.token_ms"]["sittings"], sittings)
        records = rec.Records(self.folder)
        self.assertIn("of another machine", records.damaged[0])
        self.assertLessEqual(self.summary()["table1.800m.baseline.token_ms"]["low"], whole["low"])

    def test_the_median_of_sittings_and_all_their_range(self):
        records = rec.Records(self.folder)
        view, _ = states.views(records, 2)[0]
        pooled = view.get("table1_800m", "baseline", 2, "token_ms")
        each = [
            evidence.of_rounds(view._rounds(closing, "token_ms"))
            for closing in records.sittings_of("table1_800m", "baseline", 2, "token_ms")
        ]
        self.assertEqual(len(each), 3)
        self.assertEqual(pooled["value"], statistics.median(e.value for e in each))
        self.assertEqual(pooled["interval"], (min(e.low for e in each), max(e.high for e in each)))

    def test_a_sitting_hardly_ever_in_a_state_counts_there_too(self):
        name = "table1.800m.ff_qkv.token_speedup"
        for number in (4, 5):
            self.add(number, rounds=8)  # four in each state
            after = self.summary()
            for state in ("", "@slow"):
                self.assertEqual(after[name + state]["sittings"], number)
                self.assertEqual(after[name + state]["status"], "ok")
            code, said = self.check()
            self.assertEqual(code, 0, said)

    def test_limits_are_those_of_the_state(self):
        records = rec.Records(self.folder)
        for view, suffix in states.views(records, 2):
            found = view.get("table1_800m", "baseline", 2, "token_ms")["ceilings"]
            self.assertEqual(found["read_gbps"], RATE["slow" if suffix else "fast"])
            beside = view.get("table1_800m", "baseline", 2, "read_gbps")
            self.assertEqual(beside["value"], RATE["slow" if suffix else "fast"])

    def test_the_report_has_the_distribution_of_reads_and_which_state_a_ceiling_met(self):
        records = rec.Records(self.folder)
        lines = limits.reads_table(records)
        self.assertEqual([line.split("|")[2].strip() for line in lines[2:]], ["slow", "fast"])
        slow = [float(cell) for cell in lines[2].split("|")[4:-1]]
        self.assertEqual(slow, sorted(slow))
        reads = [r for r in states.reads(records, 2) if r < 40]
        self.assertEqual(int(lines[2].split("|")[3]), len(reads))
        self.assertAlmostEqual(slow[2], statistics.median(reads), delta=0.05)
        self.assertEqual(limits.of_which_state(records), "")  # no ceilings in this folder

    def disturb(self, factor):
        """The first sitting's last ten decodes of the dense row, in slow memory: their times, and the ceiling beside them."""
        at = COLUMNS.index
        for path in self.folder.glob("sittings/*01T*/*.jsonl"):
            records = [json.loads(line) for line in path.read_text().splitlines()]
            for closing in (r for r in records if r["row"] == "baseline" and r.get("samples")):
                closing["uncached"] = 1.0
                for row in closing["samples"]["rows"][-10:]:
                    row[at("token_ms")] /= factor
                    row[at("read_gbps")] *= factor
            path.write_text("\n".join(map(json.dumps, records)) + "\n")

    def test_the_first_screen_says_beside_how_many_decodes_somebody_else_had_of_memory(self):
        for factor, count in ((0.9, 0), (0.8, 10)):
            self.disturb(factor)  # as chance may do; then, with that, by more than 15 %
            records = rec.Records(self.folder)
            self.assertEqual(sum(states.taken(records, 2)[0].values()), count)
            report = report_cells.Report(records)
            first_screen.write(report)
            said = "10 of 720 at 2 threads (2026-01-01T0000Z: 10)" in report.text()
            self.assertEqual(said, bool(count))
        self.assertEqual(states.taken(records, 2), ({"2026-01-01T0000Z": 10}, 720))

    def test_an_incomplete_sitting_is_left_out_and_named(self):
        self.add(3, {"complete": False})
        records = rec.Records(self.folder)
        self.assertEqual(len(records.sittings), 2)
        self.assertIn("incomplete", records.damaged[0])

    def test_rows_that_took_no_turns_have_an_interval_of_both(self):
        for path in self.folder.glob("sittings/*/*.jsonl"):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            for record in lines:
                if record["row"] == "ff_qkv" and "samples" in record:
                    record["samples"]["group"] = "another"
            path.write_text("\n".join(map(json.dumps, lines)))
        view, _ = states.views(rec.Records(self.folder), 2)[0]
        # Of each sitting its own ratio, not one of medians over all of them.
        self.assertEqual(
            view.paired("table1_800m", "baseline", "ff_qkv", 2, "token_ms").sittings, 3
        )
        found = decode.row_figures(view, "table1_800m", "ff_qkv", 2)["token_speedup"]
        self.assertAlmostEqual(found.value, 5, delta=0.01)
        self.assertGreater(found.high - found.low, 0.01)

    def rewrite(self, change):
        """change(the sitting's number from 0, a record's row, the columns of one of its decodes)."""
        for number, path in enumerate(sorted(self.folder.glob("sittings/*/*.jsonl"))):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            for record in lines:
                for row in record.get("samples", {}).get("rows", []):
                    change(number, record["row"], row)
            path.write_text("\n".join(map(json.dumps, lines)))

    def test_sittings_that_disagree_are_not_trusted(self):
        def slower(number, name, row):
            if name == "baseline":
                row[COLUMNS.index("token_ms")] *= 1 + 0.08 * number

        self.rewrite(slower)
        found = self.summary()
        for name in ("baseline.token_ms", "ff_qkv.token_speedup"):
            self.assertEqual(found[f"table1.800m.{name}"]["status"], "untrusted", name)
        self.assertEqual(found["table1.800m.baseline.block_ms"]["status"], "ok")

    def test_a_row_that_beats_its_floor_has_no_trusted_time(self):
        def faster(_, name, row):
            if name == "ff_qkv":
                row[COLUMNS.index("token_floor_ms")] = 1.1 * row[COLUMNS.index("token_ms")]

        self.rewrite(faster)
        found = self.summary()
        for name in ("ff_qkv.token_ms", "ff_qkv.token_efficiency", "ff_qkv.token_speedup"):
            self.assertEqual(found[f"table1.800m.{name}"]["status"], "untrusted", name)
        for name in ("ff_qkv.block_ms", "ff_qkv.block_speedup", "baseline.token_ms"):
            self.assertEqual(found[f"table1.800m.{name}"]["status"], "ok", name)

    def test_a_wide_interval_leaves_no_dense_row_out_of_a_state(self):
        records = self.load([])
        place = {"experiment": "e", "row": "r", "threads": 1, "metric": "block_ms"}
        for beats_floor in (False, True):
            of_a_state = {"status": "untrusted", "beats_floor": beats_floor}
            self.assertEqual(decode.counts(records, place | of_a_state), not beats_floor)
        self.assertFalse(decode.counts(records, place | {"status": "untrusted"}))
        self.assertTrue(decode.counts(records, place | {"status": "ok"}))

    def test_short_sittings_have_an_interval_together(self):
        def sitting(name, *values):
            return [(name, float(at), value) for at, value in enumerate(values)]

        long = sitting("a", 3.9, 3.95, 4.0, 4.0, 4.05, 4.1)
        short = [sitting("b", 4.0, 4.01, 4.02), sitting("c", 4.1, 4.11, 4.12)]
        pooled = states.pool([long, *short])
        # Each sitting's median counts as one, however short it was.
        self.assertEqual(pooled["value"], 4.01)
        self.assertEqual((pooled["low"], pooled["high"]), (3.9, 4.12))
        self.assertFalse(pooled["doubtful"])
        # Three rounds beside a long sitting are no interval, but widen it, and may disagree.
        pooled = states.pool([long, sitting("b", 5.0, 5.0, 5.0)])
        self.assertEqual((pooled["value"], pooled["high"]), (4.5, 5.0))
        self.assertTrue(pooled["doubtful"])
        # Fewer than six in all have none.
        pooled = states.pool(short[:1])
        self.assertEqual((pooled["low"], pooled["high"]), (-math.inf, math.inf))
        self.assertEqual(pooled["value"], 4.01)
        self.assertTrue(pooled["doubtful"])
        # A sitting whose rows took no turns has a ratio alone.
        apart = evidence.Ratio(4.2, 4.0, 4.4, 9, 3)
        self.assertEqual(states.pool([long], [apart])["value"], 4.1)

    def test_the_checker_finds_sittings_whose_times_do_not_fit(self):
        about = {"began": "2026-01-02T00:00:00Z", "ended": "2026-01-02T00:09:30Z"}
        for changed, finding in (
            ({"minutes": 12}, "12 minutes, 2026-01-02T00:00:00Z to"),
            ({"began": "2026-01-01T00:05:00Z"}, "before another ended at 2026-01-01T00:09:30Z"),
            ({"began": "2026-01-02T00:00:01Z"}, "a record of 2026-01-02T00:00:00Z, not"),
            ({"ended": "2026-01-04T00:00:00Z"}, "before another ended at 2026-01-04T00:00:00Z"),
        ):
            self.add(2, about | changed)
            code, said = self.check()
            self.assertEqual(code, 1)
            self.assertIn(finding, said)

    def test_the_longest_sitting_is_a_figure(self):
        self.add(2, {"minutes": 9.4})
        self.add(4, {"kind": "sweeps", "minutes": 80})
        found = self.summary()["headline.sitting_minutes"]
        self.assertEqual((found["value"], found["low"], found["sittings"]), (9.4, 9, 3))

    def test_what_stands_on_fewer_sittings_is_marked_or_found(self):
        def leave(number, _, row):
            if number < 2:
                row[COLUMNS.index("state_read_gbps")] = RATE["fast"]

        self.rewrite(leave)
        summary = self.summary()
        found = {name: values.of_entry(entry) for name, entry in summary.items()}
        self.assertEqual(summary["table1.800m.baseline.token_ms@slow"]["sittings"], 1)
        (dense,) = (line for line in headline.table(found) if "800M, dense" in line)
        fast, slow = dense.split("|")[2:4]
        self.assertNotIn("¹", fast)
        self.assertIn("¹", slow)
        self.assertIn("Of 3 sittings; ¹ of 1", headline.of_fewer(found))
        self.assertIn("Of 3 sittings; ¹ of 1", headline.legend(found))
        self.assertNotIn("baseline.token_ms: of", self.check()[1])
        said = self.check("--least", "5")[1]
        self.assertIn("table1.800m.baseline.token_ms: of 4 sittings, 5 are wanted", said)

    def test_headline_and_report_show_states_side_by_side(self):
        summary = self.summary()
        found = {name: values.of_entry(entry) for name, entry in summary.items()}
        lines = headline.table(found)
        self.assertIn("token speed-up, fast | token speed-up, slow", lines[0])
        self.assertTrue(any("| 800M, sparse FF+QKV | 2.02 | 2.02 | 5× [" in line for line in lines))
        said = " ".join(headline.sentences(found))
        self.assertIn("as threads that share a core complex", said)
        text = make_report.make(rec.Records(self.folder))
        self.assertIn("**One token, all threads (2), slow state**", text)
        self.assertIn("medians of 3 sittings", text)
        self.assertIn("last-level cache 0.953674 MiB", text)
        self.assertIn("| measured | 2026-01-01 00:00 to 2026-01-03 00:00 UTC |", text)
        self.assertIn(
            "| memory | a fixed GiB is read at 60.3 GB/s fast (50% of the reads), 30.1 GB/s slow",
            text,
        )
        self.assertEqual(found["table1.800m.ff_qkv.cache_share"].value, 0.25)

    def test_figures_are_of_the_fast_state(self):
        drawn = []

        def keep(records):
            drawn.append(records)
            raise chart.Missing("only kept")

        draw.draw_all(rec.Records(self.folder), {"mine": keep})
        figure = table_figures.draw_bars(drawn[0], "table1_800m")
        self.assertIn("5", [text.get_text() for text in figure.axes[0].texts])
        self.assertIn("2 threads, fast memory", figure.axes[1].get_xlabel())

    def check(self, *arguments):
        (self.folder / "summary.json").write_text(json.dumps(self.summary()))
        return self.checked(*arguments)

    def checked(self, *arguments):
        done = subprocess.run(
            [sys.executable, ROOT / "tools/check_published.py", self.folder, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def test_a_folder_without_records_does_not_pass(self):
        (self.folder / "empty").mkdir()
        (self.folder / "empty" / "summary.json").write_text("{}")
        done = subprocess.run(
            [sys.executable, ROOT / "tools/check_published.py", self.folder / "empty"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("empty has no records", done.stderr)

    def test_the_checker_passes_what_holds(self):
        code, said = self.check()
        self.assertEqual(code, 0, said)
        self.assertIn(
            "8 times and 4 of 8 speed-ups of the summary, 12 of their intervals, 0 limits: nothing found",
            said,
        )

    def test_the_checker_resamples_by_itself(self):
        draw = random.Random(3)
        # Of few stretches of ten seconds the interval is the whole range.
        for count in (200, 7):
            rounds = [("turns", 2.0 * n, 5 * (1 + 0.2 * draw.gauss(0, 1))) for n in range(count)]
            blocks = evidence.blocks_of([(at, value) for _, at, value in rounds])
            value, low, high, *_ = evidence.interval(blocks)
            entry = {"value": value, "low": low, "high": high, "sittings": 1}

            def checked(entry, rounds=rounds):
                return check_published.of_figure("x", [[rounds]], entry)

            self.assertEqual(checked(entry), ([], True))
            half = (high - low) / 2
            for wrong in (
                {"low": value - 0.2 * half, "high": value + 0.2 * half},
                {"value": value * 1.001},
                {"low": value * 1.0001, "high": value * 2},
                {"sittings": 2},
            ):
                self.assertTrue(checked(entry | wrong)[0], wrong)
            none = {"value": value, "low": None, "high": None, "sittings": 1}
            self.assertEqual(checked(none)[0], [])
            self.assertTrue(checked(None)[0])
        some = [("turns", 2.0 * n, 5.0) for n in range(20)]  # four stretches: not looked at
        entry = {"value": 5.0, "low": 5.0, "high": 5.0, "sittings": 1}
        self.assertEqual(check_published.of_figure("x", [[some]], entry), ([], False))

    def test_sweeps_alone_have_no_headline_to_stand_behind(self):
        for number in (1, 2, 3):
            self.add(number, {"kind": "sweeps"})
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_the_checker_finds_what_does_not_hold(self):
        self.assertEqual(self.checked()[0], 1)  # no summary
        self.assertIn("3 complete headline sittings, 4 are wanted", self.check("--least", "4")[1])
        self.add(3, {"complete": False})
        self.assertIn("2 complete headline sittings, 3 are wanted", self.check()[1])
        self.add(3, dirty=True)
        self.assertIn("of an edited tree", self.check()[1])
        self.add(3, commit="c2")
        self.assertIn("commit c2, not c1", self.check()[1])
        self.add(3, waiting=0.9)
        self.assertIn("tasks waited for a processor in 90% of the time", self.check()[1])
        self.add(3)
        self.assertEqual(self.check()[0], 0)
        path = self.folder / "summary.json"
        summary = json.loads(path.read_text())
        summary["table1.800m.ff_qkv.block_ms"]["value"] *= 0.99
        path.write_text(json.dumps(summary))
        self.assertIn("table1.800m.ff_qkv.block_ms", self.checked()[1])
        name = "table1.800m.ff_qkv.block_speedup"
        self.check()
        summary = json.loads(path.read_text())
        summary[name]["value"] *= 1.001
        path.write_text(json.dumps(summary))
        self.assertIn(f"{name}: ", self.checked()[1])
        edited = next(self.folder.glob("sittings/*/*.jsonl"))
        edited.write_text(edited.read_text().replace('"value": 2.0', '"value": 1.0', 1))
        self.assertIn("its decodes give", self.check()[1])


if __name__ == "__main__":
    unittest.main()
