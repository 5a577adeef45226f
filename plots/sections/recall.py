"""How much of exact attention LSH attention sees, over chunks and rounds."""

import functools

import chart
from section import Section, of
from sections import attention


def draw(records, experiment):
    """Recall over rounds, a panel a distribution."""
    distributions = [d for d in attention.DISTRIBUTIONS if attention.recall(records, experiment, d)]
    if not distributions:
        raise chart.Missing(f"no recall in {experiment}")
    figure, panels = chart.new(2.1 * len(distributions), panels=len(distributions))
    for axes, distribution in zip(panels, distributions):
        attention.draw_recall(axes, records, experiment, distribution)
    chart.legend_above(panels[0], columns=3)
    return figure


def figures(_records, own):
    return {about.name: functools.partial(draw, experiment=about.name) for about in own}


def write(report, own):
    for about in own:
        report.add(f"## {about.title}")
        attention.write_recall(report, about.name)
        report.figure(about.name)
        report.repeat(
            "./build/release/experiments/attention_recall --config "
            f"experiments/configs/attention/{about.name}.cfg"
        )


SECTION = Section(owns=of("recall"), figures=figures, write=write, place=1)
