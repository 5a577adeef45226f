"""Blocks of other libraries and frameworks beside ours."""

from decode import PEERS, at_equal_bandwidth, peer_rows
from report import cell, header, line, thread_counts
from section import Section
from values import ceiling, measured, of_record, ratio_of_times

EQUAL_BANDWIDTH = "_at_equal_bandwidth"  # how the ids of such ratios end
EQUAL_BANDWIDTH_NOTE = (
    "Each time multiplied by the read bandwidth measured beside it, so that a "
    "machine that was faster for one of the two does not decide; the goal of "
    "0.97 goes by this one where both bandwidths are known."
)
YARDSTICK_NOTE = (
    "Quantised weights, of fewer bits than any of ours: a yardstick beside our bf16 block, which "
    "divides no speed-up."
)
SHAPES = ("800m", "17b")
SPARSE_PEERS = ("pytorch", "pytorch_compiled", "jax")
TYPES = ("f32", "bf16", "q8_0", "q4_0")  # of weights; the last two are ggml's


def owns(about):
    return (about.study, about.section) in (("decode", "peers"), ("peers", ""))


def peer(records, shape, library, threads, weight_type="f32"):
    """The record of a library's dense block: of its own threads and our row slices, and whatever
    else it was tried with, the faster at equal bandwidth where all have one; or None."""
    found = [
        record
        for name, record, _ in peer_rows(records, shape, weight_type, threads, "block_ms")
        if name == library
    ]
    known = all(ceiling(r, "read_gbps") for r in found)
    return min(
        found, default=None, key=lambda r: r["value"] * (ceiling(r, "read_gbps") if known else 1)
    )


def peers_dense(records, shape, threads, weight_type="f32"):
    """The record of our own dense block that libraries are compared with, or None: of the same
    weights, of bf16 for narrower ones."""
    if weight_type != "f32":
        return records.get(f"table1_{shape}_bf16", "baseline.bf16", threads, "block_ms")
    return records.get(f"peers_{shape}", "baseline", threads, "block_ms") or records.get(
        f"table1_{shape}", "baseline", threads, "block_ms"
    )


def dense_pairs(records, shape, threads):
    """[(library, weight type, its record, our record or None)], as far as measured."""
    found = []
    for weight_type in TYPES:
        ours = peers_dense(records, shape, threads, weight_type)
        for library in PEERS:
            theirs = peer(records, shape, library, threads, weight_type)
            if theirs:
                found.append((library, weight_type, theirs, ours))
    return found


def sparse_pairs(records, shape, threads):
    """[(framework, its record, our record or None)] of the FF+QKV block with sparse cross-attention."""
    ours = records.get(f"table1_{shape}", "ff_qkv_cross", threads, "block_ms")
    found = []
    for framework in SPARSE_PEERS:
        row = f"{shape}.{framework}.ff_qkv_cross"
        theirs = records.get("peers_python", row, threads, "block_ms")
        if theirs:
            found.append((framework, theirs, ours))
    return found


def numbers_at(records, _own, threads):
    """{id: Value} of other libraries' blocks and of ours beside them."""
    found = {}
    for shape in SHAPES:
        for library, weight_type, theirs, ours in dense_pairs(records, shape, threads):
            suffix = "" if weight_type == "f32" else f".{weight_type}"
            found.update(_beside(f"peers.{shape}.{library}{suffix}", theirs, ours))
        for framework, theirs, ours in sparse_pairs(records, shape, threads):
            found.update(_beside(f"peers.{shape}.{framework}.ff_qkv_cross", theirs, ours))
        own = measured(records, f"peers_{shape}", "baseline", threads, "block_ms")
        if own:
            found[f"peers.{shape}.ours.block_ms"] = own
    return found


def _beside(name, theirs, ours):
    """Time of a peer's record, and its ratios to ours, which may be None."""
    if theirs is None:
        return {}
    time = of_record(theirs)
    found = {
        "block_ms": time,
        "over_ours": ratio_of_times(theirs, ours),
        f"over_ours{EQUAL_BANDWIDTH}": at_equal_bandwidth(theirs, ours),
    }
    return {f"{name}.{ending}": value for ending, value in found.items() if value}


def peer_table(report, threads):
    records = report.records
    lines = []
    for shape in SHAPES:
        for library, weight_type, theirs, ours in dense_pairs(records, shape, threads):
            words = "" if weight_type == "f32" else f" {weight_type}"
            mark = report.note(YARDSTICK_NOTE) if weight_type.startswith("q") else ""
            name = f"{shape} dense{words}, {library}{mark}"
            lines.append(peer_line(report, name, theirs, ours))
        for framework, theirs, ours in sparse_pairs(records, shape, threads):
            lines.append(peer_line(report, f"{shape} FF+QKV, {framework}", theirs, ours))
    if not lines:
        return []
    return [
        *header(
            "block",
            "theirs, ms",
            "ours, ms",
            "theirs / ours",
            "at equal bandwidth" + report.note(EQUAL_BANDWIDTH_NOTE),
        ),
        *lines,
    ]


def peer_line(report, name, theirs, ours):
    """Of two records, the second maybe None."""
    times = [record and of_record(record) for record in (theirs, ours)]
    return line(
        name,
        *(cell(report, v, interval=True) for v in times),
        cell(report, ratio_of_times(theirs, ours)),
        cell(report, at_equal_bandwidth(theirs, ours)),
    )


def write(report, _own):
    report.add("## Dense block and FF+QKV block of other libraries")
    for threads, words in thread_counts(report.records):
        lines = peer_table(report, threads)
        report.add(f"**{words[0].upper()}{words[1:]}**", "", *(lines or ["Not measured."]))
    report.repeat("./run_all.sh --peers")


SECTION = Section(owns=owns, numbers_at=numbers_at, write=write)
