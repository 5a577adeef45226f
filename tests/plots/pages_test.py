"""Tests of what the report says of a machine's pages: by two loads, on the first screen, and in summary.json."""

import json
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "plots")]

import first_screen  # noqa: E402
import records as rec  # noqa: E402
import report as report_cells  # noqa: E402
import states  # noqa: E402
import summarise  # noqa: E402
from made_up import record  # noqa: E402
from sections import machine  # noqa: E402
from with_folder import WithFolder  # noqa: E402


def loads(beside, apart):
    """By one thread, whatever the others are measured by."""
    return [
        record("ceilings", "load", "load_ns", beside, threads=1, unit="ns", study="ceilings"),
        record("ceilings", "load_apart", "load_ns", apart, threads=1, unit="ns", study="ceilings"),
        record("ceilings", "fma", "fma_gflops", 300.0, threads=2, study="ceilings"),
    ]


class Pages(WithFolder):
    def first_screen(self, *times):
        report = report_cells.Report(self.load(loads(*times)))
        first_screen.write(report)
        return report.text()

    def test_small_pages_underneath_stand_on_the_first_screen(self):
        self.assertIn(
            "**small underneath what the system calls huge**", self.first_screen(4.3, 12.8)
        )
        self.assertIn("takes 12.8 ns, one beside 4.30 ns", self.first_screen(4.3, 12.8))
        self.assertIn("| its pages | huge (a load", self.first_screen(4.3, 5.0))

    def test_sittings_may_have_either(self):
        for number, apart in enumerate((5.0, 5.1, 12.8), start=1):
            name = f"2026-01-0{number}T0000Z"
            folder = self.folder / "sittings" / name
            folder.mkdir(parents=True)
            about = {
                "kind": "headline",
                "commit": "c",
                "machine": "m",
                "minutes": 9,
                "complete": True,
            }
            (folder / "sitting.json").write_text(json.dumps(about))
            lines = [json.dumps(one | {"sitting": name}) for one in loads(4.3, apart)]
            (folder / "ceilings.jsonl").write_text("\n".join(lines) + "\n")
        said = machine.pages(rec.Records(self.folder))
        self.assertIn(
            "small underneath in some sittings (a load in another 4 KiB takes up to 12.8 ns", said
        )

    def test_nothing_is_said_where_loads_were_not_measured(self):
        records = self.load(loads(4.3, 12.8)[1:])
        self.assertEqual(machine.pages(records), "")
        report = report_cells.Report(records)
        first_screen.write(report)
        self.assertNotIn("its pages", report.text())

    def test_loads_from_weights_tell_whether_pages_changed_between_decodes(self):
        def decodes(row, *times):
            columns = ["round", "at_s", "kept", "state_read_gbps", "load_apart_ns", *states.COLUMNS]
            ones = [1.0] * len(states.COLUMNS)
            rows = [[i, float(i), 1, 40.0, ns, *ones] for i, ns in enumerate(times)]
            samples = {"columns": columns, "rows": rows}
            return record("e", row, "token_ms", 1.0, samples=samples)

        records = self.load(
            [decodes("baseline", 5.0, 5.1, 5.2, 14.0), decodes("ff", 5.0, 14.0, 5.3, 14.0)]
        )
        value, changed = machine.of_weights(records)
        self.assertAlmostEqual(value.value, 5.25)  # one long load is a disturbance
        self.assertEqual(changed, ["e, ff"])
        self.assertIn("5.25 ns beside decodes", machine.weights_text(records))
        self.assertIn("pages changed between the decodes of `e, ff`.", self.said(records))
        self.assertEqual(machine.numbers(records, [])["memory.load_apart_in_weights_ns"], value)
        records = self.load([decodes("baseline", 5.0, 5.1, 5.2)])
        self.assertNotIn("changed", self.said(records))

    def said(self, records):
        report = report_cells.Report(records)
        first_screen.write(report)
        return report.text()

    def test_both_loads_have_ids_and_a_line_in_the_table(self):
        records = self.load(loads(4.3, 12.8))
        found = summarise.figures(records)
        self.assertEqual(found["memory.load_ns"].value, 4.3)
        self.assertEqual(found["memory.load_apart_ns"].value, 12.8)
        report = report_cells.Report(records)
        self.assertIn("| `load_apart` | – | 12.8 ns |", machine.ceiling_table(report))


if __name__ == "__main__":
    unittest.main()
