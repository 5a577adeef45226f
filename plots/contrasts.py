"""Contrasts of training curves, seed by seed: each sparse row against its own dense twin.

A row names its twin and, made as small as what the row reads, that twin's own loss of equal reads. What is judged is
(row - twin) - 1/4 (equal reads - twin), in nats a token: below 0, sparsity keeps three quarters of what the dense weights
that it does not read are worth. Seeds share weights' and data's order, so that differences are taken within a seed; the
interval is Student's. Of several contrasts in one figure the least certain verdicts are held to stricter intervals (Holm
1979), so that all of them together are wrong in one of twenty figures at most.
"""

import bisect
import functools
import math
import operator
import statistics
from typing import NamedTuple

from values import combine, of_record

ENOUGH = 0.25  # share of equal reads' loss
LEVEL = 0.05
MOST_SEEDS = 1000  # more are as good as never
METRIC = "log_perplexity"


class Contrast(NamedTuple):
    row: str
    twin: str
    equal_reads: str
    against_twin: object  # Value: row - twin
    judged: object  # Value: (row - twin) - 1/4 (equal reads - twin)
    p: float  # of judged being 0; 1 of one seed
    seeds: int

    def verdict(self, is_decided):
        if not is_decided:
            return "undecided"
        return "enough" if self.judged.value < 0 else "not enough"


def two_sided_p(t, freedom):
    """P(|T| >= |t|) of Student's t, by the incomplete beta function's continued fraction (Lentz)."""
    if not math.isfinite(t):
        return 0.0
    return _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def _incomplete_beta(x, a, b):
    if x in (0.0, 1.0):
        return x
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly
        return 1 - _incomplete_beta(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    tiny = 1e-300
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    fraction = d
    for m in range(1, 500):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + numerator * d, tiny)
            c = _away_from_zero(1 + numerator / c, tiny)
            fraction *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * fraction / a


def _away_from_zero(number, tiny):
    return number if abs(number) > tiny else tiny


@functools.cache
def quantile(p, freedom):
    """t with P(|T| >= t) = p, by bisection."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, freedom) > p else (low, middle)
    return high


def paired(differences, inputs, level=LEVEL):
    """Mean of differences, one a seed, as a Value with Student's interval; None of no difference.

    One seed says nothing of seeds: the ends of its interval are infinite.
    """
    n = len(differences)
    if not n:
        return None
    middle = statistics.fmean(differences)
    sd = statistics.stdev(differences) if n > 1 else 0.0
    half = quantile(level, n - 1) * sd / math.sqrt(n) if n > 1 else math.inf
    value = combine(middle, "nats/token", middle - half, middle + half, inputs, sd)
    return value._replace(seeds=n)


def by_seed(experiment, measure, *rows):
    """{seed: measure(results of the rows)} of every seed that all of them have, ascending."""
    runs = [experiment.by_seed(row, METRIC) for row in rows]
    shared = sorted(set.intersection(*map(set, runs)))
    return {seed: measure(*(run[seed]["value"] for run in runs)) for seed in shared}


def over_seeds(experiment, measure, *rows):
    """The same as paired() has it."""
    found = by_seed(experiment, measure, *rows)
    inputs = [of_record(experiment.by_seed(row, METRIC)[seed]) for row in rows for seed in found]
    return paired([*found.values()], inputs)


def are_named(experiment):
    """Whether a row of it names the twin that it is judged by."""
    return any(experiment.setting(row, "twin") for row in experiment.rows)


def of_experiment(experiment):
    """[Contrast] of rows that name a twin, in the file's order; those that have a seed of all three."""
    found = []
    for row in experiment.rows:
        twin, small = (experiment.setting(row, knob) for knob in ("twin", "equal_reads"))
        if not twin or not small:
            continue
        judged = over_seeds(experiment, _lost, row, twin, small)
        if judged is None:
            continue
        against_twin = over_seeds(experiment, operator.sub, row, twin)
        found.append(Contrast(row, twin, small, against_twin, judged, _p(judged), judged.seeds))
    return found


def _lost(sparse, dense, less):
    return sparse - dense - ENOUGH * (less - dense)


def _p(judged):
    if judged.seeds < 2:
        return 1.0
    t = judged.value / (judged.sd / math.sqrt(judged.seeds)) if judged.sd else math.inf
    return two_sided_p(t, judged.seeds - 1)


def verdicts(contrasts):
    """{row: "enough", "not enough" or "undecided"} of one figure's contrasts, by Holm's steps."""
    decided, open_ = {}, True
    for place, one in enumerate(sorted(contrasts, key=lambda c: c.p)):
        open_ = open_ and one.p <= LEVEL / (len(contrasts) - place)
        decided[one.row] = one.verdict(open_)
    return decided


def level_of_undecided(contrasts):
    """What p the first of a figure's undecided contrasts would need by Holm's steps."""
    undecided = sum(verdict == "undecided" for verdict in verdicts(contrasts).values())
    return LEVEL / max(1, undecided)


def seeds_wanted(contrast, level=LEVEL):
    """How many seeds would decide a contrast that stays as it is; None if a thousand would not.

    Of one seed, whose spread is not known, None too.
    """
    if contrast.seeds < 2:
        return None
    sds = abs(contrast.judged.value) / contrast.judged.sd if contrast.judged.sd else math.inf
    # The more seeds, the narrower: the first number that is enough.
    found = bisect.bisect_left(
        range(2, MOST_SEEDS + 1),
        True,
        key=lambda n: sds > quantile(level, n - 1) / math.sqrt(n),
    )
    return 2 + found if found < MOST_SEEDS - 1 else None
