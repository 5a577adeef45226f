"""Attentions against length from records: curves, where they cross, recall of LSH attention."""

import functools
import math
import re

import chart
import knobs
import report as tables
from section import Section, of
from values import combine, fit_exponent, of_record, ratio, scaled, setting, sweep

SPEEDUP_LENGTH = 16384
DISTRIBUTIONS = ("random", "clustered")
ROW = re.compile(r"(.+)_[lc]\d+")  # an attention at a length, or at cached positions
NAMES = {"lsh": "LSH"}
STYLES = {"full": chart.DENSE, "lsh": chart.SPARSE}
EXPLAINED = {
    "full": "Full attention compares each position with every earlier one, so that its work "
    "grows with the square of the length.",
    "lsh": "LSH attention (Reformer) hashes positions, "
    "sorts them by their hash and cuts them into chunks; a position then looks at its "
    "own chunk and the one before, in several rounds with hashes of their own, so that "
    "its work grows with the length.",
    "window": "Window attention lets a position look at a fixed number of neighbours, so that its "
    "work grows with the length.",
}
SIZES = (
    ("d_model", "d_model"),
    ("heads", "n_heads"),
    ("positions a chunk", "lsh_chunk"),
    ("rounds", "lsh_rounds"),
    ("positions a window", "window_width"),
)
SECOND = {"markerfacecolor": "white", "linestyle": ":"}  # beside the first of the same attention


def threads_of(records, experiment):
    """The most threads that the experiment was measured with."""
    return max((r["threads"] for r in records.history(experiment)), default=0)


def attentions(records, experiment):
    """{row: the row that it is set against}, the latter first."""
    found = {}
    for record in records.history(experiment):
        mine, other = (ROW.fullmatch(record.get(name) or "") for name in ("row", "against"))
        if mine and other:
            found[mine[1]] = other[1]
    return {other: other for other in found.values()} | found


def compared(records, experiment):
    """[(row, another that it is set against)]."""
    return [(row, other) for row, other in attentions(records, experiment).items() if row != other]


def curves(records, experiment, metric, over="length"):
    """{row: [(length, Value)] ascending}; `over`: the setting that tells the length."""
    found = sweep(records, experiment, threads_of(records, experiment), metric, over)
    return {row: found[row] for row in attentions(records, experiment) if row in found}


def speedups(records, experiment, row, metric="step_ms", over="length"):
    """[(length, Value)]: of the row, where it and what it is set against were measured."""
    times = curves(records, experiment, metric, over)
    theirs, ours = (
        dict(times.get(name, ())) for name in (attentions(records, experiment)[row], row)
    )
    return [
        (length, ratio(theirs[length], ours[length])) for length in sorted(theirs) if length in ours
    ]


def crossover(records, experiment, row, metric="step_ms", over="length"):
    """The length from which on the row is faster, log-log between measured ones, or None.

    None too where it already is at the shortest length: then the crossing was not seen. The
    interval is that of the nearer ratio, divided by the slope.
    """
    points = speedups(records, experiment, row, metric, over)
    for (shorter, before), (longer, after) in zip(points[-2::-1], points[:0:-1]):
        low, high = math.log(before.value), math.log(after.value)
        if low <= 0 < high:
            step = math.log(longer / shorter)
            length = shorter * math.exp(step * low / (low - high))
            near = before if -low < high else after
            # A larger ratio crosses at a shorter length.
            factor = length * step / (high - low) / near.value
            ends = (
                (length - factor * (near.high - near.value)),
                (length + factor * (near.value - near.low)),
            )
            return combine(length, "positions", *ends, (before, after))
    return None


def crossing(records, experiment, row, metric="step_ms", over="length"):
    """crossover(); of a row that is faster at every length, and surely so at the shortest, that one, its lower end not known."""
    points = speedups(records, experiment, row, metric, over)
    # The longest are timed once, without an interval.
    if points and points[0][1].low > 1 and all(value.value > 1 for _, value in points):
        return combine(points[0][0], "positions", math.nan, points[0][0], (points[0][1],))
    return crossover(records, experiment, row, metric, over)


def recall(records, experiment, distribution, metric="recall"):
    """{chunk: [(rounds, Value)] ascending}."""
    found = {}
    threads = threads_of(records, experiment)
    for row in records.rows(experiment):
        record = records.get(experiment, row, threads, metric)
        if record and setting(record, "distribution") == distribution:
            point = (setting(record, "lsh_rounds"), of_record(record))
            found.setdefault(setting(record, "lsh_chunk"), []).append(point)
    return {chunk: sorted(found[chunk]) for chunk in sorted(found)}


def figures_of(records, experiment, identifier):
    """{id: Value} for summary.json: of the row that is called as the id, of others under their name."""
    found = {}
    for row, _ in compared(records, experiment):
        start = identifier if row == identifier else f"{identifier}.{row}"
        found[f"{start}.crossover_length"] = crossing(records, experiment, row)
        found[f"{start}.speedup_{SPEEDUP_LENGTH}"] = dict(speedups(records, experiment, row)).get(
            SPEEDUP_LENGTH
        )
        found[f"{start}.memory_exponent"] = fit_exponent(
            curves(records, experiment, "heap_bytes").get(row, ())
        )
    return {name: value for name, value in found.items() if value is not None}


UNITS_A_TOKEN = {
    1e3: "us",
    1e-3: "kB",
}  # of milliseconds and bytes, by what they are multiplied with


def per_token(points, factor):
    """[(length, Value)] of a whole example's."""
    return [(x, scaled(v, factor / x, UNITS_A_TOKEN[factor])) for x, v in points]


def forward_us_per_token(records, experiment):
    return {
        name: per_token(points, 1e3)
        for name, points in curves(records, experiment, "forward_ms").items()
    }


def kilobytes_per_token(records, experiment, metric):
    return {
        name: per_token(points, 1e-3)
        for name, points in curves(records, experiment, metric).items()
    }


def name_of(row):
    return NAMES.get(row, row)


def cost_table(report, experiment, ratio_metric, times, others):
    """Rows over length: times and their ratios, then {words: curves} of others."""
    records = report.records
    rows, pairs = attentions(records, experiment), compared(records, experiment)
    ratios = [dict(speedups(records, experiment, row, ratio_metric)) for row, _ in pairs]
    lines = tables.header(
        "length",
        *(f"{name_of(row)}, µs a token" for row in rows),
        *(f"{name_of(other)} / {name_of(row)}" for row, other in pairs),
        *(f"{name_of(row)}, {words}" for words in others for row in rows),
    )

    def cell(found, row, length, **more):
        return tables.cell(report, dict(found.get(row, ())).get(length), **more)

    def time(row, length):
        if length in dict(times.get(row, ())):
            return cell(times, row, length, interval=True)
        return tables.gap(
            report, experiment, f"{row}_l{length:.0f}", threads_of(records, experiment)
        )

    for length in sorted({x for points in times.values() for x, _ in points}):
        lines.append(
            tables.line(
                f"{length:,.0f}",
                *(time(row, length) for row in rows),
                *(tables.cell(report, found.get(length), "×") for found in ratios),
                *(cell(found, row, length) for found in others.values() for row in rows),
            )
        )
    return lines


def step_table(report, experiment):
    """Of a training step."""
    records = report.records
    return cost_table(
        report,
        experiment,
        "step_ms",
        curves(records, experiment, "step_us_per_token"),
        {
            "kB a token kept": kilobytes_per_token(records, experiment, "heap_bytes"),
            "kB a token at the peak": kilobytes_per_token(records, experiment, "peak_bytes"),
            "efficiency": curves(records, experiment, "step_efficiency"),
        },
    )


def forward_table(report, experiment):
    """Of a forward pass."""
    records = report.records
    return cost_table(
        report,
        experiment,
        "forward_ms",
        forward_us_per_token(records, experiment),
        {
            "kB a token kept": kilobytes_per_token(records, experiment, "forward_heap_bytes"),
            "kB a token at the peak": kilobytes_per_token(
                records, experiment, "forward_peak_bytes"
            ),
            "efficiency": curves(records, experiment, "forward_efficiency"),
        },
    )


def recall_table(report, experiment, distribution):
    found = recall(report.records, experiment, distribution)
    if not found:
        return []
    rounds = sorted({r for points in found.values() for r, _ in points})
    lines = tables.header("chunk", *(f"{r} round{'s' * (r > 1)}" for r in rounds))
    density = recall(report.records, experiment, distribution, "density")
    for chunk, points in found.items():
        of_rounds, pairs = dict(points), dict(density.get(chunk, ()))
        lines.append(
            tables.line(
                f"{chunk}",
                *(
                    tables.cell(report, of_rounds.get(r))
                    + (f" ({tables.number(pairs[r].value)})" if r in pairs else "")
                    for r in rounds
                ),
            )
        )
    return lines


def numbers(records, own):
    return {
        name: value
        for about in own
        for name, value in figures_of(records, about.name, about.id).items()
    }


def write(report, own):
    for about in own:
        write_one(report, about.name, about.title)


def settings_of(records, experiment):
    """{attention: what its newest record knows of the knobs that it reads}."""
    found = {}
    for record in records.history(experiment):
        attention = setting(record, "attention")
        if attention and ROW.fullmatch(record["row"]):
            reads = {
                knob
                for name in knobs.chosen(attention)
                for knob in knobs.READS["attention"].get(name, ())
            }
            found[attention] = {
                knob: value
                for knob, value in record["config"].items()
                if knob in reads or knob not in knobs.READ_BY_SOME
            }
    return found


def write_one(report, experiment, title):
    records = report.records
    settings = settings_of(records, experiment)
    known = {knob: value for own in settings.values() for knob, value in own.items()}
    sizes = tables.sizes({"config": known}, *SIZES)
    report.add(
        f"## {title}", "", " ".join(EXPLAINED[name] for name in EXPLAINED if name in settings)
    )
    report.add(
        "Timed is the attention core, what lies between the projections, of one causal "
        f"example without dropout{f' ({sizes})' if sizes else ''}, at "
        f"{threads_of(records, experiment)} threads. A *training step* is a training forward and its "
        "backward. Times and bytes are those of the whole example over its positions (µs "
        "and kB a token). Memory, inputs and outputs not counted: *kept* is what the step "
        "or the forward pass leaves allocated, *peak* the most that was resident in it; a "
        "constant kB a token "
        "is memory linear in the length. *Efficiency*: FLOPs of products over pairs that "
        "may see each other, neither masked ones nor ones made again, over the time, as a "
        "share of the best linked library's rate on a large product in the same process "
        "(1: as fast)."
    )
    report.add("**A training step**", "", *step_table(report, experiment))
    if curves(records, experiment, "forward_ms"):
        report.add("**A forward pass, as in evaluation**", "", *forward_table(report, experiment))
    for row, _ in compared(records, experiment):
        crossing = crossover(records, experiment, row)
        if crossing:
            report.add(
                f"A training step of {name_of(row)} attention is faster from about "
                f"{tables.cell(report, crossing)} positions on."
            )
    write_recall(report, experiment)
    report.figure(experiment)
    report.repeat(
        "./build/release/experiments/long_sequence --config "
        f"experiments/configs/attention/{experiment}.cfg"
    )


def write_recall(report, experiment):
    """How much LSH attention sees, where that was measured."""
    length = max(
        (
            setting(r, "length", 0)
            for r in report.records.history(experiment)
            if setting(r, "distribution")
        ),
        default=0,
    )
    shown = False
    for distribution in DISTRIBUTIONS:
        lines = recall_table(report, experiment, distribution)
        if lines:
            report.add(
                f"**Recall, {distribution} queries and keys, {length:,} positions**", "", *lines
            )
            shown = True
    if shown:
        report.add(
            "*Recall*: of the weights that exact attention would give to all earlier "
            "positions, the share (0 to 1) that falls on those which LSH attention looks "
            "at in any round; in brackets the share of pairs that it looks at, which recall "
            "would be if all weights were equal. Rows: positions a chunk. *random*: all "
            "components of queries and keys normal. *clustered*: groups of 64 positions "
            "around centres, three quarters of the variance theirs."
        )


def draw_over_length(axes, label, first, second):
    """Each a pair (words, {row: points}); the second is dotted with hollow marks."""
    others = [row for row in first[1] | second[1] if row not in STYLES]
    for (words, found), look in ((first, {}), (second, SECOND)):
        for row, points in found.items():
            own = STYLES.get(row) or chart.style_of(row, others.index(row))
            chart.curve(axes, points, label=f"{name_of(row)}, {words}", **{**own, **look})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    chart.plain_log(axes.xaxis, sorted({x for points in first[1].values() for x, _ in points}))
    axes.tick_params(axis="x", rotation=60)
    chart.plain_log(axes.yaxis)
    axes.set_xlabel("positions")
    axes.set_ylabel(label)
    chart.legend_above(axes)


def mark_crossings(axes, records, experiment):
    rows = compared(records, experiment)
    for place, (row, _) in enumerate(rows):
        crossing = crossover(records, experiment, row)
        if crossing is None:
            continue
        of = f" ({name_of(row)})" if len(rows) > 1 else ""
        axes.axvline(crossing.value, **chart.LIMIT)
        axes.annotate(
            f"steps equal at {crossing.value:,.0f}{of}",
            (crossing.value, 0.02 + 0.08 * place),
            xytext=(3, 0),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            fontsize=7,
        )


def draw_recall(axes, records, experiment, distribution):
    found = recall(records, experiment, distribution)
    for index, (chunk, points) in enumerate(found.items()):
        shade = str(0.75 * (1 - index / max(1, len(found) - 1)))
        chart.curve(axes, points, label=f"chunk {chunk}", color=shade, marker="os^Dv<>p"[index % 8])
    axes.set_xscale("log", base=2)
    chart.plain_log(axes.xaxis, sorted({r for points in found.values() for r, _ in points}))
    axes.set_ylim(0, 1)
    axes.set_xlabel("rounds of hashing")
    axes.set_ylabel(f"recall, {distribution}")


def draw(records, experiment):
    """Time and memory per token over length, a curve an attention; recall over rounds."""
    steps = curves(records, experiment, "step_us_per_token")
    kept, peak = (
        kilobytes_per_token(records, experiment, metric) for metric in ("heap_bytes", "peak_bytes")
    )
    distributions = [d for d in DISTRIBUTIONS if recall(records, experiment, d)]
    if not steps:
        raise chart.Missing(f"no step times in {experiment}")
    figure, panels = chart.new(2.1 * (2 + len(distributions)), panels=2 + len(distributions))
    forward = forward_us_per_token(records, experiment)
    draw_over_length(
        panels[0],
        f"µs a token ({threads_of(records, experiment)} threads)",
        ("training step", steps),
        ("forward", forward),
    )
    mark_crossings(panels[0], records, experiment)
    draw_over_length(panels[1], "memory of a step,\nkB a token", ("kept", kept), ("peak", peak))
    for axes, distribution in zip(panels[2:], distributions):
        draw_recall(axes, records, experiment, distribution)
    if distributions:
        chart.legend_above(panels[2], columns=3)
    return figure


def figures(_records, own):
    return {about.name: functools.partial(draw, experiment=about.name) for about in own}


SECTION = Section(owns=of("attention"), numbers=numbers, figures=figures, write=write, place=1)
