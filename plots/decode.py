"""Rows of decode tables: speed-ups, limits and shares from times, floors and counts."""

import section
import states
from values import ceiling, measured, of_record, other_bandwidths, product, ratio, scaled, setting

LINKED_PEERS = ("eigen", "openblas", "onednn")  # kernel sets of the same program
# In processes of their own.
OTHER_PEERS = ("pytorch", "pytorch_compiled", "jax", "onednn_current", "mkl", "ggml")
PEERS = LINKED_PEERS + OTHER_PEERS
DENSE_PARTS = ("feed_forward", "projection", "cross_projection", "loss")
MEASURED = (
    "token_ms",
    "block_ms",
    "token_efficiency",
    "block_efficiency",
    "token_weights_read",
    "block_weights_read",
    "token_bytes",
    "block_bytes",
    "token_floor_ms",
    "block_floor_ms",
    "token_overlap_floor_ms",
    "block_overlap_floor_ms",
    "token_overlap_efficiency",
    "block_overlap_efficiency",
    "parameters",
    "rows_touched",
)
# What skips the weights of zero activations: with random weights half of a ReLU is zero.
UNRANKED = ("dense_relu_skip",)


is_table = section.of("decode")


def is_dense(record):
    return all(setting(record, part, "dense") == "dense" for part in DENSE_PARTS)


def is_ranked(record):
    """Whether the row may be compared with others by its time."""
    return setting(record, "feed_forward") not in UNRANKED


def has_peers_block(record):
    """Whether the row's block is the Transformer's that peers were measured with."""
    return (
        setting(record, "residual_stack", "plain") == "plain"
        and setting(record, "attention_layers", 1) == 1
        and setting(record, "recurrence", "none") == "none"
    )


def peer_rows(records, shape, weight_type, threads, metric):
    """[(library, record, Value of our own dense row in the same file or None)], every variant.

    Of this weight type alone: quantised weights are fewer bytes, and divide no time of wider ones.
    """
    found = []
    for experiment, prefix in ((f"peers_{shape}", ""), ("peers_python", f"{shape}.")):
        own = measured(records, experiment, "baseline", threads, metric)
        for row in records.rows(experiment):
            record = records.get(experiment, row, threads, metric)
            if not row.startswith(prefix) or record is None:
                continue
            row_type = "bf16" if row.endswith(".bf16") else setting(record, "weight_type", "f32")
            library = row[len(prefix) :].removesuffix(f".{row_type}").removesuffix("_own")
            if library in PEERS and row_type == weight_type:
                found.append((library, record, own))
    return found


def at_equal_bandwidth(theirs, ours):
    """Their time over ours, each times the read bandwidth beside it; None if one has none."""
    rates = [record and ceiling(record, "read_gbps") for record in (theirs, ours)]
    if not all(rates):
        return None
    return scaled(ratio(of_record(theirs), of_record(ours)), rates[0] / rates[1])


def counts(record):
    """Whether a dense row may divide: in a state all but what beats its floor, else what is trusted.

    A wide interval is no reason to leave out a faster row: what it divides is then doubtful too.
    """
    return not (record.get("beats_floor", record["status"] == "untrusted"))


def fastest_dense(records, experiment, row, threads, metric):
    """(share, whose): the fastest dense time measured over the row's own; (None, "ours") if that is.

    A peer measured beside our own dense row counts by their ratio: the machine's bandwidth differs
    from hour to hour, ratios within one file do not. One measured alone counts at equal bandwidth,
    or by its time where that is unknown, unless this row's block is another (a Terraformer's). The
    same row by the kernel set bf16_dot counts where memory was as fast. Peers of other processes
    time a block alone, so that they divide no token.
    """
    record = records.get(experiment, row, threads, metric)
    best, whose = None, "ours"
    if record is None or not (is_table(records.about(experiment)) and is_dense(record)):
        return best, whose
    ours = of_record(record)
    rows = peer_rows(
        records, setting(record, "shape"), setting(record, "weight_type", "f32"), threads, metric
    )
    shares = []
    for library, theirs, beside in rows:
        if not counts(theirs):
            continue
        share = ratio(of_record(theirs), beside)
        if share is None:
            if not has_peers_block(record):
                continue
            share = at_equal_bandwidth(theirs, record) or ratio(of_record(theirs), ours)
        shares.append((share, library))
    twin = records.get(experiment, dot_twin(row), threads, metric)
    if twin and counts(twin) and (states.name_of(records) or not other_bandwidths(record, twin)):
        paired = records.paired(experiment, dot_twin(row), row, threads, metric)
        shares.append((paired or ratio(of_record(twin), ours), "ours by bf16_dot"))
    for share, name in shares:
        if share and share.value < (best.value if best else 1):
            best, whose = share, name
    return best, whose


def dense_reference(records, experiment, row, threads, metric):
    """(Value, whose): the time of the fastest dense measured, at this row's; (None, None) without."""
    record = records.get(experiment, row, threads, metric)
    if record is None:
        return None, None
    share, whose = fastest_dense(records, experiment, row, threads, metric)
    return (product(share, of_record(record)) if share else of_record(record)), whose


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


def met_other_bandwidth(records, experiment, row, base, threads):
    """Of records that do not know the machine's state: those of one state met one bandwidth."""
    return not states.name_of(records) and other_bandwidths(
        *(records.get(experiment, name, threads, "token_floor_ms") for name in (row, base))
    )


def cache_share(records, token_bytes):
    """How much of what a token reads the last-level caches could hold; None where that is not known."""
    cache = records.machine.get("l3_bytes")
    if not cache or not token_bytes:
        return None
    return token_bytes._replace(
        unit="1", **dict.fromkeys(("value", "low", "high"), min(1.0, cache / token_bytes.value))
    )


def row_figures(records, experiment, row, threads):
    """{ending: Value} of one row of a table; what cannot be derived is absent.

    A row that is not ranked has no speed-up, limit or share.
    """
    base = against(records, experiment, row, threads)

    def get(metric, of=row):
        return measured(records, experiment, of, threads, metric)

    figures = {metric: get(metric) for metric in MEASURED}
    figures["cache_share"] = cache_share(records, figures["token_bytes"])
    if not all(is_ranked(r) for r in records.of_row(experiment, row, threads).values()):
        return {name: value for name, value in figures.items() if value is not None}

    def over(metric):
        """The base's over this row's: of rounds that both were in, where there are any."""
        return records.paired(experiment, base, row, threads, metric) or ratio(
            get(metric, base), get(metric)
        )

    for kind in ("token", "block"):
        metric = f"{kind}_ms"
        share, _ = fastest_dense(records, experiment, base, threads, metric)
        speedup = over(metric)
        figures[f"{kind}_speedup"] = product(share, speedup) if share else speedup
    for name, metric in (
        ("reads_limit", "token_weights_read"),
        ("block_reads_limit", "block_weights_read"),
        ("roofline_limit", "block_floor_ms"),
        ("token_roofline_limit", "token_floor_ms"),
    ):
        figures[name] = over(metric)
    for kind in ("token", "block"):
        figures[f"{kind}_overlap_share"] = ratio(
            figures[f"{kind}_speedup"], over(f"{kind}_overlap_floor_ms"), "1"
        )
    figures["share_of_roofline"] = ratio(figures["block_speedup"], figures["roofline_limit"], "1")
    figures["token_share_of_roofline"] = ratio(
        figures["token_speedup"], figures["token_roofline_limit"], "1"
    )
    # Shares divide by each row's own limit, so that they hold whatever the bandwidth was.
    if met_other_bandwidth(records, experiment, row, base, threads):
        for name in ("token_speedup", "block_speedup", "roofline_limit", "token_roofline_limit"):
            if figures[name]:
                figures[name] = figures[name]._replace(status="untrusted")
    return {name: value for name, value in figures.items() if value is not None}
