"""All attentions against length: their time, memory and pairs beside full attention's, and where they cross it."""

import functools

import chart
import knobs
import report as tables
from section import Section, of
from sections import attention
from values import scaled, setting

TIME_LENGTH = 4096  # of a token's time and of the share of the best product
PAIRS_LENGTH = 16384  # of the share of what fewer pairs promise
# (words, metric) of what is timed.
RUNS = (("training step", "step_ms"), ("forward pass", "forward_ms"))


def name_of(row):
    return attention.name_of(row).replace("_", " ")


def knobs_of(records, experiment, row):
    """What the row's attention reads, in words, as its newest record has it."""
    for record in reversed(records.history(experiment)):
        found = attention.ROW.fullmatch(record.get("row") or "")
        if found and found[1] == row:
            kind = setting(record, "attention")
            own = {
                knob: setting(record, knob)
                for knob in knobs.READS["attention"].get(kind, ())
                if setting(record, knob) not in (None, *knobs.OFF)
            }
            if own.get("normaliser") != "entmax":
                own.pop("entmax_alpha", None)
            sides = "" if setting(record, "causal", True) in (True, "true") else ", two-sided"
            return f"`{kind}`{sides}: " + ", ".join(f"{knob} {v}" for knob, v in own.items())
    return ""


def per_token(records, experiment, metric, factor):
    """{row: [(length, Value)]} of a whole example's."""
    return {
        row: attention.per_token(points, factor)
        for row, points in attention.curves(records, experiment, metric).items()
    }


def pair_ratios(records, experiment, row):
    """{length: pairs of what the row is set against, over its own}; {} of what scores no pair."""
    pairs = attention.curves(records, experiment, "pairs")
    theirs, ours = (
        dict(pairs.get(name, ())) for name in (attention.attentions(records, experiment)[row], row)
    )
    return {
        length: theirs[length].value / ours[length].value for length in theirs if length in ours
    }


def share_of_pairs(records, experiment, row, length):
    """Value: the ratio of steps' times over that of pairs (1: time fell as pairs did); None if unknown."""
    promised = pair_ratios(records, experiment, row).get(length)
    gained = dict(attention.speedups(records, experiment, row)).get(length)
    return scaled(gained, 1 / promised)._replace(unit="1") if promised and gained else None


def numbers_of(records, experiment, identifier):
    """{id: Value or None}."""
    found = {}
    train, forward = (per_token(records, experiment, metric, 1e3) for _, metric in RUNS)
    share = attention.curves(records, experiment, "step_efficiency")
    for row, other in attention.attentions(records, experiment).items():
        start = f"{identifier}.{row}"
        for name, points in (("train_us_token", train), ("forward_us_token", forward)):
            found[f"{start}.{name}_{TIME_LENGTH}"] = dict(points.get(row, ())).get(TIME_LENGTH)
        found[f"{start}.gemm_share_{TIME_LENGTH}"] = dict(share.get(row, ())).get(TIME_LENGTH)
        if row == other:
            continue
        found[f"{start}.crossover_length"] = attention.crossing(records, experiment, row)
        speedups = dict(attention.speedups(records, experiment, row))
        for length in (TIME_LENGTH, PAIRS_LENGTH):
            found[f"{start}.speedup_{length}"] = speedups.get(length)
        found[f"{start}.share_of_pairs_{PAIRS_LENGTH}"] = share_of_pairs(
            records, experiment, row, PAIRS_LENGTH
        )
    return found


def numbers(records, own):
    return {
        name: value
        for about in own
        for name, value in numbers_of(records, about.name, about.id).items()
        if value is not None
    }


def lengths_of(found):
    return sorted({x for points in found.values() for x, _ in points})


def scaled_points(points, factor):
    return [(x, scaled(v, factor)) for x, v in points]


def value_table(report, experiment, found, gaps=False):
    """A row an attention, a column a length; `gaps`: a length that lacks a number says why."""
    lengths = lengths_of(found)
    if not lengths:
        return []
    lines = tables.header("attention", *(f"{x:,.0f}" for x in lengths))
    for row in attention.attentions(report.records, experiment):
        values = dict(found.get(row, ()))

        def cell(length, values=values, row=row):
            if gaps and length not in values:
                threads = attention.threads_of(report.records, experiment)
                return tables.gap(report, experiment, f"{row}_l{length:.0f}", threads)
            return tables.cell(report, values.get(length))

        lines.append(tables.line(name_of(row), *(cell(length) for length in lengths)))
    return lines


def ratio_table(report, experiment, metric):
    """Ratios of times, those of pairs in brackets."""
    records = report.records
    found = {
        row: attention.speedups(records, experiment, row, metric)
        for row, _ in attention.compared(records, experiment)
    }
    lengths = lengths_of(found)
    if not lengths:
        return []
    lines = tables.header("set against", *(f"{x:,.0f}" for x in lengths))
    for row, other in attention.compared(records, experiment):
        times, pairs = dict(found[row]), pair_ratios(records, experiment, row)
        cells = (
            tables.cell(report, times.get(x), "×")
            + (f" ({tables.number(pairs[x])})" if x in times and x in pairs else "")
            for x in lengths
        )
        lines.append(tables.line(f"{name_of(other)} / {name_of(row)}", *cells))
    return lines


def crossing_cell(report, experiment, row, metric, over="length"):
    """From which length on the row is faster; "below" or "beyond" what was measured."""
    records = report.records
    points = attention.speedups(records, experiment, row, metric, over)
    if not points:
        return "–"
    crossing = attention.crossover(records, experiment, row, metric, over)
    if crossing:
        return tables.cell(report, crossing)
    if all(value.value > 1 for _, value in points):
        return f"below {points[0][0]:,.0f}"
    if points[-1][1].value <= 1:
        return f"beyond {points[-1][0]:,.0f}"
    return "–"


def crossing_table(report, experiment):
    records = report.records
    lines = tables.header(
        "attention",
        "faster than",
        *(f"{words} from" for words, _ in RUNS),
        f"step's gain at {PAIRS_LENGTH:,}",
        "of what pairs promise",
    )
    for row, other in attention.compared(records, experiment):
        gained = dict(attention.speedups(records, experiment, row)).get(PAIRS_LENGTH)
        lines.append(
            tables.line(
                name_of(row),
                name_of(other),
                *(crossing_cell(report, experiment, row, metric) for _, metric in RUNS),
                tables.cell(report, gained, "×"),
                tables.cell(report, share_of_pairs(records, experiment, row, PAIRS_LENGTH)),
            )
        )
    return lines


def write_one(report, experiment, title):
    records = report.records
    report.add(
        f"## {title}",
        "",
        "Timed is the attention core, what lies between the projections, of one example without "
        f"dropout, causal where nothing else is said, at {attention.threads_of(records, experiment)} "
        "threads; a *training step* is a training forward and its backward. Rows of a length take "
        "turns. Which attention is which:",
    )
    lines = tables.header("row", "attention", are_numbers=False)
    for row in attention.attentions(records, experiment):
        lines.append(tables.line(name_of(row), knobs_of(records, experiment, row)))
    report.add(*lines)
    for words, metric in RUNS:
        times = per_token(records, experiment, metric, 1e3)
        report.add(
            f"**A {words}, µs a token**", "", *value_table(report, experiment, times, gaps=True)
        )
        report.add(
            f"**A {words}: full attention's time over its own, in brackets the ratio of pairs that "
            "meet**",
            "",
            *ratio_table(report, experiment, metric),
        )
    report.add(
        "**Where they cross**: positions from which on they are faster, between measured lengths",
        "",
        *crossing_table(report, experiment),
    )
    peak = per_token(records, experiment, "peak_bytes", 1e-3)
    if peak:
        report.add(
            "**Memory of a training step**, the most that was resident beyond inputs and outputs, "
            "kB a token",
            "",
            *value_table(report, experiment, peak),
        )
    share = attention.curves(records, experiment, "step_efficiency")
    report.add(
        "**Share of the best product**: FLOPs of a training step over its time, as a share of the "
        "best linked library's rate on a large product in the same process. FLOPs are those of "
        "pairs that may meet, or of features and sums where no pair is scored",
        "",
        *value_table(report, experiment, share),
    )
    report.figure(experiment)
    report.repeat(
        "./build/release/experiments/long_sequence --config "
        f"experiments/configs/attention/{experiment}.cfg"
    )


def write(report, own):
    for about in own:
        write_one(report, about.name, about.title)


def draw_panel(axes, found, rows, label, xlabel):
    """A curve a row; `rows`: all that the figure has, so that looks agree between its panels."""
    for index, row in enumerate(rows):
        if row in found:
            chart.curve(axes, found[row], label=name_of(row), **chart.one_of_many(index))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    chart.plain_log(axes.xaxis, lengths_of(found))
    axes.tick_params(axis="x", rotation=60)
    chart.plain_log(axes.yaxis)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(label)


def draw(records, experiment):
    """Time of a step and of a forward, and memory, over length: a curve an attention."""
    found = [
        ("training step, µs a token", per_token(records, experiment, "step_ms", 1e3)),
        ("forward, µs a token", per_token(records, experiment, "forward_ms", 1e3)),
        (
            "memory of a step at its\npeak, kB a token",
            per_token(records, experiment, "peak_bytes", 1e-3),
        ),
    ]
    found = [(label, points) for label, points in found if points]
    if not found:
        raise chart.Missing(f"no step times in {experiment}")
    figure, panels = chart.new(2.4 * len(found) + 1.2, panels=len(found))
    rows = list(attention.attentions(records, experiment))
    for axes, (label, points) in zip(panels, found):
        draw_panel(axes, points, rows, label, "positions")
    chart.legend_above(panels[0], columns=2)
    return figure


def figures(_records, own):
    return {about.name: functools.partial(draw, experiment=about.name) for about in own}


SECTION = Section(
    owns=of("attention", "lengths"), numbers=numbers, figures=figures, write=write, place=1
)
