"""The headline: a table of the rows that are quoted, states side by side, and what it comes to in words.

Made from {id: Value} of summary.json's ids alone, for README.md and for the first screen of the report.
"""

import math
from typing import NamedTuple

import contrasts
import decode
import paper
import training_curves
from document import Cell
from report import header, line, number
from sections.peers import COMPARABLE, FASTEST, SHAPES, suffix_of
from values import combine, exactly, rounded

SLOW = "@slow"
ONE_THREAD = "@one_thread"
LIBRARIES = {
    "eigen": "Eigen",
    "openblas": "OpenBLAS",
    "onednn": "Debian's oneDNN",
    "onednn_current": "oneDNN",
    "mkl": "MKL",
    "pytorch": "PyTorch",
    "pytorch_compiled": "compiled PyTorch",
    "jax": "JAX",
}


class Quoted(NamedTuple):
    experiment: str
    prefix: str  # the `id` of its config, with which its ids in summary.json begin
    row: str
    words: str

    @property
    def is_dense(self):
        return self.row.removesuffix(".bf16") in ("baseline", "dense")

    @property
    def is_dot(self):
        return self.row.endswith("_dot.bf16")


ROWS = (
    Quoted("table1_800m", "table1.800m", "baseline", "800M, dense"),
    Quoted("table1_800m", "table1.800m", "ff", "800M, sparse FF"),
    Quoted("table1_800m", "table1.800m", "ff_qkv", "800M, sparse FF+QKV"),
    Quoted("table1_800m", "table1.800m", "ff_qkv_cross", "800M, sparse FF+QKV, cross too"),
    Quoted("table1_17b", "table1.17b", "baseline", "17B, dense"),
    Quoted("table1_17b", "table1.17b", "ff_qkv_cross", "17B, sparse FF+QKV, cross too"),
    Quoted("table1_17b_bf16", "table1.17b", "baseline.bf16", "17B, dense, bf16"),
    Quoted(
        "table1_17b_bf16", "table1.17b", "ff_qkv_cross.bf16", "17B, sparse FF+QKV, cross too, bf16"
    ),
    Quoted(
        "table1_17b_bf16",
        "table1.17b",
        "ff_qkv_cross_dot.bf16",
        "17B, sparse FF+QKV, cross too, bf16, activations rounded",
    ),
    Quoted("table8", "table8", "terraformer", "800M Terraformer, FF+QKV+loss, SRU"),
    Quoted("table6_17b_bf16", "table6", "dense.bf16", "17B Terraformer, dense, bf16"),
    Quoted("table6_17b_bf16", "table6", "ff_qkv_loss4.bf16", "17B Terraformer, FF+QKV+loss, bf16"),
    Quoted(
        "table6_17b_bf16",
        "table6",
        "ff_qkv_loss4_dot.bf16",
        "17B Terraformer, FF+QKV+loss, bf16, activations rounded",
    ),
)


MARKS = {1: "¹", 2: "²"}  # of how few sittings a figure is
STATUS_MARKS = {"untrusted": "†", "extrapolated": "‡", "scaled_down": "‡"}
STATUS_WORDS = {
    "†": "untrusted: uncertain by over 5 % in a sitting, its sittings over 10 % apart, of under six rounds, or faster than "
    "its measured limit",
    "‡": "extrapolated from the blocks that memory held",
}


def quoted(what):
    """Ids of summary.json, without the suffix of a state; what: ms, on which a headline stands, or speedup."""
    return {f"{row.prefix}.{row.row}.{kind}_{what}" for row in ROWS for kind in ("token", "block")}


def trusted(found):
    """{id: Value} of the share of its speed-ups, of those measured, that may be quoted; empty of none. Of one state."""
    each = [value for name in sorted(quoted("speedup")) if (value := found.get(name))]
    if not each:
        return {}
    share = sum(value.status != "untrusted" for value in each) / len(each)
    value = combine(share, "1", share, share, each)
    return {"headline.trusted_share": value._replace(status="ok", extrapolated=False)}


def longest(sittings):
    """{id: Value} of the minutes that the longest headline sitting took; empty of none."""
    own = [s for s in sittings if s.kind == "headline"]
    if not own:
        return {}
    most = max(s.minutes for s in own)
    value = exactly(most, "min")._replace(commit=own[0].commit, sittings=len(own))
    return {"headline.sitting_minutes": value._replace(low=min(s.minutes for s in own))}


def states_of(found):
    """{suffix of ids: name} of the states that the figures are of; {"": ""} where none is known."""
    if "memory.read_gbps" not in found:
        return {"": ""}
    names = {"": found["memory.read_gbps"].state}
    return names | ({SLOW: "slow"} if "memory.read_gbps" + SLOW in found else {})


def most_sittings(found):
    """That a quoted time stands on: a sitting that was too short in a state does not count there."""
    times = quoted("ms")
    return max(
        (v.sittings for name, v in found.items() if name.partition("@")[0] in times), default=1
    )


def of_fewer(found):
    """What marks say, where figures have any; empty where all stand on as many sittings."""
    shown, most = quoted("ms") | quoted("speedup"), most_sittings(found)
    fewer = sorted(
        {
            value.sittings
            for name, value in found.items()
            if name.partition("@")[0] in shown
            and value.sittings < most
            and not math.isnan(value.value)
        }
    )
    if not fewer:
        return ""
    marks = ", ".join(f"{MARKS[n]} of {n}" for n in fewer if n in MARKS)
    met = "no more met that state, or " if len(states_of(found)) > 1 else ""
    return f"Of {most} sittings; {marks}: {met}the library that divides was measured in no more."


def cell(value, unit="", interval=False, most=0):
    """most: sittings that others stand on; one of fewer has a mark."""
    if not value:
        return Cell("–")
    if math.isnan(value.value):
        return Cell(STATUS_MARKS[value.status], value)
    # Rounded as summary.json is, so that README.md, made of that, says the same.
    text = f"{rounded(value.value):.3g}{unit}"
    width = value.high - value.low
    if interval and math.isfinite(width) and width > 1e-6 * abs(value.value):
        text += f" [{value.low:.3g}–{value.high:.3g}]"
    text += MARKS.get(value.sittings, "") * (value.sittings < most)
    return Cell(text + marks_of(value), value)


def marks_of(value):
    """Of its status, and of what it is beside."""
    also = STATUS_MARKS["extrapolated"] * value.extrapolated
    mark = STATUS_MARKS.get(value.status, "")
    return mark + also * (also != mark)


def meaning(lines):
    """What the marks of statuses in lines say, those that are there."""
    text = "\n".join(lines)
    return "; ".join(f"{mark} {words}" for mark, words in STATUS_WORDS.items() if mark in text)


def factor(value):
    return Cell("" if value is None else f"{value:.3g}×", value)


def without_untrusted(found):
    """The same figures, those that are not to be quoted without their numbers."""
    return {
        name: value._replace(value=math.nan) if value.status == "untrusted" else value
        for name, value in found.items()
    }


def table(found, is_brief=False, columns=None):
    """Lines of a table, none without numbers. Brief: no rows of the kernel set bf16_dot. Columns: {suffix of ids: name},
    states unless given."""
    columns = columns or states_of(found)
    several = len(columns) > 1

    def named(words, column):
        return f"{words}, {column}" if several else words

    names = ["model"]
    for words in ("token, ms", "token speed-up", "block speed-up", "share of roofline"):
        names += [named(words, column) for column in columns.values()]
        if words.endswith("speed-up"):
            names.append("paper's")
    lines, most = [], most_sittings(found)
    for row in ROWS:

        def get(ending, suffix, row=row):
            return found.get(f"{row.prefix}.{row.row}.{ending}{suffix}")

        if not any(get("token_ms", suffix) for suffix in columns) or (is_brief and row.is_dot):
            continue
        theirs = paper.published(row.experiment, row.row) or paper.Published()
        cells = [row.words, *(cell(get("token_ms", suffix), most=most) for suffix in columns)]
        for kind in ("token", "block"):
            ending = f"{kind}_speedup"
            cells += [
                "" if row.is_dense else cell(get(ending, suffix), "×", True, most)
                for suffix in columns
            ]
            cells.append("" if row.is_dense else factor(getattr(theirs, ending)))
        cells += [
            "" if row.is_dense else cell(get("share_of_roofline", suffix), most=most)
            for suffix in columns
        ]
        lines.append(line(*cells))
    return [*header(*names, are_numbers=False), *lines] if lines else []


def of_one_thread(found):
    """The figures of one thread under the ids that those of all threads have; empty where all are one."""
    prefix = "threads1."
    return {k.removeprefix(prefix): value for k, value in found.items() if k.startswith(prefix)}


def with_one_thread(found):
    """What README.md shows: {id: Value} and its columns, states or, on a machine with one, threads: all and one."""
    alone = of_one_thread(found)
    if len(states_of(found)) > 1 or alone.keys().isdisjoint(quoted("ms") | quoted("speedup")):
        return found, states_of(found)
    beside = {name + ONE_THREAD: value for name, value in alone.items()}
    return found | beside, {"": "all", ONE_THREAD: "one"}


def share_quotable(found):
    """Of the speed-ups that README.md has room for, the share that nothing is wrong with; 0 to 1."""
    found, columns = with_one_thread(found)
    ids = [
        f"{row.prefix}.{row.row}.{kind}_speedup{suffix}"
        for row in ROWS
        for kind in ("token", "block")
        for suffix in columns
        if not row.is_dense and not row.is_dot
    ]
    return sum(name in found and found[name].status == "ok" for name in ids) / len(ids)


def legend(found):
    """What the table's cells mean, and how far to trust them."""
    speedups = [value for name, value in found.items() if "_speedup" in name]
    doubtful = sum(value.status == "untrusted" for value in speedups)
    sittings = max((value.sittings for value in speedups), default=1)
    said = [
        "Speed-ups are over the fastest dense measured, ours or a library's (of tokens one with a "
        "library's blocks, if these are faster), in brackets their 95 % interval"
        + (
            f": of {sittings} sittings the lowest to the highest end."
            if sittings > 1
            else ", of one run: how far apart others would lie is not in it."
        ),
        of_fewer(found),
    ]
    if doubtful:
        said.append(
            f"{doubtful} of all {len(speedups)} speed-ups below are marked untrusted: do not quote them."
        )
    marks = meaning([*table(found), *table(of_one_thread(found), is_brief=True)])
    if marks:
        said.append(f"{marks}.")
    said.append(
        "*Share of roofline*: the block's speed-up as a share of what this machine's limits would allow."
    )
    return " ".join(filter(None, said))


def sentences(found):
    """Five that a reader should know before quoting the table; those that were measured."""
    said = (
        _of_memory(found),
        _of_blocks(found, "At 800M, all sparse but the loss", "table1.800m.ff_qkv_cross"),
        _of_blocks(found, "At 17B in bf16", "table1.17b.ff_qkv_cross.bf16")
        or _of_blocks(found, "At 17B", "table1.17b.ff_qkv_cross"),
        _of_libraries(found),
        _of_curves(found),
    )
    return [sentence for sentence in said if sentence]


def _of_blocks(found, words, row):
    states = states_of(found)
    speedups = [
        (value, name)
        for suffix, name in states.items()
        if (value := found.get(f"{row}.block_speedup{suffix}"))
    ]
    limits = [found.get(f"{row}.roofline_limit{suffix}") for suffix in states]
    if not speedups or not limits[0]:
        return ""
    cold = found.get(f"{row}_cold.block_speedup")
    return (
        f"{words}, a block is "
        + " and ".join(
            cell(value, "×", interval=True) + (f" ({name})" if len(states) > 1 else "")
            for value, name in speedups
        )
        + " as fast as the fastest dense one; the machine's limits would allow "
        + " and ".join(number(limit.value, "×") for limit in limits if limit)
        + (f". With no weight in a cache it is {cell(cold, '×', interval=True)}." if cold else ".")
    )


def _fastest(found):
    """[(shape, weight type, [(Value, state's name)])]: the fastest library's dense block over ours, in each state."""
    states = states_of(found)
    each = []
    for shape in SHAPES:
        for weight_type in COMPARABLE:
            name = f"peers.{shape}.{FASTEST}{suffix_of(weight_type)}.over_ours"
            values = [(found[name + s], state) for s, state in states.items() if name + s in found]
            if values:
                each.append((shape, weight_type, values))
    return each


def _of_libraries(found):
    """How good the dense block is that speed-ups divide: beside the fastest of other libraries."""
    each = _fastest(found)
    if not each:
        return ""
    several = len(states_of(found)) > 1
    names = {
        name.split(".")[2]
        for name in found
        if name.startswith("peers.") and name.endswith(".over_ours")
    }
    said = [
        f"{shape.upper()} in {weight_type} "
        + " and ".join(
            f"{cell(value, '×', interval=True)} ({library_name(value.whose)}{f', {state}' * several})"
            for value, state in values
        )
        for shape, weight_type, values in each
    ]
    return (
        f"Of {len(names - {FASTEST})} other libraries the fastest dense block takes, of our time, "
        f"{'; '.join(said)}."
    )


def library_name(library):
    """As its makers write it."""
    return LIBRARIES.get(library, library)


def whose_dense(found):
    """Of README.md, in a sentence: which library's dense block is the fastest beside ours, or that none was measured."""
    _, columns = with_one_thread(found)
    each = {"": _fastest(found)}
    if ONE_THREAD in columns:
        each = {", all threads": each[""], "by one": _fastest(of_one_thread(found))}
    said = [f"{words}: {_each_fastest(found, of)}" for words, of in each.items() if of]
    if not said:
        return "No library has been measured on this machine yet: speed-ups are over our own dense rows."
    return f"Fastest other dense block over ours{'; '.join(said)}; the faster divides."


def _each_fastest(found, each):
    """Of README.md: those that may be quoted, or that none may; a faster one than ours has its mark and is not passed over."""
    several = len(states_of(found)) > 1
    said = [
        f"{shape.upper()} {weight_type} "
        + " and ".join(
            f"{value.value:.3g}× ({library_name(value.whose)}{f', {state}' * several}){marks_of(value)}"
            for value, state in shown
        )
        for shape, weight_type, values in each
        if (shown := [v for v in values if v[0].status != "untrusted" or v[0].value < 1])
    ]
    return ", ".join(said) or "none trusted"


def _of_curves(found):
    """What the sparse layers cost in quality: of Figure 1's budget with the most seeds, five being enough, the largest of
    several; else of its largest size, which decides nothing."""
    budgets = [
        [found.get(f"quality.{name}.ff_qkv.{what}") for what in ("gap", "verdict_gap")]
        for name in ("fig1_16m", "fig1_5m", "fig1_1m5")
    ]
    known = [both for both in budgets if all(both) and both[0].seeds > 1]
    if known:
        gap, beyond = max(known, key=lambda both: min(both[0].seeds, contrasts.FEW))
        return (
            f"Trained with as many parameters on {gap.tokens / 1e6:.3g} M tokens, {gap.seeds} seeds, FF+QKV ends "
            f"{_nats(gap)} nats a token above dense, {_nats(beyond)} of it beyond a quarter of what dense loses with a "
            "feed-forward as small as sparse FF reads."
        )
    for size in training_curves.SIZES:
        sparse, least = (found.get(f"fig1.{size}.{row}.gap") for row in ("ff_qkv", "iso_read_ff"))
        if sparse and least:
            return (
                f"Trained with as many parameters ({size}), FF+QKV ends {_nats(sparse)} nats a token "
                f"above dense; a dense feed-forward of as few reads ends {_nats(least)} above it. One learning rate "
                "serves all rows, so this decides nothing."
            )
    return ""


def _nats(value):
    """With its interval over seeds."""
    if not math.isfinite(value.high - value.low):
        return f"{value.value:+.3f} (one seed)"
    return f"{value.value:+.3f} [{value.low:+.3f}, {value.high:+.3f}]"


def _of_memory(found):
    states = states_of(found)
    if "memory.read_gbps" not in found:
        read, peak = found.get("ceilings.read_gbps"), found.get("ceilings.fma_gflops")
        if not read or not peak:
            return ""
        return (
            f"Memory gave {cell(read)} GB/s and the cores {cell(peak)} GFLOP/s when measured alone."
        )
    words = []
    for suffix, name in states.items():
        rate, share = (found[f"memory.{what}{suffix}"].value for what in ("read_gbps", "share"))
        barrier = found.get(f"memory.barrier_us{suffix}")
        words.append(
            f"{number(rate)} GB/s"
            + (f" and a barrier of {number(barrier.value, digits=2)} µs" if barrier else "")
            + (f" ({name}, {share:.0%} of the reads)" if len(states) > 1 else "")
        )
    text = f"Memory gave {' or '.join(words)}."
    met = [found.get(f"memory.barrier_us{suffix}") for suffix in ("", SLOW)]
    if len(states) > 1 and all(met):
        barriers = [value.value for value in met]
        if max(barriers) > 2 * min(barriers):
            text += (
                " The threads met the sooner where memory was slower, as threads that share a core complex "
                "and its one way to memory would."
                if barriers[1] < barriers[0]
                else " The threads met the sooner where memory was faster."
            )
    return text + _of_caches(found)


def _of_caches(found):
    """Which rows are warm: a decode leaves a good part of what its next token reads in the last-level caches."""
    warm = [
        f"{share.value:.0%} ({row.words})"
        for row in ROWS
        if not row.is_dot
        and (share := found.get(f"{row.prefix}.{row.row}.cache_share"))
        and share.value > decode.WARM
    ]
    return f" **Caches could hold, of what a token reads, {', '.join(warm)}**." if warm else ""
