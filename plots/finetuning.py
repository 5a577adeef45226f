"""Whether a fine-tuned row does as well as another: differences over seeds and over the rows of a test set.

What is compared is the share of test rows that are told rightly. Both models have seen the training rows in the same order
where their seeds are the same, so that differences are taken seed by seed and row by row. Their mean's interval reaches
as far as the wider of two: a bootstrap over both, seeds and test rows drawn anew, with replacement, independently of each
other, which is too narrow where few seeds differ by more than test rows explain; and Student's over the seeds' means,
which is too narrow where few seeds happen to agree. One seed that stands apart decides nothing in the second.
"""

from typing import NamedTuple

import numpy

from values import Value, combine, of_record, setting, student

CLOSE = 0.02  # alike: no end of the interval is further from 0
ABOVE = 0.05  # by so much dense must beat the commonest label, or being alike says nothing
FEWEST = 3  # seeds that a verdict wants
LEVEL = 0.05
DRAWS = 10_000
SEED = 1
WIDENED = 2  # so many times what test rows alone make of the interval: seeds widen it
NORMAL = 1.96
CODES = {"alike": 1.0, "undecided": 0.0, "differs": -1.0}
UNIT = "1 alike, 0 undecided, -1 differs"


class Comparison(NamedTuple):
    """dense - row, shares of 1."""

    value: Value
    seeds: int
    items: int
    least: float  # half an interval from the test rows alone: what they cannot tell from 0
    dense: float  # what dense told rightly, of these seeds


def rightly_told(record):
    """Of an evaluation's record, a truth value for each test row; None of one that does not say."""
    config = record["config"]
    if not config.get("items"):
        return None
    digits = numpy.array([int(digit, 16) for digit in config["right"]], dtype=numpy.uint8)
    bits = numpy.unpackbits(digits[:, None], axis=1)[:, 4:]
    return bits.ravel()[: config["items"]].astype(bool)


def told_by_seed(experiment, row):
    """{seed: (record, truth values)} of a row's finished seeds."""
    last = experiment.last_evaluations(row)
    found = {seed: (last[seed], rightly_told(last[seed])) for seed in sorted(last)}
    return {seed: pair for seed, pair in found.items() if pair[1] is not None}


def interval(differences):
    """(low, high) of the mean of differences (seeds, test rows), two seeds at least, as the module's text says."""
    of_seeds = differences.mean(axis=1)
    half = student(len(of_seeds) - 1, LEVEL) * of_seeds.std(ddof=1) / len(of_seeds) ** 0.5
    low, high = bootstrap(differences)
    return min(low, float(of_seeds.mean() - half)), max(high, float(of_seeds.mean() + half))


def bootstrap(differences):
    """(low, high) of the mean of differences (seeds, test rows).

    Test rows with the same differences are alike, so that only how often each kind is drawn is drawn.
    """
    seeds, items = differences.shape
    kinds, counts = numpy.unique(differences, axis=1, return_counts=True)
    draw = numpy.random.default_rng(SEED)
    of_seeds = draw.multinomial(seeds, numpy.full(seeds, 1 / seeds), size=DRAWS) / seeds
    of_items = draw.multinomial(items, counts / items, size=DRAWS) / items
    means = ((of_seeds @ kinds) * of_items).sum(axis=1)
    return tuple(float(end) for end in numpy.quantile(means, (LEVEL / 2, 1 - LEVEL / 2)))


def _mean(shares, records):
    """Value of the mean of (seeds, test rows), one seed's ends infinite; records: what they were made from."""
    seeds = len(shares)
    low, high = interval(shares) if seeds > 1 else (-numpy.inf, numpy.inf)
    sd = float(shares.mean(axis=1).std(ddof=1)) if seeds > 1 else 0.0
    inputs = [of_record(record) for record in records]
    value = combine(float(shares.mean()), "1", float(low), float(high), inputs, sd)
    return value._replace(seeds=seeds)


def accuracy(experiment, row):
    """Value of the share that a row tells rightly, its interval over seeds and test rows; None of no or of unlike ones."""
    told = told_by_seed(experiment, row).values()
    if len({len(bits) for _, bits in told}) != 1:
        return None
    return _mean(numpy.stack([bits.astype(float) for _, bits in told]), [r for r, _ in told])


def compare(experiment, row, dense="dense"):
    """The Comparison of a row with dense, of the seeds that both have; None without any."""
    ours, theirs = told_by_seed(experiment, row), told_by_seed(experiment, dense)
    shared = [s for s in ours if s in theirs and len(ours[s][1]) == len(theirs[s][1])]
    if not shared or len({len(ours[s][1]) for s in shared}) > 1:
        return None
    differences = numpy.stack(
        [theirs[s][1].astype(float) - ours[s][1].astype(float) for s in shared]
    )
    value = _mean(differences, [each[s][0] for each in (ours, theirs) for s in shared])
    items = differences.shape[1]
    of_rows = differences.mean(axis=0)
    least = NORMAL * float(of_rows.std(ddof=1)) / items**0.5 if items > 1 else 1.0
    told = float(numpy.mean([theirs[s][1].mean() for s in shared]))
    return Comparison(value, len(shared), items, least, told)


def verdict(comparison, majority):
    """(alike, differs or undecided; what stands beside the word). majority: an accuracy, or None."""
    value = comparison.value
    least = f"test rows alone show no less than {100 * comparison.least:.1f} points"
    if comparison.seeds < FEWEST:
        seeds = "one seed" if comparison.seeds == 1 else f"{comparison.seeds} seeds"
        return "undecided", f"{least}; {seeds}, not {FEWEST}"
    above = None if majority is None else comparison.dense - majority
    low = above is not None and above < ABOVE
    near = f"dense is {100 * above:.1f} points above the commonest label" if low else ""
    if value.low >= -CLOSE and value.high <= CLOSE:
        if majority is None:
            return "undecided", f"{least}; the commonest label is not on record"
        return ("undecided", f"{least}; {near}, not {100 * ABOVE:g}") if low else ("alike", "")
    beside = [least]
    if value.low > 0 or value.high < 0:
        return "differs", "; ".join(beside + [near] * low)
    if value.high - value.low > 2 * WIDENED * comparison.least:
        beside.append("seeds widen the interval")
    return "undecided", "; ".join(beside)


def mispaired(experiments, may_share=()):
    """{row: why} of rows whose curves did not begin as their name says, as far as the weights' hashes tell.

    Rows of one name in several experiments begin from the same weights, others from different ones, but those that
    may_share theirs.
    """
    starts = {}
    for experiment in experiments:
        for row in experiment.rows:
            for record in experiment.by_seed(row, "log_perplexity").values():
                starts.setdefault(row, set()).add(setting(record, "init", ""))
    found = {}
    for row, own in starts.items():
        others = [
            f"`{other}`"
            for other in starts
            if other != row and starts[other] & own and not {row, other} <= set(may_share)
        ]
        if "" in own:
            found[row] = "some of its curves began from nothing instead of from its weights"
        elif others:
            found[row] = f"it began from the same weights as {', '.join(others)}"
        elif len(own) > 1:
            found[row] = "its curves did not all begin from the same weights"
    return found


def of_task(verdicts):
    """Of all rows of a task, those not judged being undecided: differs if one does, alike if all are."""
    if "differs" in verdicts:
        return "differs"
    return "alike" if set(verdicts) == {"alike"} else "undecided"
