"""Long sequences: time and memory per token over length, full and LSH; recall over rounds."""

import chart
import long_sequence

NAMES = {"full": "full", "lsh": "LSH"}
STYLES = {"full": chart.DENSE, "lsh": chart.SPARSE}


def per_token(points):
    """[(length, Value)] of bytes to kB a token."""
    return [(x, v._replace(value=v.value / x / 1e3, spread=v.spread / x / 1e3)) for x, v in points]


def draw_over_length(axes, curves, label):
    for name, points in curves.items():
        axes.errorbar([x for x, _ in points], [v.value for _, v in points],
                      chart.error_bars(points), label=NAMES[name], **STYLES[name])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    chart.plain_log(axes.xaxis, sorted({x for points in curves.values() for x, _ in points}))
    axes.tick_params(axis="x", rotation=60)
    chart.plain_log(axes.yaxis)
    axes.set_xlabel("positions")
    axes.set_ylabel(label)


def mark_crossing(axes, records, steps):
    crossing = long_sequence.crossover(records)
    if crossing is None:
        return
    axes.axvline(crossing.value, **chart.LIMIT)
    lowest = min(v.value for points in steps.values() for _, v in points)
    axes.annotate(f"equal at {crossing.value:,.0f}", (crossing.value, lowest), xytext=(3, 0),
                  textcoords="offset points", fontsize=7)


def draw_recall(axes, records, distribution):
    found = long_sequence.recall(records, distribution)
    for index, (chunk, points) in enumerate(found.items()):
        shade = str(0.75 * (1 - index / max(1, len(found) - 1)))
        axes.errorbar([r for r, _ in points], [v.value for _, v in points],
                      chart.error_bars(points), label=f"chunk {chunk}", color=shade,
                      marker="os^Dv<>p"[index % 8])
    axes.set_xscale("log", base=2)
    chart.plain_log(axes.xaxis, sorted({r for points in found.values() for r, _ in points}))
    axes.set_ylim(0, 1)
    axes.set_xlabel("rounds of hashing")
    axes.set_ylabel(f"recall, {distribution}")


def draw(records):
    steps = long_sequence.curves(records, "step_us_per_token")
    memory = long_sequence.curves(records, "heap_bytes")
    distributions = [d for d in long_sequence.DISTRIBUTIONS if long_sequence.recall(records, d)]
    if not steps:
        raise chart.Missing(f"no step times in {long_sequence.EXPERIMENT}")
    figure, panels = chart.new(2.1 * (2 + len(distributions)), panels=2 + len(distributions))
    draw_over_length(panels[0], steps,
                     f"training step,\nµs a token ({long_sequence.threads_of(records)} threads)")
    mark_crossing(panels[0], records, steps)
    chart.legend_above(panels[0])
    draw_over_length(panels[1], {n: per_token(p) for n, p in memory.items()}, "memory, kB a token")
    for axes, distribution in zip(panels[2:], distributions):
        draw_recall(axes, records, distribution)
    if distributions:
        chart.legend_above(panels[2], columns=3)
    return figure
