"""A token of published models, each at its own greatest length: time, floor, and what they have otherwise."""

import chart
from report import bare, cell, header, line, number
from sections import sweeps
from values import measured, setting

COLUMNS = ("layers", "d_model", "attention", "cached positions", "source")


def newest(records, experiment, row, threads):
    """The record of a row's token, or None."""
    return records.get(experiment, row, threads, "token_ms")


def shape_of(record):
    """Cells of COLUMNS."""
    attends = setting(record, "attention", "")
    normaliser = setting(record, "normaliser", "softmax")
    source = setting(record, "source_length", 0)
    has_source = not (setting(record, "encoder") and not setting(record, "encoder_layers"))
    return (
        f"{setting(record, 'decoder_layers', 0)}",
        f"{setting(record, 'd_model', 0):,}",
        attends + ("" if normaliser == "softmax" else f", {normaliser}"),
        f"{setting(record, 'context', 0):,}",
        f"{source:,}" if has_source else "–",
    )


def differs(record):
    return (setting(record, "differs") or "").replace("_", " ").replace(",", ", ") or "–"


def table(report, experiment, threads):
    records = report.records
    rows = [(row, newest(records, experiment, row, threads)) for row in records.rows(experiment)]
    rows = [(row, record) for row, record in rows if record]
    if not rows:
        return []
    lines = header(
        "model", *COLUMNS, "token, ms", "floor / time", "GB read", "parameters, M", "differs by"
    )
    for row, record in rows:
        numbers = {
            metric: measured(records, experiment, row, threads, metric)
            for metric in ("token_efficiency", "token_bytes", "parameters")
        }
        size, count = (numbers[m] and numbers[m].value for m in ("token_bytes", "parameters"))
        lines.append(
            line(
                f"`{row}`",
                *shape_of(record),
                cell(report, measured(records, experiment, row, threads, "token_ms")),
                bare(numbers["token_efficiency"]),
                number(size and size / 1e9),
                number(count and count / 1e6),
                differs(record),
            )
        )
    return lines


def numbers_at(records, own, threads):
    return {
        f"{about.id}.{row}.{metric}": value
        for about in own
        for row in records.rows(about.name)
        for metric in ("token_ms", "token_efficiency")
        if (value := measured(records, about.name, row, threads, metric))
    }


def draw(records, experiment):
    """A token's time over the bytes that it reads, a mark a model; the line: memory's rate."""
    threads = records.all_threads()
    points = []
    for row in records.rows(experiment):
        size = measured(records, experiment, row, threads, "token_bytes")
        time = measured(records, experiment, row, threads, "token_ms")
        floor = measured(records, experiment, row, threads, "token_floor_ms")
        if size and time and floor:
            points.append(
                (size.value / 1e9, time, floor, newest(records, experiment, row, threads))
            )
    if not points:
        raise chart.Missing(f"no token times in {experiment}")
    points.sort(key=lambda point: point[0])
    figure, (axes,) = chart.new(2.8)
    kinds = sorted({setting(record, "attention", "") for *_, record in points})
    for kind in kinds:
        own = [
            (x, time) for x, time, _, record in points if setting(record, "attention", "") == kind
        ]
        look = chart.one_of_many(kinds.index(kind))
        chart.curve(axes, own, label=kind, **{**look, "linestyle": "none"})
    axes.plot(
        [x for x, *_ in points],
        [floor.value for _, _, floor, _ in points],
        label="floor",
        **chart.LIMIT,
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    chart.plain_log(axes.xaxis)
    chart.plain_log(axes.yaxis)
    axes.set_xlabel("GB that a token reads")
    axes.set_ylabel(f"token, ms ({threads} threads)")
    chart.legend_above(axes)
    return figure


SECTION = sweeps.sweep("shapes", table, draw, numbers_at=numbers_at, place=1)
