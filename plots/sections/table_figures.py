"""Decode tables as pictures: bars of speed-ups between the paper's and the limits; Table 2 over N."""

import functools

import chart
import decode
import paper
import states
from values import exactly, measured, setting

SERIES = ("paper", "ours", "limit by weights read", "limit by roofline")
ENDINGS = {
    "block": ("block_speedup", "block_reads_limit", "roofline_limit"),
    "token": ("token_speedup", "reads_limit", "token_roofline_limit"),
}
SHAPES = {"800m": "800M", "17b": "17B"}
LABELS = {
    "sparse_transformer": "Transformer\nFF+QKV",
    "sparse_transformer_loss4": "Transformer\nFF+QKV+loss",
    "terraformer": "Terraformer",
}


def figures(records, own):
    draw = {"table2": draw_sparsity}
    return {
        about.name: functools.partial(draw.get(about.name, draw_bars), experiment=about.name)
        for about in own
    }


def draw_bars(records, experiment):
    """One experiment at all threads, without its baseline (which is 1) and the same by bf16_dot; a
    missing row is a gap."""
    groups = {kind: [] for kind in ENDINGS}
    threads = records.all_threads()
    for row in records.rows(experiment):
        base = decode.against(records, experiment, row, threads)
        if base is None or row in (base, decode.dot_twin(base)):
            continue
        figures = decode.row_figures(records, experiment, row, threads)
        theirs = paper.published(experiment, row) or paper.Published()
        for kind, endings in ENDINGS.items():
            ours = [figures.get(e) for e in endings]
            groups[kind].append((row, [printed(getattr(theirs, f"{kind}_speedup")), *ours]))
    if not any(series[1] for rows in groups.values() for _, series in rows):
        raise chart.Missing(f"no speed-ups in {experiment}")
    figure, axes = chart.new(4.3, panels=2)
    for panel, (kind, rows) in zip(axes, groups.items()):
        bars(panel, rows)
        panel.set_ylabel(f"speed-up of a {kind}, ×")
    chart.legend_above(axes[0])
    weights = "bf16 weights" if experiment.endswith("bf16") else "f32 weights"
    axes[1].set_xlabel(
        f"sparse parts ({shape_of(records, experiment)}, {weights},\n"
        f"{states.at_threads(records, threads)})"
    )
    return figure


def printed(speedup):
    """The paper's figure as a Value, or None."""
    return speedup and exactly(speedup, "x")


def shape_of(records, experiment):
    shapes = {setting(r, "shape") for r in records.history(experiment)}
    return ", ".join(SHAPES.get(s, s) for s in sorted(filter(None, shapes)))


def tick_text(row):
    row = row.removesuffix(".bf16")
    if row.endswith("_dot"):
        return tick_text(row.removesuffix("_dot")) + "\nbf16 dot"
    text = LABELS.get(row) or chart.pretty(row)
    return text.replace("+cross", "\n+cross").replace("+loss", "\n+loss")


def bars(axes, rows):
    """Four bars a row from 1 up (or down), each with its number, a star if it is not `ok`."""
    axes.set_yscale("log", base=2)
    width = 0.21
    values = [v.value for _, series in rows for v in series if v]
    low, high = min([0.8, *(v * 0.8 for v in values)]), max([1, *values])
    axes.set_ylim(low, high * (high / low) ** 0.28)  # room for the upright numbers
    for s, (label, look) in enumerate(zip(SERIES, chart.BARS)):
        for position, (_, series) in enumerate(rows):
            x, value = position + (s - 1.5) * width, series[s]
            height = value.value if value else 1
            axes.bar(
                x,
                height - 1,
                width,
                bottom=1,
                edgecolor="black",
                linewidth=0.5,
                label=label if position == 0 else None,
                **look,
            )
            if value or s == 1:
                text = axes.annotate(
                    f"{height:.3g}" if value else "gap",
                    (x, max(height, 1)),
                    xytext=(0, 2),
                    textcoords="offset points",
                    rotation=90,
                    fontsize=7,
                    ha="center",
                    va="bottom",
                )
                chart.star(text, value)
    axes.axhline(1, color="black", linewidth=0.6)
    axes.set_xticks(
        range(len(rows)), [tick_text(row) for row, _ in rows], fontsize=7 if len(rows) > 6 else None
    )
    axes.set_xlim(-0.5, len(rows) - 0.5)
    axes.tick_params(axis="x", length=0)
    chart.plain_log(axes.yaxis)


def draw_sparsity(records, experiment):
    """Time and floor of a token over N, mixture-of-experts beside it."""
    threads = records.all_threads()
    points, floors, experts, skipping = [], [], None, []
    for row in records.rows(experiment):
        time = measured(records, experiment, row, threads, "token_ms")
        floor = measured(records, experiment, row, threads, "token_floor_ms")
        record = records.get(experiment, row, threads, "token_ms")
        if time is None:
            continue
        if not decode.is_ranked(record):
            skipping.append((1, time))
            continue
        if setting(record, "feed_forward", "").startswith("moe"):
            experts = (row, time)
            continue
        sparse = setting(record, "feed_forward") == "sparse"
        n = int(setting(record, "sparsity", 1)) if sparse else 1
        points.append((n, time))
        floors += [(n, floor)] if floor else []
    if not points:
        raise chart.Missing(f"no token times in {experiment}")
    points.sort(key=lambda p: p[0])
    floors.sort(key=lambda p: p[0])
    figure, (axes,) = chart.new(2.5)
    chart.curve(axes, points, label="ours", **chart.SPARSE)
    axes.plot(
        [n for n, _ in floors], [v.value for _, v in floors], label="ours, floor", **chart.LIMIT
    )
    theirs = [(n, paper.published(experiment, f"n{n}").token_ms) for n in (1, 64, 128)]
    axes.plot(*zip(*theirs), label="paper", markerfacecolor="white", **chart.DENSE)
    if experts:
        row, time = experts
        doubt = "" if time.status == "ok" else f" ({time.status.replace('_', ' ')})"
        axes.axhline(
            time.value,
            label=f"ours, {chart.pretty(row)}{doubt}",
            color="#d55e00",
            linestyle="-.",
            linewidth=0.9,
        )
    if skipping:
        chart.curve(
            axes,
            skipping,
            label="dense, skips zeros, not ranked",
            color="#444444",
            marker="x",
            linestyle="none",
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    chart.plain_log(axes.xaxis, sorted({n for n, _ in points} | {1, 64, 128}))
    chart.plain_log(axes.yaxis)
    axes.set_xlabel("N: one neuron in N is computed (1: dense)")
    axes.set_ylabel(f"token, ms ({states.at_threads(records, threads)})")
    chart.legend_above(axes)
    return figure
