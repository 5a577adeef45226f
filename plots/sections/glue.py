"""Table 3, GLUE: accuracies of fine-tuned rows over seeds, what they stand beside, and whether they are alike."""

import functools
from statistics import fmean

import finetuning
import paper
import training_curves
from document import Cell
from report import failed_seeds, header, line, not_begun, percent, points
from section import Section, of
from sections import curves
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
# Rows of GLUE's own files, to learn from and to be tested on: what other numbers say is a sample.
GLUE_ROWS = {
    "glue_sst2": (67_349, 872),
    "glue_qqp": (363_846, 40_430),
    "glue_qnli": (104_743, 5_463),
    "glue_mnli": (392_702, 9_815),
    "glue_mrpc": (3_668, 408),
    "glue_rte": (2_490, 277),
    "glue_cola": (8_551, 1_043),
    "glue_stsb": (5_749, 1_500),
}
# The share of exactly right fifths of a similarity says too little; its correlations have no bootstrap.
NOT_JUDGED = ("glue_stsb",)
PRETRAINED = "table3_pretrain"
SAME_START = (*training_curves.STARTS_AS.values(), *training_curves.STARTS_AS)
MODELS = {
    "dense": "baseline_transformer_dense",
    "ff_qkv": "scaling_transformer_sparse_ff_qkv",
    "terraformer": "terraformer_sparse_ff_qkv",
}
DENSE = "dense"
COMMAND = "tools/table3.py --glue GLUE --text TRAIN --validation HELD_OUT --results DIR"
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


def _baseline(records, task, name, metric, items):
    """The record of a baseline that was scored on as many rows, or None."""
    for about in records.of(BASELINE):
        for threads in records.threads():
            record = records.get(about.name, f"{task}.{name}", threads, metric)
            if record and record["config"].get("examples") == items:
                return record
    return None


def baseline(records, task, name, metric, items):
    """Its Value, or None."""
    record = _baseline(records, task, name, metric, items)
    return record and of_record(record)


def items_of(experiment):
    """How many test rows its curves were evaluated on; 0 where they do not say."""
    told = (finetuning.told_by_seed(experiment, row).values() for row in experiment.rows)
    return max((len(bits) for each in told for _, bits in each), default=0)


def judged(records, experiment):
    """{row: (Comparison, verdict, why)} of every row but dense."""
    task = task_of(experiment)
    if experiment.result(DENSE, JUDGED) is None or task in NOT_JUDGED:
        return {}
    majority = baseline(records, task, "majority", JUDGED, items_of(experiment))
    wrong = finetuning.mispaired([experiment], SAME_START)
    found = {}
    for row in experiment.rows:
        comparison = finetuning.compare(experiment, row, DENSE) if row != DENSE else None
        if comparison:
            word, why = finetuning.verdict(comparison, majority and majority.value)
            unlike = _unlike(experiment, row, wrong)
            found[row] = (comparison, "undecided", unlike) if unlike else (comparison, word, why)
    return found


def _unlike(experiment, row, wrong):
    """Why a row cannot be compared with dense; empty if it can."""
    for each in (row, DENSE):
        if each in wrong:
            return f"`{each}`: {wrong[each]}"
    for knob in ("steps", "batch"):
        own, dense = (experiment.setting(each, knob) for each in (row, DENSE))
        if own != dense:
            return f"{knob} {own}, of `{DENSE}` {dense}"
    return ""


def of_task(experiment, verdicts):
    """The word for all planned rows but dense."""
    rows = (row for row in experiment.planned if row != DENSE)
    return finetuning.of_task(
        [verdicts[row][1] if row in verdicts else "undecided" for row in rows]
    )


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
            inputs = [comparison.value for comparison, *_ in verdicts.values()]
            found[f"{experiment.id}.verdict"] = _coded(of_task(experiment, verdicts), inputs)
        words = found.get(f"{experiment.id}.bag_of_words.{JUDGED}")
        dense = found.get(f"{experiment.id}.{DENSE}.{JUDGED}")
        if words and dense:
            ends = (dense.value, dense.low, dense.high)
            above = combine(
                ends[0] - words.value, "1", *(end - words.value for end in ends[1:]), [dense, words]
            )
            found[f"{experiment.id}.{DENSE}.above_bag_of_words"] = above._replace(seeds=dense.seeds)
    return {name: value for name, value in found.items() if value is not None}


def has_curve(experiment):
    """Whether it was evaluated on the way, not at its end alone."""
    return any(len(experiment.points(row)) > 1 for row in experiment.rows)


def figures(records, _own):
    return {
        experiment.name: functools.partial(curves.draw, experiment=experiment.name)
        for experiment in experiments(records)
        if has_curve(experiment)
    }


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
        *("row", "rate", "accuracy", "dense − row", "verdict", "seeds"),
        *(BESIDE[metric] for metric in beside),
        "paper",
    )
    for row in rows:
        accuracy = experiment.result(row, JUDGED)
        if accuracy is None:
            lines.append(line(f"`{row}`", "–", experiment.state(row), *["–"] * (4 + len(beside))))
            continue
        difference, word, seeds = Cell("–"), "–", len(experiment.by_seed(row, JUDGED))
        if row in verdicts:
            comparison, found, why = verdicts[row]
            difference = points(comparison.value)
            word = f"**{found}**" + (f": {why}" if why else "")
            seeds = comparison.seeds
        lines.append(
            line(
                f"`{row}`" + failed_seeds(report, experiment, row),
                f"{experiment.setting(row, 'learning_rate'):g}",
                percent(accuracy),
                difference,
                word,
                str(seeds),
                *(percent(experiment.result(row, metric)) for metric in beside),
                published(row, task),
            )
        )
    for name, words in BASELINES.items():
        accuracy = baseline(report.records, task, name, JUDGED, items)
        if accuracy is None:
            continue
        values = (baseline(report.records, task, name, metric, items) for metric in beside)
        lines.append(line(words, "–", percent(accuracy), *["–"] * 3, *map(percent, values), "–"))
    if verdicts:
        words = f"All rows: **{of_task(experiment, verdicts)}**, {len(verdicts)} of {len(experiment.planned) - 1} judged."
        lines += ["", words]
    return lines + not_begun(experiment, experiment.planned)


def rates_table(records):
    """A line a row and rate, a column a task, label_accuracy on rows kept back, the best mean in bold; and behind it which
    best ones have no worse neighbour on one side. Empty without any."""
    found = [training_curves.Experiment(records, about.name) for about in records.of(RATES)]
    values = {}
    for experiment in found:
        for name in experiment.rows:
            named, accuracy = NAME.fullmatch(name), experiment.result(name, JUDGED)
            if named and accuracy:
                at = named[1], experiment.setting(name, "learning_rate")
                values.setdefault(at, {})[task_of(experiment)] = accuracy
    tasks = [task for task in TASKS if any(task in each for each in values.values())]
    means = {
        at: fmean(value.value for value in each.values())
        for at, each in sorted(values.items())
        if len(each) == len(tasks)
    }
    best = {row: max((at for at in means if at[0] == row), key=means.get) for row, _ in means}
    if not values:
        return []
    names = [TASKS[task] or f"`{task}`" for task in tasks]
    ends = [
        f"`{row}` {rate:g}"
        for row, rate in filter(None, best.values())
        if rate in (min(own := [r for name, r in means if name == row]), max(own))
    ]
    said = ["", f"At an end of the rates that were tried: {', '.join(ends)}."] if ends else []
    return [
        *header("row", "rate", *names, "mean"),
        *(
            line(
                f"`{at[0]}`",
                f"**{at[1]:g}**" if best.get(at[0]) == at else f"{at[1]:g}",
                *(percent(values[at].get(task)) for task in tasks),
                f"{100 * means[at]:.1f}" if at in means else "–",
            )
            for at in sorted(values, key=lambda at: (list(values).index(at), at[1]))
        ),
        *said,
    ]


def cost_table(records, found):
    """A line a row: minutes of pre-training and of a fine-tuning, and what the latter takes at most; empty without any."""

    def of_all(row, metric):
        return [r for experiment in found for r in experiment.by_seed(row, metric).values()]

    started = training_curves.Experiment(records, PRETRAINED)
    lines = []
    for row in dict.fromkeys(row for experiment in found for row in experiment.rows):
        times, peaks = of_all(row, "train_seconds"), of_all(row, "peak_memory_bytes")
        if not times or not peaks:
            continue
        before = started.result(training_curves.STARTS_AS.get(row, row), "train_seconds")
        lines.append(
            line(
                f"`{row}`",
                f"{before.value / 60:.0f}" if before else "–",
                f"{fmean(r['value'] for r in times) / 60:.1f}",
                str(len(times)),
                ", ".join(sorted({str(r["threads"]) for r in times})),
                f"{max(r['value'] for r in peaks) / 1e6:,.0f}",
            )
        )
    names = ("row", "pre-training, min", "a fine-tuning, min", "of them", "threads", "peak, MB")
    return [*header(*names), *lines] if lines else []


def title_of(records, task, items):
    """Its name and rows, beside GLUE's own where the files had others."""
    name = TASKS.get(task) or f"`{task}`, not one of the paper's"
    learnt = rows_to_learn_from(records, task, items)
    words = f": {items:,} test rows" if items else ""
    words += f", {learnt:,} to learn from" if learnt else ""
    own = GLUE_ROWS.get(task)
    if items and learnt and own and own != (learnt, items):
        words += f" (GLUE: {own[1]:,} and {own[0]:,})"
    return f"### {name}{words}"


def rows_to_learn_from(records, task, items):
    """Of the file that its baselines learnt from, 0 if they are not on record."""
    record = _baseline(records, task, "majority", JUDGED, items)
    return record["config"].get("learnt_from", 0) if record else 0


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
        "difference is taken seed by seed and row by row, its 95 % interval the wider of a bootstrap over seeds and test rows "
        "and Student's over seeds. "
        f"*Alike*: the interval lies within {100 * finetuning.CLOSE:g} points on either side of 0, and dense beats "
        f"the commonest label of the training rows by {100 * finetuning.ABOVE:g} points at least; *differs*: it lies on "
        "one side of 0, not within these points; else *undecided*. Each model was pre-trained once, on text with the "
        "tasks' own training rows, and seeds order the training rows: no interval is about another pre-training, and "
        "none is widened for how many rows and tasks there are. STS-B, whose score is a correlation over all rows, has no verdict. Models are small and pre-trained on a few million words: compare rows with each other, not with the "
        "paper's numbers.",
    )
    for experiment in found:
        task = task_of(experiment)
        report.add(
            title_of(report.records, task, items_of(experiment)),
            "",
            *task_table(report, experiment),
        )
        if has_curve(experiment):
            report.figure(experiment.name)
    missing = [name for task, name in TASKS.items() if name and task not in map(task_of, found)]
    if missing:
        report.add(f"The paper's tasks without results: {', '.join(missing)}.")
    rates = rates_table(report.records)
    if rates:
        report.add(
            "Learning rates by accuracy on training rows that were kept back; the best mean (bold) is taken, of equal ones "
            "the lower. One seed and a few hundred rows a task do not tell rates apart that lie within two points:",
            "",
            *rates,
        )
    costs = cost_table(report.records, found)
    if costs:
        report.add("What it cost:", "", *costs)
    report.repeat(COMMAND)


SECTION = Section(owns=owns, numbers=numbers, figures=figures, write=write, place=2)
