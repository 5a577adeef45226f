"""What single decodes say: the state the machine's memory was in, and ratios of rows that took turns.

A closing record of a decode carries its decodes, one line each: {"columns": [...], "rows": [[...]]}.
Nothing here looks at a row's times before its state is settled: states come from the reads alone.
"""

import math
import statistics
from typing import NamedTuple

import numpy

BLOCK_SECONDS = 10  # neighbouring rounds share the machine's mood: they are resampled together
FEWEST_BLOCKS = 5  # below that the interval is the whole range of the rounds
RESAMPLES = 1000
# Two heaps of reads are two states if their centres lie apart by so many of their common standard
# deviations (one normal heap, cut anywhere, comes to 2.7, an even spread to 3.5) and by such a
# factor; and if neither is a heap of readings that something else disturbed, a few in a hundred.
APART = 4
FARTHER = 1.15
SMALLEST = 0.04


class Decode(NamedTuple):
    group: str  # alike in rows that took turns
    round: int
    at: float  # seconds since the rows began to take turns
    read: float  # GB/s over the fixed GiB
    values: dict  # every column by its name


class States(NamedTuple):
    """Names of the states of a machine at one number of threads, by its read rates."""

    border: float | None  # GB/s; None: there is one state only
    centres: dict  # {name: median GB/s}
    shares: dict  # {name: share of the reads}

    def name(self, read):
        if self.border is None:
            return "only"
        return "fast" if read > self.border else "slow"


class Ratio(NamedTuple):
    value: float
    low: float
    high: float
    rounds: int
    blocks: int


def decodes_of(record):
    """The decodes of a closing record, in their order; none if it has none."""
    held = record.get("samples") or {}
    columns = held.get("columns", [])
    found = []
    for row in held.get("rows", []):
        values = dict(zip(columns, row))
        found.append(
            Decode(
                held.get("group", ""),
                int(values["round"]),
                values["at_s"],
                values["state_read_gbps"],
                values,
            )
        )
    return found


def states_of(reads):
    """The States of a machine from its reads (GB/s) alone; they are positive, at least one."""
    ordered = sorted(reads)
    logs = [math.log(read) for read in ordered]
    best, border = 0.0, None
    smallest = max(2, math.ceil(SMALLEST * len(logs)))
    total, squares = sum(logs), sum(x * x for x in logs)
    low_sum = low_squares = 0.0
    for n, x in enumerate(logs[:-1], start=1):
        low_sum, low_squares = low_sum + x, low_squares + x * x
        if n < smallest or len(logs) - n < smallest:
            continue
        m = len(logs) - n
        low, high = low_sum / n, (total - low_sum) / m
        width = (squares - n * low**2 - m * high**2) / len(logs)
        apart = (high - low) / math.sqrt(max(width, 1e-12))
        farther = logs[n + m // 2] - logs[n // 2]  # of medians: odd readings do not move them
        if apart > best and farther > math.log(FARTHER):
            best, border = apart, math.sqrt(ordered[n - 1] * ordered[n])
    if best < APART:
        return States(None, {"only": statistics.median(ordered)}, {"only": 1.0})
    heaps = {
        "slow": [r for r in ordered if r <= border],
        "fast": [r for r in ordered if r > border],
    }
    return States(
        border,
        {name: statistics.median(heap) for name, heap in heaps.items()},
        {name: len(heap) / len(ordered) for name, heap in heaps.items()},
    )


def blocks_of(rounds):
    """[(at, value)] of rounds in their order -> lists of values, each of at least BLOCK_SECONDS."""
    blocks, began = [], None
    for at, value in rounds:
        if began is None or at - began >= BLOCK_SECONDS:
            blocks.append([])
            began = at
        blocks[-1].append(value)
    # What is left at the end joins the last whole block.
    if len(blocks) > 1 and rounds[-1][0] - began < BLOCK_SECONDS / 2:
        blocks[-2].extend(blocks.pop())
    return blocks


def interval(rounds):
    """Median of [(at, value)] and its 95 % interval: blocks of rounds resampled, with a fixed seed."""
    values = [value for _, value in rounds]
    blocks = blocks_of(rounds)
    middle, n = statistics.median(values), len(values)
    if len(blocks) < FEWEST_BLOCKS:
        return Ratio(middle, min(values), max(values), n, len(blocks))
    ordered = sorted((value, at) for at, block in enumerate(blocks) for value in block)
    values = numpy.array([value for value, _ in ordered])
    drawn = numpy.random.default_rng(1).integers(len(blocks), size=(RESAMPLES, len(blocks)))
    times = numpy.stack([(drawn == at).sum(1) for at in range(len(blocks))])
    # How often each value, in ascending order, is drawn; the median lies where half are passed.
    passed = times[[at for _, at in ordered]].cumsum(0)
    total = passed[-1]
    ends = [values[(passed > place).argmax(0)] for place in ((total - 1) // 2, total // 2)]
    low, high = numpy.quantile((ends[0] + ends[1]) / 2, (0.025, 0.975))
    return Ratio(middle, float(low), float(high), n, len(blocks))


def paired(above, below, column, state=None):
    """Median over rounds of above / below in a column, both of the round in the same state.

    above, below: Decodes of rows that took turns. state: (States, name), or None for all rounds.
    None if there is no such round.
    """
    theirs = {(decode.group, decode.round): decode for decode in below}
    rounds = []
    for ours in above:
        other = theirs.get((ours.group, ours.round))
        if other is None:
            continue
        if state and any(state[0].name(decode.read) != state[1] for decode in (ours, other)):
            continue
        ratio = ours.values[column] / other.values[column]
        rounds.append((ours.group, (ours.at + other.at) / 2, ratio))
    return _of_groups(rounds)


def alone(decodes, column, state=None):
    """Median of one row's column in a state, with its interval; None if it was never in it."""
    rounds = [
        (decode.group, decode.at, decode.values[column])
        for decode in decodes
        if not state or state[0].name(decode.read) == state[1]
    ]
    return _of_groups(rounds)


def _of_groups(rounds):
    """interval of [(group, at, value)]; groups are laid end to end, since each has its own clock."""
    if not rounds:
        return None
    laid, offset, last = [], 0.0, None
    for group, at, value in sorted(rounds):
        if last is not None and group != last:
            offset = laid[-1][0] + BLOCK_SECONDS
        last = group
        laid.append((offset + at, value))
    return interval(laid)
