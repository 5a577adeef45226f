"""Numbers with interval, status and commit, and what is made of them: ratios, sweeps, means, fits."""

import functools
import math
import statistics
from typing import NamedTuple

import records as rec

SAME_BANDWIDTH = 1.1  # read rates further apart do not belong into one ratio of times


class Value(NamedTuple):
    """A number and its 95 % interval: the number itself where nothing varied, infinite where nothing is known of it."""

    value: float
    unit: str
    low: float
    high: float
    status: str
    commit: str
    state: str = ""  # of the machine's memory; empty: not known
    sittings: int = 1  # that the number is the median of
    sd: float = 0.0  # over seeds; 0 of what has none
    commands: tuple = ()  # that measure it
    seeds: int = 0  # of a training curve's, that it is the mean of; 0 of what has none
    tokens: int = 0  # that it was trained on
    whose: str = ""  # dense time that it stands on, if not ours: a library
    extrapolated: bool = False  # from the blocks that memory held, whatever the status says beside


def of_entry(entry):
    """The Value that summary.json holds as `entry`; an end that is null there is infinite."""
    none = {"low": -math.inf, "high": math.inf}
    return Value(**(entry | {end: none[end] for end in none if entry[end] is None}))


def rounded(number):
    """As summary.json holds numbers; None if it is not finite."""
    return float(f"{number:.6g}") if math.isfinite(number) else None


def exactly(value, unit, status="ok"):
    return Value(value, unit, value, value, status, "")


def of_record(record):
    commit = (record.get("commit") or "unknown") + ("-dirty" if record.get("dirty") else "")
    return Value(
        record["value"],
        record.get("unit") or "",
        *rec.interval(record),
        record["status"],
        commit,
        record.get("state", ""),
        record.get("sittings", 1),
        commands=(record["command"],) if record.get("command") else (),
        # A whole token's time was put together from those blocks.
        extrapolated=record.get("metric") == "token_ms" and lacks_blocks(record),
    )


def lacks_blocks(record):
    """Whether memory held fewer blocks than the model has."""
    held = setting(record, "blocks_held")
    return held is not None and held < setting(record, "decoder_layers", 0)


def measured(records, experiment, row, threads, metric):
    """The Value of one record, or None."""
    record = records.get(experiment, row, threads, metric)
    return of_record(record) if record else None


def ratio(above, below, unit="x"):
    """above / below of numbers that are independent; None if either is missing or zero.

    Relative uncertainties add in quadrature, the upper ones of one to the lower ones of the other.
    """
    if above is None or below is None or not below.value or not above.value:
        return None
    value = above.value / below.value

    def side(up, down):
        return math.hypot(_relative(above, up), _relative(below, down))

    down, up = side("low", "high"), side("high", "low")
    if math.inf in (down, up):  # an interval that holds 0
        low, high = -math.inf, math.inf
    else:
        low, high = sorted((value / (1 + down), value * (1 + up)))
    return combine(value, unit, low, high, (above, below))


def product(one, other):
    """Of independent numbers; None if either is missing or zero."""
    inverse = other and ratio(other._replace(value=1.0, low=1.0, high=1.0), other)
    return ratio(one, inverse, one.unit if other.unit == "x" else other.unit) if inverse else None


def _relative(value, end):
    """How far an end of the interval is from the value, as a factor above 1, less 1."""
    lower, upper = (value.low, value.value) if end == "low" else (value.value, value.high)
    return abs(upper / lower) - 1 if lower and upper / lower > 0 else math.inf


def combine(value, unit, low, high, inputs, sd=0.0):
    """A Value made from `inputs`: the worst of their statuses, all of their commits."""
    commits = sorted({commit for i in inputs for commit in i.commit.split("+")})
    states = {i.state for i in inputs}
    return Value(
        value,
        unit,
        low,
        high,
        rec.worst(i.status for i in inputs),
        "+".join(commits),
        states.pop() if len(states) == 1 else "",
        min((i.sittings for i in inputs), default=1),
        sd,
        tuple(dict.fromkeys(command for i in inputs for command in i.commands)),
        extrapolated=any(i.extrapolated for i in inputs),
    )


def scaled(value, factor, unit=None):
    """The same in another unit, if one is named; None of None."""
    return value and value._replace(
        value=value.value * factor,
        low=value.low * factor,
        high=value.high * factor,
        unit=unit or value.unit,
    )


def setting(record, name, default=None):
    return (record.get("config") or {}).get(name, default)


def ceiling(record, name):
    """A limit measured beside the record (`read_gbps`, `fma_gflops`); None if it was not."""
    return (record.get("ceilings") or {}).get(name) or None


def other_bandwidths(*found):
    """Whether memory was faster beside one of the records than beside another."""
    rates = [ceiling(record, "read_gbps") for record in found if record]
    return len(rates) > 1 and all(rates) and max(rates) / min(rates) > SAME_BANDWIDTH


def ratio_of_times(above, below):
    """of two records: untrusted where memory's read rates beside them differ; None of None."""
    value = ratio(above and of_record(above), below and of_record(below))
    return value._replace(status="untrusted") if value and other_bandwidths(above, below) else value


def sweep_records(records, experiment, threads, metric, setting_name):
    """{family: {setting: record} ascending}: rows `<family>_<letter><number>` of a sweep."""
    found = {}
    for row in records.rows(experiment):
        record = records.get(experiment, row, threads, metric)
        x = setting(record, setting_name) if record else None
        if x is not None:
            found.setdefault(row.rsplit("_", 1)[0], {})[float(x)] = record
    return {family: {x: points[x] for x in sorted(points)} for family, points in found.items()}


def sweep(records, *which):
    """{family: [(setting, Value)] ascending} of the same arguments."""
    return {
        family: [(x, of_record(record)) for x, record in points.items()]
        for family, points in sweep_records(records, *which).items()
    }


def fit_exponent(points):
    """Least-squares slope of log y over log x; None below 3 points."""
    points = [(x, v) for x, v in points if x > 0 and v.value > 0]
    if len(points) < 3:
        return None
    xs = [math.log(x) for x, _ in points]
    ys = [math.log(v.value) for _, v in points]
    n = len(points)
    mean_x, mean_y = sum(xs) / n, sum(ys) / n
    spread_x = sum((x - mean_x) ** 2 for x in xs)
    if spread_x == 0:
        return None
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / spread_x
    residual = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in zip(xs, ys))
    error = math.sqrt(residual / (n - 2) / spread_x)
    half = student(n - 2) * error
    return combine(slope, "1", slope - half, slope + half, [v for _, v in points])


def two_sided_p(t, freedom):
    """P(|T| >= |t|) of Student's t, by the incomplete beta function's continued fraction (Lentz).

    Of infinite freedom it is the normal distribution.
    """
    if not math.isfinite(t):
        return 0.0
    if math.isinf(freedom):
        return math.erfc(abs(t) / math.sqrt(2))
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
def student(freedom, p=0.05):
    """t with P(|T| >= t) = p of Student's distribution, by bisection; so many deviations is half a mean's interval."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, freedom) > p else (low, middle)
    return high


def over_seeds(records):
    """The mean of their values, sd: their standard deviation, interval: of a mean; None if none.

    One seed says nothing of others: the ends of its interval are infinite.
    """
    if not records:
        return None
    values = [r["value"] for r in records]
    n, middle = len(values), statistics.fmean(values)
    sd = statistics.stdev(values) if n > 1 else 0.0
    half = student(n - 1) * sd / math.sqrt(n) if n > 1 else math.inf
    inputs = [of_record(r) for r in records]
    unit = records[0].get("unit") or ""
    return combine(middle, unit, middle - half, middle + half, inputs, sd)._replace(seeds=n)
