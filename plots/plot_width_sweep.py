"""Width sweep: block time over d_model, dense against FF+QKV, log-log, with fitted exponents."""

import chart
import derive

PAPER = {"dense": 2.0, "sparse": 1.5}


def draw(records):
    threads = records.all_threads()
    times = derive.sweep(records, "width_sweep", threads, "block_ms", "d_model")
    if not times:
        raise chart.Missing("no block times in width_sweep")
    fits = derive.width_exponents(records, threads)
    figure, (axes,) = chart.new(3.0)
    for index, (family, points) in enumerate(times.items()):
        xs = [x for x, _ in points]
        chart.curve(axes, points, label=chart.pretty(family), **chart.style_of(family, index))
        if family in PAPER:
            last = points[-1][1].value
            axes.plot(xs, [last * (x / xs[-1]) ** PAPER[family] for x in xs],
                      label=f"slope {PAPER[family]:g} (paper)",
                      **{**chart.LIMIT, "linestyle": ":" if family == "dense" else (0, (1, 3))})
    axes.set_xscale("log")
    axes.set_yscale("log")
    chart.plain_log(axes.xaxis, sorted({x for p in times.values() for x, _ in p}))
    axes.tick_params(axis="x", rotation=60)
    chart.plain_log(axes.yaxis)
    axes.set_xlabel("d_model")
    axes.set_ylabel(f"block, ms ({threads} threads)")
    lines = ["fitted exponent", f"{'':7}{'bytes':>6}{'FLOPs':>6}{'time':>6}"]
    for family in PAPER:
        cells = [f"{fits[family, w].value:6.2f}" if (family, w) in fits else f"{'–':>6}"
                 for w in ("bytes", "flops", "time")]
        lines.append(f"{chart.pretty(family):7}" + "".join(cells))
    axes.text(0.02, 0.98, "\n".join(lines), transform=axes.transAxes, va="top", fontsize=7,
              family="monospace")
    chart.legend_above(axes)
    return figure
