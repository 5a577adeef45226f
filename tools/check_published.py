#!/usr/bin/env python3
"""Checks that a folder of published sittings can be believed: tools/check_published.py FOLDER [--least N].

  sittings   at least N (3) headline sittings, each complete, of one machine, at one commit, none of an edited tree; behind
             every time of the headline so many. A folder of other kinds alone has no headline, and needs none
  threads    in the middle decode of a row some task waited for a processor in no more than a tenth of the time
  records    every time, floor and efficiency of a decode is the median of its decodes, with their quartiles, and a peer's
             of its batches
  summary    every time of summary.json is the median, over sittings with enough decodes in its state, of their medians,
             within its interval; and summary.json is what plots/summarise.py makes of these records today

Prints each finding and ends with 1 if there is any.
"""

import argparse
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "plots"))
import evidence
import headline
import records as rec
import states
import summarise
from sections import peers, tables

CLOSE = 1e-4  # the decodes are recorded to six digits
MOST_WAITING = 0.1  # two threads bound to one processor, or someone else's work: no decode of ours
SUFFIX = {"fast": "", "only": "", "slow": "@slow"}


def differ(one, other):
    return abs(one - other) > CLOSE * max(abs(one), abs(other), 1e-12)


def quartiles(values):
    ordered = sorted(values)

    def at(share):
        place = share * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (place - below) * (ordered[above] - ordered[below])

    return at(0.25), at(0.5), at(0.75)


def of_sittings(folder, least):
    """Findings on the sittings as wholes."""
    records = rec.Records(folder)
    headline = [s for s in records.sittings if s.kind == "headline"]
    found = list(records.damaged)
    begun = {json.loads(p.read_text())["kind"] for p in folder.glob("sittings/*/sitting.json")}
    if len(headline) < least and "headline" in begun:
        found.append(f"{len(headline)} complete headline sittings, {least} are wanted")
    for sitting in records.sittings:
        for path in sorted((folder / "sittings" / sitting.name).glob("*.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                where = f"{sitting.name}/{path.name}, {record['row']}, {record['metric']}"
                if record.get("dirty"):
                    found.append(f"{where}: of an edited tree")
                if not str(sitting.commit).startswith(record["commit"]):
                    found.append(f"{where}: commit {record['commit']}, not {sitting.commit}")
    return sorted(set(found))


def of_headline(summary, least):
    """Findings on what is quoted and stands on fewer sittings, those of a machine's states taken together: none is sure to
    meet both, and the table marks what stands on fewer than others."""
    sittings, quoted = {}, headline.quoted("ms")
    for name, entry in summary.items():
        row = name.removesuffix(headline.SLOW)
        if row in quoted:
            sittings[row] = sittings.get(row, 0) + entry["sittings"]
    return [
        f"{row}: of {count} sittings, {least} are wanted"
        for row, count in sittings.items()
        if count < least
    ]


def of_threads(records):
    """Findings on rows whose threads lacked processors."""
    found = []
    for experiment, row, threads in records.places():
        for closing in states.closings(records, experiment, row, threads):
            shares = [
                share
                for decode in evidence.decodes_of(closing)
                if (share := decode.values.get("pressure")) is not None
            ]
            if shares and statistics.median(shares) > MOST_WAITING:
                found.append(
                    f"{closing['sitting']}/{experiment}, {row}, {threads} threads: tasks waited for a "
                    f"processor in {statistics.median(shares):.0%} of the time"
                )
    return found


def middle(lines, column):
    return statistics.median(line.values[column] for line in lines)


def of_records(records):
    """Findings on the medians and quartiles of every decode's record."""
    found = []
    for experiment, row, threads in records.places():
        for closing in states.closings(records, experiment, row, threads):
            kept = evidence.by_round(d for d in evidence.decodes_of(closing) if d.values["kept"])
            for metric in (*states.COLUMNS, *states.EFFICIENCIES):
                over, under = states.EFFICIENCIES.get(metric, (metric, None))
                values = [
                    middle(each, over) / (middle(each, under) if under else 1)
                    for each in kept.values()
                    if over in each[0].values
                ]
                record = next(
                    (
                        r
                        for r in records.sittings_of(experiment, row, threads, metric)
                        if r["sitting"] == closing["sitting"]
                    ),
                    None,
                )
                if not values or record is None:
                    continue
                recorded = (record["low"], record["value"], record["high"])
                if any(map(differ, quartiles(values), recorded)):
                    found.append(
                        f"{closing['sitting']}/{experiment}, {row}, {threads} threads, {metric}: "
                        f"recorded {recorded}, its decodes give {quartiles(values)}"
                    )
    return found


def medians(records, experiment, row, threads, column, in_state):
    """Of each sitting with enough kept decodes in a state, of all if none has; in_state(decode) says yes or no."""
    each = [
        values
        for closing in states.closings(records, experiment, row, threads)
        if (
            values := [
                d.values[column]
                for d in evidence.decodes_of(closing)
                if d.values["kept"] and d.read and in_state(d)
            ]
        )
    ]
    long = [values for values in each if len(values) >= states.FEWEST]
    return [statistics.median(values) for values in long or each]


def of_time(name, found, entry):
    """[finding] on an id of summary.json, or none, and the medians of its sittings."""
    if bool(found) != bool(entry):
        return [f"{name}: in one of summary.json and the decodes alone"]
    if not entry:
        return []
    middle = statistics.median(found)
    holds = (
        not differ(middle, entry["value"])
        and entry["low"] <= entry["value"] <= entry["high"]
        and entry["sittings"] == len(found)
    )
    return [] if holds else [f"{name}: {entry}, its decodes give {middle}"]


def times_of(records, threads, machine):
    """{id without prefix: medians of sittings} of every time that decodes stand behind."""
    found = {}
    for state in machine.centres:

        def in_state(decode, state=state):
            return machine.of(decode) == state

        for about in records.of(tables.decode.is_table):
            for row in records.rows(about.name):
                for kind in states.KINDS:
                    found[f"{about.id}.{row}.{kind}_ms{SUFFIX[state]}"] = medians(
                        records, about.name, row, threads, f"{kind}_ms", in_state
                    )
        for shape in peers.SHAPES:
            for kind in peers.TYPES:
                each = {}  # the faster way of a library is its own
                for library, record in tables.decode.peer_rows(
                    records, shape, kind, threads, "block_ms"
                ):
                    at = (record["experiment"], record["row"], threads)
                    if any(map(evidence.has_reads, states.closings(records, *at))):
                        times = medians(records, *at, "block_ms", in_state)
                        each.setdefault(library, []).append(times)
                for library, times in each.items():
                    name = f"peers.{shape}.{library}{peers.suffix_of(kind)}.block_ms{SUFFIX[state]}"
                    known = filter(None, times)
                    found[name] = min(known, key=statistics.median, default=[])
    return found


def of_summary(records, summary):
    """Findings on the times of summary.json, made again here from the decodes alone; how many they are."""
    found, checked = [], 0
    for threads, prefix in ((records.all_threads(), ""), (1, "threads1.")):
        machine = states.of_machine(records, threads)
        if machine is None:
            continue
        for name, times in times_of(records, threads, machine).items():
            entry = summary.get(prefix + name)
            checked += bool(times and entry)
            found += of_time(prefix + name, times, entry)
    if json.loads(json.dumps(summarise.summary(records))) != summary:
        found.append("summary.json is not what plots/summarise.py makes of these records")
    return found, checked


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--least", type=int, default=3, metavar="N", help="headline sittings (3)")
    arguments = parser.parse_args()
    path = arguments.folder / "summary.json"
    if not path.is_file():
        sys.exit(f"{path} does not exist; ./run_all.sh --publish makes it")
    records = rec.Records(arguments.folder)
    summary = json.loads(path.read_text(encoding="utf-8"))
    on_summary, checked = of_summary(records, summary)
    found = (
        of_sittings(arguments.folder, arguments.least)
        + of_headline(summary, arguments.least)
        + of_threads(records)
        + of_records(records)
        + on_summary
    )
    for finding in found:
        print(finding)
    print(
        f"{len(records.sittings)} sittings, {len(records.places())} rows, {checked} times of the summary: "
        + (f"{len(found)} findings" if found else "nothing found")
    )
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
