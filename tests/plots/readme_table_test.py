"""Tests of which machine's headline README.md shows."""

import json
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import headline  # noqa: E402
import readme_table  # noqa: E402
import values  # noqa: E402
from with_folder import WithFolder  # noqa: E402

IDS = sorted(
    f"{row.prefix}.{row.row}.token_speedup"
    for row in headline.ROWS
    if not row.is_dense and not row.is_dot
)


def entry(value=1.0, status="ok", whose=None):
    ends = {"value": value, "low": 0.98 * value, "high": 1.02 * value}
    about = {"unit": "x", "state": "only", "sittings": 3, "status": status, "commit": "c1"}
    return ends | about | ({"whose": whose} if whose else {})


class WhoseHeadline(WithFolder):
    def add(self, machine, sitting, statuses, kind="headline"):
        """A machine whose speed-ups have these statuses."""
        folder = self.folder / machine / "sittings" / sitting
        folder.mkdir(parents=True)
        (folder / "sitting.json").write_text(json.dumps({"kind": kind}))
        summary = {name: entry(status=status) for name, status in zip(IDS, statuses)}
        summary["ceilings.fma"] = entry()
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
        self.assertIn("over ours: none trusted; the faster divides", text)
        for number in ("4.57", "4.48", "1.23", "nan"):
            self.assertNotIn(number, text)

    def test_how_many_of_its_speed_ups_may_be_quoted_is_a_figure(self):
        def value(status):
            return values.Value(3.0, "x", 2.9, 3.1, status, "abc", "slow", 3)

        found = {
            "table1.800m.ff.token_speedup": value("ok"),
            "table1.800m.ff.block_speedup": value("untrusted"),
            "table1.17b.ff_qkv_cross.token_speedup": value("extrapolated"),
            "table1.800m.qkv.token_speedup": value("untrusted"),  # no row of the headline
        }
        (share,) = headline.trusted(found).values()
        self.assertAlmostEqual(share.value, 2 / 3)
        self.assertEqual((share.status, share.state, share.sittings), ("ok", "slow", 3))
        self.assertEqual(headline.trusted({}), {})

    def test_a_library_that_is_faster_is_named_though_untrusted(self):
        text = readme_table.table(
            {
                "table1.800m.ff_qkv.token_ms": entry(11.7),
                "peers.800m.fastest.over_ours": entry(0.955, "untrusted", "mkl"),
            },
            "report.md",
        )
        self.assertIn("over ours: 800M f32 0.955× (MKL)†; the faster divides", text)

    def test_states_and_one_thread_are_rooms_of_their_own(self):
        self.add("b", "2026-01-02", ["ok", "untrusted"])
        self.add("a", "2026-01-01", ["ok", "untrusted"])
        one = "threads1." + IDS[0]
        for more, shown in (
            # A second state without figures halves what may be quoted, and so do figures of one thread that may not.
            ({"memory.read_gbps": entry(), "memory.read_gbps@slow": entry()}, "a"),
            ({one: entry(status="untrusted")}, "a"),
            ({one: entry(), "threads1." + IDS[1]: entry()}, "b"),
        ):
            both = {IDS[0]: entry(), IDS[1]: entry(status="untrusted")} | more
            (self.folder / "b" / "summary.json").write_text(json.dumps(both))
            self.assertEqual(self.shown(), shown, more)

    def test_what_is_not_shown_or_not_ok_does_not_count(self):
        def add(machine, sitting, found):
            self.add(machine, sitting, [])
            (self.folder / machine / "summary.json").write_text(json.dumps(found))

        add("b", "2026-01-02", {IDS[0]: entry(), IDS[1]: entry()})
        one = {IDS[0]: entry()}
        for row in headline.ROWS:
            if row.is_dense or row.is_dot:
                one |= {
                    f"{row.prefix}.{row.row}.{kind}_speedup": entry() for kind in ("token", "block")
                }
        add("a", "2026-01-03", one | {IDS[1]: entry(status="scaled_down")})
        self.assertEqual(self.shown(), "b")
        blocks = {name.replace("token", "block"): entry() for name in IDS[:2]}
        add("a", "2026-01-01", one | blocks)
        self.assertEqual(self.shown(), "a")

    def test_figures_of_fewer_sittings_and_their_commits_are_named(self):
        row = "table1.800m.ff_qkv"
        fewer = entry() | {"sittings": 1, "commit": "c1+c2"}
        summary = {
            f"{row}.token_ms": entry(),
            f"threads1.{row}.token_ms": entry(),
            f"threads1.{row}.token_speedup": fewer,
        }
        text = readme_table.table(summary, "report.md")
        self.assertIn("1× [0.98–1.02]¹", text)
        self.assertIn(
            "Of 3 sittings; ¹ of 1: the library that divides was measured in no more.", text
        )
        self.assertIn("Commit c1, c2, threads: all, one; ", text)
        del summary[f"threads1.{row}.token_ms"], summary[f"threads1.{row}.token_speedup"]
        self.assertIn("Commit c1, all threads; ", readme_table.table(summary, "report.md"))

    def test_libraries_are_named_for_either_number_of_threads(self):
        name = "peers.800m.fastest.over_ours"
        summary = {
            "table1.800m.ff_qkv.token_ms": entry(),
            name: entry(0.99, whose="eigen"),
            f"threads1.{name}": entry(0.97, whose="mkl"),
        }
        text = readme_table.table(summary, "report.md")
        self.assertIn("ours: 800M f32 0.99× (Eigen); the faster", text)
        summary["threads1.table1.800m.ff_qkv.token_ms"] = entry()
        text = readme_table.table(summary, "report.md")
        self.assertIn(
            "ours, all threads: 800M f32 0.99× (Eigen); by one: 800M f32 0.97× (MKL); the faster",
            text,
        )

    def test_one_thread_stands_beside_all_where_memory_has_one_state(self):
        row = "table1.800m.ff_qkv"
        summary = {
            f"{of}{row}.token_{what}": entry(value)
            for of, value in (("", 3.0), ("threads1.", 2.0))
            for what in ("ms", "speedup")
        }
        text = readme_table.table(summary, "report.md")
        self.assertIn("| token speed-up, all | token speed-up, one |", text)
        self.assertIn("| 3 | 2 | 3× [2.94–3.06] | 2× [1.96–2.04] | 2.62× |", text)
        slow = {"memory.read_gbps": entry(50.0), "memory.read_gbps@slow": entry(40.0)}
        self.assertNotIn("up, one |", readme_table.table(summary | slow, "report.md"))


if __name__ == "__main__":
    unittest.main()
