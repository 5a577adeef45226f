"""Trained models as they decode: nats of the decode path beside the trainer's, and what layers that choose choose there."""

import training_curves
from report import header, line, number
from report import nats as nats_cell
from section import Section, of
from values import over_seeds

OWNS = of("training")
REFERENCE = "decode_reference_log_perplexity"
# Ending of the id, metric, words.
PATHS = tuple(
    (kind, f"decode_log_perplexity.{kind}", words)
    for kind, words in (
        ("f32", "f32"),
        ("bf16", "weights in bf16"),
        ("bf16_dot", "activations too"),
    )
)
LAGS = (1, 2, 4, 8, 16)
OPTIONS = {"sparse": "sparsity", "moe_block": "experts", "moe_switch": "experts"}
WORDS = (
    "Held-out text sequence by sequence and token by token through the kernels that the decode studies time; each "
    "column is the mean over seeds of the difference to the trainer's own value on the same tokens."
)
CHOICES = (
    "What blocks chose on that way. *Reused*: share of choices that are those of so many tokens before. *By use alone*: "
    "what that would be if a token's choices had nothing to do with another's, from how often each option is used. "
    "*Touched*: share of the options that one example of {length} tokens touches. *Drawn*: what options drawn alike, as "
    "by weights that nobody trained, would touch, and reuse."
)


def experiments(records):
    """[Experiment] with curves that were decoded."""
    found = training_curves.experiments(records).values()
    return [e for e in found if any(e.by_seed(row, REFERENCE) for row in e.rows)]


def apart(experiment, row, metric):
    """A record a seed, whose value is a decode path's nats less the trainer's."""
    ours, theirs = (experiment.by_seed(row, name) for name in (metric, REFERENCE))
    return [
        dict(ours[seed], value=ours[seed]["value"] - theirs[seed]["value"])
        for seed in ours
        if seed in theirs
    ]


def difference(experiment, row, metric):
    """Value over seeds of a decode path's nats less the trainer's; None if it was not decoded so."""
    return over_seeds(apart(experiment, row, metric))


def farthest(experiment, row, metric):
    """Of a seed, a plain number; None if the row was not decoded so."""
    return max((abs(r["value"]) for r in apart(experiment, row, metric)), default=None)


def drawn(experiment, row):
    """(share that is reused, share of the options that an example touches) if options were drawn alike."""
    options = experiment.setting(row, OPTIONS.get(experiment.setting(row, "feed_forward"), ""))
    length = experiment.setting(row, "length")
    return (1 / options, 1 - (1 - 1 / options) ** length) if options and length else (None, None)


def choices(experiment, row):
    """{ending: Value} of what a row's layers chose; empty of one that chooses nothing."""
    found = {
        ending: experiment.result(row, f"selection_{ending}")
        for ending in (*(f"reuse_{lag}" for lag in LAGS), "chance", "touched")
    }
    return {ending: value for ending, value in found.items() if value}


def numbers(records, _own):
    found = {}
    for experiment in experiments(records):
        for row in experiment.rows:
            start = f"decode_path.{experiment.name}.{row}"
            for kind, metric, _ in PATHS:
                found[f"{start}.{kind}"] = difference(experiment, row, metric)
            for ending, value in choices(experiment, row).items():
                found[f"{start}.{ending}"] = value
    return {name: value for name, value in found.items() if value}


def paths_table(experiment):
    lines = header("row", "seeds", "trainer", *(words for _, _, words in PATHS))
    for row in experiment.rows:
        reference = experiment.result(row, REFERENCE)
        if reference is None:
            continue
        lines.append(
            line(
                f"`{row}`",
                str(reference.seeds),
                nats_cell(reference, ""),
                *(_small(difference(experiment, row, metric)) for _, metric, _ in PATHS),
            )
        )
    return lines


def _small(value):
    """+1.2e-06: differences of a path that should have none are of a sum's order."""
    return f"{value.value:+.1e}" if value else "–"


def choices_table(experiment):
    lines = header(
        "row",
        *(f"reused, {lag}" for lag in LAGS),
        "by use alone",
        "drawn",
        "touched",
        "drawn",
    )
    for row in experiment.rows:
        found = choices(experiment, row)
        if not found:
            continue
        reused, touched = drawn(experiment, row)
        shares = [*(found.get(f"reuse_{lag}") for lag in LAGS), found.get("chance")]
        lines.append(
            line(
                f"`{row}`",
                *(number(value.value if value else None) for value in shares),
                number(reused),
                number(found["touched"].value),
                number(touched),
            )
        )
    return lines


def write(report, own):
    titles = {about.name: about.title for about in own}
    for experiment in experiments(report.records):
        report.add(
            f"## As they decode: {titles[experiment.name]}", "", WORDS, "", *paths_table(experiment)
        )
        if any(choices(experiment, row) for row in experiment.rows):
            length = experiment.setting(experiment.baseline, "length") or "all its"
            report.add(CHOICES.format(length=length), "", *choices_table(experiment))


SECTION = Section(owns=OWNS, numbers=numbers, write=write)
