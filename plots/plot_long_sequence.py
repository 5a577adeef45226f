"""Long sequences: time and memory per token over length, full and LSH; recall over rounds."""

import chart
import long_sequence

NAMES = {"full": "full", "lsh": "LSH"}
STYLES = {"full": chart.DENSE, "lsh": chart.SPARSE}
SECOND = {"markerfacecolor": "white", "linestyle": ":"}  # beside the first of the same attention


def draw_over_length(axes, label, first, second):
    """Each a pair (words, {full | lsh: points}); the second is dotted with hollow marks."""
    for (words, found), look in ((first, {}), (second, SECOND)):
        for name, points in found.items():
            chart.curve(axes, points, label=f"{NAMES[name]}, {words}",
                        **{**STYLES[name], **look})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    chart.plain_log(axes.xaxis, sorted({x for points in first[1].values() for x, _ in points}))
    axes.tick_params(axis="x", rotation=60)
    chart.plain_log(axes.yaxis)
    axes.set_xlabel("positions")
    axes.set_ylabel(label)
    chart.legend_above(axes)


def mark_crossing(axes, records):
    crossing = long_sequence.crossover(records)
    if crossing is None:
        return
    axes.axvline(crossing.value, **chart.LIMIT)
    axes.annotate(f"steps equal at {crossing.value:,.0f}", (crossing.value, 0.02), xytext=(3, 0),
                  xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=7)


def draw_recall(axes, records, distribution):
    found = long_sequence.recall(records, distribution)
    for index, (chunk, points) in enumerate(found.items()):
        shade = str(0.75 * (1 - index / max(1, len(found) - 1)))
        chart.curve(axes, points, label=f"chunk {chunk}", color=shade,
                    marker="os^Dv<>p"[index % 8])
    axes.set_xscale("log", base=2)
    chart.plain_log(axes.xaxis, sorted({r for points in found.values() for r, _ in points}))
    axes.set_ylim(0, 1)
    axes.set_xlabel("rounds of hashing")
    axes.set_ylabel(f"recall, {distribution}")


def draw(records):
    steps = long_sequence.curves(records, "step_us_per_token")
    kept, peak = (long_sequence.kilobytes_per_token(records, metric)
                  for metric in ("heap_bytes", "peak_bytes"))
    distributions = [d for d in long_sequence.DISTRIBUTIONS if long_sequence.recall(records, d)]
    if not steps:
        raise chart.Missing(f"no step times in {long_sequence.EXPERIMENT}")
    figure, panels = chart.new(2.1 * (2 + len(distributions)), panels=2 + len(distributions))
    forward = long_sequence.forward_us_per_token(records)
    draw_over_length(panels[0], f"µs a token ({long_sequence.threads_of(records)} threads)",
                     ("training step", steps), ("forward", forward))
    mark_crossing(panels[0], records)
    draw_over_length(panels[1], "memory of a step,\nkB a token", ("kept", kept), ("peak", peak))
    for axes, distribution in zip(panels[2:], distributions):
        draw_recall(axes, records, distribution)
    if distributions:
        chart.legend_above(panels[2], columns=3)
    return figure
