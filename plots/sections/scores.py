"""Scores of texts by other people's scorers: translations, and summaries beside their baselines."""

import math
import re

import contrasts
import summaries
from report import bare, cell, header, line
from section import Section, of
from values import of_record, scaled

# In percent, as publications have them.
COLUMNS = {
    "bleu": ("BLEU", 1),
    "chrf": ("chrF", 1),
    "rouge1": ("ROUGE-1", 100),
    "rouge2": ("ROUGE-2", 100),
    "rougeLsum": ("ROUGE-LSum", 100),
    "rougeL": ("ROUGE-L", 100),
}
ABOVE = ".above_"
# Texts that a teacher wrote with predicted graphs, which stand in Sparsefinder's section.
POINT = re.compile(r"(?P<teacher>s_mt\.\d+)\.(?P<method>\w+)\.(?P<stratum>gold|0\.\d+)")
HIERARCHY = (
    " `hierarchical` reads a paper's sections as paragraphs, the most promising first: attention within a paragraph, then "
    "between paragraphs (Liu and Lapata 2019); `flat` is the same model with full attention over the same positions."
)


def value(records, experiment, row, metric):
    """As recorded: its ends are a 95 % interval already, or nothing is known of it; or None."""
    record = records.get(experiment, row, 1, metric)
    if not record:
        return None
    none = {"low": -math.inf, "high": math.inf}
    ends = {end: none[end] if record[end] is None else record[end] for end in none}
    return of_record(record)._replace(**ends)


def metrics(records, experiment, ending=""):
    """[metric] that some row has, unstemmed or stemmed."""
    rows = records.rows(experiment)
    wanted = (name + ending for name in COLUMNS)
    return [m for m in wanted if any(records.get(experiment, row, 1, m) for row in rows)]


def rows_of(records, experiment):
    """[row] that stand in this section's tables."""
    return [row for row in records.rows(experiment) if not POINT.fullmatch(row)]


def table(report, experiment, ending=""):
    """A line a row, the best first by its last column."""
    records = report.records
    names = metrics(records, experiment, ending)
    if not names:
        return []
    lines = []
    for row in rows_of(records, experiment):
        found = [value(records, experiment, row, name) for name in names]
        if not any(found):
            continue
        cells = (
            cell(report, scaled(one, COLUMNS[name.removesuffix(ending)][1]), interval=True)
            for one, name in zip(found, names)
        )
        best = found[0].value if found[0] else -1
        lines.append((best, line(f"`{row}`", *cells)))
    lines.sort(key=lambda made: -made[0])
    heads = (COLUMNS[name.removesuffix(ending)][0] for name in names)
    words = "row, words stemmed" if ending else "row"
    return [*header(words, *heads), *(made for _, made in lines)]


def differences(report, experiment):
    """A line a row and what it was compared with."""
    records = report.records
    lines = []
    for row in rows_of(records, experiment):
        for metric in sorted(records.of_row(experiment, row, 1)):
            name, _, other = metric.partition(ABOVE)
            if not other or name not in COLUMNS:
                continue
            found = scaled(value(records, experiment, row, metric), COLUMNS[name][1])
            ends = (bare(found._replace(value=end)) for end in (found.low, found.high))
            seeds = records.get(experiment, row, 1, metric)["config"].get("seeds", 1)
            said = summaries.verdict(found, seeds)
            lines.append(line(f"`{row}`", f"`{other}`", COLUMNS[name][0], bare(found), *ends, said))
    names = ("row", "above", "score", "points", "low", "high", "verdict")
    return [*header(*names), *lines] if lines else []


def numbers(records, own):
    found = {
        f"{about.id}.{row}.{metric}": value(records, about.name, row, metric)
        for about in own
        for row in records.rows(about.name)
        for metric in records.of_row(about.name, row, 1)
    }
    for about in own:
        for row, values in summaries.costs(records, about).items():
            found |= {f"{about.id}.{row}.{name}": cost for name, cost in values.items()}
    return found


def write(report, own):
    for about in own:
        report.add(
            "## "
            + ("Table 5: " if about.name.startswith(summaries.TABLE) else "")
            + f"Scores of texts: `{about.name}`",
            "",
            "BLEU and chrF by sacreBLEU, ROUGE by rouge-score (F1), all in points of 100, with 95 % bootstrap "
            "intervals over texts, and over seeds where a row has several. ROUGE-LSum is that of sentences, ROUGE-L that of "
            "whole texts." + (HIERARCHY if about.name.startswith("hierarchy") else ""),
        )
        for ending in ("", ".stemmed"):
            lines = table(report, about.name, ending)
            if lines:
                report.add(*lines)
        lines = differences(report, about.name)
        if lines:
            report.add(
                "Above other texts for the same documents; *so far*: of fewer than "
                f"{contrasts.FEW} seeds:",
                "",
                *lines,
            )
        write_summaries(report, about)
    if any(about.name.startswith(summaries.TABLE) for about in own):
        report.add(*summaries.paper_table())


def write_summaries(report, about):
    """What stands around scores of summaries."""
    rows = report.records.rows(about.name)
    scores = {
        row: scaled(found, COLUMNS["rouge1"][1])
        for row in rows
        if (found := value(report.records, about.name, row, "rouge1"))
    }
    decoded = {row: value(report.records, about.name, row, "tokens_per_s") for row in rows}
    for block in (
        summaries.few_table(report, scores),
        summaries.cost_table(report, about, decoded),
        summaries.page_line(report.records, about),
    ):
        if block:
            report.add(*block)


SECTION = Section(owns=of("scores"), numbers=numbers, write=write, place=1)
