"""The one reader of record files: the latest record of every measurement in a results folder."""

import argparse
import contextlib
import functools
import json
import math
import pathlib
import statistics
import sys
from typing import NamedTuple

import legacy

STATUSES = ("ok", "scaled_down", "extrapolated", "untrusted", "skipped", "failed")  # best to worst
ROOT = pathlib.Path(__file__).resolve().parent.parent
TIMES = ("ms", "us", "s")  # of what is timed: of one measurement nothing is known
NOTCH = 1.57
CEILING_BYTES = 2**30  # over which ceilings are read at most (decode_candidate.h)
WHISKER = 1.5


class About(NamedTuple):
    """An experiment: which study and section it belongs to, its title, the prefix of its ids."""

    name: str
    study: str
    section: str
    title: str
    id: str


class Sitting(NamedTuple):
    """What one run of `run_all.sh --publish` measured, as its sitting.json has it."""

    name: str  # of its folder, the time that it began
    kind: str  # headline, libraries or sweeps
    commit: str
    machine: str
    minutes: float


class Records:
    """Records of one folder by (experiment, row, threads, metric).

    A --quick measurement does not replace a full one of the same commit. Nothing vanishes:
    unreadable lines are in `damaged` as "file:line: reason", rows whose latest attempt has no
    value are in `gaps` with their note.

    Below sittings/ the folder may hold whole sittings, a folder each. What several have measured is
    the median of theirs, from the lowest lower to the highest upper end. One that is incomplete is
    left out and named in `damaged`.
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.damaged = []
        self.gaps = {}
        self.sittings = []
        self._latest = {}  # (experiment, row, threads): {metric: record}
        self._sittings = {}  # the same: {metric: [record of each sitting]}
        self._history = {}
        self._order = {}
        for folder, sitting in [(self.folder, ""), *self._complete_sittings()]:
            before, self._latest = self._latest, {}
            for record in sorted(self._read(folder, sitting), key=lambda r: r.get("date") or ""):
                self._add(record)
            measured, self._latest = self._latest, before
            for at, metrics in measured.items():
                each = self._sittings.setdefault(at, {})
                for metric, record in metrics.items():
                    each.setdefault(metric, []).append(record)
        self._latest = {
            at: {metric: pooled(each) for metric, each in metrics.items()}
            for at, metrics in self._sittings.items()
        }

    def _complete_sittings(self):
        """[(folder, name)], the oldest first; those of another machine or commit are `damaged`."""
        found = []
        for path in sorted(self.folder.glob("sittings/*/sitting.json")):
            name = path.parent.name
            try:
                about = json.loads(path.read_text(encoding="utf-8"))
                complete = about["complete"]
                sitting = Sitting(
                    name, about["kind"], about["commit"], about["machine"], about["minutes"]
                )
            except (ValueError, KeyError, TypeError) as error:
                self.damaged.append(f"{name}/sitting.json: {error!r}")
                continue
            others = [s for s in self.sittings if s.kind == sitting.kind]
            if not complete:
                self.damaged.append(f"sitting {name}: incomplete")
            elif self.sittings and sitting.machine != self.sittings[0].machine:
                self.damaged.append(f"sitting {name}: of another machine, {sitting.machine}")
            elif others and sitting.commit != others[0].commit:
                self.damaged.append(f"sitting {name}: of another commit, {sitting.commit}")
            else:
                self.sittings.append(sitting)
                found.append((path.parent, name))
        return found

    def _read(self, folder, sitting):
        found = []
        for path in sorted(folder.glob("*.jsonl")):
            name = f"{sitting}/{path.name}" if sitting else path.name
            text = path.read_text(encoding="utf-8", errors="replace")
            for number, line in enumerate(text.split("\n"), start=1):
                if not line.strip():
                    continue
                try:
                    found.append(_checked(json.loads(line)) | {"sitting": sitting})
                except ValueError as error:
                    self.damaged.append(f"{name}:{number}: {error}")
        legacy.fill_reads_before(found)
        _note_uncached(found, _machine(folder).get("l3_bytes"))
        return found

    def _add(self, record):
        experiment, row, threads = record["experiment"], record["row"], record["threads"]
        at = (experiment, row, threads)
        self._order.setdefault(experiment, {}).setdefault(row)
        self._history.setdefault(experiment, []).append(record)
        if record["value"] is not None:
            older = self._latest.get(at, {}).get(record["metric"])
            poorer = older and is_quick(record) and not is_quick(older)
            if not (poorer and same_code(record, older)):
                self._latest.setdefault(at, {})[record["metric"]] = record
            self.gaps.pop(at, None)
            return
        note = f"{record['status']}: {record.get('note') or 'no reason given'}"
        if record["status"] == "failed":  # an older success must not hide that it fails now
            self._latest.pop(at, None)
        if at not in self._latest:
            self.gaps[at] = note

    def experiments(self):
        return list(self._order)

    @functools.cache  # noqa: B019  (as long-lived as the program)
    def about(self, experiment):
        """As its newest record that says so has it; what it does not say is as legacy.py knows it."""
        history = self.history(experiment)
        said = next((r for r in reversed(history) if r.get("study")), {})
        metrics = {r["metric"] for r in history}
        known = About(experiment, *legacy.about(experiment, metrics))
        return known._replace(**{f: said[f] for f in About._fields[1:] if said.get(f)})

    def of(self, owns):
        """[About] of the experiments that `owns` says yes to, in the report's order."""
        return [
            about
            for name in sorted(self._order, key=legacy.place)
            if owns(about := self.about(name))
        ]

    def history(self, experiment):
        """Every record of an experiment, the oldest first: curves have many of one metric."""
        return self._history.get(experiment, [])

    def rows(self, experiment):
        """Row names, the baseline first, then from many to few weights read."""
        reads = {
            row: found["token_weights_read"]["value"]
            for (name, row, _), found in self._latest.items()
            if name == experiment and "token_weights_read" in found
        }
        return sorted(
            self._order.get(experiment, ()),
            key=lambda row: (not row.startswith("baseline"), -reads.get(row, 0)),
        )

    def threads(self):
        """Every thread count in the folder, ascending."""
        return sorted({k[2] for k in self._latest} | {k[2] for k in self.gaps})

    def all_threads(self):
        """The largest count that does not exceed the machine's cores: more would share them."""
        counts = self.threads()
        cores = max((r["cores"] for r in self.all() if r.get("cores")), default=0)
        return max((n for n in counts if n <= cores), default=max(counts, default=1))

    def get(self, experiment, row, threads, metric):
        """The latest record, or None."""
        return self.of_row(experiment, row, threads).get(metric)

    def of_row(self, experiment, row, threads):
        """{metric: record} of one row."""
        return self._latest.get((experiment, row, threads), {})

    @functools.cached_property
    def machine(self):
        """What machine.json says of the machine; of sittings the first's, since they are of one; {} without one."""
        folders = [self.folder / "sittings" / s.name for s in self.sittings] or [self.folder]
        return _machine(folders[0])

    @property
    def is_published(self):
        return bool(self.sittings) or self.folder.name.startswith("published")

    def places(self):
        """Every (experiment, row, threads) that has a number."""
        return list(self._latest)

    def sittings_of(self, experiment, row, threads, metric):
        """[record] of each sitting that measured it; of a folder without sittings one at most."""
        return self._sittings.get((experiment, row, threads), {}).get(metric, [])

    def paired(self, *_):
        """Value of a ratio over rounds, which only records of one state know: see states.py."""

    def limit(self, *_):
        """Value of a ratio of floors at one read rate, which only records of one state know: see states.py."""

    def all(self):
        return [record for found in self._latest.values() for record in found.values()]

    def of_all_sittings(self):
        """As all(), but every sitting's own instead of what they come to together."""
        return [
            record
            for metrics in self._sittings.values()
            for records in metrics.values()
            for record in records
        ]

    def benchmark(self, name):
        """Google Benchmark's output, or None; an unreadable one is `damaged`.

        Made of records of the file's name where there are any; folders of before they were written
        have the file itself.
        """
        path = self.folder / name
        if self.rows(path.stem):
            return self._as_benchmark(path.stem)
        if not path.exists():
            return None
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            message = f"{path.name}: {error}"
            if message not in self.damaged:
                self.damaged.append(message)
            return None

    def _as_benchmark(self, experiment):
        runs, context = {}, {}
        for record in self.history(experiment):
            run = runs.setdefault(record["row"], {"name": record["row"]})
            if record["status"] == "failed":
                run.update(error_occurred=True, error_message=record["note"])
                continue
            run.pop("error_occurred", None)
            run["real_time" if record["metric"] == "us" else record["metric"]] = record["value"]
            context = {
                **record["config"],
                "team_threads": record["threads"],
                "commit": record["commit"],
            }
        return {"context": context, "benchmarks": list(runs.values())}


def _machine(folder):
    """A folder's machine.json; {} without one."""
    try:
        return json.loads((folder / "machine.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _note_uncached(records, cache):
    """In each record that holds decodes: `uncached`, what share of the reads of its ceilings no last-level cache of so many
    bytes can have given.

    Ceilings are read over as much as a token reads, a GiB at most, or over the memory that empties caches for a cold row,
    four times what they hold. records: of one sitting. Where that is not known there is none.
    """
    bytes_of = {
        (r["experiment"], r["row"], r["threads"]): r["value"]
        for r in records
        if r["metric"] == "token_bytes" and r["value"]
    }
    for record in records:
        read = bytes_of.get((record["experiment"], record["row"], record["threads"]))
        if not cache or not read or not record.get("samples"):
            continue
        is_cold = (record.get("config") or {}).get("cold")
        over = 4 * cache if is_cold else min(read, CEILING_BYTES)
        record["uncached"] = max(0.0, 1 - cache / over)


def is_quick(record):
    return bool((record.get("config") or {}).get("quick"))


def is_one_window(record):
    """Whether it is of a peer that noted no samples: tokens of one short while, their quartiles alone."""
    config = record.get("config") or {}
    return "peer" in config and "batches" not in config


def same_code(one, other):
    return all(one.get(f) == other.get(f) for f in ("commit", "dirty"))


# Of fields that are read without looking; None where a program had nothing to say.
_TYPES = {
    **dict.fromkeys(("experiment", "row", "metric", "status"), str),
    **dict.fromkeys(
        ("against", "command", "commit", "cpu", "date", "id", "key", "note", "section"),
        str | None,
    ),
    **dict.fromkeys(("state", "study", "title", "unit"), str | None),
    "threads": int,
    **dict.fromkeys(("cores", "repeats", "seed"), int | None),
    **dict.fromkeys(("low", "high", "spread"), int | float | None),
    **dict.fromkeys(("ceilings", "config", "samples"), dict | None),
}


def _checked(record):
    """The record with `value` finite or None; ValueError says what is wrong with it."""
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    missing = [f for f in ("experiment", "row", "threads", "metric", "status") if f not in record]
    if missing:
        raise ValueError("not a record, lacks " + ", ".join(missing))
    for field, kind in _TYPES.items():
        if field in record and not isinstance(record[field], kind):
            raise ValueError(f"{field} {record[field]!r} is of another type than records have")
    if record["status"] not in STATUSES:
        raise ValueError(f"unknown status {record['status']!r}")
    value = record.get("value")
    if isinstance(value, bool) or not isinstance(value, (int, float, type(None))):
        raise ValueError(f"value {value!r} is not a number")
    usable = value is not None and math.isfinite(value)
    record["value"] = value if usable and record["status"] not in ("failed", "skipped") else None
    return record


def pooled(each):
    """The newest of one number's records, with the median of their values and all their range."""
    if len(each) == 1:
        return each[0]
    ends = [interval(r) for r in each]
    return each[-1] | {
        "value": statistics.median(r["value"] for r in each),
        "interval": (min(low for low, _ in ends), max(high for _, high in ends)),
        "status": worst(r["status"] for r in each),
        "sittings": len(each),
    }


def interval(record):
    """(low, high): the 95 % interval of a record's median.

    Unless it was made from the measurements themselves, by their quartiles, as the notches of a box
    plot are: the median and 1.57 interquartile ranges over the root of their number. Of one window,
    whose samples share a mood and so are no many, to where its whiskers may reach: the range of all
    but outliers.
    """
    if "interval" in record:
        return record["interval"]
    ends = record.get("low"), record.get("high")
    if is_one_window(record) and None not in ends:
        reach = WHISKER * (ends[1] - ends[0])
        return ends[0] - reach, ends[1] + reach
    value, repeats = record["value"], record.get("repeats") or 0
    if repeats == 1 and record.get("unit") in TIMES:
        return -math.inf, math.inf  # once is no interval
    half = NOTCH * 2 * (record.get("spread") or 0.0) / math.sqrt(repeats) if repeats > 1 else 0.0
    return value - half, value + half


def worst(statuses):
    return max(statuses, key=STATUSES.index, default="ok")


def newest_local():
    """The folder under results/local with the most recently written record file, or None."""
    files = list((ROOT / "results" / "local").glob("*/*.jsonl"))
    return max(files, key=lambda f: f.stat().st_mtime).parent if files else None


@contextlib.contextmanager
def writing(path):
    """What is made of records; exits with a sentence where it cannot be written."""
    try:
        yield
    except OSError as error:
        sys.exit(
            f"{path} cannot be written ({error.strerror}); choose another folder with --results"
        )


def write(path, text):
    with writing(path):
        path.write_text(text, encoding="utf-8")


def parse_arguments(description, extend=None):
    """Command line common to all programs here; `results` is a folder that exists."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--results",
        metavar="DIR",
        type=pathlib.Path,
        help="folder of record files; default: the newest under results/local",
    )
    if extend:
        extend(parser)
    arguments = parser.parse_args()
    if arguments.results is None:
        arguments.results = newest_local()
    if arguments.results is None:
        parser.error(
            "no records under results/local: run ./run_all.sh first, or name a folder "
            "with --results"
        )
    if not arguments.results.is_dir():
        parser.error(f"--results {arguments.results} is not a folder")
    return arguments
