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

    def test_a_state_of_its_own_counts(self):
        self.add("b", "2026-01-02", ["ok"])
        self.add("a", "2026-01-01", ["ok"])
        both = {IDS[0]: {"status": "ok"}, IDS[0] + "@slow": {"status": "ok"}}
        (self.folder / "a" / "summary.json").write_text(json.dumps(both))
        self.assertEqual(self.shown(), "a")


if __name__ == "__main__":
    unittest.main()
