"""Decode time against tokens decoded at once: per token, and the speed-up over the dense block."""

import chart
import states
from report import cell, header, line
from sections import sweeps
from values import ratio, scaled, sweep, sweep_records


def table(report, experiment, threads):
    curves = sweep(report.records, experiment, threads, "block_ms", "batch")
    at_block = sweep_records(report.records, experiment, threads, "block_ms", "batch")
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
            least = dict(floors.get(family, ()))
            lines.append(
                line(
                    "speed-up of a block",
                    *(
                        cell(
                            report,
                            sweeps.speedup(
                                report.records, experiment, at_block, (first, family), x, threads
                            ),
                            "×",
                        )
                        for x in sizes
                    ),
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


def draw(records, experiment):
    """Batch sweep: block time per token and speed-up over the dense block against tokens at once."""
    threads = records.all_threads()
    curves = sweep(records, experiment, threads, "block_ms", "batch")
    at_block = sweep_records(records, experiment, threads, "block_ms", "batch")
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
        speedups = [
            (x, sweeps.speedup(records, experiment, at_block, (first, family), x, threads))
            for x, _ in points
        ]
        chart.curve(bottom, [(x, v) for x, v in speedups if v], **look)
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
    bottom.set_xlabel(f"tokens decoded at once ({states.at_threads(records, threads)})")
    chart.legend_above(top, columns=3)
    bottom.legend(loc="best")
    return figure


def ratios(above, below):
    """[(x, above / below)] where both are measured."""
    lower = dict(below)
    found = [(x, ratio(v, lower.get(x))) for x, v in above]
    return [(x, v) for x, v in found if v]


SECTION = sweeps.sweep("batch", table, draw)
