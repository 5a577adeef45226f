"""Context sweep: block time over cached positions; where attention adds as much as all the rest."""

import chart
import derive
import sweep_tables


def draw(records):
    threads = records.all_threads()
    curves = derive.sweep(records, "context_sweep", threads, "block_ms", "context")
    if not curves:
        raise chart.Missing("no block times in context_sweep")
    figure, (axes,) = chart.new(2.6)
    for index, (family, points) in enumerate(curves.items()):
        look = chart.style_of(family, index)
        chart.curve(axes, points, label=chart.pretty(family), **look)
        crossing = sweep_tables.overtaking(points)
        if crossing:
            height = 2 * points[0][1].value
            axes.plot(crossing, height, marker="*", markersize=9, color=look["color"],
                      markeredgecolor="black", markeredgewidth=0.4, linestyle="none")
            axes.annotate(sweep_tables.about(crossing), (crossing, height), xytext=(-7, 4),
                          fontsize=7, textcoords="offset points", ha="right")
    axes.plot([], [], marker="*", markersize=8, color="white", markeredgecolor="black",
              linestyle="none", label="block takes twice its shortest time")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    chart.plain_log(axes.xaxis, sorted({x for p in curves.values() for x, _ in p}))
    axes.tick_params(axis="x", rotation=60)
    chart.plain_log(axes.yaxis)
    axes.set_xlabel("cached positions")
    axes.set_ylabel(f"block, ms ({threads} threads)")
    chart.legend_above(axes)
    return figure
