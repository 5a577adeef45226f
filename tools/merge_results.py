#!/usr/bin/env python3
"""Merges folders of results: merge_results.py INTO FROM [FROM ...]

Records that INTO lacks are appended to its files, the oldest of a file first, under the lock that
programs take to append theirs; no whole line is rewritten, and readers take the newest of a point by
its date. A last line without its end, as a kill leaves it, is cut off a file of INTO and left out of
one of FROM, and standard error says so. Curves and traces that INTO lacks are copied. A conflict is one of
their files that differs, or one date at which one point has one value here and another there; it is named,
nothing of that file is merged, and the status is 1.
"""

import argparse
import json
import pathlib
import shutil
import sys

from record_lines import append, locked, say_cut, whole_lines

POINT = ("experiment", "row", "against", "threads", "metric", "seed", "key", "date")


def records_of(text, path):
    """[(line, record)] of its whole lines, and the beginning of a record behind them, or b""."""
    lines, rest = whole_lines(text)
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append((line + b"\n", json.loads(line)))
        except ValueError as error:
            raise SystemExit(f"{path}:{number} is no record ({error}); mend or move it") from error
    return found, rest


def point_of(record):
    """What can be measured once at one time; evaluations of a curve differ in their step."""
    return (*(record.get(name) for name in POINT), (record.get("config") or {}).get("step"))


def merge_records(into, source):
    """Appends to `into` what it lacks; returns conflicts."""
    offered, rest = records_of(source.read_bytes(), source)
    if rest:
        say_cut(source, "left out")
    if not offered:
        return []
    with locked(into) as file:
        file.seek(0)
        text = file.read()
        known, rest = records_of(text, into)
        new, conflicts = lacking(known, offered, into, source)
        if conflicts or not new:
            return conflicts
        if rest:
            say_cut(into, "dropped")
        end = len(text) - len(rest)
        file.truncate(end)
        append(file, end, b"".join(line for line, _ in new))
    return []


def values_of(records):
    """{point: the values it has there}."""
    values = {}
    for _, record in records:
        values.setdefault(point_of(record), set()).add(record.get("value"))
    return values


def lacking(known, offered, into, source):
    """([(line, record)] of what is offered and not known, the oldest first; conflicts)."""
    lines = {line for line, _ in known}
    ours, theirs = values_of(known), values_of(offered)
    new, conflicts = [], []
    for line, record in offered:
        if line in lines:
            continue
        point = point_of(record)
        here, there = ours.get(point, set()), theirs[point]
        # Sweeps write several numbers of a name within a second: those are told apart by their lines alone.
        if len(here) == len(there) == 1 and here != there:
            conflicts.append(
                f"{source}: {record['row']}, {record['threads']} threads, {record['metric']} of "
                f"{record['date']} is {record['value']} there and {min(here)} in {into}"
            )
        new.append((line, record))
    return sorted(new, key=lambda item: item[1].get("date", "")), conflicts


def merge_file(into, source):
    """Copies what `into` lacks, under its name only when it is whole; returns conflicts."""
    if not into.exists():
        into.parent.mkdir(parents=True, exist_ok=True)
        partial = into.with_name(f"{into.name}.partial")
        shutil.copyfile(source, partial)
        partial.replace(into)
        return []
    if into.read_bytes() == source.read_bytes():
        return []
    return [f"{source}: another file than {into}"]


# Beside the records: curves, what trained models chose, graphs of attentions, recall of every sequence.
FILES = ("curves/*/*.csv", "traces/*/*.npy", "patterns/*/*.npy", "sparsefinder/*.npy")


def merge(into, sources):
    """Conflicts, as sentences."""
    conflicts = []
    for source in sources:
        if not source.is_dir():
            raise SystemExit(f"'{source}' is no folder")
        into.mkdir(parents=True, exist_ok=True)
        for path in sorted(source.glob("*.jsonl")):
            conflicts += merge_records(into / path.name, path)
        for path in sorted(path for files in FILES for path in source.glob(files)):
            conflicts += merge_file(into / path.relative_to(source), path)
    return conflicts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("into", type=pathlib.Path)
    parser.add_argument("sources", type=pathlib.Path, nargs="+", metavar="from")
    arguments = parser.parse_args()
    for source in arguments.sources:
        if source.resolve() == arguments.into.resolve():
            parser.error(f"{source} is merged into itself; name another folder to take from")
    try:
        conflicts = merge(arguments.into, arguments.sources)
    except OSError as error:
        sys.exit(f"merge_results.py: {error.filename or arguments.into}: {error.strerror}")
    for conflict in conflicts:
        print(f"conflict: {conflict}", file=sys.stderr)
    return 1 if conflicts else 0


if __name__ == "__main__":
    sys.exit(main())
