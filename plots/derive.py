"""Ratios between records: speed-ups, limits and shares, each with its spread, status and commit."""

import math
from typing import NamedTuple

import records as rec

PEERS = ("eigen", "openblas", "onednn", "pytorch", "jax")
DENSE_SEATS = ("feed_forward", "projection", "cross_projection", "loss")
MEASURED = ("token_ms", "block_ms", "token_efficiency", "block_efficiency", "token_weights_read",
            "block_weights_read", "token_bytes", "block_bytes", "token_floor_ms",
            "block_floor_ms", "parameters", "rows_touched")
SAME_BANDWIDTH = 1.1  # read rates further apart do not belong into one ratio of times
BENT = 1.1  # a floor so many times the time of its bytes alone is bent by FLOPs
# What skips the weights of zero activations: with random weights half of a ReLU is zero.
UNRANKED = ("dense_relu_skip",)


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


def is_ranked(record):
    """Whether the row may be compared with others by its time."""
    return setting(record, "feed_forward") not in UNRANKED


def ceiling(record, name):
    """A limit measured beside the record (`read_gbps`, `fma_gflops`); None if it was not."""
    return (record.get("ceilings") or {}).get(name) or None


def has_peers_block(record):
    """Whether the row's block is the Transformer's that peers were measured with."""
    return setting(record, "residual_stack", "plain") == "plain" \
        and setting(record, "attention_layers", 1) == 1 \
        and setting(record, "recurrence", "none") == "none"


def peer_rows(records, shape, weight_type, threads, metric):
    """[(library, record, Value of our own dense row in the same file or None)], every variant."""
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
                found.append((library, record, own))
    return found


def peer(records, shape, library, threads):
    """The record of a library's dense block: of its own threads and our row slices, and whatever
    else it was tried with, the faster at equal bandwidth where all have one; or None."""
    found = [record for name, record, _ in peer_rows(records, shape, "f32", threads, "block_ms")
             if name == library]
    known = all(ceiling(r, "read_gbps") for r in found)
    return min(found, default=None,
               key=lambda r: r["value"] * (ceiling(r, "read_gbps") if known else 1))


def peers_dense(records, shape, threads):
    """The record of our own dense block that libraries are compared with, or None."""
    return records.get(f"peers_{shape}", "baseline", threads, "block_ms") \
        or records.get(f"table1_{shape}", "baseline", threads, "block_ms")


def sparse_peer(records, shape, threads):
    """(JAX's, our) record of the FF+QKV block with sparse cross-attention, each or None."""
    return (records.get("peers_python", f"{shape}.jax.ff_qkv_cross", threads, "block_ms"),
            records.get(f"table1_{shape}", "ff_qkv_cross", threads, "block_ms"))


def at_equal_bandwidth(theirs, ours):
    """Their time over ours, each times the read bandwidth beside it; None if one has none."""
    rates = [record and ceiling(record, "read_gbps") for record in (theirs, ours)]
    if not all(rates):
        return None
    both = ratio(of_record(theirs), of_record(ours))
    return both and both._replace(value=both.value * rates[0] / rates[1],
                                  spread=both.spread * rates[0] / rates[1])


def dense_reference(records, experiment, row, threads, metric):
    """(Value, whose): what a speed-up divides, the fastest dense measured, ours or a peer's.

    A peer measured beside our own dense row counts by their ratio, applied to our row in this
    table: the machine's bandwidth differs from hour to hour, ratios within one file do not. One
    measured alone counts at equal bandwidth, or by its time where that is unknown, unless this
    row's block is another (a Terraformer's). The same row by the kernel set bf16_dot counts where
    memory was as fast. An `untrusted` peer does not count.
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
    for library, theirs, beside in rows:
        value = of_record(theirs)
        if value.status == "untrusted":
            continue
        scale = ratio(value, beside)
        if scale is None:
            if not has_peers_block(record):
                continue
            scale = at_equal_bandwidth(theirs, record)
        here = value
        if scale:
            spread = scale.value * ours.value * math.hypot(scale.spread / scale.value,
                                                           ours.spread / ours.value)
            here = combine(scale.value * ours.value, ours.unit, spread, (scale, ours))
        if here.value < best.value:
            best, whose = here, library
    twin = records.get(experiment, dot_twin(row), threads, metric)
    if twin and not other_bandwidths(record, twin):
        dot = of_record(twin)
        if dot.status != "untrusted" and dot.value < best.value:
            best, whose = dot, "ours by bf16_dot"
    return best, whose


def dot_twin(row):
    """The name of the same row with the kernel set bf16_dot."""
    return row.removesuffix(".bf16") + "_dot.bf16"


def against(records, experiment, row, threads):
    """The row whose time is divided by this row's."""
    for record in records.of_row(experiment, row, threads).values():
        if record.get("against"):
            return record["against"]
    rows = records.rows(experiment)
    return rows[0] if rows else None


def other_bandwidths(*found):
    """Whether memory was faster beside one of the records than beside another."""
    rates = [ceiling(record, "read_gbps") for record in found if record]
    return len(rates) > 1 and all(rates) and max(rates) / min(rates) > SAME_BANDWIDTH


def ratio_of_times(above, below):
    """of two records: untrusted where memory's read rates beside them differ; None of None."""
    value = ratio(above and of_record(above), below and of_record(below))
    return value._replace(status="untrusted") if value and other_bandwidths(above, below) \
        else value


def met_other_bandwidth(records, experiment, row, base, threads):
    return other_bandwidths(*(records.get(experiment, name, threads, "token_floor_ms")
                              for name in (row, base)))


def row_figures(records, experiment, row, threads):
    """{ending: Value} of one row of a table; what cannot be derived is absent.

    A row that is not ranked has no speed-up, limit or share.
    """
    base = against(records, experiment, row, threads)

    def get(metric, of=row):
        return measured(records, experiment, of, threads, metric)

    figures = {metric: get(metric) for metric in MEASURED}
    if not all(is_ranked(r) for r in records.of_row(experiment, row, threads).values()):
        return {name: value for name, value in figures.items() if value is not None}
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
    # Shares divide by each row's own limit, so that they hold whatever the bandwidth was.
    if met_other_bandwidth(records, experiment, row, base, threads):
        for name in ("token_speedup", "block_speedup", "roofline_limit", "token_roofline_limit"):
            if figures[name]:
                figures[name] = figures[name]._replace(status="untrusted")
    return {name: value for name, value in figures.items() if value is not None}


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
    return {family: [(x, of_record(record)) for x, record in points.items()]
            for family, points in sweep_records(records, *which).items()}


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
            if exponent and what == "time" and other_bandwidths(*sweep_records(
                    records, "width_sweep", threads, metric, "d_model")[family].values()):
                exponent = exponent._replace(status="untrusted")
            if exponent:
                found[family, what] = exponent
    return found


def floors_over_bytes(records, threads):
    """{dense | sparse: {d_model: a block's floor over the time of its bytes at the bandwidth}}

    1 where memory binds every phase, more where FLOPs bind some.
    """
    floors, read = (sweep_records(records, "width_sweep", threads, metric, "d_model")
                    for metric in ("block_floor_ms", "block_bytes"))
    found = {}
    for family, points in floors.items():
        for width, floor in points.items():
            rate, size = ceiling(floor, "read_gbps"), read.get(family, {}).get(width)
            if rate and size:
                found.setdefault(family, {})[width] = floor["value"] / (size["value"] / rate * 1e-6)
    return found


def flops_bend_from(over):
    """The first width where FLOPs bend the floor, {d_model: floor over bytes}; or None."""
    return next((width for width, above in over.items() if above > BENT), None)


def ceilings(records, threads):
    """{metric: (Value, row)}: reading is from memory, not cache; the product the best library's."""
    found = {}
    for metric in ("read_gbps", "fma_gflops", "bf16_dot_gflops", "gemm_gflops"):
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
