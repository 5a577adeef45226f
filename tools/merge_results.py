#!/usr/bin/env python3
"""Merges folders of results: merge_results.py INTO FROM [FROM ...]

Records that INTO lacks are appended to its files, the oldest first, so that the newest of a point
stays the last; curves that it lacks are copied. A conflict is a curve's file that differs, or one
date at which one point has two values; it is named, nothing of that file is merged, and the status
is 1.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys

POINT = ("experiment", "row", "against", "threads", "metric", "seed", "key", "date")


def records_in(path):
    """[(line, record)]; the last line may lack its end, as after a kill, and is left out then."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found = []
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if not line.endswith("\n"):
            break
        try:
            found.append((line, json.loads(line)))
        except ValueError as error:
            raise SystemExit(f"{path}:{number} is no record ({error}); mend or move it") from error
    return found


def point_of(record):
    """What can be measured once at one time; evaluations of a curve differ in their step."""
    return (*(record.get(name) for name in POINT), (record.get("config") or {}).get("step"))


def merge_records(into, source):
    """Appends to `into` what it lacks; returns conflicts."""
    known = records_in(into)
    lines = {line for line, _ in known}
    values = {point_of(record): record.get("value") for _, record in known}
    new, conflicts = [], []
    for line, record in records_in(source):
        if line in lines:
            continue
        point = point_of(record)
        if values.setdefault(point, record.get("value")) != record.get("value"):
            conflicts.append(
                f"{source}: {record['row']}, {record['threads']} threads, {record['metric']} of "
                f"{record['date']} is {record['value']} there and {values[point]} in {into}"
            )
        new.append((line, record))
    if conflicts or not new:
        return conflicts
    merged = sorted(known + new, key=lambda item: item[1].get("date", ""))
    partial = into.with_suffix(".partial")
    partial.write_text("".join(line for line, _ in merged), encoding="utf-8")
    os.replace(partial, into)
    return []


def merge_curve(into, source):
    if not into.exists():
        into.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, into)
        return []
    if into.read_bytes() == source.read_bytes():
        return []
    return [f"{source}: another curve than {into}"]


def merge(into, sources):
    """Conflicts, as sentences."""
    conflicts = []
    for source in sources:
        if not source.is_dir():
            raise SystemExit(f"'{source}' is no folder")
        into.mkdir(parents=True, exist_ok=True)
        for path in sorted(source.glob("*.jsonl")):
            conflicts += merge_records(into / path.name, path)
        for path in sorted(source.glob("curves/*/*.csv")):
            conflicts += merge_curve(into / path.relative_to(source), path)
    return conflicts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("into", type=pathlib.Path)
    parser.add_argument("sources", type=pathlib.Path, nargs="+", metavar="from")
    arguments = parser.parse_args()
    conflicts = merge(arguments.into, arguments.sources)
    for conflict in conflicts:
        print(f"conflict: {conflict}", file=sys.stderr)
    return 1 if conflicts else 0


if __name__ == "__main__":
    sys.exit(main())
