"""Rows of decode tables: speed-ups, limits and shares from times, floors and counts."""

import functools

import evidence
import records as rec
import section
import states
from values import (
    ceiling,
    measured,
    of_record,
    other_bandwidths,
    product,
    ratio,
    ratio_of_times,
    scaled,
    setting,
)

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
WARM = 0.25  # of a token's bytes in caches: up to this a token drives its own weights out
NEAR_FLOOR = 1.1  # a floor over its time up to which it is the floor that is doubted, not the time


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
    """[(library, record)] of dense rows, every variant.

    Of this weight type alone: quantised weights are fewer bytes, and divide no time of wider ones.
    """
    found = []
    for experiment, prefix in ((f"peers_{shape}", ""), ("peers_python", f"{shape}.")):
        for row in records.rows(experiment):
            record = records.get(experiment, row, threads, metric)
            if not row.startswith(prefix) or record is None:
                continue
            row_type = "bf16" if row.endswith(".bf16") else setting(record, "weight_type", "f32")
            library = row[len(prefix) :].removesuffix(f".{row_type}").removesuffix("_own")
            if library in PEERS and row_type == weight_type:
                found.append((library, record))
    return found


def in_turns(records, theirs, ours):
    """Their time over ours, of rounds that both were in; None of records of which no round is known."""
    if theirs["experiment"] != ours["experiment"]:
        return None
    rows = (theirs["row"], ours["row"])
    return records.paired(theirs["experiment"], *rows, theirs["threads"], theirs["metric"])


def over(records, experiment, above, below, threads, metric):
    """Value: one row's over another's of a table, of rounds that both were in where there are any.

    Of times without states it is untrusted where memory's read rates beside them differ.
    """
    paired = records.paired(experiment, above, below, threads, metric)
    if paired:
        return paired
    found = [records.get(experiment, row, threads, metric) for row in (above, below)]
    if states.name_of(records):
        return ratio(*(record and of_record(record) for record in found))
    return ratio_of_times(*found)


def read_beside(record):
    """GB/s: of a record of one state the fixed read beside it, else its own ceiling; None if it has none."""
    return ceiling(record, "state_read_gbps") or ceiling(record, "read_gbps")


def at_equal_bandwidth(theirs, ours):
    """Their time over ours, each times the read bandwidth beside it; None if one has none."""
    rates = [record and read_beside(record) for record in (theirs, ours)]
    if not all(rates):
        return None
    return scaled(
        ratio(_beside_its_reading(theirs), _beside_its_reading(ours)), rates[0] / rates[1]
    )


def _beside_its_reading(record):
    """Its time, as uncertain as the one pair of readings beside it makes it."""
    time = of_record(record)
    if not rec.is_one_window(record):
        return time
    half = (evidence.ALIKE - 1) / 2  # such a pair may lie ALIKE apart, and what counts is its mean
    return product(time, time._replace(value=1.0, unit="x", low=1 - half, high=1 + half))


def counts(records, record):
    """Whether a dense row may divide: in a state all but what beats its floor, else what is trusted.

    A wide interval is no reason to leave out a faster row: what it divides is then doubtful too. Nor is a floor that is
    beaten by little, since what another library reads in less than our fastest read shows that floor to be too high.
    """
    beats_floor = record.get("beats_floor", record["status"] == "untrusted")
    return not beats_floor or is_near_floor(records, record)


def is_near_floor(records, record):
    """Whether a time lies below its floor by little."""
    kind = record["metric"].partition("_")[0]
    at = (record["experiment"], record["row"], record["threads"], f"{kind}_efficiency")
    share = records.get(*at)
    return bool(share) and states.MAX_EFFICIENCY < share["value"] <= NEAR_FLOOR


def peer_share(records, theirs, ours):
    """A peer's time over that of our dense row of a table; None if it cannot be said.

    A peer measured beside our own dense row counts by their ratio: the machine's bandwidth differs
    from hour to hour, ratios within one file do not. One measured alone counts at equal bandwidth
    over the dense row that libraries are compared with, where there is one of these weights (it is of
    the same sitting), unless our row's block is another (a Terraformer's). By its time alone, where a
    bandwidth is not known, it counts in records without states only: between two states times say
    nothing.
    """
    beside = records.get(theirs["experiment"], "baseline", theirs["threads"], theirs["metric"])
    if beside:
        return in_turns(records, theirs, beside) or ratio(of_record(theirs), of_record(beside))
    if not has_peers_block(ours):
        return None
    nearest = None
    if setting(ours, "weight_type", "f32") == "f32":
        at = (f"peers_{setting(ours, 'shape')}", "baseline", theirs["threads"], theirs["metric"])
        nearest = records.get(*at)
    plain = None if states.name_of(records) else ratio(of_record(theirs), of_record(ours))
    return at_equal_bandwidth(theirs, nearest or ours) or plain


def with_their_blocks(token, block, share):
    """What a token would take with a peer's blocks, over ours; None where the number of blocks is not known.

    share: of their block's time over ours'. Peers of other processes time a block alone; the rest of
    the token stays ours.
    """
    layers = setting(token, "decoder_layers")
    if not layers or not block:
        return None
    part = min(1.0, layers * block["value"] / token["value"])
    ends = {end: 1 - part * (1 - getattr(share, end)) for end in ("value", "low", "high")}
    return share._replace(**ends)


@functools.cache
def fastest_dense(records, experiment, row, threads, metric):
    """(share, whose): the fastest dense time measured over the row's own; (None, "ours") if that is.

    Of peers as peer_share has them. The same row by the kernel set bf16_dot counts where memory was
    as fast.
    """
    record = records.get(experiment, row, threads, metric)
    best, whose = None, "ours"
    if record is None or not (is_table(records.about(experiment)) and is_dense(record)):
        return best, whose
    block = records.get(experiment, row, threads, "block_ms")

    def peers_of(timed):
        kind = setting(record, "shape"), setting(record, "weight_type", "f32")
        return [
            (one, r) for one, r in peer_rows(records, *kind, threads, timed) if counts(records, r)
        ]

    shares = [(peer_share(records, theirs, record), name) for name, theirs in peers_of(metric)]
    if metric == states.CLOSING and block:
        known = {name for _, name in shares}
        for name, theirs in peers_of("block_ms"):
            share = None if name in known else peer_share(records, theirs, block)
            if share:
                shares.append((with_their_blocks(record, block, share), name))
    twin = records.get(experiment, dot_twin(row), threads, metric)
    if (
        twin
        and counts(records, twin)
        and (states.name_of(records) or not other_bandwidths(record, twin))
    ):
        paired = records.paired(experiment, dot_twin(row), row, threads, metric)
        share = paired or ratio(of_record(twin), of_record(record))
        shares.append((share, "ours by bf16_dot"))
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


@functools.cache
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
        share, whose = fastest_dense(records, experiment, base, threads, metric)
        speedup = over(metric)
        if share and speedup:
            speedup = product(share, speedup)._replace(whose=whose)
        figures[f"{kind}_speedup"] = speedup

    def limit(metric):
        """Of floors at one read rate, where the state's is known."""
        return records.limit(experiment, base, row, threads, metric) or over(metric)

    for name, metric in (
        ("reads_limit", "token_weights_read"),
        ("block_reads_limit", "block_weights_read"),
    ):
        figures[name] = over(metric)
    figures["roofline_limit"] = limit("block_floor_ms")
    figures["token_roofline_limit"] = limit("token_floor_ms")
    for kind in ("token", "block"):
        figures[f"{kind}_overlap_share"] = ratio(
            figures[f"{kind}_speedup"], limit(f"{kind}_overlap_floor_ms"), "1"
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
