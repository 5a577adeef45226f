"""Who sees whom in each attention, drawn from the graphs that its driver wrote, and statistics of heads."""

import functools

import chart
from report import cell, header, line
from section import Section, of
from sections import attention
from values import measured

COLUMNS = 3
METRICS = (("density", "1"), ("entropy", "nats"), ("distance", "positions"))


def graph(records, experiment, row):
    """(layers, heads, queries, keys), 0 or 1; None if there is none."""
    import numpy

    path = records.folder / "patterns" / experiment / f"{row}.graph.npy"
    return numpy.load(path) if path.exists() else None


def shares(found):
    """(queries, keys): the share of the first layer's heads in which a query sees a key."""
    return found[0].mean(axis=0)


def draw(records, experiment):
    """A small matrix an attention: queries down, keys to the right, darker where more heads see."""
    found = {row: graph(records, experiment, row) for row in records.rows(experiment)}
    found = {row: array for row, array in found.items() if array is not None}
    if not found:
        raise chart.Missing(f"no graphs in {records.folder / 'patterns' / experiment}")
    lines = -(-len(found) // COLUMNS)
    figure, panels = chart.pyplot().subplots(
        lines,
        COLUMNS,
        figsize=(2 * chart.WIDTH, 2 * chart.WIDTH / COLUMNS * lines),
        squeeze=False,
        constrained_layout=True,
    )
    panels = [axes for of_line in panels for axes in of_line]
    for axes, (row, array) in zip(panels, found.items()):
        axes.imshow(shares(array), cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(row.replace("_", " "))
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_visible(True)
    for axes in panels[len(found) :]:
        axes.set_axis_off()
    return figure


def table(report, experiment):
    records = report.records
    threads = attention.threads_of(records, experiment)
    lines = header("attention", *(f"{metric} ({unit})" for metric, unit in METRICS))
    for row in records.rows(experiment):
        values = (measured(records, experiment, row, threads, metric) for metric, _ in METRICS)
        lines.append(line(row.replace("_", " "), *(cell(report, value) for value in values)))
    return lines


def write(report, own):
    for about in own:
        report.add(
            f"## {about.title}",
            "",
            "Weights that attentions gave to keys in their forward passes, of queries and keys drawn "
            "at random; numbers are medians over layers and heads. *Density*: of the pairs that the "
            "mask allows, those with a weight. *Distance*: how far from its query a key is, mean by "
            "weight. In the picture queries go down and keys to the right, darker where more heads "
            f"see; graphs and weights of every head: `patterns/{about.name}/*.npy` beside the records.",
        )
        report.add(*table(report, about.name))
        report.figure(about.name)
        report.repeat(
            "./build/release/experiments/attention_patterns --config "
            f"experiments/configs/attention/{about.name}.cfg"
        )


def figures(_records, own):
    return {about.name: functools.partial(draw, experiment=about.name) for about in own}


SECTION = Section(owns=of("attention_patterns"), figures=figures, write=write, place=1)
