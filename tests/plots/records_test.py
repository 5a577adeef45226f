"""How plots/ reads records: which counts, what is damage, what settings make two alike."""

import json
import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "plots")]

import draw  # noqa: E402
import evidence  # noqa: E402
import knobs  # noqa: E402
import make_report  # noqa: E402
import paper  # noqa: E402
import records as rec  # noqa: E402
import summarise  # noqa: E402
from made_up import TABLE1, record  # noqa: E402
from with_folder import WithFolder  # noqa: E402


class ReaderTest(WithFolder):
    def test_latest_record_wins_whatever_its_place(self):
        new = record("e", "r", "block_ms", 2.0, date="2026-02-01T00:00:00Z")
        records = self.load([new, record("e", "r", "block_ms", 1.0)])
        self.assertEqual(records.get("e", "r", 2, "block_ms")["value"], 2.0)

    def test_equal_dates_take_the_later_line(self):
        records = self.load([record("e", "r", "m", 1.0), record("e", "r", "m", 3.0)])
        self.assertEqual(records.get("e", "r", 2, "m")["value"], 3.0)

    def test_decodes_know_what_no_cache_can_have_given(self):
        samples = {
            "columns": ["round", "at_s", "kept", "state_read_gbps", "read_gbps"],
            "rows": [[0, 0.0, 1, 40.0, 80.0]],
        }
        items = [
            record("e", "r", "token_bytes", 400.0),
            record("e", "r", "token_ms", 1.0, samples=samples),
        ]
        for cache, own in ((100, (80.0, 60.0)), (500, (80.0, 0.0)), (None, None)):
            (self.folder / "machine.json").write_text(json.dumps({"l3_bytes": cache}))
            closing = self.load(items).get("e", "r", 2, "token_ms")
            (decode,) = evidence.decodes_of(closing)
            self.assertEqual(decode.own, own)

    def test_damaged_lines_are_named_by_file_and_line(self):
        records = self.load([record("e", "r", "m", 1.0)], '{"experiment": "e\n[1]\n{"row": "r"}\n')
        self.assertEqual(
            [d.split(": ")[0] for d in records.damaged], ["e.jsonl:2", "e.jsonl:3", "e.jsonl:4"]
        )
        self.assertIn("lacks experiment", records.damaged[2])
        self.assertEqual(len(records.all()), 1)

    def test_fields_of_another_type_are_damage(self):
        good = {"experiment": "e", "row": "r", "threads": 1, "metric": "m", "status": "ok"}
        good |= {"value": 1.0, "config": None, "low": None}
        wrong = {
            "config": "d_model",
            "samples": "rows",
            "threads": "1",
            "row": 7,
            "commit": [],
            "seed": 1.5,
        }
        lines = [good, *(good | {field: value} for field, value in wrong.items())]
        path = self.folder / "e.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        damaged = rec.Records(self.folder).damaged
        self.assertEqual(len(damaged), len(wrong))
        for (field, value), said in zip(wrong.items(), damaged):
            self.assertIn(f"{field} {value!r} is of another type", said)
        with self.assertRaises(SystemExit) as refused:
            rec.write(self.folder / "missing" / "summary.json", "{}")
        self.assertIn("choose another folder with --results", str(refused.exception))

    def test_unknown_status_and_text_value_are_damage(self):
        records = self.load([record("e", "r", "m", 1.0, status="fine"), record("e", "r", "m", "1")])
        self.assertEqual(len(records.damaged), 2)

    def test_later_failure_hides_older_success(self):
        failed = record(
            "e",
            "r",
            "token_ms",
            None,
            status="failed",
            note="no memory",
            date="2026-02-01T00:00:00Z",
        )
        records = self.load([record("e", "r", "block_ms", 1.0), failed])
        self.assertIsNone(records.get("e", "r", 2, "block_ms"))
        self.assertEqual(records.gaps["e", "r", 2], "failed: no memory")

    def test_quick_replaces_full_only_of_another_commit(self):
        later = {"date": "2026-02-01T00:00:00Z", "config": {"quick": True}}
        records = self.load(
            [
                record("e", "r", "m", 1.0),
                record("e", "r", "m", 2.0, **later),
                record("e", "s", "m", 1.0),
                record("e", "s", "m", 2.0, **later, **{"commit": "c2"}),
            ]
        )
        self.assertEqual(records.get("e", "r", 2, "m")["value"], 1.0)
        self.assertEqual(records.get("e", "s", 2, "m")["value"], 2.0)

    def test_all_threads_are_no_more_than_the_cores(self):
        counts = [record("e", "r", "m", 1.0, threads=n) for n in (1, 2, 8)]
        self.assertEqual(self.load(counts).all_threads(), 2)
        self.assertEqual(self.load([dict(r, cores=16) for r in counts]).all_threads(), 8)
        unknown = [{k: v for k, v in r.items() if k != "cores"} for r in counts]
        self.assertEqual(self.load(unknown).all_threads(), 8)

    def test_success_after_failure_closes_the_gap(self):
        records = self.load(
            [
                record("e", "r", "token_ms", None, status="failed"),
                record("e", "r", "token_ms", 1.0, date="2026-02-01T00:00:00Z"),
            ]
        )
        self.assertEqual(records.gaps, {})


class AboutTest(WithFolder):
    def test_a_new_table_of_a_known_study_is_in_summary_report_and_figures(self):
        said = {"study": "decode", "title": "Table 10: windows", "id": "table10"}
        items = [{**r, **said, "experiment": "windows"} for r in TABLE1]
        records = self.load(TABLE1 + items)
        self.assertEqual(
            records.about("windows"),
            rec.About("windows", "decode", "", "Table 10: windows", "table10"),
        )
        self.assertEqual(summarise.summary(records)["table10.ff_qkv.block_speedup"]["value"], 5)
        text = make_report.make(records)
        self.assertLess(text.index("## Table 1, 800M"), text.index("## Table 10: windows"))
        self.assertIn("windows", draw.figures(records))

    def test_what_a_record_leaves_out_is_known_by_name(self):
        items = [
            {**r, "study": "decode", "section": "", "title": "New words", "id": ""} for r in TABLE1
        ]
        self.assertEqual(
            self.load(items).about("table1_800m"),
            rec.About("table1_800m", "decode", "", "New words", "table1.800m"),
        )

    def test_what_older_records_say_of_themselves_is_known_by_name(self):
        records = self.load(TABLE1 + [record("mine", "r", "block_ms", 1.0)])
        self.assertEqual(records.about("table1_800m").id, "table1.800m")
        self.assertEqual(records.about("mine").study, "")
        mine = [{**r, "experiment": "mine"} for r in TABLE1]
        self.assertIn("## mine", make_report.make(self.load(mine)))
        self.assertNotIn("mine", make_report.make(records))

    def test_every_table_of_the_paper_finds_its_line(self):
        for listed in paper.table("rows"):
            if listed["row"]:
                self.assertTrue(paper.lines(listed["experiment"], listed["row"]), listed)


class SettingsTest(unittest.TestCase):
    OLD = {
        "d_model": 8,
        "attention": "full",
        "lsh_chunk": 64,
        "feed_forward": "dense",
        "sparsity": 64,
    }

    def same(self, **more):
        old, new = ({"config": config} for config in (self.OLD, {**self.OLD, **more}))
        return knobs.settings(old) == knobs.settings(new)

    def test_a_later_knob_that_is_off_sets_no_records_apart(self):
        self.assertTrue(self.same(label_smoothing=0, extra_loss="none", window=False))
        self.assertFalse(self.same(label_smoothing=0.1))

    def test_what_no_component_reads_makes_no_difference(self):
        self.assertTrue(self.same(lsh_chunk=128, sparsity=8, modules=4))
        self.assertFalse(self.same(attention="lsh"))
        self.assertFalse(self.same(d_model=16))
        sparse = {"config": {**self.OLD, "feed_forward": "sparse"}}
        other = {"config": {**sparse["config"], "sparsity": 8}}
        self.assertNotEqual(knobs.settings(sparse), knobs.settings(other))

    def test_a_later_knob_counts_where_it_is_read_and_is_not_what_it_was(self):
        self.assertTrue(self.same(normaliser="softmax", window_width=129))
        self.assertFalse(self.same(normaliser="entmax15"))
        windows = [
            knobs.settings({"config": {**self.OLD, "attention": "window", "window_width": width}})
            for width in (129, 257, 513)
        ]
        self.assertEqual(len({tuple(w.items()) for w in windows}), 3)
        hashed = {**self.OLD, "attention": "lsh"}
        self.assertEqual(
            knobs.settings({"config": hashed}),
            knobs.settings({"config": {**hashed, "normaliser": "entmax15", "window_width": 9}}),
        )

    def test_a_later_knob_that_was_not_0_counts_at_0(self):
        for knob, before in knobs.LATER.items():
            if knob in knobs.READ_BY_SOME or before in knobs.OFF:
                continue
            self.assertTrue(self.same(**{knob: before}), knob)
            self.assertFalse(self.same(**{knob: 0}), knob)

    def test_lists_of_attentions_read_what_each_of_them_reads(self):
        def read(attention, **more):
            return knobs.settings({"config": {**self.OLD, "attention": attention, **more}})

        mixed = "full,window:normaliser=entmax15+banded"
        for knob in ("window_width", "band_width", "normaliser"):
            self.assertIn(knob, read(mixed, **{knob: 9}))
        self.assertNotIn("lsh_chunk", read(mixed, lsh_chunk=9))
        self.assertNotIn("band_width", read("full,window", band_width=9))

    def test_knobs_that_published_curves_lack_are_known(self):
        declared = {
            name
            for path in (ROOT / "models").rglob("*.h")
            for name in re.findall(r'visit\(\s*"(\w+)"', path.read_text(encoding="utf-8"))
            # The scores of a graph are visited as knobs are, and are none.
            if path.name != "knobs.h" and path.parent.name != "sparsefinder"
        }
        published = rec.Records(ROOT / "results" / "published")
        curve = published.get("fig1_small", "dense", 1, "log_perplexity")
        self.assertLessEqual(declared - set(curve["config"]), set(knobs.LATER))


if __name__ == "__main__":
    unittest.main()
