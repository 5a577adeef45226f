#!/usr/bin/env python3
"""Compares what two runs measured, figure by figure: tools/compare.py A B [--figures GLOB].

A and B are each a folder of results, the name of a machine below results/published or results/local, or a git commit, of
which the folder results/published is taken (--folder names another). Nothing is measured. Given at the checkout's root:

  tools/compare.py results/published results/local/mine --figures 'table1.800m.*.block_*'
  tools/compare.py HEAD~20 HEAD --output csv > figures.csv

ratio      B / A of a figure of summary.json, in brackets from B's lower end over A's upper end to B's upper over A's lower:
           wider than the 95 % interval of a ratio, so that few differences are seen where there is none, and small
           ones may be missed. Gaps and whatever else may be 0 or below have no ratio, but a verdict
verdict    faster, slower: B, of times and rates; larger, smaller: of other units
           no difference seen: the two intervals have a value in common
           different states: memory was not in one state, by name, or by read rates more than 10 % apart
           no interval: one of them has none, as of a single measurement
           behind speed-ups over two dense times, as of two libraries, stand whose they are
benchmarks of kernels and layers go by Google Benchmark's convention: the Mann-Whitney U test of the repetitions' real
           time, two-sided, at 0.05, with 9 repetitions at least (--benchmark_repetitions=9). The ratio is the
           median of those of all pairs of repetitions, its interval holds what the test does not reject; p is the
           test's: of a hundred equal benchmarks five come out different

A summary.json without intervals, or none, is made again from the folder's records. What two machines measured is compared
whatever the states of their memory: verdicts then tell the machines apart, not the code.

Other tools: compare_speed.py times two builds in turns, which sees smaller differences; compare_builds.py asks whether two
builds compute the same numbers, bit for bit.
"""

import argparse
import fnmatch
import json
import math
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plots"))
import rank_test
import records as rec
import summarise
from report import Cell, interval_text, number
from table_output import FORMS, Table, refuse, write
from values import SAME_BANDWIDTH, exactly, of_entry

HOMES = (Path("results/published"), Path("results/local"))
BENCHMARKS = ("kernels", "layers")
MICROSECONDS = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}
FEWEST = 9  # repetitions
TIMES = ("ns", "us", "ms", "s")
RATES = ("1/s", "tokens/s", "GB/s", "GFLOP/s")
COUNTS = ("weights", "B", "FLOP")  # of which one measurement tells all
SAME, STATES, UNSURE = "no difference seen", "different states", "no interval"
COLUMNS = ("figure", "unit", "A", "B", "B / A", "p", "verdict")


class Side(NamedTuple):
    name: str
    records: rec.Records
    figures: dict  # {id: Value}
    machine: str  # processor and cores, or empty


class Runs(NamedTuple):
    """Repetitions of a benchmark; `times` is empty where only their median is on record."""

    median: float  # microseconds
    count: int
    times: list


def git(*words):
    return subprocess.run(["git", *words], capture_output=True, check=False)


def find(name, folder, temporary):
    """The folder that an argument means; a commit's is unpacked below `temporary`."""
    for path in (Path(name), *(home / name for home in HOMES)):
        if path.is_dir():
            return path
    done = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if done.returncode:
        refuse(
            f"'{name}' is no folder, no machine below {' or '.join(map(str, HOMES))} and no commit; name one of these, "
            "at the checkout's root"
        )
    packed = git("archive", done.stdout.decode().strip(), "--", folder)
    if packed.returncode:
        refuse(f"commit '{name}' has no folder '{folder}'; name another with --folder")
    subprocess.run(["tar", "-x", "-C", temporary], input=packed.stdout, check=True)
    return Path(temporary) / folder


def read(name, folder):
    records = rec.Records(folder)
    path = folder / "summary.json"
    has_benchmarks = [records.benchmark(f"{name}.json") is not None for name in BENCHMARKS]
    if not path.exists() and not records.places() and not any(has_benchmarks):
        refuse(
            f"'{name}' holds no results (summary.json, *.jsonl, sittings/*); ./run_all.sh measures some"
        )
    for message in records.damaged:
        print(f"{name}: damaged record left out: {message}", file=sys.stderr)
    return Side(name, records, figures(path, records), machine(records))


def figures(path, records):
    """{id: Value} of summary.json; made again from the records if it has no intervals."""
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if not found or not all("low" in entry for entry in found.values()):
            if found and not records.places():
                raise ValueError("it has no intervals, and no records are beside it")
            found = summarise.summary(records)
        return {name: of_entry(entry) for name, entry in found.items()}
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        refuse(
            f"'{path}' cannot be used: {error!r}; plots/summarise.py --results {path.parent} makes it again from "
            "records"
        )


def machine(records):
    """Of what is timed: curves may have been trained elsewhere."""
    found = {
        f"{r['cpu']}, {r.get('cores') or 'unknown'} cores"
        for r in records.all()
        if r.get("cpu") and records.about(r["experiment"]).study != "training"
    }
    return "; ".join(sorted(found))


def are_two_machines(a, b):
    return bool(a.machine and b.machine) and a.machine != b.machine


def read_rate(side, name):
    """GB/s of the state that a figure is of, or None."""
    prefix = "threads1." if name.startswith("threads1.") else ""
    suffix = "@slow" if name.endswith("@slow") else ""
    found = side.figures.get(f"{prefix}memory.read_gbps{suffix}")
    return found and found.value


def states_differ(a, b, name):
    states = [side.figures[name].state for side in (a, b)]
    if are_two_machines(a, b) or not any(states):
        return False
    rates = [read_rate(side, name) for side in (a, b)]
    if all(states) and all(rates):
        return max(rates) / min(rates) > SAME_BANDWIDTH
    return states[0] != states[1]


def change(unit, rises):
    if unit in TIMES:
        return "slower" if rises else "faster"
    if unit in RATES:
        return "faster" if rises else "slower"
    return "larger" if rises else "smaller"


def is_known(value):
    """Whether its interval tells where it may lie."""
    return math.isfinite(value.high - value.low) and (
        value.high > value.low or value.unit in COUNTS
    )


def verdict(a, b, differ):
    """Of two Values; differ: whether they are of different states."""
    if (a.value, a.low, a.high) == (b.value, b.low, b.high):
        return SAME
    if differ:
        return STATES
    if not (is_known(a) and is_known(b)):
        return UNSURE
    if a.low <= b.high and b.low <= a.high:
        return SAME
    return change(b.unit, b.low > a.high)


def ratio(a, b):
    """b / a between the ends divided, or None where one may be 0 or below."""
    if min(a.value, b.value) <= 0:
        return None
    both = exactly(b.value / a.value, "x", "")
    if min(a.low, b.low) <= 0 or math.inf in (a.high, b.high):
        return unbounded(both)
    return both._replace(low=b.low / a.high, high=b.high / a.low)


def unbounded(value):
    """Without an interval."""
    return value._replace(low=-math.inf, high=math.inf)


def shown(value):
    if value is None:
        return Cell("–")
    doubt = f" ({value.status.replace('_', ' ')})" if value.status != "ok" else ""
    return Cell(number(value.value, digits=4) + interval_text(value) + doubt, value)


def line(name, unit, ours, theirs, factor, said, p=None):
    """A row of the table. ours, theirs: cells; factor: Value or None."""
    both, chance = Cell("–"), Cell("–" if p is None else f"{p:.2g}", p)
    if factor:
        both = Cell(number(factor.value) + interval_text(factor), factor)
    return [f"`{name}`", unit, ours, theirs, both, chance, said]


def of_figures(a, b, pattern):
    """[line of the table] of every id that fits, in A's order."""
    found = []
    for name in [*a.figures, *(n for n in b.figures if n not in a.figures)]:
        if not fnmatch.fnmatchcase(name, pattern):
            continue
        ours, theirs = a.figures.get(name), b.figures.get(name)
        if ours is None or theirs is None:
            said = only(ours)
        elif ours.unit != theirs.unit:
            said = f"different units ({ours.unit}, {theirs.unit})"
        else:
            said = verdict(ours, theirs, states_differ(a, b, name))
            if ours.whose != theirs.whose:
                said += f" (dense time of {ours.whose or 'ours'}, {theirs.whose or 'ours'})"
        factor = ratio(ours, theirs) if ours and theirs else None
        if factor and said.startswith(UNSURE):
            factor = unbounded(factor)
        found.append(line(name, (ours or theirs).unit, shown(ours), shown(theirs), factor, said))
    return found


def only(ours):
    return "only in A" if ours else "only in B"


def runs_of(records, name):
    """{benchmark: Runs} of kernels or layers, from records or, of before these, Google Benchmark's own file."""
    rows = {(row, threads) for e, row, threads in records.places() if e == name}
    if rows:
        return {
            titled(row, threads): runs
            for row, threads in sorted(rows)
            if (runs := recorded(records.sittings_of(name, row, threads, "us")))
        }
    document = records.benchmark(f"{name}.json")
    try:
        return of_document(document) if document else {}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        refuse(
            f"'{records.folder / name}.json' is not what Google Benchmark writes: {error!r}; leave it out or "
            f"measure anew (bench_{name})"
        )


def of_document(document):
    """{benchmark: Runs} of Google Benchmark's output."""
    threads = int(document["context"].get("team_threads", 0))
    times, medians = {}, {}
    for entry in document["benchmarks"]:
        if entry.get("error_occurred"):
            continue
        benchmark = titled(entry.get("run_name") or entry["name"], threads)
        time = entry["real_time"] * MICROSECONDS[entry["time_unit"]]
        if entry.get("run_type") != "aggregate":
            times.setdefault(benchmark, []).append(time)
        elif entry["aggregate_name"] == "median":
            medians[benchmark] = Runs(time, entry["repetitions"], [])
    return medians | {
        benchmark: Runs(statistics.median(each), len(each), each)
        for benchmark, each in times.items()
    }


def recorded(each):
    """Runs of the records of a benchmark's time, one a sitting; None if there are none."""
    times = [time for record in each for (time,) in (record.get("samples") or {}).get("rows", ())]
    if times:
        return Runs(statistics.median(times), len(times), times)
    return each and Runs(each[-1]["value"], each[-1].get("repeats") or 1, [])


def titled(benchmark, threads):
    """Layers' names say their threads, kernels' do not."""
    name = benchmark.removesuffix("/real_time")
    return name if not threads or f"/t{threads}" in name else f"{name}, {threads} threads"


def of_benchmarks(a, b, name, pattern):
    """[line of the table] of kernels or layers."""
    found = []
    runs = [runs_of(side.records, name) for side in (a, b)]
    for benchmark in [*runs[0], *(n for n in runs[1] if n not in runs[0])]:
        if not fnmatch.fnmatchcase(f"{name}.{benchmark}", pattern):
            continue
        ours, theirs = (side.get(benchmark) for side in runs)
        cells = [
            Cell("–") if one is None else number(one.median, digits=4) for one in (ours, theirs)
        ]
        found.append(line(f"{name}.{benchmark}", "us", *cells, *judged(ours, theirs)))
    return found


def judged(a, b):
    """(B / A or None, verdict, p or None) of two benchmarks' Runs."""
    if a is None or b is None:
        return None, only(a), None
    fewest, factor = min(a.count, b.count), unbounded(exactly(b.median / a.median, "x", ""))
    if fewest < FEWEST:
        return factor, f"too few repetitions ({fewest}, {FEWEST} are needed)", None
    if not a.times or not b.times:
        return factor, "repetitions not recorded, their median alone", None
    value, low, high = rank_test.ratio(b.times, a.times)
    factor = factor._replace(value=value, low=low, high=high)
    p = rank_test.p_value(a.times, b.times)
    if p >= rank_test.ALPHA:
        return factor, SAME, p
    rises = rank_test.u_statistic(b.times, a.times) > len(a.times) * len(b.times) / 2
    return factor, change("us", rises), p


def described(letter, side):
    """What a side is, in a line."""
    values = side.figures.values()
    commits = sorted({c for v in values for c in v.commit.split("+") if c})
    known = [f"{n} commits" if (n := len(commits)) > 3 else ", ".join(commits)] if commits else []
    known += [f"{len(side.records.sittings)} sittings"] if side.records.sittings else []
    states = [
        f"{value.state} {number(value.value)} GB/s"
        for name, value in side.figures.items()
        if name.startswith("memory.read_gbps")
    ]
    memory = f"memory {' or '.join(states)}" if states else "states of memory not known"
    return f"{letter}: {side.name}: {'; '.join([side.machine or 'machine not recorded', *known, memory])}"


def compare(a, b, pattern):
    """[line of the table] of all that fits, what one side lacks too."""
    lines = of_figures(a, b, pattern)
    for name in BENCHMARKS:
        lines += of_benchmarks(a, b, name, pattern)
    return lines


def counted(lines):
    """How often each verdict fell, in words."""
    verdicts = Counter(said.partition(" (")[0] for *_, said in lines)
    return ", ".join(f"{n} {said}" for said, n in verdicts.most_common())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("a", metavar="A", help="folder, machine or commit that is compared with")
    parser.add_argument("b", metavar="B", help="folder, machine or commit that is compared")
    parser.add_argument("--figures", metavar="GLOB", default="*", help="ids to compare ('*')")
    parser.add_argument(
        "--folder", default=str(HOMES[0]), help="of a commit: the folder of results (%(default)s)"
    )
    parser.add_argument("--all", action="store_true", help="list also what one side alone has")
    parser.add_argument("--output", choices=FORMS, default="md", help="form (md)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as by `| head`
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        a, b = (
            read(name, find(name, arguments.folder, temporary))
            for name, temporary in ((arguments.a, first), (arguments.b, second))
        )
        found = compare(a, b, arguments.figures)
    if not found:
        refuse(
            f"--figures '{arguments.figures}' fits none of {len(a.figures)} and {len(b.figures)} ids of '{a.name}' and "
            f"'{b.name}'; summary.json lists them, and * stands for any part"
        )
    listed = [row for row in found if arguments.all or not row[-1].startswith("only in ")]
    # Data goes to standard output alone, so that it can be piped.
    about = sys.stdout if arguments.output == "md" else sys.stderr
    print(f"{described('A', a)}\n\n{described('B', b)}\n", file=about)
    if are_two_machines(a, b):
        print("These are two machines: verdicts tell them apart, not the code.\n", file=about)
    write([Table("", COLUMNS, listed, {})], arguments.output)
    lacking = "" if len(listed) == len(found) else " (--all lists what one side lacks)"
    print(f"{counted(found)}{lacking}.", file=about)


if __name__ == "__main__":
    main()
