"""What single decodes say: the state the machine's memory was in, and ratios of rows that took turns.

A closing record of a decode carries its decodes, one line each, of long tokens one line a token: {"columns": [...],
"rows": [[...]]}.
Nothing here looks at a row's times before its state is settled: states come from the reads alone.
"""

import bisect
import math
import statistics
from typing import NamedTuple

import numpy

from values import student

BLOCK_SECONDS = 10  # neighbouring rounds share the machine's mood: they are resampled together
FEWEST_BLOCKS = 3  # below that the interval is the whole range of the rounds
# Below that it is Student's of the blocks' medians: resampled, they would be too sure.
FEWEST_RESAMPLED = 5
RESAMPLES = 1000
# Two heaps of reads are two states if their centres lie apart by so many of their common standard
# deviations (one normal heap, cut anywhere, comes to 2.7, an even spread to 3.5) and by such a
# factor; if neither is a heap of readings that something else disturbed, a few in a hundred; and if
# they are heaps, with a valley between: not a heap and its tail, which comes down from it. Those few in a hundred
# at either end count as if they lay where they begin, so that none of them, however odd, widens a heap.
APART = 4
FARTHER = 1.15
SMALLEST = 0.04
# Of windows a quarter of the way between the centres wide, the emptiest on that way holds at most such a share of what
# the one round either centre does: with so many reads more, since few may miss a window by chance. There the border is.
VALLEY = 0.2
MISSED = 2

FAR_ENOUGH = 1.001  # ratios of ceilings, for a line through their floors
ALIKE = 1.05  # as far may two readings of one memory lie apart, one right after the other


class Decode(NamedTuple):
    group: str  # alike in rows that took turns
    round: int
    at: float  # seconds since the rows began to take turns
    read: float  # GB/s over the fixed GiB, right after it
    values: dict  # every column by its name
    before: float | None = None  # GB/s over the same, right before it; None: nothing was read then
    # GB/s of the ceiling beside it, and of that what memory gave at least; None: not known.
    own: tuple | None = None


class States(NamedTuple):
    """Names of the states of a machine at one number of threads, by its read rates."""

    border: float | None  # GB/s; None: there is one state only
    centres: dict  # {name: median GB/s}
    shares: dict  # {name: share of the reads}
    ranges: dict  # {name: (lowest read, highest)} but for one in a hundred at either end

    def name(self, read):
        if self.border is None:
            return "only"
        return "fast" if read > self.border else "slow"

    def of(self, decode):
        """The state that memory was in throughout a decode; empty if the reads before and after it do not both say so.

        Empty too if the ceiling beside it denies it, which is read over as much as the row reads, and caches do not
        explain that: the state changed and changed back, or something disturbed the fixed reads, as a library's threads do
        that run on after its decode.
        """
        name = self.name(decode.read)
        if self.border is None:
            return name
        if decode.before is None or self.name(decode.before) != name:
            return ""
        most, least = decode.own or (None, None)
        denied = decode.own and (least > self.border if name == "slow" else most <= self.border)
        return "" if denied else name

    def is_taken(self, decode):
        """Whether somebody else had of memory: the ceiling beside a decode, the best of several passes, lies as far below
        the reads of the slowest state as another state's would have to. It counts all the same."""
        return bool(decode.own) and decode.own[0] * FARTHER < min(self.centres.values())

    def of_reading(self, read):
        """The state of a reading beside no decode: that of decodes with such reads; empty if none has them."""
        name = self.name(read)
        low, high = self.ranges[name]
        return name if low / ALIKE <= read <= high * ALIKE else ""


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
    uncached = record.get("uncached")
    found = []
    for row in held.get("rows", []):
        values = dict(zip(columns, row))
        own = values.get("read_gbps") if uncached is not None else None
        found.append(
            Decode(
                held.get("group", ""),
                int(values["round"]),
                values["at_s"],
                values["state_read_gbps"],
                values,
                values.get("read_before_gbps") or None,
                (own, own * uncached) if own else None,
            )
        )
    return found


def by_round(decodes):
    """{(group, round): its lines}, in their order."""
    rounds = {}
    for decode in decodes:
        rounds.setdefault((decode.group, decode.round), []).append(decode)
    return rounds


def floor_of(phases, overlapping, read, peak):
    """ms: the floor of [(bytes, FLOPs, how many)] at `read` GB/s and `peak` GFLOP/s, one after another or overlapping."""
    if overlapping:
        phases = [(*(sum(p[at] * p[2] for p in phases) for at in (0, 1)), 1)]
    return 1e-6 * sum(max(size / read, flops / peak) * count for size, flops, count in phases)


def floor_at(decodes, column, read, peak):
    """ms: what a row's floor would be at `read` GB/s and `peak` GFLOP/s by its decodes alone, of records without phases;
    None if they do not say.

    A floor is a sum of max(bytes / read, FLOPs / peak). Times the peak it depends on peak / read alone, along a straight
    line but where a phase turns from one to the other. From decodes, each at its own ceilings, it is taken off between
    those on either side; beyond them all, along the line that fits them.
    """
    found = sorted(
        (d.values["fma_gflops"] / d.values["read_gbps"], d.values[column] * d.values["fma_gflops"])
        for d in decodes
        if all(d.values.get(name) for name in ("read_gbps", "fma_gflops", column))
    )
    if not found or found[-1][0] < FAR_ENOUGH * found[0][0]:
        return None
    xs, ys = numpy.array(found).T
    x = peak / read
    if xs[0] <= x <= xs[-1]:
        return float(numpy.interp(x, xs, ys)) / peak
    slope, start = numpy.polyfit(xs, ys, 1)
    return float(start + slope * x) / peak


def has_reads(record):
    """Whether memory was read beside a record's decodes."""
    return any(decode.read for decode in decodes_of(record))


def states_of(reads):
    """The States of a machine from its reads (GB/s) alone; they are positive, at least one."""
    ordered = sorted(reads)
    logs = [math.log(read) for read in ordered]
    best, border = 0.0, None
    smallest = max(2, math.ceil(SMALLEST * len(logs)))
    few = min(smallest, len(logs)) - 1
    clipped = [min(max(x, logs[few]), logs[-1 - few]) for x in logs]
    total, squares = sum(clipped), sum(x * x for x in clipped)
    low_sum = low_squares = 0.0
    for n, x in enumerate(clipped[:-1], start=1):
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
    one = States(
        None, {"only": statistics.median(ordered)}, {"only": 1.0}, {"only": _range(ordered)}
    )
    if best < APART:
        return one
    heaps = {
        "slow": [r for r in ordered if r <= border],
        "fast": [r for r in ordered if r > border],
    }
    border = _valley(logs, *(math.log(statistics.median(heap)) for heap in heaps.values()))
    if border is None:
        return one
    heaps = {
        "slow": [r for r in ordered if r <= border],
        "fast": [r for r in ordered if r > border],
    }
    return States(
        border,
        {name: statistics.median(heap) for name, heap in heaps.items()},
        {name: len(heap) / len(ordered) for name, heap in heaps.items()},
        {name: _range(heap) for name, heap in heaps.items()},
    )


def _valley(logs, slow, fast):
    """The middle of the emptiest stretch between two centres, GB/s, all else in logarithms; None: there is no valley."""
    width = (fast - slow) / 4

    def within(begin):
        return bisect.bisect_right(logs, begin + width) - bisect.bisect_left(logs, begin)

    steps = 60  # of the way on which a window fits
    counts = [within(slow + (fast - slow - width) * i / steps) for i in range(steps + 1)]
    least = min(counts)
    if least + MISSED > VALLEY * min(within(centre - width / 2) for centre in (slow, fast)):
        return None
    emptiest = [i for i, count in enumerate(counts) if count == least]
    middle = emptiest[len(emptiest) // 2]
    return math.exp(slow + (fast - slow - width) * middle / steps + width / 2)


def _range(ordered):
    odd = len(ordered) // 100
    return ordered[odd], ordered[-1 - odd]


def blocks_of(rounds):
    """[(at, value)] of rounds in their order -> lists of values, each of at least BLOCK_SECONDS."""
    blocks, began = [], None
    for at, value in rounds:
        if began is None or at - began >= BLOCK_SECONDS:
            blocks.append([])
            began = at
        blocks[-1].append(value)
    # What is left at the end joins the last whole block; a round lasts until the next.
    step = (rounds[-1][0] - rounds[0][0]) / max(1, len(rounds) - 1)
    if len(blocks) > 1 and rounds[-1][0] - began + step < BLOCK_SECONDS:
        blocks[-2].extend(blocks.pop())
    return blocks


def interval(blocks):
    """Median of blocks of values and its 95 % interval: blocks resampled, with a fixed seed.

    Resampling a few blocks is surer than they are: its interval is widened as Student's of a mean is
    against the normal one, and goes no farther than the values; of the fewest it is Student's of their medians.
    """
    values = [value for block in blocks for value in block]
    middle, n, k = statistics.median(values), len(values), len(blocks)
    if k < FEWEST_BLOCKS:
        return Ratio(middle, min(values), max(values), n, k)
    if k < FEWEST_RESAMPLED:
        half = student(k - 1) * statistics.stdev(map(statistics.median, blocks)) / math.sqrt(k)
        low = middle - half if half < middle else min(values)  # times and ratios are positive
        return Ratio(middle, low, middle + half, n, k)
    ordered = sorted((value, at) for at, block in enumerate(blocks) for value in block)
    values = numpy.array([value for value, _ in ordered])
    drawn = numpy.random.default_rng(1).integers(len(blocks), size=(RESAMPLES, len(blocks)))
    times = numpy.stack([(drawn == at).sum(1) for at in range(len(blocks))])
    # How often each value, in ascending order, is drawn; the median lies where half are passed.
    passed = times[[at for _, at in ordered]].cumsum(0)
    total = passed[-1]
    ends = [values[(passed > place).argmax(0)] for place in ((total - 1) // 2, total // 2)]
    low, high = numpy.quantile((ends[0] + ends[1]) / 2, (0.025, 0.975))
    wider = student(k - 1) / student(math.inf) * math.sqrt(k / (k - 1))
    low = max(middle - wider * (middle - low), values[0])
    high = min(middle + wider * (high - middle), values[-1])
    return Ratio(middle, float(low), float(high), n, k)


def paired(above, below, column, state=None):
    """Median over rounds of above / below, as ratios_of has them; None if there is no such round."""
    return of_rounds(ratios_of(above, below, column, state))


def ratios_of(above, below, column, state=None):
    """[(group, at, above / below)] of a column in each round, both of it in the same state.

    above, below: Decodes of rows that took turns. state: (States, name), or None for all rounds. Of a round in which
    one of them has several lines, each of these counts, over the median of the other.
    """
    theirs = by_round(_within(below, state))
    ratios = []
    for at, ours in by_round(_within(above, state)).items():
        other = theirs.get(at, [])
        if not other:
            continue
        tops, bottoms = ([decode.values[column] for decode in each] for each in (ours, other))
        if len(tops) >= len(bottoms):
            bottoms = [statistics.median(bottoms)] * len(tops)
        else:
            tops = [statistics.median(tops)] * len(bottoms)
        when = statistics.fmean(statistics.fmean(d.at for d in each) for each in (ours, other))
        ratios += [(at[0], when, top / bottom) for top, bottom in zip(tops, bottoms)]
    return ratios


def _within(decodes, state):
    """Those in a state; all if there is none to be in."""
    return [d for d in decodes if not state or state[0].of(d) == state[1]]


def apart(above, below):
    """Ratio of two that took no turns: relative uncertainties add in quadrature; None without one."""
    if above is None or below is None:
        return None
    value = above.value / below.value
    up = math.hypot(above.high / above.value - 1, below.value / below.low - 1)
    down = math.hypot(above.value / above.low - 1, below.high / below.value - 1)
    return Ratio(
        value,
        value / (1 + down),
        value * (1 + up),
        min(above.rounds, below.rounds),
        min(above.blocks, below.blocks),
    )


def alone(decodes, column, state=None):
    """Median of one row's column in a state, with its interval; None if it was never in it."""
    return of_rounds(values_of(decodes, column, state))


def values_of(decodes, column, state=None):
    """[(group, at, value)] of one row's column in a state."""
    return [(d.group, d.at, d.values[column]) for d in _within(decodes, state)]


def of_rounds(rounds):
    """interval of [(group, at, value)]; None of none."""
    return interval(blocks_of_groups(rounds)) if rounds else None


def blocks_of_groups(rounds):
    """Blocks of [(group, at, value)]; each group has its own clock, and blocks of its own."""
    groups = {}
    for group, at, value in sorted(rounds):
        groups.setdefault(group, []).append((at, value))
    return [block for group in groups.values() for block in blocks_of(group)]
