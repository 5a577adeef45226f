"""The goals that the project set itself, as ids of summary.json, and which of them are met."""

import math
from typing import NamedTuple

import contrasts
import decode
import finetuning
import headline
import states
import summarise
from claims import FULL, PEERS, RUN
from document import Line, Rule
from report import cell, line, number
from sections import glue, number_tasks, peers, stacks, tables
from sections.curves import TRAIN
from sections.peers import COMPARABLE, EQUAL_BANDWIDTH, FASTEST, SHAPES
from values import ceiling

UNITS = {"x": "×", "1": "", "": "", finetuning.UNIT: ""}
ONE_THREAD = "threads1."
READ = "memory.read_gbps"
NOT_ASKED = "not asked here"
KERNELS = ("", "_dot")  # simd and bf16_dot, as rows of tables in bf16 are named


class Goal(NamedTuple):
    words: str
    comparison: str  # >=, >, <= or !=
    bar: float
    ids: tuple
    command: str = RUN  # that measures them
    part: str = ""  # of a figure, in place of its interval: half of that, or the deviation of seeds
    gbps: float = 0  # the goal is one for memory that gives all threads as much


HALF, SD = "half of the interval", "deviation of seeds"


def both_threads(ids):
    return tuple(prefix + name for name in ids for prefix in ("", "threads1."))


def over_ours(libraries, weight_types=("f32",)):
    return tuple(
        f"peers.{shape}.{library}{peers.suffix_of(weight_type)}.over_ours{EQUAL_BANDWIDTH}"
        for shape in SHAPES
        for weight_type in weight_types
        for library in libraries
    )


GOALS = (
    Goal(
        "dense block: its floor over its time",
        ">=",
        0.90,
        both_threads(
            f"table1.{shape}.baseline{suffix}.block_efficiency"
            for shape in SHAPES
            for suffix in ("", ".bf16")
        ),
    ),
    Goal(
        "speed-ups of the headline: the share that is certain to 5 % in a sitting and to 10 % over sittings",
        ">=",
        1,
        both_threads(("headline.trusted_share",)),
    ),
    Goal(
        "the longest sitting of the headline, minutes",
        "<=",
        45,
        ("headline.sitting_minutes",),
        "./run_all.sh --publish headline",
    ),
    Goal(
        "a linked library's dense block: its time over ours",
        ">=",
        0.97,
        over_ours(decode.LINKED_PEERS),
    ),
    Goal(
        "another library's dense block: its time over ours",
        ">=",
        0.97,
        over_ours(decode.OTHER_PEERS, COMPARABLE),
        PEERS,
    ),
    Goal(
        "the fastest of all libraries: its dense block's time over ours",
        ">=",
        0.97,
        both_threads(
            f"peers.{shape}.{FASTEST}{peers.suffix_of(weight_type)}.over_ours"
            for shape in SHAPES
            for weight_type in COMPARABLE
        ),
        PEERS,
    ),
    Goal(
        "FF+QKV block in jitted JAX: its time over ours",
        ">=",
        2,
        tuple(f"peers.{shape}.jax.ff_qkv_cross.over_ours" for shape in SHAPES),
        PEERS,
    ),
    Goal("800M, FF+QKV: speed-up of a token", ">=", 3.0, ("table1.800m.ff_qkv.token_speedup",)),
    Goal(
        "800M, FF+QKV and sparse cross-attention: block speed-up over its roofline limit",
        ">=",
        0.70,
        ("table1.800m.ff_qkv_cross.share_of_roofline",),
    ),
    Goal(
        "800M Terraformer: token speed-up over the dense Transformer",
        ">=",
        6,
        ("table8.terraformer.token_speedup",),
        FULL,
    ),
    Goal(
        "17B, FF+QKV and sparse cross-attention: speed-up of a block",
        ">=",
        42.5,
        tuple(
            f"table1.17b.ff_qkv_cross{suffix}.block_speedup"
            for suffix in ("", ".bf16", "_dot.bf16")
        ),
    ),
    Goal(
        "17B Terraformer, FF+QKV+loss, bf16: a token, ms, where memory gives 45 GB/s",
        "<=",
        10,
        tuple(f"table6.ff_qkv_loss4{kernels}.bf16.token_ms" for kernels in KERNELS),
        FULL,
        gbps=45,
    ),
    Goal(
        "17B, FF+QKV and sparse cross-attention, bf16: block, what nothing can beat over its time",
        ">=",
        0.70,
        tuple(
            f"table1.17b.ff_qkv_cross{kernels}.bf16.block_overlap_efficiency" for kernels in KERNELS
        ),
    ),
    Goal(
        "Tables 2 and 7: token speed-up over its roofline limit",
        ">=",
        0.85,
        tuple(
            f"table2.{row}.token_share_of_roofline"
            for row in ("n8", "n16", "n32", "n64", "n128", "n256", "moe64")
        )
        + tuple(f"table7.s{s}.token_share_of_roofline" for s in (2, 4, 8)),
    ),
    Goal(
        "reversible stack: what 24 blocks keep over what 2 keep",
        "<=",
        1.1,
        ("reversible.activation_growth",),
        FULL,
    ),
    Goal(
        "reversible stack: a training step over a plain one's",
        "<=",
        1.5,
        ("reversible.step_cost",),
        FULL,
    ),
    Goal(
        "Terraformer at 4,352 positions: peak memory of a training step over a plain one's, of 24 blocks and of the 2 that Table 5 trains",
        "<=",
        0.5,
        ("table5.memory.terraformer.peak_share", "table5.memory.terraformer.peak_share_2"),
        FULL,
    ),
    Goal(
        "Terraformer after a source of 4,096 pieces: token speed-up over its roofline limit",
        ">=",
        0.6,
        ("table5.decode.terraformer.token_share_of_roofline",),
        FULL,
    ),
    Goal(
        "LSH attention: a training step of full attention over its own, 16,384 positions",
        ">=",
        6,
        ("lsh.speedup_16384",),
        FULL,
    ),
    Goal(
        "LSH attention: memory grows as this power of the length",
        "<=",
        1.05,
        ("lsh.memory_exponent",),
        FULL,
    ),
    Goal(
        "training step of newest eager PyTorch over ours", ">=", 1.2, ("train.vs_pytorch",), PEERS
    ),
    Goal("training step of PyTorch 1.13 over ours", ">=", 3, ("train.vs_pytorch_1_13",), PEERS),
    Goal(
        "dense training step: share of the best library's product rate",
        ">=",
        0.50,
        ("train.mfu",),
        PEERS,
    ),
    Goal(
        "training step of a sparse row over its dense twin's",
        "<=",
        1.2,
        ("train.ff_n16.over_dense", "train.ff_qkv.over_qkv_mult_conv"),
        FULL,
    ),
    Goal(
        "Figure 1, 16 M tokens: sparse rows whose loss beyond a quarter of what equal reads lose is without a decision",
        "<=",
        0,
        ("quality.fig1_16m.undecided",),
        TRAIN.format("fig1_16m"),
    ),
    Goal(
        "Figure 1, 16 M tokens: how far what a sparse row loses to its twin is known, nats a token",
        "<=",
        0.015,
        tuple(f"quality.fig1_16m.{row}.contrast" for row in ("ff_n16", "ff_qkv")),
        TRAIN.format("fig1_16m"),
        HALF,
    ),
    Goal(
        "Figure 1, 16 M tokens: how far dense seeds lie apart, nats a token",
        "<=",
        0.012,
        ("quality.fig1_16m.dense.log_perplexity",),
        TRAIN.format("fig1_16m"),
        SD,
    ),
    Goal(
        "claims of Figures 3, 5, 7, experts, Table 8 and text without a decision: all of them, then of the figures, of "
        "changes of the sparse feed-forward and of a Terraformer's stack",
        "<=",
        3,
        (
            "quality.undecided",
            "quality.claims.undecided",
            "quality.recipes_1m5.undecided",
            "quality.stacks_1m5.undecided",
        ),
        TRAIN.format("frontier"),
    ),
    Goal(
        "rows of a sweep whose best learning rate has a worse one on both sides, as a share of those that were planned",
        ">=",
        1,
        tuple(
            f"quality.{name}.bracketed_share"
            for name in ("rates_1m5", "rates_5m", "rates_figures", "rates_frontier")
        ),
        TRAIN.format("rates_1m5"),
    ),
    Goal(
        "1.5 M tokens, start repaired: share of a row's steps on the plateau, the longest of all",
        "<=",
        0.10,
        ("quality.plateau_share",),
        TRAIN.format("frontier"),
    ),
    Goal(
        "frontier: rows that were trained and decoded",
        ">=",
        14,
        ("frontier.rows",),
        TRAIN.format("frontier"),
    ),
    Goal(
        "frontier: farthest of a seed's decode path from its trainer in f32, nats a token",
        "<=",
        1e-4,
        ("frontier.decode_difference",),
        TRAIN.format("frontier"),
    ),
    Goal(
        "full attention, a training step over 4,096 positions: share of the best product",
        ">=",
        0.70,
        ("attention.full.gemm_share_4096",),
        FULL,
    ),
    Goal(
        "attentions of a pattern, a training step over 16,384 positions: gain over the ratio of pairs",
        ">=",
        0.6,
        tuple(
            f"attention.{name}.share_of_pairs_16384" for name in ("window", "longformer", "bigbird")
        ),
        FULL,
    ),
    Goal(
        "1.5-entmax, a training step over 4,096 positions: softmax's time over its own",
        ">=",
        0.4,
        ("attention.full_entmax15.speedup_4096",),
        FULL,
    ),
    Goal(
        "the package `entmax` on PyTorch: its training step over ours",
        ">=",
        3,
        ("attention.full_entmax15.package_over_ours",),
        "experiments/attention/entmax_package.py",
    ),
    Goal(
        "decode of one attention after 8,192 positions: its floor over its time",
        ">=",
        0.75,
        tuple(f"attention.{name}.decode_efficiency" for name in ("full", "full_entmax15")),
        FULL,
    ),
    Goal(
        "Sparsefinder's C1: what holds the gold graphs leaves each kind of teacher its logits and its loss",
        ">=",
        1,
        ("sparsefinder.claims.c1",),
        "tools/teachers.py",
    ),
    Goal(
        "Sparsefinder, sequences of 512: the offline sweep of a teacher, s",
        "<=",
        600,
        ("sparsefinder.s_lm_512.1.sweep_s",),
        "tools/teachers.py",
    ),
    Goal(
        "Table 3: the dense model's accuracy on SST-2",
        ">=",
        0.80,
        ("table3.sst2.dense.label_accuracy",),
        glue.COMMAND,
    ),
    Goal(
        "Table 3: that less a bag of words'",
        ">=",
        0,
        ("table3.sst2.dense.above_bag_of_words",),
        glue.COMMAND,
    ),
    Goal(
        "Table 3: a task is decided, 1 alike or -1 differs",
        "!=",
        0,
        tuple(f"table3.{task}.verdict" for task in ("qqp", "mnli")),
        glue.COMMAND,
    ),
    Goal(
        "Table 5, SumPubMed: ROUGE-1 of a model's abstracts less that of the same ones beside other articles",
        ">",
        0,
        tuple(
            f"table5.sumpubmed.{row}.rouge1.above_another"
            for row in ("dense", "ff_qkv", "terraformer")
        ),
        "tools/table5.py",
    ),
    Goal(
        "Table 4, copying with a quarter of a recurrent unit a digit: digits told rightly on trained lengths",
        ">=",
        0.99,
        tuple(f"table4_long.{model}.copy.{number_tasks.TRAINED}" for model in number_tasks.MODELS),
        TRAIN.format("table4_long"),
    ),
    Goal(
        "the same: the Terraformer's accuracy less the Transformer's on longer numbers, seed by seed, is above or below 0",
        "!=",
        0,
        ("table4_long.difference.copy.token_accuracy",),
        TRAIN.format("table4_long"),
    ),
)


def verdict(goal, value):
    if value is None:
        return "not measured"
    if not math.isfinite(value.high - value.low):
        return "undecided, one seed" if value.seeds == 1 else "undecided, no interval"
    so_far = " so far" if 0 < value.seeds < contrasts.FEW else ""
    if goal.part:
        return ("met" if part(goal, value).value <= goal.bar else "missed") + so_far
    if goal.comparison == "!=" and value.low <= goal.bar <= value.high:
        return "undecided" + so_far
    met = {
        ">=": value.low >= goal.bar,
        ">": value.low > goal.bar,
        "<=": value.high <= goal.bar,
        "!=": True,  # of an interval that leaves the bar out
    }[goal.comparison]
    doubt = " but untrusted" if value.status == "untrusted" else ""
    return ("met" if met else "missed") + so_far + doubt


def has_part(goal, value):
    """Whether the goal is about a part of the figure, and the figure has it."""
    return bool(goal.part) and math.isfinite(value.high - value.low)


def part(goal, value):
    """The number that a goal is about, as a Value without an interval; the value itself of most."""
    if not has_part(goal, value):
        return value
    number = value.sd if goal.part == SD else (value.high - value.low) / 2
    return value._replace(value=number, low=number, high=number)


def judged(records, found=None):
    """[(Goal, id, Value or None, verdict)] of {id: Value}; a plain ratio where bandwidths are not known."""
    found = found or summarise.figures(records)
    lines = []
    for goal in GOALS:
        for name in goal.ids:
            at = name if name in found else name.removesuffix(EQUAL_BANDWIDTH)
            value = found.get(at)
            asked = value is None or is_asked(goal, found)
            lines.append((goal, at, value, verdict(goal, value) if asked else NOT_ASKED))
    return lines


def is_asked(goal, found, state=""):
    """Whether memory is as fast as the goal takes it to be; state: SLOW or none."""
    read = found.get(READ + state)
    return not read or read.value >= goal.gbps


def wanted(goal, unit):
    return (
        {">=": "≥", ">": ">", "<=": "≤", "!=": "≠"}[goal.comparison]
        + f" {goal.bar:g}"
        + unit_text(unit)
    )


def unit_text(unit):
    return UNITS.get(unit, f" {unit}")


def reach(goal, name, found):
    """What a speed-up or a time would be, were its row at its floor and the dense one as it is, and whether that does not
    do for the goal; empty of other figures."""
    row, _, ending = name.rpartition(".")
    kind, _, what = ending.rpartition("_")
    shares = [found.get(f"{row}.{kind}_{which}efficiency") for which in ("", "overlap_")]
    if what not in ("speedup", "ms") or not all(shares):
        return ""
    own = found[name].value
    each = [own * share.value if what == "ms" else own / share.value for share in shares]
    is_out = min(each) > goal.bar if what == "ms" else max(each) < goal.bar
    unit = unit_text(found[name].unit)
    phases, overlapped = (number(one) + unit for one in each)
    return (
        f"at its floor it would be {phases}, overlapped {overlapped}"
        + ": **out of reach here**" * is_out
    )


def limits(records, name):
    """What the hardware allows a row of a decode table, in words; empty for other ids."""
    threads = 1 if name.startswith(ONE_THREAD) else records.all_threads()
    records, _ = states.views(records, threads)[0]
    at = tables.place(records, name.removeprefix(ONE_THREAD))
    if at is None:
        return ""
    experiment, row, ending = at
    kind = "token" if ending.startswith("token") else "block"
    measured = records.of_row(experiment, row, threads)
    floor, time = measured.get(f"{kind}_floor_ms"), measured.get(f"{kind}_ms")
    rates = [floor and ceiling(floor, limit) for limit in ("read_gbps", "fma_gflops")]
    if time is None or not all(rates):
        return ""
    counted = [
        f"{number(measured[metric]['value'] * 1e-6)} {unit}"
        for metric, unit in ((f"{kind}_bytes", "MB"), (f"{kind}_flops", "MFLOP"))
        if metric in measured
    ]
    return (
        f"{kind} {number(time['value'])} ms, floor {number(floor['value'])} ms "
        f"at {number(rates[0])} GB/s and {number(rates[1])} GFLOP/s"
        + (f" for {' and '.join(counted)}" if counted else "")
        + tables.most_lost(records, experiment, row, threads)
        + tables.barriers(records, experiment, row, threads)
    )


def write(report):
    """The report's section."""
    records = report.records
    found = summarise.figures(records)
    lines = judged(records, found)
    missing = [goal.command for goal, _, value, _ in lines if value is None]
    lines = [line for line in lines if line[2] is not None]
    words = [text for _, _, _, text in lines]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(sorted(words)))
    report.add(
        "## Goals",
        "",
        "What the project set out to reach on its machine, at "
        f"{records.all_threads()} threads: {counts or 'nothing of it measured'}. Figures are ids of `summary.json`. "
        "Beside a missed decode time stands what the hardware allows: the floor, which is "
        "the sum over phases of max(bytes / bandwidth, FLOPs / peak), at the ceilings "
        "measured beside that row. An end of the interval decides: the lower one of what should be "
        "large, the upper one of what should be small; of a verdict that it is one. Of two states of memory the fast one is meant, and what "
        "the slow one comes to stands beside.",
    )
    slow = {name: value for _, name, *_ in lines if (value := found.get(name + headline.SLOW))}
    names = ("goal", "figure", "measured", "wanted", "verdict")
    names += ("in slow memory",) if slow else ()
    names += ("what the hardware allows",)
    table = [Line(names), Rule([name in ("measured", "wanted") for name in names])]
    before = None
    for goal, name, value, text in lines:
        table.append(
            line(
                goal.words if goal is not before else "",
                f"`{name}`",
                shown(report, name, part(goal, value))
                + (f" ({goal.part} of {value.value:.4g})" if has_part(goal, value) else ""),
                wanted(goal, value.unit),
                f"**{text}**",
                *([in_slow_memory(report, goal, slow.get(name), found)] if slow else []),
                "; ".join(filter(None, (reach(goal, name, found), limits(records, name))))
                if text.startswith("missed") or text == NOT_ASKED
                else "",
            )
        )
        before = goal
    if lines:
        report.add(*table)
    report.not_measured(missing, ("figure", "figures"))


def in_slow_memory(report, goal, value, found):
    """Value and verdict; empty of what it is not known of."""
    if value is None:
        return ""
    text = cell(report, value, unit_text(value.unit), interval=True)
    said = verdict(goal, value) if is_asked(goal, found, headline.SLOW) else NOT_ASKED
    return text + f" **{said}**"


def shown(report, name, value):
    """The figure with interval and marks."""
    text = cell(report, value, unit_text(value.unit), interval=True)
    at = tables.place(report.records, name)
    for kind, share in tables.SHARE.items():
        if at and at[2] == share:
            text += tables.above_limit(report, *at[:2], report.records.all_threads(), kind)
    if name == "reversible.activation_growth":
        depths = stacks.depths(report.records, "reversibility")
        text += report.note(f"Stacks of {depths[0]} and {depths[-1]} blocks.")
    if name.endswith(EQUAL_BANDWIDTH) or f".{FASTEST}" in name:
        text += report.note(peers.EQUAL_BANDWIDTH_NOTE)
    if value.whose:
        text += report.note(f"Dense time of {value.whose}.")
    return text
