"""The one judge of what is trained: contrasts that were named before the run, seed by seed, with intervals.

A contrast is a weighted sum of rows, as row - twin. Seeds share weights' and data's order, so that it is taken within a
seed; its interval over seeds is Student's. Of several contrasts of one experiment the least certain verdicts are held to
stricter intervals (Holm 1979), so that all of them together are wrong in one of twenty experiments at most. Every contrast
counts there that was named, trained or not.

A row may name its twin and, made as small as what the row reads, that twin's own loss of equal reads. What is judged is
then (row - twin) - 1/4 (equal reads - twin), in nats a token: below 0, sparsity keeps three quarters of what the dense
weights that it does not read are worth.

No number of seeds shows a change that does nothing to help or to hurt. Where a margin is given, such a change is alike
once its interval lies within the margin on either side of 0 (two one-sided tests, Schuirmann 1987), by Holm's steps of
its own: none of an experiment's changes is called alike wrongly in more than one of twenty experiments either.
"""

import bisect
import math
import operator
import statistics
from typing import NamedTuple

from values import combine, of_record, student, two_sided_p

ENOUGH = 0.25  # share of equal reads' loss
LEVEL = 0.05
FEW = 5  # seeds below this make a verdict one so far
MOST_SEEDS = 1000  # more are as good as never
METRIC = "log_perplexity"
UNITS = {METRIC: "nats/token"}  # of other metrics: 1
UNDECIDED = "undecided"
ALIKE = "alike"
ALONE = "95 % alone would decide"  # of what is undecided beside a plain interval that leaves out 0
# What a table's text says of its intervals and verdicts.
STRICTER = (
    "trained or not: the least sure are held to stricter intervals (Holm) than those shown, and undecided may be what "
    f"these alone would decide (*{ALONE}*)"
)


class Contrast(NamedTuple):
    name: object  # tells it from the others that were named with it
    value: object  # Value over seeds; None if no seed has all of its rows
    p: float  # of it being 0; 1 where seeds do not tell

    @property
    def seeds(self):
        return self.value.seeds if self.value else 0


class Judged(NamedTuple):
    """A contrast among those that were named with it."""

    contrast: Contrast
    is_sure: bool  # not 0, by Holm's steps
    level: float  # the p that the first of those that are not sure would need
    margin: float = 0.0  # what is nearer to 0 is alike; 0: nothing is
    is_near: bool = False  # nearer than the margin, by Holm's steps
    near_level: float = LEVEL  # as level

    @property
    def sign(self):
        """-1: surely below 0; 1: surely above; 0: undecided."""
        if not self.is_sure:
            return 0
        return -1 if self.contrast.value.value < 0 else 1

    @property
    def is_decided(self):
        return self.is_sure or self.is_near

    def verdict(self, below, above):
        """One of the two words, alike, or that there is none, or none yet."""
        seeds = self.contrast.seeds
        if seeds < 2:
            return "one seed: no verdict" if seeds else "no verdict: not trained"
        word = {-1: below, 0: ALIKE if self.is_near else UNDECIDED, 1: above}[self.sign]
        alone = f" ({ALONE})" if not self.is_decided and self.contrast.p <= LEVEL else ""
        return word + (" so far" if seeds < FEW else "") + alone

    def wanted(self):
        """How many seeds would decide what is undecided, in words; empty of what is decided."""
        if self.is_decided or not self.contrast.seeds:
            return ""
        if self.contrast.seeds == 1:
            return "how many seeds would decide it one seed cannot say"
        either = (
            seeds_wanted(self.contrast, self.level),
            seeds_wanted(self.contrast, self.near_level, self.margin) if self.margin else None,
        )
        seeds = min(filter(None, either), default=None)
        return (
            f"{seeds} seeds would decide it, should mean and spread stay as they are"
            if seeds
            else "a thousand seeds would not decide it, should mean and spread stay as they are"
        )


def seeds_text(count):
    return "one seed" if count == 1 else f"{count} seeds"


def paired(differences, inputs, level=LEVEL, unit="nats/token"):
    """Mean of differences, one a seed, as a Value with Student's interval; None of no difference.

    One seed says nothing of seeds: the ends of its interval are infinite.
    """
    n = len(differences)
    if not n:
        return None
    middle = statistics.fmean(differences)
    sd = statistics.stdev(differences) if n > 1 else 0.0
    half = student(n - 1, level) * sd / math.sqrt(n) if n > 1 else math.inf
    value = combine(middle, unit, middle - half, middle + half, inputs, sd)
    return value._replace(seeds=n)


def by_seed(experiment, measure, *rows, metric=METRIC):
    """{seed: measure(results of the rows)} of every seed that all of them have, ascending."""
    runs = [experiment.by_seed(row, metric) for row in rows]
    shared = sorted(set.intersection(*map(set, runs)))
    return {seed: measure(*(run[seed]["value"] for run in runs)) for seed in shared}


def over_seeds(experiment, measure, *rows, metric=METRIC):
    """The same as paired() has it."""
    found = by_seed(experiment, measure, *rows, metric=metric)
    inputs = [of_record(experiment.by_seed(row, metric)[seed]) for row in rows for seed in found]
    return paired([*found.values()], inputs, unit=UNITS.get(metric, "1"))


def weighted(experiment, weights, metric=METRIC):
    """Value of the sum of {row: weight} times the rows' results, over the seeds that have all; or None."""

    def total(*results):
        return sum(map(operator.mul, weights.values(), results))

    return over_seeds(experiment, total, *weights, metric=metric)


def contrast(name, experiment, weights, metric=METRIC):
    value = weighted(experiment, weights, metric)
    return Contrast(name, value, _p(value))


def difference(row, other):
    """Weights of row - other."""
    return {row: 1, other: -1}


def beyond_a_share(row, twin, equal_reads):
    """Weights of (row - twin) - 1/4 (equal reads - twin)."""
    return {row: 1, twin: ENOUGH - 1, equal_reads: -ENOUGH}


def growth(xs):
    """Weights of the least-squares slope of rows over {row: x}."""
    mean = statistics.fmean(xs.values())
    spread = sum((x - mean) ** 2 for x in xs.values())
    return {row: (x - mean) / spread for row, x in xs.items()}


class Named(NamedTuple):
    """What a row is judged by: a twin, and that twin with as few reads as the row."""

    row: str
    twin: str
    equal_reads: str
    is_own: bool  # as the row names it; else the experiment's baseline, named beside

    @property
    def name(self):
        return self.row if self.is_own else (self.row, self.twin)

    @property
    def weights(self):
        return beyond_a_share(self.row, self.twin, self.equal_reads)


def named(experiment):
    """[Named] of all rows that were planned, in the file's order.

    A row whose twin is not the experiment's baseline is judged against that, too, by what the baseline itself loses
    of equal reads: twins share what the baseline lacks, as a convolution, and the paper compares with the baseline.
    """
    own = [Named(row, *contrast, True) for row, contrast in experiment.planned.items() if contrast]
    base = experiment.baseline
    small = next((one.equal_reads for one in own if one.twin == base), None)
    beside = [Named(one.row, base, small, False) for one in own if small and base not in one[:2]]
    return own + beside


def of_experiment(experiment):
    """{name: Judged} of everything that its rows name, trained or not."""
    return judge(contrast(one.name, experiment, one.weights) for one in named(experiment))


def judge(family, margin=0.0):
    """{name: Judged} of contrasts that were named together, by Holm's steps.

    margin, in the contrasts' unit: what is nearer to 0 than that is alike. 0: none is.
    """
    family = list(family)
    sure, level = _holm({one.name: one.p for one in family})
    near, near_level = _holm({one.name: _p(one.value, margin) if margin else 1.0 for one in family})
    return {
        one.name: Judged(one, sure[one.name], level, margin, near[one.name], near_level)
        for one in family
    }


def _holm(ps):
    """({name: whether it is sure}, the p that the first of those that are not would need) of {name: p}."""
    sure, goes_on = {}, True
    for place, name in enumerate(sorted(ps, key=ps.get)):
        goes_on = goes_on and ps[name] <= LEVEL / (len(ps) - place)
        sure[name] = goes_on
    return sure, LEVEL / max(1, sum(not is_sure for is_sure in sure.values()))


def _inside(value, margin):
    """How far a contrast lies from what it must leave: 0, or the nearer end of a margin around it; 0 if beyond that."""
    return max(0.0, margin - abs(value.value)) if margin else abs(value.value)


def _p(value, margin=0.0):
    """Of a contrast being 0, or, given a margin, of being no nearer to 0 than that."""
    if value is None or value.seeds < 2:
        return 1.0
    distance = _inside(value, margin)
    if not value.sd:  # alike in every seed
        return 0.0 if distance else 1.0
    return two_sided_p(distance / (value.sd / math.sqrt(value.seeds)), value.seeds - 1)


def seeds_wanted(contrast, level=LEVEL, margin=0.0):
    """How many seeds would decide a contrast that stays as it is; None if a thousand would not.

    Of one seed, whose spread is not known, None too. margin: how many would call it alike.
    """
    if contrast.seeds < 2 or not (distance := _inside(contrast.value, margin)):
        return None
    sds = distance / contrast.value.sd if contrast.value.sd else math.inf
    # The more seeds, the narrower: the first number that is enough.
    found = bisect.bisect_left(
        range(2, MOST_SEEDS + 1),
        True,
        key=lambda n: sds > student(n - 1, level) / math.sqrt(n),
    )
    return 2 + found if found < MOST_SEEDS - 1 else None
