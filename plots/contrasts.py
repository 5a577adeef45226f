"""Contrasts of training curves, seed by seed: each sparse row against its own dense twin.

A row names its twin and, made as small as what the row reads, that twin's own loss of equal reads. What is judged is
(row - twin) - 1/4 (equal reads - twin), in nats a token: below 0, sparsity keeps three quarters of what the dense weights
that it does not read are worth. Seeds share weights' and data's order, so that differences are taken within a seed; the
interval is Student's. Of several contrasts in one figure the least certain verdicts are held to stricter intervals (Holm
1979), so that all of them together are wrong in one of twenty figures at most.
"""

import math
import statistics
from typing import NamedTuple

from values import combine, of_record

ENOUGH = 0.25  # share of equal reads' loss
LEVEL = 0.05
METRIC = "log_perplexity"


class Contrast(NamedTuple):
    row: str
    twin: str
    equal_reads: str
    against_twin: object  # Value: row - twin
    judged: object  # Value: (row - twin) - 1/4 (equal reads - twin)
    p: float  # of judged being 0
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


def quantile(p, freedom):
    """t with P(|T| >= t) = p, by bisection."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, freedom) > p else (low, middle)
    return high


def paired(differences, inputs, level=LEVEL):
    """Mean of differences, one a seed, as a Value with Student's interval; None of fewer than two."""
    if len(differences) < 2:
        return None
    middle, sd = statistics.fmean(differences), statistics.stdev(differences)
    n = len(differences)
    half = quantile(level, n - 1) * sd / math.sqrt(n)
    return combine(middle, "nats/token", middle - half, middle + half, inputs, sd)


def of_experiment(experiment):
    """[Contrast] of rows that name a twin, in the file's order."""
    found = []
    for row in experiment.rows:
        twin, small = (experiment.setting(row, knob) for knob in ("twin", "equal_reads"))
        if not twin or not small:
            continue
        runs = [experiment.by_seed(name, METRIC) for name in (row, twin, small)]
        shared = sorted(set.intersection(*map(set, runs)))
        values = [[run[seed]["value"] for run in runs] for seed in shared]
        inputs = [of_record(run[seed]) for run in runs for seed in shared]
        against_twin = paired([sparse - dense for sparse, dense, _ in values], inputs)
        lost = [sparse - dense - ENOUGH * (less - dense) for sparse, dense, less in values]
        judged = paired(lost, inputs)
        if judged is None:
            continue
        t = judged.value / (judged.sd / math.sqrt(len(lost))) if judged.sd else math.inf
        found.append(
            Contrast(
                row, twin, small, against_twin, judged, two_sided_p(t, len(lost) - 1), len(lost)
            )
        )
    return found


def verdicts(contrasts):
    """{row: "enough", "not enough" or "undecided"} of one figure's contrasts, by Holm's steps."""
    decided, open_ = {}, True
    for place, one in enumerate(sorted(contrasts, key=lambda c: c.p)):
        open_ = open_ and one.p <= LEVEL / (len(contrasts) - place)
        decided[one.row] = one.verdict(open_)
    return decided


def seeds_wanted(contrast, level=LEVEL):
    """How many seeds would decide a contrast that stays as it is; None if a thousand would not."""
    for n in range(2, 1001):
        if abs(contrast.judged.value) > quantile(level, n - 1) * contrast.judged.sd / math.sqrt(n):
            return n
    return None
