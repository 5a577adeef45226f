"""Decode time against the model's width: exponents, and where FLOPs bend the floor."""

import chart
import states
from claims import Verdict, missing
from report import cell, header, line, number
from sections import sweeps
from values import (
    ceiling,
    fit_exponent,
    other_bandwidths,
    sweep,
    sweep_records,
)

BENT = 1.1  # a floor so many times the time of its bytes alone is bent by FLOPs
PAPER = {"dense": 2.0, "sparse": 1.5}  # exponents of d_model


def width_exponents(records, experiment, threads):
    """{(dense|sparse, bytes|flops|time): Value} of the width sweep."""
    found = {}
    for what, metric in (("bytes", "block_bytes"), ("flops", "block_flops"), ("time", "block_ms")):
        for family, points in sweep(records, experiment, threads, metric, "d_model").items():
            exponent = fit_exponent(points)
            if (
                exponent
                and what == "time"
                and not states.name_of(records)
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


def numbers_at(records, own, threads):
    return {
        f"{about.id}.{family}.exponent_{what}": value
        for about in own
        for (family, what), value in width_exponents(records, about.name, threads).items()
    }


def verdicts(records, own):
    """On the growth of cost with the model's width."""
    threads = records.all_threads()
    claim = "Decoding cost grows as d^1.5 where the dense model's grows as d^2 (§1, §3.2)"
    name = own[0].name if own else ""
    fits = width_exponents(records, name, threads)
    if ("sparse", "bytes") not in fits or ("sparse", "time") not in fits:
        return [missing(claim)]
    parts = [
        f"{what} {fits['dense', what].value:.2f} dense, {fits['sparse', what].value:.2f} sparse"
        for what in ("bytes", "flops", "time")
        if ("dense", what) in fits and ("sparse", what) in fits
    ]
    verdicts = {what: fits["sparse", what].high <= 1.6 for what in ("bytes", "time")}
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


def table(report, experiment, threads):
    fits = width_exponents(report.records, experiment, threads)
    if not fits:
        return []
    lines = header("exponent of d_model", "paper", "bytes", "FLOPs", "block time")
    for family, theirs in (("dense", "2"), ("sparse", "1.5")):
        cells = [
            cell(report, fits.get((family, what)), interval=True)
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
                    sweeps.speedup(report.records, experiment, at, ("dense", "sparse"), d, threads),
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


def draw(records, experiment):
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
    axes.set_ylabel(f"block, ms ({states.at_threads(records, threads)})")
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


SECTION = sweeps.sweep("width", table, draw, numbers_at=numbers_at, verdicts=verdicts)
