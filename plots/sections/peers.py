"""Blocks of other libraries and frameworks beside ours, each state of memory by itself."""

import math

import decode
import evidence
import records as rec
import states
from decode import PEERS, at_equal_bandwidth, peer_rows
from report import cell, header, line, number, thread_counts
from section import Section
from values import ceiling, measured, of_record, ratio, ratio_of_times, setting

EQUAL_BANDWIDTH = "_at_equal_bandwidth"  # how the ids of such ratios end
FASTEST = "fastest"  # stands for a library in ids
EQUAL_BANDWIDTH_NOTE = (
    "Of rows that took turns the median of rounds; else each time multiplied by the read bandwidth "
    "measured beside it, so that a machine that was faster for one of the two does not decide. The "
    "goal of 0.97 goes by this one where both bandwidths are known."
)
YARDSTICK_NOTE = (
    "Quantised weights, of fewer bits than any of ours: a yardstick beside our bf16 block, which "
    "divides no speed-up."
)
WINDOW_NOTE = (
    "One window of {seconds} s between two readings of memory, of whose tokens quartiles alone were "
    "noted. The interval reaches as far as whiskers of a box plot; at equal bandwidth what "
    "two readings may differ is added."
)
FEW_BLOCKS_NOTE = f"Fewer than {evidence.FEWEST_BLOCKS} blocks of {evidence.BLOCK_SECONDS} s: the interval is the whole range."
NO_READING_NOTE = "Memory was not read beside it: its state is not known, and it divides nothing."
SHAPES = ("800m", "17b")
SPARSE_PEERS = ("pytorch", "pytorch_compiled", "jax")
TYPES = ("f32", "bf16", "q8_0", "q4_0")  # of weights; the last two are ggml's
COMPARABLE = ("f32", "bf16")  # with ours


def owns(about):
    return (about.study, about.section) in (("decode", "peers"), ("peers", ""))


def suffix_of(weight_type):
    """Of ids."""
    return "" if weight_type == "f32" else f".{weight_type}"


def peer(records, shape, library, threads, weight_type="f32"):
    """The record of a library's dense block: of its own threads and our row slices, and whatever
    else it was tried with, the faster, without states at equal bandwidth where all have one; or None."""
    found = [
        record
        for name, record in peer_rows(records, shape, weight_type, threads, "block_ms")
        if name == library
    ]
    # Of one state they took turns.
    known = not states.name_of(records) and all(ceiling(r, "read_gbps") for r in found)
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


def over_ours(records, theirs, ours):
    """(their time over ours, the same at equal bandwidth) of two records, None of what cannot be said.

    Of rounds that both were in the two are one. A ratio across states, or of a state that is not
    known, is untrusted.
    """
    if theirs is None or ours is None:
        return None, None
    paired = decode.in_turns(records, theirs, ours)
    if paired:
        return paired, paired
    if not states.name_of(records):
        return ratio_of_times(theirs, ours), at_equal_bandwidth(theirs, ours)
    plain = ratio(of_record(theirs), of_record(ours))
    if plain and not (theirs.get("state") and ours.get("state")):
        return plain._replace(status="untrusted"), None
    return plain, at_equal_bandwidth(theirs, ours)


def fastest(records, shape, weight_type, threads):
    """The Value, its `whose` the library: the least of all libraries' times over ours, with the lowest of their lower
    ends; None if none is comparable. What beats its floor by much was measured wrongly and does not count."""
    found = []
    for library, kind, theirs, ours in dense_pairs(records, shape, threads):
        if kind != weight_type or not decode.counts(records, theirs):
            continue
        plain, equal = over_ours(records, theirs, ours)
        value = equal or (None if states.name_of(records) else plain)
        if value:
            found.append(value._replace(whose=library))
    if not found:
        return None
    least = min(found, key=lambda value: value.value)
    lows = [value.low for value in found if math.isfinite(value.low)]  # of one round there is none
    return least._replace(low=min(lows)) if math.isfinite(least.low) else least


def numbers_at(records, _own, threads):
    """{id: Value} of other libraries' blocks and of ours beside them."""
    found = {}
    for shape in SHAPES:
        for library, weight_type, theirs, ours in dense_pairs(records, shape, threads):
            name = f"peers.{shape}.{library}{suffix_of(weight_type)}"
            found.update(_beside(records, name, theirs, ours))
        for framework, theirs, ours in sparse_pairs(records, shape, threads):
            found.update(_beside(records, f"peers.{shape}.{framework}.ff_qkv_cross", theirs, ours))
        for weight_type in COMPARABLE:
            least = fastest(records, shape, weight_type, threads)
            if least:
                found[f"peers.{shape}.{FASTEST}{suffix_of(weight_type)}.over_ours"] = least
        own = measured(records, f"peers_{shape}", "baseline", threads, "block_ms")
        if own:
            found[f"peers.{shape}.ours.block_ms"] = own
    return found


def _beside(records, name, theirs, ours):
    """Time of a peer's record, and its ratios to ours, which may be None."""
    plain, equal = over_ours(records, theirs, ours)
    found = {
        "block_ms": of_record(theirs),
        "over_ours": plain,
        f"over_ours{EQUAL_BANDWIDTH}": equal,
    }
    return {f"{name}.{ending}": value for ending, value in found.items() if value}


def peer_table(report, threads):
    """Of the report's records, which are of one state or know none."""
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
    said = fastest_words(records, threads)
    return [
        *header(
            "block",
            "theirs, ms",
            "ours, ms",
            "theirs / ours",
            "at equal bandwidth" + report.note(EQUAL_BANDWIDTH_NOTE),
        ),
        *lines,
        *(["", said] if said else []),
    ]


def peer_line(report, name, theirs, ours):
    """Of two records, the second maybe None."""
    times = [record and of_record(record) for record in (theirs, ours)]
    plain, equal = over_ours(report.records, theirs, ours)
    return line(
        name,
        cell(report, times[0], interval=True) + how_sure(report, theirs),
        cell(report, times[1], interval=True),
        cell(report, plain),
        cell(report, equal, interval=True),
    )


def how_sure(report, record):
    """The mark of a time that stands on little."""
    if rec.is_one_window(record):
        seconds = f"{setting(record, 'seconds', 0):g}"
        text = WINDOW_NOTE.format(seconds=seconds)
        if states.name_of(report.records) and not record.get("state"):
            text = NO_READING_NOTE
        return report.note(text)
    if record.get("blocks", evidence.FEWEST_BLOCKS) < evidence.FEWEST_BLOCKS:
        return report.note(FEW_BLOCKS_NOTE)
    return ""


def fastest_words(records, threads):
    """Which library is the fastest of each weight type, and which do not count; empty if there is nothing to say."""
    said = [
        f"{shape} {weight_type} {value.whose}, {number(value.value)}× our time"
        for shape in SHAPES
        for weight_type in COMPARABLE
        if (value := fastest(records, shape, weight_type, threads))
    ]
    near, out = [], []
    for shape in SHAPES:
        for library, weight_type, theirs, ours in dense_pairs(records, shape, threads):
            if weight_type not in COMPARABLE:
                continue
            value = next(filter(None, reversed(over_ours(records, theirs, ours))), None)
            text = f"{shape} {weight_type} {library}{f', {number(value.value)}×' if value else ''}"
            if not decode.counts(records, theirs):
                out.append(text)
            elif decode.is_near_floor(records, theirs):
                at = (theirs["experiment"], theirs["row"], theirs["threads"], "block_efficiency")
                share = records.get(*at)["value"]
                near.append(f"{text} in {1 / share:.1%} of its floor")
    words = [f"The fastest of other libraries: {'; '.join(said)}."] if said else []
    if near:
        words.append(
            "Faster than our fastest read of memory allows, by less than a tenth, so that floors here are that much too "
            f"long and efficiencies too high: {'; '.join(near)}."
        )
    if out:
        words.append(
            "Faster by more than a tenth than the machine's limits allow, or doubted by what measured it, so not counted and "
            f"dividing nothing: {'; '.join(out)}."
        )
    return " ".join(words)


def write(report, _own):
    report.add("## Dense block and FF+QKV block of other libraries")
    for threads, words in thread_counts(report.records):
        for view, _ in states.views(report.records, threads):
            lines = peer_table(report.of(view), threads)
            title = words + states.words_of(view)
            report.add(f"**{title[0].upper()}{title[1:]}**", "", *(lines or ["Not measured."]))
        out = states.in_no_state(report.records, threads)
        if out:
            rows = ", ".join(f"`{row}` ({number(rate)} GB/s)" for row, rate in out.items())
            report.add(
                f"Left out: beside them memory was read as in no state that decodes were in: {rows}."
            )
    report.repeat("./run_all.sh --peers")


SECTION = Section(owns=owns, numbers_at=numbers_at, write=write)
