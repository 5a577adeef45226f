"""Table 3, GLUE: accuracies of fine-tuned rows over seeds, what they stand beside, and whether they are alike."""

import finetuning
import paper
import training_curves
from document import Cell
from report import failed_seeds, header, line, percent, points
from section import Section, of
from sections.rates import NAME
from values import combine, of_record

# Of our tasks, the paper's and its names for them; None: not one of the paper's.
TASKS = {
    "glue_sst2": "SST-2",
    "glue_qqp": "QQP",
    "glue_qnli": "QNLI",
    "glue_mnli": "MNLI-m",
    "glue_mrpc": "MRPC",
    "glue_rte": "RTE",
    "glue_cola": None,
    "glue_stsb": None,
}
MODELS = {
    "dense": "baseline_transformer_dense",
    "ff_qkv": "scaling_transformer_sparse_ff_qkv",
    "terraformer": "terraformer_sparse_ff_qkv",
}
DENSE = "dense"
JUDGED = "label_accuracy"
BESIDE = {"sequence_accuracy": "told whole", "f1": "F1", "matthews": "Matthews"}
BESIDE |= {"pearson": "Pearson", "spearman": "Spearman"}
BASELINES = {"majority": "the commonest label", "bag_of_words": "bag of words"}
TUNED, RATES, BASELINE = of("training", "glue"), of("training", "glue_rates"), of("peers", "glue")


def owns(about):
    return TUNED(about) or RATES(about) or BASELINE(about)


def task_of(experiment):
    found = (experiment.setting(row, "task") for row in experiment.rows)
    return next((task for task in found if task), "")


def experiments(records):
    """[Experiment] with results, the paper's tasks first."""
    found = [training_curves.Experiment(records, about.name) for about in records.of(TUNED)]
    known = [*TASKS, ""]
    found = [e for e in found if any(e.result(row, JUDGED) for row in e.rows)]
    return sorted(found, key=lambda e: known.index(task_of(e)) if task_of(e) in known else 99)


def baseline(records, task, name, metric, items):
    """The Value of a baseline that was scored on as many rows, or None."""
    for about in records.of(BASELINE):
        for threads in records.threads():
            record = records.get(about.name, f"{task}.{name}", threads, metric)
            if record and record["config"].get("examples") == items:
                return of_record(record)
    return None


def items_of(experiment):
    """How many test rows its curves were evaluated on; 0 where they do not say."""
    told = (finetuning.told_by_seed(experiment, row).values() for row in experiment.rows)
    return max((len(bits) for each in told for _, bits in each), default=0)


def judged(records, experiment):
    """{row: (Comparison, verdict, why)} of every row but dense."""
    dense = experiment.result(DENSE, JUDGED)
    if dense is None:
        return {}
    majority = baseline(records, task_of(experiment), "majority", JUDGED, items_of(experiment))
    found = {}
    for row in experiment.rows:
        comparison = finetuning.compare(experiment, row, DENSE) if row != DENSE else None
        if comparison:
            found[row] = (
                comparison,
                *finetuning.verdict(comparison, dense.value, majority.value if majority else None),
            )
    return found


def numbers(records, _own):
    found = {}
    for experiment in experiments(records):
        task, items = task_of(experiment), items_of(experiment)
        for metric in (JUDGED, *BESIDE):
            for row in experiment.rows:
                value = experiment.result(row, metric)
                seeds = len(experiment.by_seed(row, metric))
                found[f"{experiment.id}.{row}.{metric}"] = value and value._replace(seeds=seeds)
            for name in BASELINES:
                found[f"{experiment.id}.{name}.{metric}"] = baseline(
                    records, task, name, metric, items
                )
        verdicts = judged(records, experiment)
        for row, (comparison, word, _) in verdicts.items():
            found[f"{experiment.id}.{row}.difference"] = comparison.value
            found[f"{experiment.id}.{row}.verdict"] = _coded(word, [comparison.value])
        if verdicts:
            word = finetuning.of_task([word for _, word, _ in verdicts.values()])
            inputs = [comparison.value for comparison, *_ in verdicts.values()]
            found[f"{experiment.id}.verdict"] = _coded(word, inputs)
    return {name: value for name, value in found.items() if value is not None}


def _coded(word, inputs):
    code = finetuning.CODES[word]
    return combine(code, finetuning.UNIT, code, code, inputs)


def published(row, task):
    """The paper's accuracy in percent with its deviation, or a dash."""
    for r in paper.table("table3"):
        if (r["model"], r["task"]) == (MODELS.get(row), TASKS.get(task)):
            return f"{r['accuracy_percent']}" + (
                f" (sd {r['std_percent']})" if r["std_percent"] else ""
            )
    return "–"


def task_table(report, experiment):
    task, items = task_of(experiment), items_of(experiment)
    verdicts = judged(report.records, experiment)
    rows = experiment.rows
    beside = [metric for metric in BESIDE if any(experiment.result(row, metric) for row in rows)]
    lines = header(
        *("row", "accuracy", "dense − row", "verdict", "seeds", "paper"),
        *(BESIDE[metric] for metric in beside),
    )
    for row in rows:
        accuracy = experiment.result(row, JUDGED)
        if accuracy is None:
            lines.append(line(f"`{row}`", experiment.state(row), *["–"] * (4 + len(beside))))
            continue
        difference, word = Cell("–"), "–"
        if row in verdicts:
            comparison, found, why = verdicts[row]
            difference = points(comparison.value)
            word = f"**{found}**" + (f": {why}" if why else "")
        lines.append(
            line(
                f"`{row}`" + failed_seeds(report, experiment, row),
                percent(accuracy),
                difference,
                word,
                str(len(experiment.by_seed(row, JUDGED))),
                published(row, task),
                *(percent(experiment.result(row, metric)) for metric in beside),
            )
        )
    for name, words in BASELINES.items():
        accuracy = baseline(report.records, task, name, JUDGED, items)
        if accuracy is None:
            continue
        values = (baseline(report.records, task, name, metric, items) for metric in beside)
        lines.append(line(words, percent(accuracy), *["–"] * 4, *map(percent, values)))
    return lines


def rates_table(records):
    """A line a row, a column a task and rate, label_accuracy on rows kept back; empty without any."""
    found = [training_curves.Experiment(records, about.name) for about in records.of(RATES)]
    values = {}
    for experiment in found:
        for name in experiment.rows:
            named, accuracy = NAME.fullmatch(name), experiment.result(name, JUDGED)
            if named and accuracy:
                column = TASKS.get(task_of(experiment)), experiment.setting(name, "learning_rate")
                values.setdefault(named[1], {})[column] = accuracy
    columns = sorted({column for each in values.values() for column in each}, key=str)
    if not columns:
        return []
    return [
        *header("row", *(f"{task}, {rate:g}" for task, rate in columns)),
        *(
            line(f"`{row}`", *(percent(each.get(column)) for column in columns))
            for row, each in values.items()
        ),
    ]


def title_of(task, items):
    name = TASKS.get(task) or f"`{task}`, not one of the paper's"
    return f"### {name}" + (f": {items:,} test rows" if items else "")


def write(report, _own):
    """Nothing if nothing was fine-tuned."""
    found = experiments(report.records)
    if not found:
        return
    report.add(
        "## Table 3: GLUE, fine-tuned",
        "",
        "Percent of validation rows whose likeliest answer is right, means over seeds, in brackets their standard "
        "deviation; *told whole* is the paper's measure, every token the likeliest of the whole vocabulary. The "
        "difference is taken seed by seed and row by row, its 95 % interval a bootstrap over seeds and test rows. "
        f"*Alike*: the interval lies within {100 * finetuning.CLOSE:g} points on either side of 0, and dense beats "
        f"the commonest label by {100 * finetuning.ABOVE:g} points at least; *differs*: it lies on one side of 0, "
        "not within these points; else *undecided*. Models are small and pre-trained on a few million words, some "
        "tasks have a sample of GLUE's rows: compare rows with each other, not with the paper's numbers.",
    )
    for experiment in found:
        task = task_of(experiment)
        report.add(title_of(task, items_of(experiment)), "", *task_table(report, experiment))
    rates = rates_table(report.records)
    if rates:
        report.add("Learning rates, on training rows that were kept back:", "", *rates)
    report.repeat("tools/table3.py --glue GLUE --text TRAIN --validation HELD_OUT --results DIR")


SECTION = Section(owns=owns, numbers=numbers, write=write, place=2)
