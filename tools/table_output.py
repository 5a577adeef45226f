"""Writes tables as Markdown, CSV or JSON lines.

Markdown shows cells as the report has them. CSV and JSON lines hold what the cells stand for: a cell that shows a Value
(plots/values.py) becomes its number and, under the column's name, " low", " high", " status" and " state" of it.
"""

import csv
import json
import math
import re
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plots"))
from report import header, line
from values import Value

FORMS = ("md", "csv", "jsonl")
PARTS = ("low", "high", "status", "state")  # of a Value, each in a column of its own
MARKUP = re.compile(r"[`*]|\[\d+\]")  # code, bold, marks of notes
GAP = "–"


class Table(NamedTuple):
    """Cells are text, or report.Cell where they show a number."""

    title: str
    columns: list  # names
    rows: list  # of lists of cells, one a column
    notes: dict  # {"[1]": what the mark in a cell means}


def refuse(message):
    """Ends the program: a mistake of the user's. Exit status 2."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)


def markdown(table):
    """[line]: title, table, and the notes that its cells call."""
    rows = [line(*row) for row in table.rows]
    called = [f"{mark} {text}" for mark, text in table.notes.items() if mark in "".join(rows)]
    title = [f"**{table.title}**", ""] if table.title else []
    return [*title, *header(*table.columns), *rows, "", *(n for c in called for n in (c, ""))]


def entries(table):
    """[{column: number, text or None}], the same columns in every row."""
    names = _distinct(
        [name or f"column {n}" for n, name in enumerate(map(plain, table.columns), 1)]
    )
    columns = {}  # of a column, the parts of Values that any of its cells has
    for at, name in enumerate(names):
        values = [v for row in table.rows if isinstance(v := _shown(row[at]), Value)]
        parts = [part for part in PARTS if any(getattr(v, part) != "" for v in values)]
        columns[name] = parts
    found = []
    for row in table.rows:
        entry = {}
        for (name, parts), cell in zip(columns.items(), row, strict=True):
            shown = _shown(cell)
            is_value = isinstance(shown, Value)
            entry[name] = _finite(shown.value if is_value else shown)
            for part in parts:
                entry[f"{name} {part}"] = _finite(getattr(shown, part)) if is_value else None
        found.append(entry)
    return found


def write(tables, form, out=None):
    """Several tables in Markdown or JSON lines, one in CSV; lines of JSON name theirs."""
    out = out or sys.stdout
    if form == "md":
        for table in tables:
            print("\n".join(markdown(table)), file=out)
        return
    for table in tables:
        rows = entries(table)
        if form == "jsonl":
            write_lines(({"table": table.title} | row for row in rows), out)
        elif rows:
            writer = csv.DictWriter(out, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def write_lines(rows, out):
    for row in rows:
        print(json.dumps(row, ensure_ascii=False, allow_nan=False), file=out)


def plain(text):
    """Without Markdown's marks."""
    return MARKUP.sub("", text).strip()


def _shown(cell):
    """A Value, a number, text, or None of a gap."""
    number = getattr(cell, "shows", None)
    if number is not None:
        return number
    text = plain(cell)
    return None if text in ("", GAP) else text


def _finite(value):
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _distinct(names):
    """The second of a name is "name (2)"."""
    return [
        f"{name} ({before + 1})" if (before := names[:at].count(name)) else name
        for at, name in enumerate(names)
    ]
