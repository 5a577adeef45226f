"""Table 5 around its scores: what a row costs, the paper's own table, and where abstracts stand to be read."""

import math

import contrasts
import paper
import training_curves
from report import cell, header, line
from values import scaled

TABLE = "table5"  # with which the experiments of its scores begin
PAPER = {
    "rouge1_f1_percent": "ROUGE-1",
    "rouge2_f1_percent": "ROUGE-2",
    "rougeLsum_f1_percent": "ROUGE-LSum",
    "rougeLsent_f1_percent": "ROUGE-L",
}
FEW = ".first_"  # of rows that learnt from so many articles


def curves(records, about):
    """The Experiment of the curves whose texts are scored, by its id; None if there is none."""
    for other in records.of(lambda each: each.id == f"{about.id}.curve"):
        return training_curves.Experiment(records, other.name)
    return None


def costs(records, about):
    """{row: {peak_mb, train_minutes: Value}} of each curve: means over seeds."""
    experiment = curves(records, about)
    found = {}
    for row in experiment.rows if experiment else ():
        values = {
            "train_minutes": (experiment.result(row, "train_seconds"), 1 / 60, "min"),
            "peak_mb": (experiment.result(row, "peak_memory_bytes"), 1e-6, "MB"),
        }
        found[row] = {
            name: scaled(value, factor, unit)
            for name, (value, factor, unit) in values.items()
            if value
        }
    return {row: values for row, values in found.items() if values}


def cost_table(report, about, decoded):
    """decoded: {row: Value of tokens a second}. Nothing without curves."""
    each = costs(report.records, about)
    if not each:
        return []
    names = ("row", "minutes to train", "peak memory, MB", "decoded tokens a second")
    rows = (
        line(
            f"`{row}`",
            cell(report, values.get("train_minutes")),
            cell(report, values.get("peak_mb")),
            cell(report, decoded.get(row)),
        )
        for row, values in each.items()
    )
    return ["What a row costs, fine-tuning alone, mean over seeds:", "", *header(*names), *rows]


def few_table(report, scores):
    """ROUGE-1 of what learnt from few articles beside what learnt from all; scores: {row: Value in percent}."""
    counts = sorted({int(row.partition(FEW)[2]) for row in scores if FEW in row})
    models = dict.fromkeys(row.partition(FEW)[0] for row in scores if FEW in row)
    if not counts:
        return []
    names = (*(f"{count} articles" for count in counts), "all")
    rows = (
        line(
            f"`{model}`",
            *(cell(report, scores.get(f"{model}{FEW}{count}"), interval=True) for count in counts),
            cell(report, scores.get(model), interval=True),
        )
        for model in models
    )
    return [
        "ROUGE-1 over the articles that a model learnt from:",
        "",
        *header("row", *names),
        *rows,
    ]


def paper_table():
    rows = (
        line(r["model"], *(f"{float(r[name]):.2f}" if r[name] else "–" for name in PAPER))
        for r in paper.table(TABLE)
    )
    return [
        "The paper's Table 5, abstracts of arXiv's articles by models of 800 million parameters that were pre-trained on "
        "C4 and read 15,360 pieces. Here models are some hundred times smaller, read 4,096 pieces of eight hundred articles, "
        "and were pre-trained for minutes: what may be compared is how rows of one table lie to each other.",
        "",
        *header("model", *PAPER.values()),
        *rows,
    ]


def page_line(records, about):
    """A link to Table 9's page, where the results' folder has it."""
    page = records.folder / f"table9_{about.name.removeprefix(TABLE + '.')}.md"
    return (
        ["### Table 9: abstracts to read", "", f"Ten of each model: [{page.name}]({page.name})."]
        if page.is_file()
        else []
    )


def verdict(value, seeds):
    """Of how far a row is above something, by the interval's ends."""
    if not math.isfinite(value.high - value.low):
        return "one number"
    word = "above" if value.low > 0 else "below" if value.high < 0 else "undecided"
    return word + (" so far" if word != "undecided" and seeds < contrasts.FEW else "")
