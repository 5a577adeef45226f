"""Tests of which machine's headline README.md shows."""

import json
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import headline  # noqa: E402
import readme_table  # noqa: E402
from with_folder import WithFolder  # noqa: E402

IDS = sorted(headline.quoted("speedup"))


class WhoseHeadline(WithFolder):
    def add(self, machine, sitting, statuses, kind="headline"):
        """A machine whose speed-ups have these statuses."""
        folder = self.folder / machine / "sittings" / sitting
        folder.mkdir(parents=True)
        (folder / "sitting.json").write_text(json.dumps({"kind": kind}))
        summary = {name: {"status": status} for name, status in zip(IDS, statuses)}
        summary["ceilings.fma"] = {"status": "ok"}
        (self.folder / machine / "summary.json").write_text(json.dumps(summary))

    def shown(self):
        return readme_table.published(self.folder).relative_to(self.folder).name

    def test_the_one_with_the_most_that_may_be_quoted(self):
        self.assertEqual(self.shown(), "")
        self.add("a", "2026-01-01", ["ok", "ok", "untrusted"])
        self.add("b", "2026-01-02", ["ok", "untrusted", "untrusted"])
        self.assertEqual(self.shown(), "a")
        self.add("c", "2026-01-03", ["ok"] * 3, kind="sweeps")
        self.assertEqual(self.shown(), "a")

    def test_of_equals_the_newest(self):
        self.add("b", "2026-01-02", ["untrusted", "ok"])
        self.add("a", "2026-01-01", ["ok", "untrusted"])
        self.assertEqual(self.shown(), "b")

    def test_what_is_untrusted_is_a_mark_without_its_number(self):
        def entry(value, status="ok", whose=None):
            ends = {"value": value, "low": 0.98 * value, "high": 1.02 * value}
            about = {"unit": "x", "state": "only", "sittings": 3, "status": status, "commit": "c1"}
            return ends | about | ({"whose": whose} if whose else {})

        row = "table1.800m.ff_qkv"
        text = readme_table.table(
            {
                f"{row}.token_ms": entry(11.7),
                f"{row}.token_speedup": entry(3.25),
                f"{row}.block_speedup": entry(4.57, "untrusted"),
                "peers.800m.fastest.over_ours": entry(1.23, "untrusted", "eigen"),
            },
            "report.md",
        )
        self.assertIn("| 11.7 | 3.25× [3.19–3.31] | 2.62× | † | 3.05× |", text)
        self.assertIn("800M f32 (Eigen)†", text)
        for number in ("4.57", "4.48", "1.23", "nan"):
            self.assertNotIn(number, text)

    def test_a_state_of_its_own_counts(self):
        self.add("b", "2026-01-02", ["ok"])
        self.add("a", "2026-01-01", ["ok"])
        both = {IDS[0]: {"status": "ok"}, IDS[0] + "@slow": {"status": "ok"}}
        (self.folder / "a" / "summary.json").write_text(json.dumps(both))
        self.assertEqual(self.shown(), "a")


if __name__ == "__main__":
    unittest.main()
