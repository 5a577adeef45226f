"""What the sections of sweeps of decode times share: each state of memory has tables of its own."""

import functools

import decode
import states
from report import thread_counts
from section import Section, of
from sections.tables import DECODE


def speedup(records, experiment, at, families, x, threads):
    """Value: a block of the first of two families over one of the second, at a setting x; None without both.

    at: sweep_records of block_ms.
    """
    rows = [record["row"] if (record := at.get(f, {}).get(x)) else None for f in families]
    return decode.over(records, experiment, *rows, threads, "block_ms") if all(rows) else None


def sweep(section, table, draw, **more):
    """The Section of one kind of sweep; table(report, experiment, threads), draw(records, experiment)."""

    def figures(_records, own):
        return {about.name: functools.partial(draw, experiment=about.name) for about in own}

    def write(report, own):
        for about in own:
            report.add(f"## {about.title}")
            for threads, words in thread_counts(report.records):
                for view, _ in states.views(report.records, threads):
                    title = words + states.words_of(view)
                    lines = table(report.of(view), about.name, threads)
                    report.add(
                        f"**{title[0].upper()}{title[1:]}**",
                        "",
                        *(lines or [f"Not measured at this thread count{states.words_of(view)}."]),
                    )
            report.figure(about.name)
            report.repeat(DECODE.format(about.name))

    return Section(owns=of("decode", section), figures=figures, write=write, **more)
