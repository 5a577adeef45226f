"""Sweeps of decode times over width, cached positions and batch."""

import functools

import chart
import decode
from claims import Verdict, missing
from report import cell, header, line, number, thread_counts
from section import Section
from values import (
    ceiling,
    fit_exponent,
    other_bandwidths,
    ratio,
    ratio_of_times,
    scaled,
    setting,
    sweep,
    sweep_records,
)

from sections.tables import DECODE

BENT = 1.1  # a floor so many times the time of its bytes alone is bent by FLOPs
PAPER = {"dense": 2.0, "sparse": 1.5}  # exponents of d_model


def owns(about):
    return about.study == "decode" and about.section in SWEEPS


def width_exponents(records, experiment, threads):
    """{(dense|sparse, bytes|flops|time): Value} of the width sweep."""
    found = {}
    for what, metric in (("bytes", "block_bytes"), ("flops", "block_flops"), ("time", "block_ms")):
        for family, points in sweep(records, experiment, threads, metric, "d_model").items():
            exponent = fit_exponent(points)
            if (
                exponent
                and what == "time"
                and other_bandwidths(
                    *sweep_records(records, experiment, threads, metric, "d_model")[family].values()
                )
            ):
                exponent = exponent._replace(status="untrusted")
            if exponent:
                found[family, what] = exponent
    return found


def floors_over_bytes(records, experiment, threads):
    """{dense | sparse: {d_model: a block's floor over the time of its bytes at the bandwidth}}

    1 where memory binds every phase, more where FLOPs bind some.
    """
    floors, read = (
        sweep_records(records, experiment, threads, metric, "d_model")
        for metric in ("block_floor_ms", "block_bytes")
    )
    found = {}
    for family, points in floors.items():
        for width, floor in points.items():
            rate, size = ceiling(floor, "read_gbps"), read.get(family, {}).get(width)
            if rate and size:
                found.setdefault(family, {})[width] = floor["value"] / (size["value"] / rate * 1e-6)
    return found


def flops_bend_from(over):
    """The first width where FLOPs bend the floor, {d_model: floor over bytes}; or None."""
    return next((width for width, above in over.items() if above > BENT), None)


def verdicts(records, own):
    """On the growth of cost with the model's width."""
    threads = records.all_threads()
    claim = "Decoding cost grows as d^1.5 where the dense model's grows as d^2 (§1, §3.2)"
    name = next((about.name for about in own if about.section == "width"), "width_sweep")
    fits = width_exponents(records, name, threads)
    if ("sparse", "bytes") not in fits or ("sparse", "time") not in fits:
        return [missing(claim)]
    parts = [
        f"{what} {fits['dense', what].value:.2f} dense, {fits['sparse', what].value:.2f} sparse"
        for what in ("bytes", "flops", "time")
        if ("dense", what) in fits and ("sparse", what) in fits
    ]
    verdicts = {what: fits["sparse", what].value <= 1.6 for what in ("bytes", "time")}
    verdict = {2: "reproduced", 1: "partly reproduced", 0: "not reproduced"}[sum(verdicts.values())]
    if any(fits[key].status == "untrusted" for key in fits if key[1] == "time"):
        verdict += " but untrusted"
    over = floors_over_bytes(records, name, threads).get("sparse", {})
    return [
        Verdict(
            claim,
            verdict,
            "exponents of a block: " + "; ".join(parts) + ". The "
            "claim counts weights; the multiplicative layer's FLOPs stay d², which bends "
            "the time. " + floor_over_bytes_text(over),
            place=1,
        )
    ]


def width_table(report, experiment, threads):
    fits = width_exponents(report.records, experiment, threads)
    if not fits:
        return []
    lines = header("exponent of d_model", "paper", "bytes", "FLOPs", "block time")
    for family, theirs in (("dense", "2"), ("sparse", "1.5")):
        cells = [
            cell(report, fits.get((family, what)), spread=True)
            for what in ("bytes", "flops", "time")
        ]
        lines.append(line(family, theirs, *cells))
    times = sweep(report.records, experiment, threads, "block_ms", "d_model")
    at = sweep_records(report.records, experiment, threads, "block_ms", "d_model")
    over = floors_over_bytes(report.records, experiment, threads)
    lines += [
        "",
        *header("d_model", "dense, ms", "FF+QKV, ms", "speed-up", "floor / bytes, dense", "FF+QKV"),
    ]
    dense, sparse = dict(times.get("dense", ())), dict(times.get("sparse", ()))
    for d in sorted({*dense, *sparse}):
        lines.append(
            line(
                f"{d:.0f}",
                cell(report, dense.get(d)),
                cell(report, sparse.get(d)),
                cell(
                    report,
                    ratio_of_times(*(at.get(f, {}).get(d) for f in ("dense", "sparse"))),
                    "×",
                ),
                *(number(over.get(family, {}).get(d)) for family in ("dense", "sparse")),
            )
        )
    return lines + [
        "",
        "The paper's 1.5 counts weights. The multiplicative layers' FLOPs stay d² "
        "each, so the sparse curve bends towards 2 where they, not memory, are the "
        "limit. *Floor / bytes*: the floor of a block over the time of its bytes "
        "alone at the bandwidth beside it; 1 where memory is the only limit. "
        + floor_over_bytes_text(over.get("sparse", {}))
        + ".",
    ]


def floor_over_bytes_text(over):
    """Where FLOPs bend FF+QKV's floor, {d_model: floor over bytes}, in a sentence."""
    if not over:
        return "Where, is not known: no floors with ceilings beside them"
    width = flops_bend_from(over)
    words = "The floor of FF+QKV over the time of its bytes alone"
    if width is None:
        return f"{words} stays at or below {BENT} up to d_model {max(over):.0f}"
    return (
        f"{words} first exceeds {BENT} at d_model {width:.0f} ({over[width]:.2f}), "
        f"and is {over[max(over)]:.2f} at {max(over):.0f}"
    )


def context_table(report, experiment, threads):
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


def batch_table(report, experiment, threads):
    curves = sweep(report.records, experiment, threads, "block_ms", "batch")
    if not curves:
        return []
    rows = sweep(report.records, experiment, threads, "rows_touched", "batch")
    floors, efficiencies = (
        sweep(report.records, experiment, threads, metric, "batch")
        for metric in ("block_floor_ms", "block_efficiency")
    )
    sizes = sorted({x for points in curves.values() for x, _ in points})
    lines = header("tokens at once", *(f"{x:.0f}" for x in sizes))
    first = next(iter(curves))
    dense_floors = dict(floors.get(first, ()))
    for family, points in curves.items():
        at = dict(points)
        lines.append(
            line(
                f"`{family}`, ms a block and token",
                *(cell(report, scaled(at.get(x), 1 / x)) for x in sizes),
            )
        )
        if family != first:
            dense = dict(curves[first])
            least = dict(floors.get(family, ()))
            lines.append(
                line(
                    "speed-up of a block",
                    *(cell(report, ratio(dense.get(x), at.get(x)), "×") for x in sizes),
                )
            )
            lines.append(
                line(
                    "its roofline limit",
                    *(cell(report, ratio(dense_floors.get(x), least.get(x)), "×") for x in sizes),
                )
            )
        lines.append(
            line(
                f"`{family}`, efficiency",
                *(cell(report, dict(efficiencies.get(family, ())).get(x)) for x in sizes),
            )
        )
        touched = dict(rows.get(family, ()))
        if any(v.value for v in touched.values()):
            lines.append(
                line(
                    "feed-forward rows a block read in 12 steps",
                    *(cell(report, touched.get(x)) for x in sizes),
                )
            )
    return lines + [
        "",
        "The limit is the ratio of both floors; a speed-up above it means that the "
        "dense block is further from its own floor.",
    ]


def draw_width(records, experiment):
    """Width sweep: block time over d_model, dense against FF+QKV, log-log, with fitted exponents."""
    threads = records.all_threads()
    times = sweep(records, experiment, threads, "block_ms", "d_model")
    if not times:
        raise chart.Missing(f"no block times in {experiment}")
    fits = width_exponents(records, experiment, threads)
    figure, (axes,) = chart.new(3.0)
    for index, (family, points) in enumerate(times.items()):
        xs = [x for x, _ in points]
        chart.curve(axes, points, label=chart.pretty(family), **chart.style_of(family, index))
        if family in PAPER:
            last = points[-1][1].value
            axes.plot(
                xs,
                [last * (x / xs[-1]) ** PAPER[family] for x in xs],
                label=f"slope {PAPER[family]:g} (paper)",
                **{**chart.LIMIT, "linestyle": ":" if family == "dense" else (0, (1, 3))},
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    chart.plain_log(axes.xaxis, sorted({x for p in times.values() for x, _ in p}))
    axes.tick_params(axis="x", rotation=60)
    chart.plain_log(axes.yaxis)
    axes.set_xlabel("d_model")
    axes.set_ylabel(f"block, ms ({threads} threads)")
    lines = ["fitted exponent", f"{'':7}{'bytes':>6}{'FLOPs':>6}{'time':>6}"]
    for family in PAPER:
        cells = [
            f"{fits[family, w].value:6.2f}" if (family, w) in fits else f"{'–':>6}"
            for w in ("bytes", "flops", "time")
        ]
        lines.append(f"{chart.pretty(family):7}" + "".join(cells))
    axes.text(
        0.02,
        0.98,
        "\n".join(lines),
        transform=axes.transAxes,
        va="top",
        fontsize=7,
        family="monospace",
    )
    chart.legend_above(axes)
    return figure


def draw_context(records, experiment):
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
    axes.set_ylabel(f"block, ms ({threads} threads)")
    chart.legend_above(axes)
    return figure


def draw_batch(records, experiment):
    """Batch sweep: block time per token and speed-up over the dense block against tokens at once."""
    threads = records.all_threads()
    curves = sweep(records, experiment, threads, "block_ms", "batch")
    if not curves:
        raise chart.Missing(f"no block times in {experiment}")
    floors = sweep(records, experiment, threads, "block_floor_ms", "batch")
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
        bottom.plot(
            [x for x, _ in limits],
            [v.value for _, v in limits],
            label=f"limit by roofline, {chart.pretty(family)}",
            markerfacecolor="white",
            **{**look, "linestyle": ":"},
        )
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
    found = [(x, ratio(v, lower.get(x))) for x, v in above]
    return [(x, v) for x, v in found if v]


SWEEPS = {
    "width": (width_table, draw_width),
    "context": (context_table, draw_context),
    "batch": (batch_table, draw_batch),
}


def numbers_at(records, own, threads):
    return {
        f"{about.id}.{family}.exponent_{what}": value
        for about in own
        if about.section == "width"
        for (family, what), value in width_exponents(records, about.name, threads).items()
    }


def figures(_records, own):
    return {
        about.name: functools.partial(SWEEPS[about.section][1], experiment=about.name)
        for about in own
    }


def write(report, own):
    for about in own:
        report.add(f"## {about.title}")
        for threads, words in thread_counts(report.records):
            lines = SWEEPS[about.section][0](report, about.name, threads)
            report.add(
                f"**{words[0].upper()}{words[1:]}**",
                "",
                *(lines or ["Not measured at this thread count."]),
            )
        report.figure(about.name)
        report.repeat(DECODE.format(about.name))


SECTION = Section(owns=owns, numbers_at=numbers_at, figures=figures, verdicts=verdicts, write=write)
