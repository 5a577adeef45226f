"""The Mann-Whitney U test of two samples, as Google Benchmark's comparison uses it: two-sided, on repetitions."""

import functools
import math
import statistics
from collections import Counter

ALPHA = 0.05
MOST_EXACT = 50  # values a sample; beyond, and with ties, the normal approximation


def u_statistic(one, other):
    """Pairs in which the value of `one` is the larger; a tie counts half."""
    return sum((x > y) + (x == y) / 2 for x in one for y in other)


def p_value(one, other):
    """Of both samples coming from one distribution; each holds at least one value."""
    u, (m, n) = u_statistic(one, other), (len(one), len(other))
    ties = [count for count in Counter([*one, *other]).values() if count > 1]
    if not ties and max(m, n) <= MOST_EXACT:
        counts = _arrangements(m, n)
        tail = sum(counts[: int(min(u, m * n - u)) + 1])
        return min(1.0, 2 * tail / sum(counts))
    total = m + n
    variance = m * n / 12 * (total + 1 - sum(t**3 - t for t in ties) / (total * (total - 1)))
    if variance <= 0:
        return 1.0  # all values are alike
    # Half a pair nearer to the middle, since U is a count.
    distance = max(0.0, abs(u - m * n / 2) - 0.5)
    return math.erfc(distance / math.sqrt(2 * variance))


def ratio(above, below):
    """(middle, low, high) of above / below, all positive: the median of all pairs' ratios, as of Hodges and Lehmann.

    The interval holds what the test at ALPHA would not reject, so that it lacks 1 where p_value is smaller than that
    (ties apart); from 0 to infinity of samples too small for any p below ALPHA.
    """
    ratios = sorted(x / y for x in above for y in below)
    left_out = _critical(len(above), len(below))
    middle = statistics.median(ratios)
    if left_out < 0:
        return middle, 0.0, math.inf
    return middle, ratios[left_out], ratios[-1 - left_out]


@functools.cache
def _critical(m, n):
    """The largest U that is significant at ALPHA; -1 if none is."""
    if max(m, n) > MOST_EXACT:
        return math.floor(m * n / 2 - 0.5 - 1.96 * math.sqrt(m * n * (m + n + 1) / 12))
    counts = _arrangements(m, n)
    total, tail = sum(counts), 0
    for u, count in enumerate(counts):
        tail += count
        if 2 * tail >= ALPHA * total:
            return u - 1


@functools.cache
def _arrangements(m, n):
    """How many orders of m and n different values give U = 0, 1, ..., m n.

    The coefficients of the product over i = 1..m of (1 - x^(n + i)) / (1 - x^i).
    """
    counts = [1] + [0] * (m * n)
    for i in range(1, m + 1):
        for at in range(m * n, n + i - 1, -1):
            counts[at] -= counts[at - n - i]
        for at in range(i, m * n + 1):
            counts[at] += counts[at - i]
    return counts
