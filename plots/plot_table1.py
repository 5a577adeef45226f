"""Tables 1, 6 and 8 as bars: the paper's speed-up, ours, and the two limits, block and token."""

import chart
import derive
import paper

SERIES = ("paper", "ours", "limit by weights read", "limit by roofline")
ENDINGS = {"block": ("block_speedup", "block_reads_limit", "roofline_limit"),
           "token": ("token_speedup", "reads_limit", "token_roofline_limit")}
SHAPES = {"800m": "800M", "17b": "17B"}
LABELS = {"sparse_transformer": "Transformer\nFF+QKV",
          "sparse_transformer_loss4": "Transformer\nFF+QKV+loss", "terraformer": "Terraformer"}


def draw(records, experiment):
    """One experiment at all threads, without its baseline (which is 1) and the same by bf16_dot; a
    missing row is a gap."""
    groups = {kind: [] for kind in ENDINGS}
    threads = records.all_threads()
    for row in records.rows(experiment):
        base = derive.against(records, experiment, row, threads)
        if base is None or row in (base, derive.dot_twin(base)):
            continue
        figures = derive.row_figures(records, experiment, row, threads)
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
    axes[1].set_xlabel(f"sparse parts ({shape_of(records, experiment)}, {weights}, "
                       f"{threads} threads)")
    return figure


def printed(speedup):
    """The paper's figure as a Value, or None."""
    return speedup and derive.Value(speedup, "x", 0.0, "ok", "")


def shape_of(records, experiment):
    shapes = {derive.setting(r, "shape") for r in records.history(experiment)}
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
            axes.bar(x, height - 1, width, bottom=1, edgecolor="black", linewidth=0.5,
                     label=label if position == 0 else None, **look)
            if value or s == 1:
                text = axes.annotate(f"{height:.3g}" if value else "gap", (x, max(height, 1)),
                                     xytext=(0, 2), textcoords="offset points", rotation=90,
                                     fontsize=7, ha="center", va="bottom")
                chart.star(text, value)
    axes.axhline(1, color="black", linewidth=0.6)
    axes.set_xticks(range(len(rows)), [tick_text(row) for row, _ in rows],
                    fontsize=7 if len(rows) > 6 else None)
    axes.set_xlim(-0.5, len(rows) - 0.5)
    axes.tick_params(axis="x", length=0)
    chart.plain_log(axes.yaxis)
