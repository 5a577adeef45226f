#!/usr/bin/env python3
"""What Sparsefinder's claims are judged by: one method less another, over the same teachers and sequences.

  tools/sparsefinder_differences.py --results DIR [--draws 1000] [--seed 1]

DIR is a folder in which `sparsefinder` swept teachers: it takes DIR/sparsefinder.jsonl and the numbers of each sequence in
DIR/sparsefinder/*.npy, and appends to DIR/sparsefinder_differences.jsonl, of every kind of teacher (s_lm of s_lm.1 and
s_lm.2, its seeds) that has both methods:

  recall_at_80, recall_at_90   F of one less F of the other; F(s): the best recall of a configuration, with any window, that
                               leaves out a share s of all pairs at least
  recall.b8, sparsity.b8       of bucketings without a window, with 8 buckets each
  nats_at_gold                 of `distance` at its least sparse point that leaves out as much as the gold graphs, less the
                               teacher's own (sparsefinder --online)
  nats_before_gold             the same of its sparsest point that leaves out less, so that no fewer pairs cost less
  rank_correlation             of the methods that the claim compares, controls left aside: Spearman's, of offline recall and
                               the quality of the model that runs with the graphs, within a stratum of sparsity; the mean
                               of strata with five methods or more

with the middle 95 % of a bootstrap that draws teachers and, within each, sequences; both methods take the same draws.
The report says pass, fail or inconclusive by these (plots/sections/sparsefinder_claims.py). One teacher alone has an
interval over sequences: what other teachers would give it does not say.
"""

import argparse
import pathlib
import sys
from typing import NamedTuple

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "plots"), str(ROOT / "experiments" / "peers")]
import records as rec  # noqa: E402
from record import RecordFile, fingerprint  # noqa: E402
from sections import sparsefinder, sparsefinder_claims, sparsefinder_online  # noqa: E402
from values import student  # noqa: E402

CLOSE = 1e-3  # of a mean of float32 to a recorded one


class Sweep(NamedTuple):
    """A method's points on one teacher: (points, sequences) each, and what the points are."""

    places: list  # [(parameter, value, nearest, width)]
    recall: numpy.ndarray
    sparsity: numpy.ndarray

    def at(self, place):
        return self.places.index(place) if place in self.places else None


def kind_of(teacher):
    """s_lm of s_lm.1."""
    name, _, seed = teacher.rpartition(".")
    return name if name and seed.isdigit() else teacher


def sweep_of(results, records, experiment, closing):
    """The Sweep behind a closing record; exits with a sentence if the two files do not belong together."""
    path = results / "sparsefinder" / f"{closing['row']}.npy"
    again = "run sparsefinder on that teacher again with --force"
    try:
        numbers = numpy.load(path)
    except (OSError, ValueError) as error:
        sys.exit(f"cannot read {path}: {error}; {again}")
    places, means = [], []
    for record in sparsefinder.configurations(records, experiment, closing):
        config, columns = record["config"], record["samples"]["columns"]
        for row in record["samples"]["rows"]:
            places.append((config["parameter"], config["value"], config["nearest"], row[0]))
            means.append(row[columns.index("recall")])
    if numbers.ndim != 3 or len(places) != numbers.shape[0]:
        sys.exit(f"{path} is {numbers.shape}, its records have {len(places)} points; {again}")
    columns = columns[1 : 1 + numbers.shape[2]]
    recall, sparsity = (numbers[:, :, columns.index(name)] for name in ("recall", "sparsity"))
    if numpy.abs(recall.mean(axis=1) - means).max() > CLOSE:
        sys.exit(f"{path} is of another run than its records; {again}")
    return Sweep(places, recall.astype(float), sparsity.astype(float))


def best(sweep, weights, sparsity):
    """F(s) of each resample."""
    recall, kept = weights @ sweep.recall.T, weights @ sweep.sparsity.T >= sparsity
    return numpy.where(kept, recall, 0).max(axis=1)


def of_frontiers(one, other, weights, sparsity):
    return best(one, weights, sparsity) - best(other, weights, sparsity)


def of_points(one, other, weights, places, name):
    """The same of a point each."""
    mine, theirs = (getattr(s, name)[s.at(p)] for s, p in zip((one, other), places))
    return weights @ (mine - theirs)


def over_teachers(each, rng):
    """(value, low, high) of [(1 + draws)] a teacher; the first of each is of all its sequences.

    A few teachers resampled vary too little: where Student's interval over them reaches farther, it counts.
    """
    found = numpy.array(each)
    value, drawn = found[:, 0].mean(), found[:, 1:]
    teachers, draws = drawn.shape
    chosen = rng.integers(teachers, size=(teachers, draws))
    means = numpy.take_along_axis(drawn, chosen, axis=0).mean(axis=0)
    low, high = numpy.quantile(means, [0.025, 0.975])
    if teachers > 1:
        half = student(teachers - 1, 0.05) * found[:, 0].std(ddof=1) / teachers**0.5
        low, high = min(low, value - half), max(high, value + half)
    return float(value), float(low), float(high)


def shared_buckets(pairs):
    """{B: (place of one, place of the other)} of bucketings without a window that both methods of every teacher have."""
    found = {}
    for parameter, value, nearest, width in pairs[0][0].places:
        places = ((parameter, value, nearest, width), ("clusters", value, 1, 0))
        is_alone = parameter == "buckets" and width == 0
        if is_alone and all(s.at(p) is not None for pair in pairs for s, p in zip(pair, places)):
            found[int(value)] = places
    return found


def differences(pair, teachers, draws, seed):
    """{metric: (value, low, high)} of a pair of methods; teachers: [{method: Sweep}]."""
    one, other = pair
    # Each metric draws alike, whatever else is asked for.
    weights = [
        sparsefinder_online.shares(
            numpy.random.default_rng([seed, number]), draws, t[one].recall.shape[1]
        )
        for number, t in enumerate(teachers)
    ]
    measures = {}
    if pair == sparsefinder_claims.BUCKETS:
        pairs = [(t[one], t[other]) for t in teachers]
        for count, places in shared_buckets(pairs).items():
            for name in ("recall", "sparsity"):
                measures[f"{name}.b{count}"] = (of_points, places, name)
    else:
        for percent in sparsefinder_claims.PERCENTS:
            measures[f"recall_at_{percent}"] = (of_frontiers, percent / 100)
    found = {}
    for metric, (measure, *arguments) in measures.items():
        each = [measure(t[one], t[other], w, *arguments) for t, w in zip(teachers, weights)]
        found[metric] = over_teachers(each, numpy.random.default_rng([seed, len(teachers)]))
    return found


def nats_at_gold(methods, gold_sparsity, weights):
    """Of `distance` less the teacher's; None without a point that is sparse enough."""
    sparse = [o for o in methods.get("distance", ()) if o.sparsity >= gold_sparsity]
    nearest = min(sparse, key=lambda o: o.sparsity, default=None)
    return nearest and nearest.nats(weights) - methods["gold"][0].nats(weights)


def nats_before_gold(methods, gold_sparsity, weights):
    """The same; None without a point that is less sparse."""
    denser = [o for o in methods.get("distance", ()) if o.sparsity < gold_sparsity]
    nearest = max(denser, key=lambda o: o.sparsity, default=None)
    return nearest and nearest.nats(weights) - methods["gold"][0].nats(weights)


def ranks(values):
    """From the lowest on; of equal ones the mean."""
    values = numpy.asarray(values)
    return numpy.array([(values < v).sum() + ((values == v).sum() - 1) / 2 for v in values])


def correlation(one, other):
    """Spearman's; 0 where one does not vary."""
    a, b = (r - r.mean() for r in (ranks(one), ranks(other)))
    spread = numpy.sqrt((a * a).sum() * (b * b).sum())
    return float((a * b).sum() / spread) if spread else 0.0


def rank_correlation(methods, weights):
    """Of recall and -nats within strata, of each method the best recall there; None of too few methods."""
    strata = {}
    for name in sparsefinder_claims.COMPARED:
        for one in methods.get(name, ()):
            there = strata.setdefault(one.stratum, {})
            if name not in there or one.recall > there[name].recall:
                there[name] = one
    each = []
    for there in ([*by_name.values()] for by_name in strata.values()):
        if len(there) >= sparsefinder_claims.FEWEST_METHODS:
            nats = numpy.array([o.nats(weights) for o in there])
            recall = [o.recall for o in there]
            each.append([correlation(recall, -drawn) for drawn in nats.T])
    return numpy.mean(each, axis=0) if each else None


def of_online(teachers, draws, seed):
    """{(row, against, metric): (value, low, high)}; teachers: [({method: [Online]}, gold sparsity)]."""
    found = {}
    for row, against, metric, measure in (
        ("distance", "gold", "nats_at_gold", nats_at_gold),
        ("distance", "gold", "nats_before_gold", nats_before_gold),
        ("all", "gold", "rank_correlation", lambda methods, _, w: rank_correlation(methods, w)),
    ):
        each = []
        for number, (methods, gold_sparsity) in enumerate(teachers):
            sequences = len(methods["gold"][0].loss)
            weights = sparsefinder_online.shares(
                numpy.random.default_rng([seed, number]), draws, sequences
            )
            each.append(measure(methods, gold_sparsity, weights))
        if all(one is not None for one in each):
            found[row, against, metric] = over_teachers(
                each, numpy.random.default_rng([seed, len(teachers)])
            )
    return found


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=pathlib.Path, required=True, help="folder of the records")
    parser.add_argument("--draws", type=int, default=1000, help="of the bootstrap (1000)")
    parser.add_argument("--seed", type=int, default=1, help="of these (1)")
    arguments = parser.parse_args()
    if arguments.draws < 40:
        parser.error(f"--draws {arguments.draws}: give 40 at least, for an interval of 95 %")
    return arguments


def teachers_of(records):
    """{kind: {teacher: {method: (experiment, closing record)}}}, gold graphs under "gold"."""
    kinds = {}
    for about in records.of(sparsefinder.OWNS):
        for teacher, methods in sparsefinder.closings(records, about.name).items():
            found = {method: (about.name, closing) for method, closing in methods.items()}
            kinds.setdefault(kind_of(teacher), {})[teacher] = found
    return kinds


class Writer:
    """Appends what is not recorded yet."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.file = RecordFile(
            arguments.results, "sparsefinder_differences", "differences", programs=None
        )

    def write(self, kind, name, teachers, closings, make):
        """make(): {(row, against, metric): (value, low, high)}, of what these closing records closed."""
        key = self.file.key(
            name=name,
            closings=[(c["row"], c["key"], c["date"]) for c in closings],
            draws=self.arguments.draws,
            seed=self.arguments.seed,
            program=fingerprint(pathlib.Path(__file__).read_bytes()),
        )
        if key in self.file.finished:
            print(f"{kind}: {name} is recorded")
            return
        found = make()
        self.file.append(
            {
                "study": "sparsefinder",
                "row": f"{kind}.{row}",
                "against": f"{kind}.{against}",
                "threads": 1,
                "metric": f"{metric}.over_{against}",
                "unit": "nats/token" if metric.startswith("nats") else "1",
                "value": value,
                "low": low,
                "high": high,
                "spread": (high - low) / 2,
                "repeats": len(teachers),
                "status": "ok",
                "note": f"of teachers {', '.join(teachers)}; bootstrap over these and their sequences",
                "config": {"teachers": len(teachers), "draws": self.arguments.draws},
                "command": f"tools/sparsefinder_differences.py --draws {self.arguments.draws} "
                f"--seed {self.arguments.seed} --results DIR",
                "seed": self.arguments.seed,
                "key": key,
            }
            for (row, against, metric), (value, low, high) in found.items()
        )
        for (row, against, metric), (value, low, high) in found.items():
            print(f"{kind}: {row} over {against}, {metric}: {value:+.4f} [{low:+.4f}, {high:+.4f}]")


def write_pair(writer, records, kind, teachers, pair):
    having = {name: m for name, m in sorted(teachers.items()) if {*pair} <= {*m}}
    if not having:
        print(f"{kind}: no teacher has both {pair[0]} and {pair[1]}")
        return

    def make():
        sweeps = [
            {m: sweep_of(writer.arguments.results, records, *having[name][m]) for m in pair}
            for name in having
        ]
        found = differences(pair, sweeps, writer.arguments.draws, writer.arguments.seed)
        return {(*pair, metric): value for metric, value in found.items()}

    closings = [having[name][method][1] for name in having for method in pair]
    writer.write(kind, f"{pair[0]} over {pair[1]}", having, closings, make)


def write_online(writer, records, kind, teachers):
    """Of the teachers that ran with predicted graphs."""
    ran, closings = {}, []
    for name, methods in sorted(teachers.items()):
        found = {method: sparsefinder_online.runs(records, *at) for method, at in methods.items()}
        if found.get("gold"):
            sparsity = methods["gold"][1]["config"]["mean_gold_sparsity"]
            ran[name] = ({m: points for m, points in found.items() if points}, sparsity)
            closings += [closing for _, closing in methods.values()]
    if not ran:
        print(f"{kind}: no teacher ran with predicted graphs (sparsefinder --online)")
        return
    settings = writer.arguments.draws, writer.arguments.seed
    writer.write(kind, "online", ran, closings, lambda: of_online([*ran.values()], *settings))


def main():
    arguments = parse()
    records = rec.Records(arguments.results)
    kinds = teachers_of(records)
    if not kinds:
        sys.exit(f"{arguments.results} has no sweep of a teacher; run sparsefinder there first")
    writer = Writer(arguments)
    for kind, teachers in kinds.items():
        for pair in sparsefinder_claims.PAIRS:
            write_pair(writer, records, kind, teachers, pair)
        write_online(writer, records, kind, teachers)


if __name__ == "__main__":
    main()
