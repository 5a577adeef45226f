"""How far a contrast stands on the held-out text that it was measured on: the sampling error of that text.

A curve's last record holds the summed loss of every stretch of held-out text, in its order. All rows and seeds are
evaluated on the same stretches, so that a contrast is taken within a stretch, too. This interval says what other text of
the kind might give with the very same weights; that over seeds, what other seeds might give on the very same text.
"""

import math
from typing import NamedTuple

import contrasts
from values import combine, of_record, student

# Documents go over the ends of stretches and make neighbours alike: they are joined until no more than these are left.
MOST = 30
COLUMNS = ["loss", "tokens"]


class OverText(NamedTuple):
    value: object  # Value: mean over seeds, interval over stretches
    stretches: int
    tokens: float  # of held-out text


def over_text(experiment, weights):
    """OverText of a sum of {row: weight} times the rows' nats a token.

    None if a record of it holds no stretches, fewer than two, or other ones than the rest.
    """
    runs = [experiment.by_seed(row, contrasts.METRIC) for row in weights]
    seeds = sorted(set.intersection(*map(set, runs)))
    records = [[run[seed] for run in runs] for seed in seeds]
    held = [[_stretches(record) for record in of_seed] for of_seed in records]
    every = [one for of_seed in held for one in of_seed]
    if not every or len(every[0]) < 2:
        return None
    tokens = [of for _, of in every[0]]
    if any([of for _, of in one] != tokens for one in every):
        return None
    losses = [
        sum(
            weight * one[at][0]
            for of_seed in held
            for weight, one in zip(weights.values(), of_seed)
        )
        / len(seeds)
        for at in range(len(tokens))
    ]
    value = _of_stretches(_joined(losses), _joined(tokens))
    inputs = [of_record(record) for of_seed in records for record in of_seed]
    value = combine(value[0], "nats/token", value[0] - value[1], value[0] + value[1], inputs)
    return OverText(value._replace(seeds=len(seeds)), min(len(tokens), MOST), sum(tokens))


def _stretches(record):
    """[(loss, tokens)] of the record, empty if it holds none."""
    samples = record.get("samples") or {}
    return samples["rows"] if samples.get("columns") == COLUMNS else []


def _joined(numbers):
    """Sums of neighbours, at most MOST of them, of as many each as may be."""
    count = min(len(numbers), MOST)
    ends = [len(numbers) * part // count for part in range(count + 1)]
    return [sum(numbers[begin:end]) for begin, end in zip(ends, ends[1:])]


def _of_stretches(losses, tokens):
    """(nats a token, half its interval): a ratio of sums, by its residuals in each stretch."""
    ratio = sum(losses) / sum(tokens)
    count = len(losses)
    squares = sum((loss - ratio * of) ** 2 for loss, of in zip(losses, tokens))
    error = math.sqrt(squares * count / (count - 1)) / sum(tokens)
    return ratio, student(count - 1) * error


def both(seeds, text):
    """Value with the interval of both, Values that are independent: what other seeds on other text might give."""
    half = math.hypot(seeds.high - seeds.value, text.high - text.value)
    return seeds._replace(low=seeds.value - half, high=seeds.value + half)
