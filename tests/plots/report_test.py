"""The report as a whole: cells, statuses, claims, headline, programs."""

import json
import math
import pathlib
import re
import subprocess
import sys
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "plots")]

import claims  # noqa: E402
import first_screen  # noqa: E402
import headline  # noqa: E402
import make_report  # noqa: E402
import report as report_cells  # noqa: E402
import summarise  # noqa: E402
import values  # noqa: E402
from made_up import STACKS, TABLE1, TABLE2, TABLE6, record, row  # noqa: E402
from sections import tables  # noqa: E402
from with_folder import WithFolder  # noqa: E402


class ReportTest(WithFolder):
    def test_numbers_have_three_digits_without_exponent(self):
        for value, text in (
            (1595, "1,595"),
            (12.34, "12.3"),
            (0.04561, "0.0456"),
            (1, "1.00"),
            (0, "0"),
            (None, "–"),
        ):
            self.assertEqual(report_cells.number(value), text)

    def test_points_show_the_interval_they_have(self):
        def share(low, high):
            return values.Value(0.04, "1", low, high, "ok", "c")

        for value, text in (
            (share(-0.01, 0.09), "+4.0 [-1.0, +9.0]"),
            (share(-1.01, 1.09), "+4.0 [-101.0, +109.0]"),  # wide, but known
            (share(-math.inf, math.inf), "+4.0 [–]"),
            (None, "–"),
        ):
            self.assertEqual(report_cells.points(value), text)

    def test_statuses_gaps_and_damage_are_shown(self):
        items = [dict(r, status="extrapolated") if r["metric"] == "token_ms" else r for r in TABLE1]
        items.append(
            record("table1_800m", "qkv", "token_ms", None, status="failed", note="too big")
        )
        text = make_report.make(self.load(items, "nonsense\n"))
        self.assertIn("Extrapolated:", text)
        self.assertIn("1. Failed: too big.", text)
        self.assertIn("| `qkv` | 6.20 | gap [", text)
        self.assertIn("table1_800m.jsonl:14:", text)
        self.assertIn("| 1.90 | 0.800 | 3.05× | 5.00× | 5.00× | 6.00× | 0.833 |", text)
        self.assertNotIn("## Table 2", text)
        self.assertIn(
            "Not measured: 13 claims; `./run_all.sh` measures 9, `./run_all.sh --full` measures 4.",
            text,
        )
        self.assertNotIn("## Goals", text)  # they are the project's, not of a user's machine
        text = make_report.make(self.load(items, "nonsense\n", published=True))
        self.assertRegex(text, r"Not measured: \d+ figures; .*`./run_all.sh --peers` measures 37, ")
        self.assertNotIn("**not measured**", text)
        self.assertIn("--config experiments/configs/decode/table1_800m.cfg", text)

    def test_seats_stand_beside_their_floors(self):
        items = TABLE1 + [
            record("table1_800m", "ff_qkv", f"seat.{seat}.{ending}", value)
            for seat, *values in (("projection", 0.5, 0.25), ("feed_forward", 0.3, 0.27))
            for ending, value in zip(("ms", "floor_ms"), values)
        ]
        records = self.load(items)
        text = make_report.make(records)
        self.assertIn("| row | projections, ms | feed-forward, ms |", text)
        self.assertIn("| `ff_qkv` | 0.500 (0.50) | 0.300 (0.90) |", text)
        self.assertEqual(
            tables.most_lost(records, "table1_800m", "ff_qkv", 2),
            "; 0.25 ms of a block lost in its projections",
        )
        self.assertEqual(tables.parts_table(records, "table1_800m", 1), [])
        self.assertEqual(tables.most_lost(records, "table1_800m", "baseline", 2), "")

    def test_seats_are_those_of_the_models(self):
        source = (ROOT / "models" / "block_part.h").read_text(encoding="utf-8")
        names = re.search(r"kPartNames = \{(.*?)\}", source, re.DOTALL).group(1)
        self.assertEqual(list(tables.PARTS), re.findall(r'"(\w+)"', names))

    def test_tables_1_and_6_stand_side_by_side(self):
        items = TABLE6 + row("table1_17b", "baseline", 420.0, 65.0, 1000, 54.0)
        text = make_report.make(self.load(items))
        self.assertIn(
            "| `dense` | 3,690 | 1.00× | 420 | 1.00× | 3,651 | 1.00× | 400 | 1.00× |", text
        )
        self.assertIn("| `ff_qkv_loss4` | – | – | – | – | 97.0 | 37.6× | 20.0 | 20.0× |", text)
        self.assertIn("to the last digit", text)

    def test_what_is_known_stands_below_the_heading_it_names(self):
        records = self.load(TABLE1)
        (self.folder / "notes.md").write_text(
            "## Known today\n\n- of all\n\n## Table 1, 800M\n\n- of it\n- twice\n"
        )
        lines = make_report.make(records).splitlines()
        places = [
            lines.index(line)
            for line in (
                "## What the paper says, and what was found",
                "## Known today",
                "- of all",
                "## Table 1, 800M",
                "- of it",
                "- twice",
            )
        ]
        self.assertEqual(places, sorted(places))
        self.assertEqual(lines.count("## Table 1, 800M"), 1)
        between = lines[places[3] : places[4]]
        self.assertFalse([line for line in between[1:] if line.startswith("#")])

    def test_claims_follow_the_numbers(self):
        verdicts = {c: v for c, v, *_ in make_report.verdicts(self.load(TABLE1))}
        self.assertEqual(verdicts["... and an 800M decoder block (Table 1)"], "exceeded")
        self.assertEqual(verdicts["... and a 17B decoder block (Table 1)"], "not measured")
        slow = [
            dict(r, value=2 * r["value"])
            if r["row"] == "ff_qkv" and r["metric"] == "block_ms"
            else r
            for r in TABLE1
        ]
        verdicts = {c: v for c, v, *_ in make_report.verdicts(self.load(slow))}
        self.assertEqual(verdicts["... and an 800M decoder block (Table 1)"], "partly reproduced")

    def test_a_verdict_is_as_certain_as_its_figures(self):
        claim = "Sparse feed-forward decodes faster than mixture-of-experts (§3.1)"

        def experts(token, **more):
            items = TABLE2 + row("table2", "moe64", token, 2.0, 50, 1.8)
            return [
                dict(r, **more) if (r["row"], r["metric"]) == ("moe64", "token_ms") else r
                for r in items
            ]

        def found(items):
            return {c: (v, e) for c, v, e, *_ in make_report.verdicts(self.load(items))}[claim]

        self.assertEqual(found(experts(21.0))[0], "reproduced")
        self.assertEqual(found(experts(19.0))[0], "not reproduced")
        verdict, evidence = found(experts(21.0, low=19.0, high=23.0, interval=(19.0, 23.0)))
        self.assertEqual(verdict, "undecided", evidence)
        self.assertIn("against 21 ms [19.0, 23.0]", evidence)
        wide = experts(31.0, low=29.0, high=33.0, interval=(29.0, 33.0), status="untrusted")
        self.assertEqual(found(wide)[0], "reproduced but untrusted")
        self.assertEqual(found(experts(21.0, status="untrusted"))[0], "no verdict: one decode")

    def test_verdicts_are_counted_by_state(self):
        judged = [
            claims.Verdict("a", "reproduced (fast), undecided (slow)", ""),
            claims.Verdict("b", "reproduced", ""),
            claims.Verdict("c", "reproduced (fast), undecided (slow)", ""),
        ]
        self.assertEqual(
            make_report.counted(judged), "1 reproduced; fast: 2 reproduced; slow: 2 undecided"
        )

    def test_a_change_the_other_way_is_said(self):
        for token, words in ((42.0, "ours 0.952× (opposite sign)"), (39.0, "ours 1.03×")):
            items = TABLE1 + row("table1_800m", "qkv", token, 4.0, 100, 3.6)
            evidence = {c: e for c, _, e, *_ in make_report.verdicts(self.load(items))}
            self.assertEqual(
                evidence["Sparse QKV alone changes an 800M token little (Table 1)"],
                f"paper 1.05×, {words}; little: 10 % to either side",
            )

    def test_little_change_the_other_way_is_reproduced_in_part(self):
        for token, wanted in ((42.0, "partly reproduced"), (39.0, "reproduced")):
            items = TABLE1 + row("table1_800m", "qkv", token, 4.0, 100, 3.6)
            said = {c: v for c, v, *_ in make_report.verdicts(self.load(items))}
            self.assertEqual(
                said["Sparse QKV alone changes an 800M token little (Table 1)"], wanted
            )

    def test_what_lies_on_neither_side_is_undecided(self):
        def verdicts(large, low, high):
            items = TABLE1 + row("table1_17b", "baseline", 800.0, 100.0, 100, 90.0)
            items += [
                dict(r, low=low, high=high, interval=(low, high))
                if r["metric"] == "block_ms"
                else r
                for r in row("table1_17b", "ff_qkv_cross", 40.0, large, 2, 2.0)
            ]
            return {c: v for c, v, *_ in make_report.verdicts(self.load(items))}

        claim = "The gain grows with the model: 17B gains more than 800M (§1, Table 1)"
        # An 800M block gains 5.
        for ends, verdict in (
            ((2.5, 2.4, 2.6), "reproduced"),
            ((15, 8, 30), "undecided"),
            ((30, 28, 32), "not reproduced"),
        ):
            self.assertEqual(verdicts(*ends)[claim].removesuffix(" but untrusted"), verdict, ends)

        def alone(low, high):
            items = TABLE1 + row("table1_800m", "qkv", 40.0, 4.0, 100, 3.6)
            items = [
                dict(r, low=low, high=high, interval=(low, high))
                if (r["row"], r["metric"]) == ("qkv", "token_ms")
                else r
                for r in items
            ]
            found = {c: v for c, v, *_ in make_report.verdicts(self.load(items))}
            return found["Sparse QKV alone changes an 800M token little (Table 1)"]

        self.assertEqual(alone(39, 41), "reproduced")
        self.assertEqual(alone(30, 50), "undecided")

    def test_the_papers_numbers_come_from_its_tables(self):
        items = (
            TABLE2
            + row("table2", "n128", 19.0, 1.9, 45, 1.7)
            + row("table2", "moe64", 21.0, 2.0, 50, 1.8)
        )
        evidence = " ".join(e for _, _, e, *_ in make_report.verdicts(self.load(items)))
        self.assertIn("paper 1.72× and 1.8×, ours 2× and 2.11×", evidence)
        self.assertIn("paper 93 ms against 110 ms, ours 20 ms against 21 ms", evidence)
        self.assertNotIn("4 ms", evidence)  # of what skips zeros

    def test_claims_of_terraformers(self):
        verdicts = {c: v for c, v, *_ in make_report.verdicts(self.load(TABLE6))}
        self.assertEqual(
            verdicts[
                "Sparse FF, QKV and loss together make a 17B Terraformer's token faster (Table 6)"
            ],
            "partly reproduced",
        )
        self.assertEqual(
            verdicts["... where a sparse loss (S=4) nearly halves the sparse token (Table 6)"],
            "reproduced",
        )


class HeadlineTest(unittest.TestCase):
    def test_five_sentences_with_the_numbers_of_their_ids(self):
        def value(number, low=None, high=None, **more):
            return values.Value(number, "x", low or number, high or number, "ok", "c", **more)

        found = {
            "ceilings.read_gbps": value(49.6),
            "ceilings.fma_gflops": value(500),
            "table1.800m.ff_qkv_cross.block_speedup": value(10.5, 9.74, 11.3),
            "table1.800m.ff_qkv_cross.roofline_limit": value(12.8),
            "table1.17b.ff_qkv_cross.block_speedup": value(51.8, 51.1, 52.5),
            "table1.17b.ff_qkv_cross.roofline_limit": value(68.6),
            "table1.800m.ff_qkv_cross_cold.block_speedup": value(9.1),
            "peers.800m.eigen.over_ours": value(1.2),
            "peers.800m.jax.over_ours": value(9.9),
            "peers.800m.fastest.over_ours": value(1.04, 1.01, 1.07, whose="jax"),
            "fig1.mini.ff_qkv.gap": value(0.02, -0.01, 0.05),
            "fig1.mini.iso_read_ff.gap": values.Value(0.158, "x", -math.inf, math.inf, "ok", "c"),
        }
        said = headline.sentences(found)
        for sentence, words in zip(
            said,
            (
                "49.6 GB/s and the cores 500 GFLOP/s",
                "10.5× [9.74–11.3] as fast as the fastest dense one; the machine's limits would allow 12.8×. With no weight in a cache it is 9.1×.",
                "At 17B, a block is 51.8× [51.1–52.5]",
                "Of 2 other libraries the fastest dense block takes, of our time, 800M in f32 1.04× [1.01–1.07] (JAX).",
                "(mini), FF+QKV ends +0.020 [-0.010, +0.050] nats a token above dense; a dense feed-forward "
                "of as few reads ends +0.158 (one seed) above it. One learning rate serves all rows, so this decides "
                "nothing.",
            ),
        ):
            self.assertIn(words, sentence)
        self.assertEqual(len(said), 5)
        found["table1.17b.ff_qkv_cross.bf16.block_speedup"] = value(33)
        found["table1.17b.ff_qkv_cross.bf16.roofline_limit"] = value(42.9)
        self.assertIn("At 17B in bf16, a block is 33×", headline.sentences(found)[2])
        found["quality.fig1_5m.ff_qkv.gap"] = value(0.15, 0.126, 0.175)._replace(
            tokens=5_001_216, seeds=5
        )
        found["quality.fig1_5m.ff_qkv.verdict_gap"] = value(0.115, 0.094, 0.136)
        self.assertIn(
            "on 5 M tokens, 5 seeds, FF+QKV ends +0.150 [+0.126, +0.175] nats a token above dense, +0.115 [+0.094, +0.136] of it "
            "beyond a quarter",
            headline.sentences(found)[4],
        )
        found["table1.800m.ff.cache_share"] = value(0.2)
        self.assertNotIn("Caches", headline.sentences(found)[0])
        found["table1.800m.ff_qkv_cross.cache_share"] = value(0.97)
        self.assertIn("measured alone.", headline.sentences(found)[0])
        found["memory.read_gbps"], found["memory.share"] = value(34.1), value(1.0)
        self.assertIn(
            "34.1 GB/s. **Caches could hold, of what a token reads, 97% (800M, sparse FF+QKV, cross too)**.",
            headline.sentences(found)[0],
        )
        self.assertEqual(headline.sentences({}), [])
        self.assertNotIn("untrusted", headline.legend(found))
        found["table1.17b.ff_qkv_cross.token_speedup"] = value(9)._replace(status="untrusted")
        self.assertIn("1 of all 5 speed-ups below are marked untrusted", headline.legend(found))

    def test_a_mark_says_what_is_wrong_with_a_figure_and_only_marks_that_are_there_are_explained(
        self,
    ):
        def value(number, status="ok"):
            return values.Value(number, "x", number, number, status, "c")

        found = {
            "table1.17b.baseline.token_ms": value(400, "extrapolated"),
            "table1.17b.ff_qkv_cross.token_ms": value(20),
        }
        self.assertIn("| 17B, dense | 400‡ |", "\n".join(headline.table(found)))
        legend = headline.legend(found)
        self.assertIn("‡ extrapolated", legend)
        self.assertNotIn("†", legend)
        found["table1.17b.ff_qkv_cross.token_speedup"] = value(9, "untrusted")
        self.assertIn("† untrusted: uncertain", headline.legend(found).lower())
        # What is both says both; what the status says is not said twice.
        found["table1.17b.baseline.token_ms"] = value(400, "untrusted")._replace(extrapolated=True)
        self.assertIn("| 17B, dense | 400†‡ |", "\n".join(headline.table(found)))
        found["table1.17b.baseline.token_ms"] = value(400, "extrapolated")._replace(
            extrapolated=True
        )
        self.assertIn("| 17B, dense | 400‡ |", "\n".join(headline.table(found)))

    def test_a_token_of_fewer_blocks_than_the_model_has_is_extrapolated_whatever_is_doubted(self):
        def made(metric, held, status="untrusted"):
            config = {"blocks_held": held, "decoder_layers": 24}
            return values.of_record(
                {"metric": metric, "value": 1.0, "status": status, "config": config}
            )

        self.assertTrue(made("token_ms", 1).extrapolated)
        self.assertFalse(made("token_ms", 24).extrapolated)
        self.assertFalse(made("block_ms", 1).extrapolated)
        self.assertTrue(values.ratio(made("token_ms", 1), made("token_ms", 24)).extrapolated)
        entry = summarise._entry
        self.assertTrue(entry(made("token_ms", 1))["extrapolated"])
        self.assertNotIn("extrapolated", entry(made("token_ms", 1, "extrapolated")))

    def test_a_folder_of_curves_alone_begins_with_what_they_say(self):
        def value(number):
            return values.Value(number, "nats/token", number, number, "ok", "c")

        found = {
            f"quality.fig1_5m.ff_qkv.{what}": value(0.1)._replace(tokens=5e6, seeds=5)
            for what in ("gap", "verdict_gap")
        }
        report = report_cells.Report(None)
        with unittest.mock.patch.object(first_screen.summarise, "figures", lambda _: found):
            first_screen._headline(report)
        self.assertIn("- Trained with as many parameters on 5 M tokens, 5 seeds", report.text())
        # Two seeds of a larger budget do not take the place of five.
        for what in ("gap", "verdict_gap"):
            found[f"quality.fig1_16m.ff_qkv.{what}"] = value(0.2)._replace(tokens=16e6, seeds=2)
        self.assertIn("5 M tokens", "".join(headline.sentences(found)))
        for what in ("gap", "verdict_gap"):
            found[f"quality.fig1_16m.ff_qkv.{what}"] = value(0.2)._replace(tokens=16e6, seeds=5)
        self.assertIn("16 M tokens", "".join(headline.sentences(found)))
        self.assertNotIn("## Headline", report.text())

    def test_many_commits_are_counted(self):
        few = ["a", "b"]
        self.assertEqual(
            first_screen._commits_text(few), "a, b; not all records come from one commit"
        )
        self.assertEqual(first_screen._commits_text(few[:1]), "a")
        many = [str(n) for n in range(30)]
        self.assertEqual(first_screen._commits_text(many), "30 of them; each record names its own")

    def test_each_state_has_a_limit_of_its_own(self):
        def value(number, state):
            return values.Value(number, "x", number, number, "ok", "c")._replace(state=state)

        found = {"memory.read_gbps": value(80, "fast"), "memory.read_gbps@slow": value(50, "slow")}
        found |= {f"memory.share{s}": value(0.5, n) for s, n in (("", "fast"), ("@slow", "slow"))}
        row = "table1.800m.ff_qkv_cross"
        for suffix, state, gain, limit in (("", "fast", 7, 12), ("@slow", "slow", 10, 14)):
            found[f"{row}.block_speedup{suffix}"] = value(gain, state)
            found[f"{row}.roofline_limit{suffix}"] = value(limit, state)
        self.assertIn("would allow 12.0× and 14.0×.", headline.sentences(found)[1])


class ReadmeTest(unittest.TestCase):
    def test_one_thread_has_the_same_table(self):
        def value(number):
            return values.Value(number, "x", number, number, "ok", "c")

        found = {
            "table1.800m.baseline.token_ms": value(20),
            "threads1.table1.800m.baseline.token_ms": value(32),
            "threads1.table1.800m.ff.token_ms": value(16),
            "threads1.table1.800m.ff.token_speedup": value(2),
        }
        text = "\n".join(map(str, headline.table(headline.of_one_thread(found), is_brief=True)))
        self.assertIn("| 800M, dense | 32 |", text)
        self.assertIn("| 800M, sparse FF | 16 | 2× |", text)
        self.assertEqual(headline.table(headline.of_one_thread({})), [])

    def test_the_headline_table_is_that_of_the_published_results(self):
        done = subprocess.run(
            [sys.executable, ROOT / "plots" / "readme_table.py", "--check"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)


class ProgramsTest(WithFolder):
    def run_program(self, name, *arguments):
        return subprocess.run(
            [sys.executable, ROOT / "plots" / name, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )

    def test_programs_write_their_files_and_draw_what_there_is(self):
        self.load(TABLE1 + TABLE6 + STACKS)
        for name in ("summarise.py", "draw.py", "make_report.py"):
            done = self.run_program(name, "--results", str(self.folder))
            self.assertEqual(done.returncode, 0, done.stderr)
            if name == "draw.py":
                self.assertIn("skipped roofline: ", done.stdout)
        made = {p.name for p in (self.folder / "figures").iterdir()}
        self.assertEqual(
            made,
            {
                f"{name}.{ending}"
                for ending in ("svg", "png")
                for name in ("table1_800m", "table6_17b", "reversibility")
            },
        )
        self.assertIn("figures/table1_800m.png", (self.folder / "report.md").read_text())
        json.loads((self.folder / "summary.json").read_text())

    def test_folder_that_is_none_is_refused_in_a_sentence(self):
        done = self.run_program("summarise.py", "--results", str(self.folder / "nowhere"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("is not a folder", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
