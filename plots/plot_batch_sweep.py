"""Batch sweep: block time per token and speed-up over the dense block against tokens at once."""

import chart
import derive
from report_tables import scaled


def draw(records):
    threads = records.all_threads()
    curves = derive.sweep(records, "batch_sweep", threads, "block_ms", "batch")
    if not curves:
        raise chart.Missing("no block times in batch_sweep")
    floors = derive.sweep(records, "batch_sweep", threads, "block_floor_ms", "batch")
    figure, (top, bottom) = chart.new(3.9, panels=2, sharex=True)
    first = next(iter(curves))
    for index, (family, points) in enumerate(curves.items()):
        look = chart.style_of(family, index)
        each = [(x, scaled(v, 1 / x)) for x, v in points]
        chart.curve(top, each, label=chart.pretty(family), **look)
        if family == first:
            continue
        chart.curve(bottom, ratios(curves[first], points), **look)
        limits = ratios(floors.get(first, ()), floors.get(family, ()))
        bottom.plot([x for x, _ in limits], [v.value for _, v in limits],
                    label=f"limit by roofline, {chart.pretty(family)}",
                    markerfacecolor="white", **{**look, "linestyle": ":"})
    bottom.axhline(1, color="black", linewidth=0.6)
    bottom.set_ylim(bottom=0)
    top.set_xscale("log", base=2)
    top.set_yscale("log", base=2)
    chart.plain_log(top.yaxis)
    chart.plain_log(bottom.xaxis, sorted({x for p in curves.values() for x, _ in p}))
    top.set_ylabel("block, ms per token")
    bottom.set_ylabel("speed-up of a block, ×")
    bottom.set_xlabel(f"tokens decoded at once ({threads} threads)")
    chart.legend_above(top, columns=3)
    bottom.legend(loc="best")
    return figure


def ratios(above, below):
    """[(x, above / below)] where both are measured."""
    lower = dict(below)
    found = [(x, derive.ratio(v, lower.get(x))) for x, v in above]
    return [(x, v) for x, v in found if v]
