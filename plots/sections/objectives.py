"""Objectives of pre-training: what QQP and SumPubMed make of a model by each, beside one that was not pre-trained."""

from typing import NamedTuple

import finetuning
import training_curves
from report import bare, cell, failed_seeds, header, line, percent, points
from section import Section, of
from sections import scores
from sections.glue import BASELINES, JUDGED, baseline, items_of
from values import over_seeds, scaled, setting

OWNS = of("training", "objectives")
CONTROL = "none"  # the row that was not pre-trained
PRETRAIN, QQP, SUMPUBMED = "objectives.pretrain", "objectives.qqp", "objectives.sumpubmed"
SCORES = "objectives"  # the experiment of the abstracts' scores, whose ids are those of the section on scores
ROUGE = ("rouge1", "rouge2", "rougeLsum")
TASK = "glue_qqp"


class Row(NamedTuple):
    """What is known of an objective; Values or None."""

    task: str  # of pre-training; empty: none on record
    own: object  # nats a token of that task
    qqp: object  # label accuracy, its interval over seeds and test rows
    difference: object  # that less the control's, seed by seed and test row by test row
    rouge: tuple


def tuned(records, about_id):
    """The Experiment of this id, or None."""
    name = next((about.name for about in records.of(OWNS) if about.id == about_id), None)
    return name and training_curves.Experiment(records, name)


def pretrained(records, row):
    """The newest result of its pre-training, or None. Every task is a text of its own, so that no Experiment has all."""
    names = [about.name for about in records.of(OWNS) if about.id == PRETRAIN]
    found = (
        records.get(name, row, threads, "log_perplexity")
        for name in names
        for threads in records.threads()
    )
    return max(filter(None, found), key=lambda r: r.get("date") or "", default=None)


def rows(records):
    """{row: Row} in the configs' order, the control first; empty if nothing was measured."""
    experiment = tuned(records, QQP)
    of_pretraining = (a.name for a in records.of(OWNS) if a.id == PRETRAIN)
    of_abstracts = tuned(records, SUMPUBMED)
    names = [CONTROL, *(experiment.planned if experiment else ())]
    names += [row for name in of_pretraining for row in records.rows(name)]
    names += of_abstracts.planned if of_abstracts else ()
    found = {name: _row(records, experiment, name) for name in dict.fromkeys(names)}
    return found if any(r.own or r.qqp or any(r.rouge) for r in found.values()) else {}


def _row(records, experiment, name):
    record = pretrained(records, name) if name != CONTROL else None
    # compare() has the second less the first.
    compared = experiment and name != CONTROL and finetuning.compare(experiment, CONTROL, name)
    return Row(
        setting(record or {}, "task", ""),
        over_seeds([record]) if record else None,
        finetuning.accuracy(experiment, name) if experiment else None,
        compared.value if compared else None,
        tuple(scores.value(records, SCORES, name, metric) for metric in ROUGE),
    )


def beside(records):
    """{baseline: Value} of QQP's baselines that were scored on the curves' own test rows."""
    experiment = tuned(records, QQP)
    items = items_of(experiment) if experiment else 0
    found = {name: baseline(records, TASK, name, JUDGED, items) for name in BASELINES}
    return {name: value for name, value in found.items() if value}


def mispaired(records):
    """{row: why} of rows whose curves did not begin as their name says, as far as the weights' hashes tell."""
    return finetuning.mispaired(filter(None, (tuned(records, QQP), tuned(records, SUMPUBMED))))


def numbers(records, _own):
    """ROUGE's ids, objectives.<row>.rouge1 and so on, the section on scores has."""
    found = {}
    for name, row in rows(records).items():
        found[f"{SCORES}.{name}.log_perplexity"] = row.own
        found[f"{SCORES}.{name}.qqp"] = row.qqp
        found[f"{SCORES}.{name}.qqp_difference"] = row.difference
    found |= {f"{SCORES}.{name}.qqp": value for name, value in beside(records).items()}
    return {name: value for name, value in found.items() if value is not None}


def table(report):
    records = report.records
    experiment, wrong = tuned(records, QQP), mispaired(records)
    lines = header(
        *("row", "pre-trained by", "its nats a token", "QQP", f"− `{CONTROL}`", "seeds"),
        *(scores.COLUMNS[metric][0] for metric in ROUGE),
    )
    for name, row in rows(records).items():
        marks = failed_seeds(report, experiment, name) if experiment else ""
        if name in wrong:
            marks += report.note(f"`{name}`: {wrong[name]}; repeat it by tools/objectives.py.")
        lines.append(
            line(
                f"`{name}`{marks}",
                f"`{row.task}`" if row.task else "–",
                bare(row.own),
                cell(report, scaled(row.qqp, 100), interval=True),
                points(row.difference),
                str(row.qqp.seeds) if row.qqp else "–",
                *(cell(report, scaled(value, 100), interval=True) for value in row.rouge),
            )
        )
    for name, value in beside(records).items():
        lines.append(line(BASELINES[name], "–", "–", percent(value), *["–"] * 5))
    return lines


def write(report, _own):
    """Nothing if nothing was measured."""
    if not rows(report.records):
        return
    report.add(
        "## Objectives of pre-training",
        "",
        "One encoder-decoder, pre-trained by each objective at equal tokens (source and target positions), then "
        f"fine-tuned at equal steps on QQP and on SumPubMed; `{CONTROL}` was fine-tuned from weights as they were drawn. "
        "Nats a token are of each row's own task on held-out text, and not to be compared among tasks. QQP: percent of "
        "validation rows whose likeliest answer is right, its 95 % interval the wider of a bootstrap over seeds and test rows and Student's over seeds; the "
        f"difference from `{CONTROL}` is taken seed by seed and row by row. Seeds order the training rows; every "
        "objective was pre-trained once, so that no interval is about another pre-training, and none is corrected for "
        "how many rows there are. ROUGE, in points of 100, has the scorer's interval over documents.",
    )
    report.add(*table(report))
    report.repeat(
        "tools/objectives.py --glue GLUE --articles SUMPUBMED --text TRAIN --validation HELD_OUT --results DIR"
    )


SECTION = Section(owns=OWNS, numbers=numbers, write=write, place=2)
