"""What attentions cost in log-perplexity and what they save in time: curves beside cores timed at the same sizes.

Experiments of section `trained` time the rows of the curves that their id names, in training and in decoding.
"""

import functools
import math

import chart
import report as tables
import training_curves
from section import Section
from sections import attention, attention_lengths, quality
from sections.frontier import Point, hull, scatter
from values import scaled

# Of a study: words, ending of the id, metric, setting that tells the length, its times in µs a token of n positions.
TIMES = {
    "attention": ("training step, µs a token", "step_us_token", "step_ms", "length", 1e3),
    "attention_decode": ("token decoded, µs", "decode_us_token", "decode_us", "context", None),
}
# With the flag that says at what length.
PROGRAMS = {
    "attention": "long_sequence --threads {threads} --lengths {positions}",
    "attention_decode": "attention_decode --threads {threads} --contexts {positions}",
}
WORDS = (
    "The attentions of `{curves}` ({tokens} tokens, d_model {d_model}, {seeds}), each beside its time in "
    "the sizes in which it was trained: the core alone, between the projections, of {timed}. The other layers of a "
    "block cost all rows the same, but for feed-forwards that are smaller where the attention has weights of its "
    "own. *Above*: nats above `{baseline}`'s. *On the frontier*: no other is both faster and better, in the means."
)


def owns(about):
    return about.study in TIMES and about.section == "trained"


def grouped(own):
    """{id: {study: About}}, training first."""
    found = {}
    for about in sorted(own, key=lambda about: list(TIMES).index(about.study)):
        found.setdefault(about.id, {})[about.study] = about
    return found


def as_trained(records, about):
    """The most positions that the curves of the id were trained on; no bound where there are none."""
    curves = training_curves.experiments(records).get(about.id)
    length = curves and curves.setting(curves.baseline, "length")
    return int(length) if length else math.inf


def longest(points, most):
    """The last of [(length, Value)] ascending that is no longer than `most`; None if none is."""
    return next((point for point in reversed(points) if point[0] <= most), None)


def times(records, about):
    """{row: (length, Value in µs a token)}, at the longest measured length that is no longer than what was trained."""
    *_, metric, over, factor = TIMES[about.study]
    most, found = as_trained(records, about), {}
    for row, points in attention.curves(records, about.name, metric, over).items():
        if at := longest(points, most):
            found[row] = (at[0], scaled(at[1], factor / at[0] if factor else 1.0, "us"))
    return found


def gains(records, about):
    """{row: Value}: the time of what a row is set against over its own, at that length."""
    *_, metric, over, _ = TIMES[about.study]
    most, found = as_trained(records, about), {}
    for row, _ in attention.compared(records, about.name):
        if at := longest(attention.speedups(records, about.name, row, metric, over), most):
            found[row] = at[1]
    return found


def points(records, about, curves):
    """[Point] of the rows that have both nats and a time."""
    found = []
    for row, (_, time) in times(records, about).items():
        nats = quality.row_figures(curves, row).get("log_perplexity")
        if nats:
            found.append(Point(row, nats, time))
    return found


def numbers(records, own):
    return {
        f"{about.id}.{row}.{TIMES[about.study][1]}": time
        for about in own
        for row, (_, time) in times(records, about).items()
    }


def table(report, studies, curves):
    records = report.records
    abouts = list(studies.values())
    timed = [times(records, about) for about in abouts]
    gained = [gains(records, about) for about in abouts]
    best = [hull(points(records, about, curves)) for about in abouts]
    words = [column for about in abouts for column in (TIMES[about.study][0], "full's over it")]
    lines = tables.header("attention", "nats/token", "above", *words, "on the frontier")
    kinds = {"attention": "training", "attention_decode": "decoding"}
    for row in (row for row in curves.rows if any(row in found for found in timed)):
        figures = quality.row_figures(curves, row)
        cells = []
        for found, ratios in zip(timed, gained):
            time = found.get(row, (0, None))[1]
            cells += [
                tables.cell(report, time),
                tables.cell(report, ratios.get(row), "×", interval=True),
            ]
        where = [kinds[about.study] for about, rows in zip(abouts, best) if row in rows]
        lines.append(
            tables.line(
                attention_lengths.name_of(row),
                tables.nats(figures.get("log_perplexity"), ""),
                tables.nats(figures.get("gap")),
                *cells,
                ", ".join(where) or "no",
            )
        )
    return lines


def timed_at(records, about):
    """(positions, threads) of the times of an experiment."""
    positions = max((length for length, _ in times(records, about).values()), default=0)
    return int(positions), attention.threads_of(records, about.name)


def timed_words(records, about):
    """What the times of an experiment are of."""
    positions, threads = timed_at(records, about)
    what = "a training step over" if about.study == "attention" else "a token decoded behind"
    return f"{what} {positions:,} positions at {threads} thread{'s' * (threads > 1)}"


def write(report, own):
    records = report.records
    for identifier, studies in grouped(own).items():
        curves = training_curves.experiments(records).get(identifier)
        if curves is None:
            continue
        base = curves.baseline
        nats = quality.row_figures(curves, base).get("log_perplexity")
        report.add(
            "## Attentions: log-perplexity against time",
            "",
            WORDS.format(
                curves=curves.name,
                tokens=tables.count(curves.tokens(base)),
                d_model=curves.setting(base, "d_model"),
                seeds="one seed" if not nats or nats.seeds < 2 else f"{nats.seeds} seeds",
                timed=" and of ".join(timed_words(records, each) for each in studies.values()),
                baseline=base,
            ),
        )
        report.add(*table(report, studies, curves))
        report.figure(name_of(identifier))
        for about in studies.values():
            positions, threads = timed_at(records, about)
            program = PROGRAMS[about.study].format(positions=positions, threads=threads)
            report.repeat(
                f"./build/release/experiments/{program} --config "
                f"experiments/configs/attention/{about.name}.cfg"
            )


def name_of(identifier):
    return f"{identifier}_price"


def draw(records, studies, identifier):
    """Nats a token over µs a token, a panel a study; the steps of the frontier."""
    curves = training_curves.experiments(records).get(identifier)
    if curves is None:
        raise chart.Missing(f"no curves of {identifier}")
    found = {study: points(records, about, curves) for study, about in studies.items()}
    found = {study: each for study, each in found.items() if len(each) > 1}
    if not found:
        raise chart.Missing(f"fewer than two rows of {identifier} have both nats and a time")
    figure, panels = chart.new(2.6 * len(found), panels=len(found))
    for axes, (study, each) in zip(panels, found.items()):
        base = curves.baseline
        looks = {p.row: chart.DENSE if p.row == base else chart.SPARSE for p in each}
        scatter(axes, each, looks)
        axes.margins(0.12)  # for names beside the outermost
        axes.set_xlabel(TIMES[study][0])
        axes.set_ylabel("nats per token")
        chart.label_points(axes, [(p.time.value, p.nats.value, p.row) for p in each])
    return figure


def figures(_records, own):
    return {
        name_of(identifier): functools.partial(draw, studies=studies, identifier=identifier)
        for identifier, studies in grouped(own).items()
    }


SECTION = Section(owns=owns, numbers=numbers, figures=figures, write=write, place=2)
