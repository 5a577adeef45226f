"""Decode time against cached positions: where attention passes the projections and all the rest."""

import chart
import decode
import states
from report import cell, header, line, number
from sections import sweeps
from values import ceiling, setting, sweep


def table(report, experiment, threads):
    curves = sweep(report.records, experiment, threads, "block_ms", "context")
    if not curves:
        return []
    lengths = sorted({x for points in curves.values() for x, _ in points})
    lines = header("block, ms, at cached positions", *(f"{x:.0f}" for x in lengths))
    for family, points in curves.items():
        lines.append(line(f"`{family}`", *(cell(report, dict(points).get(x)) for x in lengths)))
    lines += [
        "",
        "Attention's added time at a length: a block there less a block at "
        f"{lengths[0]:.0f} cached positions.",
    ]
    for family, points in curves.items():
        lines += ["", overtaking_text(report.records, experiment, family, points, threads)]
    return lines


def overtaking_text(records, experiment, family, points, threads):
    """Where attention's added time passes the projections and the whole rest, in a sentence."""
    doubt = (
        " (drawn from untrusted times)" if any(v.status == "untrusted" for _, v in points) else ""
    )
    rest = (
        f"passes all that a block takes at {points[0][0]:.0f} positions, feed-forward and "
        f"projections together, {where(overtaking(points))}{doubt}"
    )
    floor = projection_floor(records, experiment, f"{family}_c{points[0][0]:.0f}", threads)
    if floor is None:
        return f"`{family}`: it {rest}. What these projections take alone is not recorded."
    return (
        f"`{family}`: it passes the floor of the projections ({number(floor)} ms: the block's "
        "weights but for the feed-forward's, at the bandwidth beside it) "
        f"{where(crossing(points, points[0][1].value + floor))}; it {rest}."
    )


def where(length):
    return f"at about {about(length)} positions" if length else "nowhere in this sweep"


def about(length):
    """Two digits of a crossing between measured lengths: 5,000."""
    return f"{float(f'{length:.2g}'):,.0f}"


def projection_floor(records, experiment, row, threads):
    """ms that reading a dense block's projections takes at least; None of other blocks."""
    record = records.get(experiment, row, threads, "block_weights_read")
    rate = record and ceiling(record, "read_gbps")
    if not rate or not decode.is_dense(record):
        return None
    sizes = [setting(record, knob, 0) for knob in ("d_model", "d_ff")]
    weights = record["value"] - 2 * sizes[0] * sizes[1]
    return weights * (2 if setting(record, "weight_type") == "bf16" else 4) / rate * 1e-6


def overtaking(points):
    """Cached positions where the block takes twice its time at the shortest, or None."""
    return crossing(points, 2 * points[0][1].value) if points else None


def crossing(points, target):
    """Where [(x, Value)] rises to the target, by straight lines, or None."""
    for (x0, v0), (x1, v1) in zip(points, points[1:]):
        if v0.value < target <= v1.value:
            return x0 + (x1 - x0) * (target - v0.value) / (v1.value - v0.value)
    return None


def draw(records, experiment):
    """Context sweep: block time over cached positions; where attention adds as much as all the rest."""
    threads = records.all_threads()
    curves = sweep(records, experiment, threads, "block_ms", "context")
    if not curves:
        raise chart.Missing(f"no block times in {experiment}")
    figure, (axes,) = chart.new(2.6)
    for index, (family, points) in enumerate(curves.items()):
        look = chart.style_of(family, index)
        chart.curve(axes, points, label=chart.pretty(family), **look)
        crossing = overtaking(points)
        if crossing:
            height = 2 * points[0][1].value
            axes.plot(
                crossing,
                height,
                marker="*",
                markersize=9,
                color=look["color"],
                markeredgecolor="black",
                markeredgewidth=0.4,
                linestyle="none",
            )
            axes.annotate(
                about(crossing),
                (crossing, height),
                xytext=(-7, 4),
                fontsize=7,
                textcoords="offset points",
                ha="right",
            )
    axes.plot(
        [],
        [],
        marker="*",
        markersize=8,
        color="white",
        markeredgecolor="black",
        linestyle="none",
        label="block takes twice its shortest time",
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    chart.plain_log(axes.xaxis, sorted({x for p in curves.values() for x, _ in p}))
    axes.tick_params(axis="x", rotation=60)
    chart.plain_log(axes.yaxis)
    axes.set_xlabel("cached positions")
    axes.set_ylabel(f"block, ms ({states.at_threads(records, threads)})")
    chart.legend_above(axes)
    return figure


SECTION = sweeps.sweep("context", table, draw)
