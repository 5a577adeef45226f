"""A decode step of all attentions against cached positions: time, floor, cache, and where they pass full's."""

import functools

import chart
import report as tables
from section import Section, of
from sections import attention, attention_lengths
from values import scaled

TIME_CONTEXT = 4096  # of a token's time
FLOOR_CONTEXT = 8192  # of the share of its floor
OVER = "context"


def numbers_of(records, experiment, identifier):
    """{id: Value or None}."""
    found = {}
    times, shares, caches = (
        attention.curves(records, experiment, metric, OVER)
        for metric in ("decode_us", "decode_efficiency", "cache_bytes")
    )
    for row, other in attention.attentions(records, experiment).items():
        start = f"{identifier}.{row}"
        found[f"{start}.decode_us_token_{TIME_CONTEXT}"] = dict(times.get(row, ())).get(
            TIME_CONTEXT
        )
        found[f"{start}.decode_efficiency"] = dict(shares.get(row, ())).get(FLOOR_CONTEXT)
        found[f"{start}.cache_bytes_{TIME_CONTEXT}"] = dict(caches.get(row, ())).get(TIME_CONTEXT)
        if row != other:
            found[f"{start}.decode_crossover_length"] = attention.crossing(
                records, experiment, row, "decode_us", OVER
            )
    return found


def numbers(records, own):
    return {
        name: value
        for about in own
        for name, value in numbers_of(records, about.name, about.id).items()
        if value is not None
    }


def table(report, experiment, metric, shown=tables.cell):
    """A row an attention, a column a number of cached positions."""
    found = attention.curves(report.records, experiment, metric, OVER)
    lengths = attention_lengths.lengths_of(found)
    lines = tables.header("attention", *(f"{x:,.0f}" for x in lengths))
    for row in attention.attentions(report.records, experiment):
        values = dict(found.get(row, ()))
        lines.append(
            tables.line(
                attention_lengths.name_of(row),
                *(shown(report, values.get(x)) for x in lengths),
            )
        )
    return lines


def time_table(report, experiment):
    """Times, the share of their floor in brackets."""
    records = report.records
    times, shares = (
        attention.curves(records, experiment, metric, OVER)
        for metric in ("decode_us", "decode_efficiency")
    )
    lengths = attention_lengths.lengths_of(times)
    lines = tables.header(
        "attention", *(f"{x:,.0f}" for x in lengths), "faster than full attention from"
    )
    for row, other in attention.attentions(records, experiment).items():
        time, share = dict(times.get(row, ())), dict(shares.get(row, ()))
        cells = [
            tables.cell(report, time.get(x))
            + (f" ({tables.number(share[x].value, digits=2)})" if x in share else "")
            for x in lengths
        ]
        crossing = (
            attention_lengths.crossing_cell(report, experiment, row, "decode_us", OVER)
            if row != other
            else "–"
        )
        lines.append(tables.line(attention_lengths.name_of(row), *cells, crossing))
    return lines


def write(report, own):
    for about in own:
        report.add(
            f"## {about.title}",
            "",
            "Timed is what one token of one sequence takes between the projections, at "
            f"{attention.threads_of(report.records, about.name)} threads: its key and value go into "
            "the cache, and it attends. Before each step other memory goes through the caches, as a "
            "model's other blocks do. Rows of as many cached positions take turns.",
        )
        report.add(
            "**Time of a token, µs**; in brackets its *floor*, the bytes that it reads at the rate of "
            "memory measured right before, over the time. An attention whose values are read only "
            "where a probability is not zero has the floor of its keys alone. Compare within a column, "
            "whose rows had one memory; where full attention is far above its own floor, a gain over it "
            "is partly that distance",
            "",
            *time_table(report, about.name),
        )
        report.add(
            "**Cache, kB**: what a decode of as many positions keeps, buffers of a step included",
            "",
            *table(report, about.name, "cache_bytes", kilobytes),
        )
        report.figure(about.name)
        report.repeat(
            "./build/release/experiments/attention_decode --config "
            f"experiments/configs/attention/{about.name}.cfg"
        )


def kilobytes(report, value):
    return tables.cell(report, scaled(value, 1e-3))


def draw(records, experiment):
    """Time and cache of a token over cached positions, a curve an attention; floors dotted."""
    times, floors, caches = (
        attention.curves(records, experiment, metric, OVER)
        for metric in ("decode_us", "decode_floor_us", "cache_bytes")
    )
    if not times:
        raise chart.Missing(f"no decode times in {experiment}")
    figure, panels = chart.new(7.2, panels=2)
    rows = list(attention.attentions(records, experiment))
    threads = attention.threads_of(records, experiment)
    attention_lengths.draw_panel(
        panels[0], times, rows, f"µs a token ({threads} threads; dotted: floor)", "cached positions"
    )
    for index, row in enumerate(rows):
        look = chart.one_of_many(index)
        panels[0].plot(
            [x for x, _ in floors.get(row, ())],
            [v.value for _, v in floors.get(row, ())],
            color=look["color"],
            linestyle=":",
            linewidth=0.6,
        )
    kept = {row: attention_lengths.scaled_points(points, 1e-6) for row, points in caches.items()}
    attention_lengths.draw_panel(panels[1], kept, rows, "cache, MB", "cached positions")
    chart.legend_above(panels[0], columns=2)
    return figure


def figures(_records, own):
    return {about.name: functools.partial(draw, experiment=about.name) for about in own}


SECTION = Section(
    owns=of("attention_decode"), numbers=numbers, figures=figures, write=write, place=1
)
