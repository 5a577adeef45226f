"""What the sections of sweeps of decode times share."""

import functools

from report import thread_counts
from section import Section, of
from sections.tables import DECODE


def sweep(section, table, draw, **more):
    """The Section of one kind of sweep; table(report, experiment, threads), draw(records, experiment)."""

    def figures(_records, own):
        return {about.name: functools.partial(draw, experiment=about.name) for about in own}

    def write(report, own):
        for about in own:
            report.add(f"## {about.title}")
            for threads, words in thread_counts(report.records):
                lines = table(report, about.name, threads)
                report.add(
                    f"**{words[0].upper()}{words[1:]}**",
                    "",
                    *(lines or ["Not measured at this thread count."]),
                )
            report.figure(about.name)
            report.repeat(DECODE.format(about.name))

    return Section(owns=of("decode", section), figures=figures, write=write, **more)
