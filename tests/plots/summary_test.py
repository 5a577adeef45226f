"""Ids of summary.json, and the paper's numbers beside ours."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import paper  # noqa: E402
import summarise  # noqa: E402
from made_up import STACKS, TABLE1, TABLE6, record, row  # noqa: E402
from with_folder import WithFolder  # noqa: E402


class SummaryTest(WithFolder):
    def test_ids_values_and_one_thread_prefix(self):
        one = row("table1_800m", "baseline", 80.0, 8.0, 100, 7.0, threads=1)
        found = summarise.summary(self.load(TABLE1 + one))
        self.assertEqual(
            found["table1.800m.ff_qkv.block_speedup"],
            {
                "value": 5.0,
                "low": 5.0,
                "high": 5.0,
                "unit": "x",
                "state": "",
                "sittings": 1,
                "status": "ok",
                "commit": "c1",
            },
        )
        self.assertEqual(found["threads1.table1.800m.baseline.block_ms"]["value"], 8)
        self.assertNotIn("threads1.table1.800m.ff_qkv.block_ms", found)

    def test_bf16_rows_join_their_table(self):
        items = row("table1_17b_bf16", "baseline.bf16", 300.0, 50.0, 100, 40, against="")
        self.assertIn("table1.17b.baseline.bf16.block_ms", summarise.summary(self.load(items)))

    def test_terraformer_ids(self):
        items = (
            TABLE6
            + row("table6_17b_bf16", "dense.bf16", 300.0, 50.0, 100, 40, against="dense.bf16")
            + row("table8", "transformer", 40.0, 4.0, 100, 3.6, against="transformer")
            + row("table8", "terraformer", 5.0, 0.4, 10, 0.3, against="transformer")
            + STACKS
        )
        found = summarise.summary(self.load(items))
        for name, value in (
            ("table6.ff_qkv_loss4.token_speedup", 20),
            ("table6.dense.bf16.token_ms", 300),
            ("table8.terraformer.token_speedup", 8),
            ("reversible.plain_activation_growth", 12),
        ):
            self.assertAlmostEqual(found[name]["value"], value, msg=name)
        self.assertNotIn("threads1.reversible.step_cost", found)

    def test_peer_ids(self):
        items = [
            record("peers_17b", "baseline", "block_ms", 100.0),
            record("peers_17b", "openblas", "block_ms", 110.0),
            record("peers_python", "17b.jax.ff_qkv_cross", "block_ms", 9.0),
            record("peers_python", "17b.pytorch.ff_qkv_cross", "block_ms", 19.0),
            record("peers_python", "17b.jax", "block_ms", 120.0),
        ]
        found = summarise.summary(self.load(items))
        self.assertEqual(
            {k for k in found if k.startswith("peers")},
            {
                "peers.17b.ours.block_ms",
                "peers.17b.openblas.block_ms",
                "peers.17b.openblas.over_ours",
                "peers.17b.fastest.over_ours",
                "peers.17b.jax.over_ours",
                "peers.17b.jax.block_ms",
                "peers.17b.jax.ff_qkv_cross.block_ms",
                "peers.17b.pytorch.ff_qkv_cross.block_ms",
            },
        )
        self.assertEqual(found["peers.17b.fastest.over_ours"]["whose"], "openblas")
        self.assertAlmostEqual(found["peers.17b.fastest.over_ours"]["value"], 1.1)

    def test_dirty_commits_show(self):
        found = summarise.summary(self.load([dict(r, dirty=True) for r in TABLE1]))
        self.assertEqual(found["table1.800m.baseline.block_ms"]["commit"], "c1-dirty")


class PaperTest(unittest.TestCase):
    def test_rows_find_their_published_numbers(self):
        self.assertEqual(paper.published("table1_800m", "ff_qkv").block_speedup, 3.05)
        self.assertEqual(paper.published("table1_17b_bf16", "ff_qkv_cross.bf16").token_ms, 183)
        self.assertIsNone(paper.published("table1_17b", "ff_qkv"))
        self.assertIsNone(paper.published("table1_17b", "ff_qkv_cross_loss4"))
        self.assertAlmostEqual(paper.published("table6_17b_bf16", "ff_qkv_loss4.bf16").token_ms, 97)
        self.assertAlmostEqual(paper.published("table6_17b", "ff_qkv_loss4").token_speedup, 37.64)
        self.assertIn("Transformer", paper.published("table6_17b", "ff").note)
        self.assertAlmostEqual(paper.published("table8", "sparse_transformer").token_ms, 61)
        self.assertAlmostEqual(paper.published("table8", "terraformer").token_speedup, 1.92)
        self.assertIsNone(paper.published("table8", "sparse_transformer_loss4"))
        self.assertAlmostEqual(paper.published("table2", "n128").token_speedup, 160 / 89)
        self.assertAlmostEqual(paper.published("table2", "moe64").token_ms, 110)
        self.assertAlmostEqual(paper.published("table7", "s8").token_ms, 148)
        self.assertIsNone(paper.published("table2", "n8"))


if __name__ == "__main__":
    unittest.main()
