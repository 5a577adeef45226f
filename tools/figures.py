#!/usr/bin/env python3
"""Prints a table of a results folder's report as Markdown, CSV or JSON lines: tools/figures.py FOLDER --table NAME.

  tools/figures.py results/published --list
  tools/figures.py results/published/0f18e153 --table "table 1, 800m / one token, one thread" --output csv
  tools/figures.py results/published --output llama-bench > decodes.jsonl

Tables are those of report.md, made from the records. NAME is a table's name as --list prints it, a part of one or a
pattern (*, ?); case does not count. In CSV and JSON lines a number has columns of its own for the ends of its interval, its
status and the state of memory. llama-bench: every decode of the folder in the columns of llama.cpp's llama-bench, for its
compare-llama-bench.py, which pairs equal rows of two commits (-i FILE -b COMMIT -c COMMIT); it takes no --table.

summary.json holds the same figures by id; tools/compare.py sets those of two folders side by side.
"""

import argparse
import fnmatch
import re
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plots"))
import llama_bench
import make_report
import records as rec
from report import Line
from table_output import FORMS, Table, plain, refuse, write, write_lines

RULE = re.compile(r"\|(:?-+:?\|)+")  # beneath the names of a table's columns
NOTE = re.compile(r"(\d+)\. (.*)", re.DOTALL)
LLAMA_BENCH = "llama-bench"


def cells(text):
    """Of a line of a table."""
    if isinstance(text, Line):
        return list(text.cells)
    return [cell.strip() for cell in text.strip().removeprefix("|").removesuffix("|").split("|")]


def tables(report):
    """[Table] of a whole Report; a name is its headings and its caption, " / " between them."""
    found, headings, caption, notes = [], [], "", {}
    for above, text in zip(["", *report.lines], report.lines):
        if heading := re.match(r"(#+) (.*)", text):
            level = max(1, len(heading[1]) - 1)  # the report's own title counts as a section
            headings, caption = [*headings[: level - 1], plain(heading[2])], ""
        elif text.startswith("**"):
            caption = plain(text)
        elif note := NOTE.match(text):
            notes[f"[{note[1]}]"] = note[2]
        elif RULE.fullmatch(text):
            title = " / ".join([*headings, *filter(None, [caption])])
            notes = {}  # of this table alone
            found.append(Table(title, cells(above), [], notes))
        elif text.startswith("|") and above.startswith("|"):
            found[-1].rows.append(cells(text))
    return _named(found)


def _named(found):
    """Tables of one name are counted."""
    titles = [table.title for table in found]
    return [
        table._replace(title=f"{table.title} / {titles[: at + 1].count(table.title)}")
        if titles.count(table.title) > 1
        else table
        for at, table in enumerate(found)
    ]


def chosen(found, name):
    """Those of a name, part or pattern."""
    wanted = name.casefold()
    exact = [table for table in found if table.title.casefold() == wanted]
    return exact or [t for t in found if fnmatch.fnmatchcase(t.title.casefold(), f"*{wanted}*")]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="records, as results/published")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--table", metavar="NAME", help="which table or tables; CSV takes one")
    what.add_argument("--list", action="store_true", help="print the names of all tables")
    parser.add_argument("--output", choices=(*FORMS, LLAMA_BENCH), default="md", help="form (md)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as by `| head`
    folder, name, form = arguments.folder, arguments.table, arguments.output
    if not folder.is_dir():
        refuse(f"'{folder}' is not a folder; name one of records, as results/published")
    records = rec.Records(folder)
    for message in records.damaged:
        print(f"damaged record left out: {message}", file=sys.stderr)
    if not records.places():
        refuse(f"'{folder}' holds no records (*.jsonl, sittings/*); ./run_all.sh measures some")
    if form == LLAMA_BENCH and not arguments.list:
        if name:
            refuse(
                f"--table '{name}' has no meaning with --output {LLAMA_BENCH}, which prints every decode; drop it"
            )
        rows = llama_bench.rows(records)
        if not rows:
            refuse(
                f"'{folder}' holds no decodes (no record of token_ms); decode_time measures some"
            )
        write_lines(rows, sys.stdout)
        return
    found = tables(make_report.written(records))
    if arguments.list:
        print("\n".join(table.title for table in found))
        return
    if not name:
        refuse("which table is not said; give --table NAME (--list prints the names)")
    wanted = chosen(found, name)
    if not wanted:
        refuse(
            f"--table '{name}' is no table of '{folder}'; --list prints the names of its {len(found)}"
        )
    if form == "csv" and len(wanted) > 1:
        names = "; ".join(f"'{table.title}'" for table in wanted[:3])
        refuse(
            f"--table '{name}' fits {len(wanted)} tables, and CSV holds one; name one of them "
            f"({names}{', ...' if len(wanted) > 3 else ''}) or take --output jsonl"
        )
    write(wanted, form)


if __name__ == "__main__":
    main()
