"""Ratios between records: speed-ups, limits and shares, each with its spread, status and commit."""

import math
from typing import NamedTuple

import records as rec

PEERS = ("eigen", "openblas", "onednn", "pytorch", "jax")
DENSE_SEATS = ("feed_forward", "projection", "cross_projection", "loss")


class Value(NamedTuple):
    value: float
    unit: str
    spread: float
    status: str
    commit: str


def of_record(record):
    commit = (record.get("commit") or "unknown") + ("-dirty" if record.get("dirty") else "")
    return Value(record["value"], record.get("unit") or "", record.get("spread") or 0.0,
                 record["status"], commit)


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


def setting(record, name, default=None):
    return (record.get("config") or {}).get(name, default)


def is_dense(record):
    return all(setting(record, seat, "dense") == "dense" for seat in DENSE_SEATS)


def has_peers_block(record):
    """Whether the row's block is the Transformer's that peers were measured with."""
    return setting(record, "residual_stack", "plain") == "plain" \
        and setting(record, "attention_layers", 1) == 1 \
        and setting(record, "recurrence", "none") == "none"


def peer_rows(records, shape, weight_type, threads, metric):
    """[(library, Value, Value of our own dense row in the same file or None)], every variant."""
    found = []
    for experiment, prefix in ((f"peers_{shape}", ""), ("peers_python", f"{shape}.")):
        own = measured(records, experiment, "baseline", threads, metric)
        for row in records.rows(experiment):
            library = row[len(prefix):].replace(".bf16", "").removesuffix("_own")
            record = records.get(experiment, row, threads, metric)
            if not row.startswith(prefix) or record is None or library not in PEERS:
                continue
            row_type = "bf16" if row.endswith(".bf16") else setting(record, "weight_type", "f32")
            if row_type == weight_type:
                found.append((library, of_record(record), own))
    return found


def peer(records, shape, library, threads, metric="block_ms", weight_type="f32"):
    """A library's dense block: the better of its own threads and our row slices; or None."""
    values = [v for name, v, _ in peer_rows(records, shape, weight_type, threads, metric)
              if name == library]
    return min(values, key=lambda v: v.value, default=None)


def dense_reference(records, experiment, row, threads, metric):
    """(Value, whose): what a speed-up divides, the fastest dense measured, ours or a peer's.

    A peer measured beside our own dense row counts by their ratio, applied to our row in this
    table: the machine's bandwidth differs from hour to hour, ratios within one file do not. One
    measured alone counts by its time, unless this row's block is another (a Terraformer's). An
    `untrusted` peer does not count.
    """
    record = records.get(experiment, row, threads, metric)
    if record is None:
        return None, None
    best, whose = of_record(record), "ours"
    if not experiment.startswith("table") or not is_dense(record):
        return best, whose
    ours = best
    rows = peer_rows(records, setting(record, "shape"), setting(record, "weight_type", "f32"),
                     threads, metric)
    for library, value, beside in rows:
        if value.status == "untrusted":
            continue
        scale = ratio(value, beside)
        if scale is None and not has_peers_block(record):
            continue
        here = value
        if scale:
            spread = scale.value * ours.value * math.hypot(scale.spread / scale.value,
                                                           ours.spread / ours.value)
            here = combine(scale.value * ours.value, ours.unit, spread, (scale, ours))
        if here.value < best.value:
            best, whose = here, library
    return best, whose


def against(records, experiment, row, threads):
    """The row whose time is divided by this row's."""
    for record in records.of_row(experiment, row, threads).values():
        if record.get("against"):
            return record["against"]
    rows = records.rows(experiment)
    return rows[0] if rows else None


def row_figures(records, experiment, row, threads):
    """{ending: Value} of one row of a table; what cannot be derived is absent."""
    base = against(records, experiment, row, threads)

    def get(metric, of=row):
        return measured(records, experiment, of, threads, metric)

    figures = {m: get(m) for m in ("token_ms", "block_ms", "token_efficiency", "block_efficiency",
                                   "token_weights_read", "block_weights_read", "token_floor_ms",
                                   "block_floor_ms", "parameters")}
    for kind in ("token", "block"):
        reference, _ = dense_reference(records, experiment, base, threads, f"{kind}_ms")
        figures[f"{kind}_speedup"] = ratio(reference, get(f"{kind}_ms"))
    for name, metric in (("reads_limit", "token_weights_read"),
                         ("block_reads_limit", "block_weights_read"),
                         ("roofline_limit", "block_floor_ms"),
                         ("token_roofline_limit", "token_floor_ms")):
        figures[name] = ratio(get(metric, base), get(metric))
    figures["share_of_roofline"] = ratio(figures["block_speedup"], figures["roofline_limit"], "1")
    figures["token_share_of_roofline"] = ratio(figures["token_speedup"],
                                               figures["token_roofline_limit"], "1")
    return {name: value for name, value in figures.items() if value is not None}


def sweep(records, experiment, threads, metric, setting_name):
    """{family: [(setting, Value)] ascending}: rows `<family>_<letter><number>` of a sweep."""
    found = {}
    for row in records.rows(experiment):
        record = records.get(experiment, row, threads, metric)
        x = setting(record, setting_name) if record else None
        if x is not None:
            found.setdefault(row.rsplit("_", 1)[0], []).append((float(x), of_record(record)))
    return {family: sorted(points) for family, points in found.items()}


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


def width_exponents(records, threads):
    """{(dense|sparse, bytes|flops|time): Value} of the width sweep."""
    found = {}
    for what, metric in (("bytes", "block_bytes"), ("flops", "block_flops"), ("time", "block_ms")):
        for family, points in sweep(records, "width_sweep", threads, metric, "d_model").items():
            exponent = fit_exponent(points)
            if exponent:
                found[family, what] = exponent
    return found


def ceilings(records, threads):
    """{read_gbps, fma_gflops, gemm_gflops: (Value, row)}: memory, not cache; the best library."""
    found = {}
    for metric in ("read_gbps", "fma_gflops", "gemm_gflops"):
        rows = [(row, measured(records, "ceilings", row, threads, metric))
                for row in records.rows("ceilings")]
        rows = [(row, value) for row, value in rows if value]
        if not rows:
            continue
        if metric == "read_gbps":  # the largest buffer is the one no cache holds
            row, value = max(rows, key=lambda item: setting(
                records.get("ceilings", item[0], threads, metric), "size", 0))
        else:
            row, value = max(rows, key=lambda item: item[1].value)
        found[metric] = (value, row)
    return found
