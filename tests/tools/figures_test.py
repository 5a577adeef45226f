"""Tables of a report as data, and decodes in llama-bench's columns as its comparison script reads them."""

import csv
import io
import json
import pathlib
import sqlite3
import statistics
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from with_results import WithResults, record

# By which compare-llama-bench.py pairs the rows of two commits; it refuses lines that lack one.
KEYS = """cpu_info gpu_info backends n_gpu_layers tensor_buft_overrides model_filename model_type n_batch n_ubatch
embeddings cpu_mask cpu_strict poll n_threads type_k type_v use_mmap no_kv_offload split_mode main_gpu tensor_split
flash_attn n_prompt n_gen n_depth"""
OTHERS = "build_commit build_number model_size model_n_params no_op_offload test_time"
RESULTS_FOLDER = pathlib.Path(__file__).resolve().parents[2] / "results"
RESULTS = "avg_ns stddev_ns avg_ts stddev_ts"


def table(**more):
    """A table of two rows; more: of the sparse row's record of its token."""
    sizes = [record(row, 1e6, "parameters") for row in ("baseline", "n64")]
    times = [record("baseline", 10.0), record("n64", 4.0, **more)]
    return [*sizes, *times]


def samples(times, rejected=()):
    """Of a closing record."""
    columns = ["round", "at_s", "kept", "token_ms", "state_read_gbps"]
    rows = [[n, n, 1, t, 50] for n, t in enumerate(times)]
    rows += [[len(rows) + n, 0, 0, t, 50] for n, t in enumerate(rejected)]
    return {"group": "g", "columns": columns, "rows": rows}


class FiguresTest(WithResults):
    tool = "figures.py"
    name = "Table 2: feed-forward sparsity / One token, all threads (2)"

    def printed(self, *arguments):
        done = self.run_tool(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def lines(self, *arguments):
        return [json.loads(line) for line in self.printed(*arguments).splitlines()]

    def test_numbers_have_columns_of_their_own(self):
        self.folder("a", None, table(status="untrusted"))
        self.assertIn(self.name, self.printed("a", "--list").splitlines())
        dense, sparse = self.lines("a", "--table", self.name, "--output", "jsonl")
        self.assertEqual(
            (dense["table"], dense["row"], dense["ours, ms"]), (self.name, "baseline", 10)
        )
        self.assertEqual((sparse["ours, ms"], sparse["ours, ms status"]), (4, "untrusted"))
        self.assertAlmostEqual(sparse["speed-up ours"], 2.5)
        self.assertLess(sparse["ours, ms low"], 4)
        self.assertGreater(sparse["ours, ms high"], 4)
        self.assertEqual(dense["paper, ms"], 160)
        self.assertIsNone(sparse["efficiency"])
        text = self.printed("a", "--table", self.name, "--output", "csv")
        rows = list(csv.DictReader(io.StringIO(text)))
        self.assertEqual([row["row"] for row in rows], ["baseline", "n64"])
        self.assertEqual(set(rows[0]), set(dense) - {"table"})
        self.assertEqual((rows[1]["ours, ms"], rows[1]["efficiency"]), ("4.0", ""))

    def test_markdown_is_the_reports_with_the_notes_that_it_calls(self):
        self.folder("a", None, table(status="untrusted"))
        text = self.printed("a", "--table", self.name)
        self.assertTrue(text.startswith(f"**{self.name}**\n\n| row | paper, ms | ours, ms |"), text)
        self.assertIn("| `n64` |", text)
        self.assertIn("\n[1] ", text)
        self.assertIn("Untrusted: faster than", text)
        self.folder("b", None, table())
        self.assertNotIn("Untrusted", self.printed("b", "--table", self.name))

    def test_a_part_of_a_name_or_a_pattern_is_enough(self):
        self.folder("a", None, table())
        for name in (self.name.upper(), "sparsity / one token", "table 2*one token, all"):
            self.assertIn(f"**{self.name}**", self.printed("a", "--table", name))
        found = {row["table"] for row in self.lines("a", "--table", "table 2", "--output", "jsonl")}
        self.assertGreater(len(found), 1)

    def test_columns_of_one_name_are_counted(self):
        self.folder("a", None, [record("dense.bf16", 9.0, experiment="table6_17b_bf16")])
        found = self.lines("a", "--table", "side by side", "--output", "jsonl")
        self.assertLessEqual({"ours", "ours (2)", "speed-up", "speed-up (4)"}, set(found[0]))

    def test_every_published_table_has_as_many_cells_as_columns(self):
        folders = [path.parent for path in RESULTS_FOLDER.glob("published/**/summary.json")]
        self.assertGreater(len(folders), 1)
        for folder in (*folders, *RESULTS_FOLDER.glob("archive/*/")):
            names = self.printed(folder, "--list").splitlines()
            self.assertEqual(len(names), len(set(names)))
            self.assertGreater(len(names), 20)
            for row in self.lines(folder, "--table", "*", "--output", "jsonl"):
                self.assertIn(row["table"], names)

    def test_decodes_are_read_as_llama_bench_s(self):
        times = [4.0, 4.2, 4.4]
        config = {"batch": 2, "context": 128, "kernels": "simd", "weight_type": "bf16"}
        self.folder("a", None, table(samples=samples(times, rejected=[99.0]), config=config))
        self.folder(
            "b", None, [r | {"commit": "c2", "value": r["value"] / 2} for r in table(config=config)]
        )
        read = [row for name in "ab" for row in self.lines(name, "--output", "llama-bench")]
        sparse = read[1]
        self.assertEqual(sparse["samples_ns"], [4000000, 4200000, 4400000])
        self.assertEqual(sparse["avg_ns"], 4200000)
        self.assertEqual(sparse["stddev_ns"], 200000)
        self.assertAlmostEqual(sparse["avg_ts"], statistics.fmean(2000 / t for t in times))
        self.assertEqual((sparse["n_gen"], sparse["n_depth"], sparse["n_batch"]), (1, 128, 2))
        self.assertEqual((sparse["model_n_params"], sparse["model_size"]), (1000000, 2000000))
        self.assertEqual((read[3]["samples_ns"], read[3]["avg_ns"]), ([], 2000000))
        self.assertAlmostEqual(read[3]["stddev_ns"], 0.04e6 / 0.6745, delta=1)
        # What that script does: all into a table, rows of two commits joined by its keys.
        names = f"{KEYS} {OTHERS} {RESULTS}".split()
        database = sqlite3.connect(":memory:")
        database.execute(f"CREATE TABLE llama_bench ({', '.join(names)})")
        for row in read:
            self.assertLessEqual(set(names), set(row))
            values = [row[name] for name in names]
            database.execute(
                f"INSERT INTO llama_bench VALUES ({', '.join('?' * len(names))})", values
            )
        equal = " AND ".join(f"one.{key} = other.{key}" for key in KEYS.split())
        joined = database.execute(
            "SELECT one.model_type, other.avg_ts / one.avg_ts FROM llama_bench one JOIN llama_bench other "
            f"ON {equal} WHERE one.build_commit = 'c1' AND other.build_commit = 'c2' ORDER BY 1"
        ).fetchall()
        self.assertEqual([name for name, _ in joined], ["table2 baseline", "table2 n64"])
        self.assertAlmostEqual(joined[0][1], 2)

    def test_mistakes_name_value_reason_and_remedy(self):
        self.folder("a", None, table())
        self.folder("empty")
        self.folder("sizes", None, [record("n64", 1e6, "parameters")])
        for words, arguments in (
            (("'nobody' is not a folder",), ("nobody", "--list")),
            (("'empty' holds no records", "run_all.sh"), ("empty", "--list")),
            (("--table NAME", "--list"), ("a",)),
            (("--table 'wings' is no table of 'a'", "--list"), ("a", "--table", "wings")),
            (
                ("--table 'table 2' fits", "CSV holds one", self.name, "jsonl"),
                ("a", "--table", "table 2", "--output", "csv"),
            ),
            (("--table 'x'", "drop it"), ("a", "--table", "x", "--output", "llama-bench")),
            (("'sizes' holds no decodes", "decode_time"), ("sizes", "--output", "llama-bench")),
        ):
            self.refused(words, *arguments)


if __name__ == "__main__":
    unittest.main()
