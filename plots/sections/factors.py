"""Rows that differ from the first in one thing each: what it changes, with intervals over seeds and a verdict."""

import functools

import chart
import contrasts
import knobs
import training_curves
from report import count, header, line, nats, not_begun, percent
from section import Section, of
from sections import curves
from values import combine, setting

OWNS = of("training", "factors")
BELOW, ABOVE = "helps", "hurts"
FOLLOWS = ("d_ff", "params")  # what a row's sizes are solved for, not what was changed
MARGIN = 0.01  # nats a token, the last digit of the paper's log-perplexities: what moves them by less is alike


def experiments(records):
    """[Experiment] that have results of their first row."""
    found = [training_curves.Experiment(records, about.name) for about in records.of(OWNS)]
    return [e for e in found if e.result(e.baseline, "log_perplexity")]


def changed(experiment, row):
    """knob=value of what a finished row has otherwise than the first; empty if it is not known."""
    first, own = (
        next(iter(experiment.by_seed(name, "log_perplexity").values()), None)
        for name in (experiment.baseline, row)
    )
    if not first or not own or row == experiment.baseline:
        return ""
    # What is off in one of the two is a setting of the other.
    names = [k for k in {**knobs.settings(first), **knobs.settings(own)} if k not in _NOT_CHANGED]
    return ", ".join(
        f"{knob}={setting(own, knob)}"
        for knob in names
        if setting(own, knob) != setting(first, knob)
    )


TOKEN_SHARE = "token_share"
SHARES = {
    TOKEN_SHARE: "of the first input the token's, %",
    "plateau_share": "of the steps on the plateau, %",
}
_NOT_CHANGED = (*training_curves.INCIDENTAL, *training_curves.SEEDS, *FOLLOWS)


def judged(experiment):
    """{row: Judged} of every planned row less the first, trained or not."""
    base = experiment.baseline
    family = (
        contrasts.contrast(row, experiment, contrasts.difference(row, base))
        for row in dict.fromkeys((*experiment.planned, *experiment.rows))
        if row != base
    )
    return contrasts.judge(family, MARGIN)


def numbers(records, _own):
    found = {}
    for experiment in experiments(records):
        start = f"quality.{experiment.name}"
        for row in experiment.rows:
            own = contrasts.weighted(experiment, {row: 1})
            found[f"{start}.{row}.log_perplexity"] = own and own._replace(
                tokens=experiment.tokens(row)
            )
            for share in SHARES:
                found[f"{start}.{row}.{share}"] = experiment.result(row, share)
        said = judged(experiment)
        for row, one in said.items():
            found[f"{start}.{row}.difference"] = one.contrast.value
        found[f"{start}.undecided"] = undecided(experiment)
    return {name: value for name, value in found.items() if value}


def undecided(experiment):
    """Value: how many changes have no decision; None where none has a seed."""
    said = judged(experiment)
    inputs = [one.contrast.value for one in said.values() if one.contrast.value]
    if not inputs:
        return None
    number = float(sum(not one.is_decided for one in said.values()))
    value = combine(number, "1", number, number, inputs)
    return value._replace(seeds=min(one.seeds for one in inputs))


def is_of_starts(experiment):
    """Whether rows begin with other shares of the token in what the first block is given."""
    found = [experiment.result(row, TOKEN_SHARE) for row in experiment.rows]
    return len({round(value.value, 3) for value in found if value}) > 1


def table(experiment):
    """A line a row, the first above; of rows that begin otherwise also how, and how long they stay on the plateau."""
    shares = SHARES if is_of_starts(experiment) else {}
    lines = header(
        "row",
        "what is changed",
        *shares.values(),
        "tokens",
        "seeds",
        "log-perplexity, nats/token",
        f"less `{experiment.baseline}`",
        "verdict",
        are_numbers=False,
    )
    said = judged(experiment)
    rows = (experiment.baseline, *said)
    for row in rows:
        if row not in experiment.rows:
            continue
        own = contrasts.weighted(experiment, {row: 1})
        if own is None:
            dashes = ["–"] * len(shares)
            lines.append(line(f"`{row}`", "–", *dashes, "–", experiment.state(row), *["–"] * 3))
            continue
        one = said.get(row)
        verdict = "–"
        if one:
            wanted = one.wanted()
            verdict = f"**{one.verdict(BELOW, ABOVE)}**" + (f"; {wanted}" if wanted else "")
        lines.append(
            line(
                f"`{row}`",
                changed(experiment, row) or "–",
                *(percent(experiment.result(row, share)) for share in shares),
                count(experiment.tokens(row)),
                str(own.seeds),
                nats(own, ""),
                nats(one.contrast.value if one else None),
                verdict,
            )
        )
    return [*lines, *not_begun(experiment, rows)]


def write(report, own):
    titles = {about.name: about.title for about in own}
    for experiment in experiments(report.records):
        report.add(
            f"## {titles[experiment.name]}",
            "",
            "Each row beside the first, seed by seed, with Student's 95 % interval over seeds: *helps* if it lies below "
            f"0, *hurts* if above, *{contrasts.ALIKE}* if within {MARGIN:g} of 0 (the last digit of the paper's "
            f"log-perplexities), *so far* of fewer than {contrasts.FEW} seeds. All rows that were planned count, {contrasts.STRICTER}. Sizes are solved for equal parameters; rates are as stated, not swept again.",
        )
        report.add(*table(experiment))
        report.figure(experiment.name)
        report.repeat(curves.command(experiment))


def draw(records, experiment):
    """A bar a row: its difference to the first, and the interval; grey: what is alike lies within."""
    found = next((e for e in experiments(records) if e.name == experiment), None)
    each = {} if found is None else judged(found)
    rows = [(row, one.contrast.value) for row, one in each.items() if one.contrast.value]
    if not rows:
        raise chart.Missing(f"no finished pair of rows in {experiment}")
    figure, (axes,) = chart.new(1.2 + 0.28 * len(rows))
    hollow = {
        "markerfacecolor": "white"
    }  # what has too few seeds for an interval, and would look surer than the others
    for place, (_, value) in enumerate(rows):
        look = {**chart.SPARSE, "linestyle": "none"}
        axes.plot(
            value.value, place, **look, **(hollow if value.seeds < chart.FEWEST_SEEDS else {})
        )
        (down,), (up,) = chart.bars([value])
        axes.plot(
            [value.value - down, value.value + up], [place, place], color=chart.SPARSE["color"]
        )
    axes.axvspan(-MARGIN, MARGIN, color="0.92", zorder=0)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [row for row, _ in rows])
    axes.invert_yaxis()
    axes.locator_params(axis="x", nbins=5)
    seeds = sorted({value.seeds for _, value in rows})
    of = contrasts.seeds_text(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    few = f" (hollow: below {chart.FEWEST_SEEDS})" if seeds[0] < chart.FEWEST_SEEDS else ""
    axes.set_xlabel(
        f"nats per token less {found.baseline}\n{of}{few}, {count(found.tokens(found.baseline))} tokens"
    )
    return figure


def figures(_records, own):
    return {about.name: functools.partial(draw, experiment=about.name) for about in own}


SECTION = Section(owns=OWNS, numbers=numbers, figures=figures, write=write)
