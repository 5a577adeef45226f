"""Numbers with spread, status and commit, and what is made of them: ratios, sweeps, means, fits."""

import math
import statistics
from typing import NamedTuple

import records as rec

SAME_BANDWIDTH = 1.1  # read rates further apart do not belong into one ratio of times


class Value(NamedTuple):
    value: float
    unit: str
    spread: float
    status: str
    commit: str


def of_record(record):
    commit = (record.get("commit") or "unknown") + ("-dirty" if record.get("dirty") else "")
    return Value(
        record["value"],
        record.get("unit") or "",
        record.get("spread") or 0.0,
        record["status"],
        commit,
    )


def measured(records, experiment, row, threads, metric):
    """The Value of one record, or None."""
    record = records.get(experiment, row, threads, metric)
    return of_record(record) if record else None


def ratio(above, below, unit="x"):
    """above / below, relative spreads added in quadrature; None if either is missing or zero."""
    if above is None or below is None or not below.value or not above.value:
        return None
    value = above.value / below.value
    spread = abs(value) * math.hypot(above.spread / above.value, below.spread / below.value)
    return combine(value, unit, spread, (above, below))


def combine(value, unit, spread, inputs):
    """A Value made from `inputs`: the worst of their statuses, all of their commits."""
    commits = sorted({commit for i in inputs for commit in i.commit.split("+")})
    return Value(value, unit, spread, rec.worst(i.status for i in inputs), "+".join(commits))


def scaled(value, factor):
    return value and value._replace(value=value.value * factor, spread=value.spread * factor)


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
    """Least-squares slope of log y over log x, spread: its standard error; None below 3 points."""
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
    return combine(slope, "1", error, [v for _, v in points])


def over_seeds(records, centre=statistics.fmean):
    """The centre of their values as a Value, spread = their standard deviation; None if none."""
    if not records:
        return None
    values = [r["value"] for r in records]
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return combine(
        centre(values), records[0].get("unit") or "", spread, [of_record(r) for r in records]
    )
