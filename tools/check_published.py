#!/usr/bin/env python3
"""Checks that a folder of published sittings can be believed: tools/check_published.py FOLDER [--least N].

  sittings   at least N (3) headline sittings, each complete, of one machine, at one commit, none of an edited tree, one after
             another, each with the records of its own time; behind
             every time of the headline so many. A folder of other kinds alone has no headline, and needs none
  threads    in the middle decode of a row some task waited for a processor in no more than a tenth of the time
  records    every time, floor and efficiency of a decode is the median of its decodes, with their quartiles, and a peer's
             of its batches
  summary    every time of summary.json is the median, over sittings, of their medians in its state, within its interval; so
             is every speed-up over our own dense row, of the ratios of rounds that both rows were in (of the sitting's
             medians where they took no turns), and over another dense one that took turns with ours: that by what the other takes of ours. Intervals hold
             about all that resampling a sitting's rounds plainly comes to, where they are many, or every round, where they
             are few; how many were looked at so is said. Limits are ratios of floors at one read rate, within 3 %. And
             summary.json is what plots/summarise.py makes of these
             records today

Prints each finding and ends with 1 if there is any.
"""

import argparse
import json
import math
import pathlib
import random
import statistics
import sys
from datetime import datetime
from typing import NamedTuple

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "plots"))
import evidence
import headline
import records as rec
import states
import summarise
from sections import peers, tables

CLOSE = 1e-4  # the decodes are recorded to six digits
DRAWS = 10 * evidence.RESAMPLES
# By so much of an interval's width and of the figure two ways of cutting and resampling may differ at an end.
LOOSE, ROOM = 0.25, 0.004
LIMIT_ROOM = 0.03  # that phases between memory's bound and arithmetic's leave to a straight line
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
    found += of_times(folder, [s.name for s in records.sittings])
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


def of_times(folder, names):
    """Findings on when sittings were: minutes that do not fit, records of another time, two at once."""
    found, ended_before = [], ""
    for name in names:
        own = folder / "sittings" / name
        about = json.loads((own / "sitting.json").read_text(encoding="utf-8"))
        began, ended = about.get("began"), about.get("ended")
        if not (began and ended):
            found.append(f"{name}/sitting.json: without began or ended")
            continue
        took = datetime.fromisoformat(ended[:-1]) - datetime.fromisoformat(began[:-1])
        if about["minutes"] > took.total_seconds() / 60 + 0.1:
            found.append(f"{name}: {about['minutes']} minutes, {began} to {ended}")
        if began < ended_before:
            found.append(f"{name}: began at {began}, before another ended at {ended_before}")
        ended_before = max(ended, ended_before)
        for path in sorted(own.glob("*.jsonl")):
            lines = path.read_text(encoding="utf-8").splitlines()
            dates = [json.loads(x)["date"] for x in lines if x.strip()]
            others = [date for date in dates if not began <= date <= ended]
            if others:
                found.append(f"{name}/{path.name}: a record of {others[0]}, not {began} to {ended}")
    return found


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


def was_in(machine, state):
    """in_state(decode): whether memory was in a state throughout."""
    return lambda decode: machine.of(decode) == state


def rounds_of(records, experiment, row, threads, column, in_state):
    """[[(group, at, value)]] of kept decodes in a state, of each sitting that has any; in_state(decode) says yes or no."""
    return [
        values
        for closing in states.closings(records, experiment, row, threads)
        if (
            values := [
                (d.group, d.at, d.values[column])
                for d in evidence.decodes_of(closing)
                if d.values["kept"] and d.read and in_state(d)
            ]
        )
    ]


def median_of(each):
    """Over sittings, of [[(group, at, value)]]."""
    return statistics.median(statistics.median(v for *_, v in rounds) for rounds in each)


def ends_of(entry):
    """(low, high) of an entry of summary.json; null is infinite."""
    low, high = entry["low"], entry["high"]
    return -math.inf if low is None else low, math.inf if high is None else high


def of_figure(name, factors, entry):
    """[finding] on an id of summary.json, or none; and whether its interval was looked at by more than its middle.

    factors: of what the figure is the product, each as [[(group, at, value)]], a sitting's rounds; a time has one.
    """
    if all(factors) != bool(entry):
        return [f"{name}: in one of summary.json and the decodes alone"], False
    if not entry:
        return [], False
    middle = math.prod(map(median_of, factors))
    low, high = ends_of(entry)
    holds = (
        not differ(middle, entry["value"])
        and low <= entry["value"] <= high
        and entry["sittings"] == min(map(len, factors))
    )
    if not holds:
        return [f"{name}: {entry}, its decodes give {middle}"], False
    each = [(median_of(factor), ends_over_sittings(factor)) for factor in factors]
    if not all(ends for _, ends in each):
        return [], False
    # Factors are independent: what they are uncertain by adds in quadrature.
    ends = (
        middle / (1 + math.hypot(*(at / below - 1 for at, (below, _) in each))),
        middle * (1 + math.hypot(*(above / at - 1 for at, (_, above) in each))),
    )
    room = LOOSE * (ends[1] - ends[0]) + ROOM * middle
    if low > ends[0] + room or high < ends[1] - room:
        return [f"{name}: {entry}, resampling its rounds gives {ends}"], True
    return [], True


def ends_over_sittings(each):
    """(lowest, highest) of plain_ends; None if those of a sitting are not known."""
    # Sittings too short for an interval of their own have one together.
    long = [rounds for rounds in each if len(rounds) >= states.FEWEST]
    short = [one for rounds in each if len(rounds) < states.FEWEST for one in rounds]
    each = [*long, *([short] if short else [])]
    known = [ends for rounds in each if (ends := plain_ends(rounds))]
    if len(known) < len(each):
        return None
    middle = median_of(each)
    return min(middle, *(low for low, _ in known)), max(middle, *(high for _, high in known))


def times_of(records, threads, machine):
    """{id without prefix: rounds of each sitting} of every time that decodes stand behind."""
    found = {}
    for state in machine.centres:
        in_state = was_in(machine, state)
        for about in records.of(tables.decode.is_table):
            for row in records.rows(about.name):
                for kind in states.KINDS:
                    found[f"{about.id}.{row}.{kind}_ms{SUFFIX[state]}"] = rounds_of(
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
                        times = rounds_of(records, *at, "block_ms", in_state)
                        each.setdefault(library, []).append(times)
                for library, times in each.items():
                    name = f"peers.{shape}.{library}{peers.suffix_of(kind)}.block_ms{SUFFIX[state]}"
                    known = filter(None, times)
                    found[name] = min(known, key=median_of, default=[])
    return found


def turns(records, experiment, above, below, threads, column, in_state):
    """{sitting: [(group, at, above / below)]} of rounds that both rows were in, in a state and kept; None unless each has one
    line there."""

    def lines(closing):
        mine = {}
        for d in evidence.decodes_of(closing):
            if d.values["kept"] and d.read and in_state(d):
                mine.setdefault((d.group, d.round), []).append(d)
        return mine

    found = {}
    others = {c["sitting"]: c for c in states.closings(records, experiment, below, threads)}
    for closing in states.closings(records, experiment, above, threads):
        ours, theirs = lines(closing), lines(others.get(closing["sitting"], {}))
        if any(len(each) > 1 for side in (ours, theirs) for each in side.values()):
            return None  # of long tokens a line is a token: which are compared evidence.py says
        ratios = [
            (
                at[0],
                (ours[at][0].at + theirs[at][0].at) / 2,
                ours[at][0].values[column] / theirs[at][0].values[column],
            )
            for at in ours.keys() & theirs.keys()
        ]
        if ratios:
            found[closing["sitting"]] = sorted(ratios)
    return found


def plain_ends(rounds):
    """(low, high) of the median of [(group, at, value)]. Of many stretches of ten seconds these drawn anew, ten times as
    often as for the figure itself and by other numbers; of two at most all of the range; None of a few, of which the
    figure's is Student's or widened. Where the figure's way of cutting leaves but a few, of a round or two each, where it
    cuts decides: then no end lies farther out than by its blocks."""
    stretches, place = [], {}
    for group, at, value in sorted(rounds):
        key = (group, int((at - place.setdefault(group, at)) // evidence.BLOCK_SECONDS))
        if not stretches or stretches[-1][0] != key:
            stretches.append((key, []))
        stretches[-1][1].append(value)
    count = len(stretches)
    if count < evidence.FEWEST_BLOCKS:
        values = [value for *_, value in rounds]
        return min(values), max(values)
    if count < 2 * evidence.FEWEST_RESAMPLED:
        return None
    low, high = drawn_anew([each for _, each in stretches])
    blocks = evidence.blocks_of_groups(rounds)
    if len(blocks) < 2 * evidence.FEWEST_RESAMPLED:
        by_blocks = drawn_anew(blocks)
        low, high = max(low, by_blocks[0]), min(high, by_blocks[1])
    return low, high


def drawn_anew(stretches):
    """(low, high) of the median of stretches of values, drawn as often as there are."""
    draw = random.Random(len(stretches))
    middles = sorted(
        statistics.median([v for each in draw.choices(stretches, k=len(stretches)) for v in each])
        for _ in range(DRAWS)
    )
    return middles[round(0.025 * DRAWS)], middles[round(0.975 * DRAWS) - 1]


def sittings_with(records, experiment, row, threads, in_state):
    """Names of the sittings in which a row was in a state."""
    return {
        closing["sitting"]
        for closing in states.closings(records, experiment, row, threads)
        if any(d.values["kept"] and d.read and in_state(d) for d in evidence.decodes_of(closing))
    }


def all_turns(records, experiment, above, below, threads, column, in_state):
    """[rounds of a sitting], as of turns; [] unless the rows took turns in every sitting that has both."""
    each = turns(records, experiment, above, below, threads, column, in_state) or {}
    both = [sittings_with(records, experiment, r, threads, in_state) for r in (above, below)]
    return [*each.values()] if len(each) == len(both[0] & both[1]) else []


def turns_or_medians(records, experiment, above, below, threads, column, in_state):
    """As all_turns, but that a sitting in which the rows took none counts by the ratio of its medians, alone."""
    each = turns(records, experiment, above, below, threads, column, in_state)
    if each is None:
        return []
    tops, bottoms = (
        {
            closing["sitting"]: statistics.median(values)
            for closing in states.closings(records, experiment, row, threads)
            if (
                values := [
                    d.values[column]
                    for d in evidence.decodes_of(closing)
                    if d.values["kept"] and d.read and in_state(d)
                ]
            )
        }
        for row in (above, below)
    )
    apart = {
        sitting: [("", 0.0, tops[sitting] / bottoms[sitting])]
        for sitting in tops.keys() & bottoms.keys() - each.keys()
    }
    return [*each.values(), *apart.values()]


def shares_of(records, experiment, base, threads, column, in_state, whose):
    """As turns: the time of the dense row that divides, of another library or kernel set, over that of ours; [] if they took
    none. Of a library's two rows the faster is its own."""
    if whose == "ours by bf16_dot":
        return all_turns(
            records, experiment, tables.decode.dot_twin(base), base, threads, column, in_state
        )
    shape = next(
        (
            shape
            for record in records.of_row(experiment, base, threads).values()
            if (shape := record["config"].get("shape"))
        ),
        "",
    )
    found = [
        each
        for row in (whose, f"{whose}_own")
        if not base.endswith(".bf16")
        and (
            each := all_turns(records, f"peers_{shape}", row, "baseline", threads, column, in_state)
        )
    ]
    return min(found, key=median_of, default=[])


def speedups_of(records, threads, machine, summary, prefix):
    """{id: its factors, as of_figure has them} of every speed-up over our own dense row, or over one that took turns with that."""
    found = {}
    for state in machine.centres:
        in_state = was_in(machine, state)
        for about in records.of(tables.decode.is_table):
            for row in records.rows(about.name):
                base = tables.decode.against(records, about.name, row, threads)
                for kind in states.KINDS if row != base else ():
                    name = f"{prefix}{about.id}.{row}.{kind}_speedup{SUFFIX[state]}"
                    at = (threads, f"{kind}_ms", in_state)
                    factors = [turns_or_medians(records, about.name, base, row, *at)]
                    if whose := summary.get(name, {}).get("whose"):
                        factors.append(shares_of(records, about.name, base, *at, whose))
                    if all(factors):
                        found[name] = factors
    return found


def plain_floor(records, experiment, row, threads, kind, read, peak):
    """ms at these rates, by the phases on record, or else by how much of its decodes' floors goes with each rate; None if
    its decodes do not say."""
    held = states.closings(records, experiment, row, threads)
    for closing in reversed(held):
        if phases := (closing.get("samples") or {}).get("phases"):
            return sum(n * max(b / read, f / peak) for b, f, n in phases[kind]) / 1e6
    decodes = [
        d.values
        for closing in held
        for d in evidence.decodes_of(closing)
        if all(d.values.get(name) for name in ("read_gbps", "fma_gflops", f"{kind}_floor_ms"))
    ]
    ratios = [d["fma_gflops"] / d["read_gbps"] for d in decodes]
    if not ratios or max(ratios) < evidence.FAR_ENOUGH * min(ratios):
        return None
    rates = numpy.array([[1 / d["read_gbps"], 1 / d["fma_gflops"]] for d in decodes])
    floors = numpy.array([d[f"{kind}_floor_ms"] for d in decodes])
    by_each = numpy.linalg.lstsq(rates, floors, rcond=None)[0]
    return float(by_each @ [1 / read, 1 / peak])


def limits_of(records, threads, machine, prefix):
    """{id: value} of every limit, whose two floors stand on one read rate."""
    found = {}
    for state, read in machine.centres.items():
        in_state = was_in(machine, state)
        for about in records.of(tables.decode.is_table):
            for row in records.rows(about.name):
                base = tables.decode.against(records, about.name, row, threads)
                peaks = [
                    [
                        d.values["fma_gflops"]
                        for closing in states.closings(records, about.name, one, threads)
                        for d in evidence.decodes_of(closing)
                        if d.values["kept"] and d.read and in_state(d) and "fma_gflops" in d.values
                    ]
                    for one in (base, row)
                ]
                if not all(peaks):
                    continue
                for kind, name in (("block", "roofline_limit"), ("token", "token_roofline_limit")):
                    floors = [
                        plain_floor(
                            records, about.name, one, threads, kind, read, statistics.median(each)
                        )
                        for one, each in zip((base, row), peaks)
                    ]
                    if all(floors):
                        found[f"{prefix}{about.id}.{row}.{name}{SUFFIX[state]}"] = (
                            floors[0] / floors[1]
                        )
    return found


class Looked(NamedTuple):
    """How many figures of a summary were made again, and of how many the interval was looked at, too."""

    times: int = 0
    speedups: int = 0
    intervals: int = 0
    limits: int = 0


def of_summary(records, summary):
    """Findings on the figures of summary.json, made again here from the decodes alone, and a Looked."""
    found, looked = [], Looked()
    for threads, prefix in ((records.all_threads(), ""), (1, "threads1.")):
        machine = states.of_machine(records, threads)
        if machine is None:
            continue
        for name, each in times_of(records, threads, machine).items():
            entry = summary.get(prefix + name)
            said, deeper = of_figure(prefix + name, [each], entry)
            found += said
            looked = looked._replace(
                times=looked.times + bool(each and entry), intervals=looked.intervals + deeper
            )
        for name, factors in speedups_of(records, threads, machine, summary, prefix).items():
            if entry := summary.get(name):
                said, deeper = of_figure(name, factors, entry)
                found += said
                looked = looked._replace(
                    speedups=looked.speedups + 1, intervals=looked.intervals + deeper
                )
        for name, limit in limits_of(records, threads, machine, prefix).items():
            if entry := summary.get(name):
                looked = looked._replace(limits=looked.limits + 1)
                if abs(entry["value"] / limit - 1) > LIMIT_ROOM:
                    found.append(f"{name}: {entry['value']}, floors at one read rate give {limit}")
    if json.loads(json.dumps(summarise.summary(records))) != summary:
        found.append("summary.json is not what plots/summarise.py makes of these records")
    return found, looked


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
    if not records.places():
        sys.exit(f"{arguments.folder} has no records, so that nothing stands behind its summary")
    summary = json.loads(path.read_text(encoding="utf-8"))
    on_summary, looked = of_summary(records, summary)
    found = (
        of_sittings(arguments.folder, arguments.least)
        + of_headline(summary, arguments.least)
        + of_threads(records)
        + of_records(records)
        + on_summary
    )
    for finding in found:
        print(finding)
    known = sum(name.removesuffix(headline.SLOW).endswith("_speedup") for name in summary)
    print(
        f"{len(records.sittings)} sittings, {len(records.places())} rows, {looked.times} times and {looked.speedups} of "
        f"{known} speed-ups of the summary, {looked.intervals} of their intervals, {looked.limits} limits: "
        + (f"{len(found)} findings" if found else "nothing found")
    )
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
