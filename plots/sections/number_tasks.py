"""Table 4, copying and adding numbers: accuracies over seeds, differences, and their report."""

import functools
import re

import chart
import contrasts
import paper
import section
import training_curves
from report import failed_seeds, header, line, percent, points
from values import of_record, over_seeds, scaled, setting

TASKS = ("copy", "addition")
MODELS = ("transformer", "terraformer")
# The Terraformer without one of its parts.
PARTS = {
    "no_reversible": "the reversible stack",
    "no_second_attention": "the second attention",
    "no_sru": "the SRU",
}
TRAINED = "trained_length_accuracy"  # of tokens, on numbers as long as those trained on
METRICS = {"token_accuracy": "accuracy", "sequence_accuracy": "sequence_accuracy"}
LABELS = {
    "transformer": "Trans-\nformer",
    "terraformer": "Terra-\nformer",
    "no_reversible": "without\nreversible",
    "no_second_attention": "without 2nd\nattention",
    "no_sru": "without\nSRU",
}
LOOKS = {
    "copy": {"color": "#0072b2", "marker": "o"},
    "addition": {"color": "#d55e00", "marker": "^"},
}
APART = 0.18  # of a model's two tasks, in models
LINES = {"transformer": chart.DENSE, "terraformer": chart.SPARSE, **dict(zip(PARTS, chart.OTHERS))}
OWNS = section.of("training", "numbers")
BELOW, ABOVE = "behind", "ahead"
CHANCE = 0.1  # that a digit is right
NEAR = 2 * CHANCE  # a model that gets a smaller share of tokens right is near chance


def experiments(records):
    """{name: Experiment}; its rows are <model>.<task>."""
    return {
        about.name: training_curves.Experiment(records, about.name) for about in records.of(OWNS)
    }


def mean(experiment, row, ending):
    """Over seeds, with their standard deviation; None if none is finished."""
    return over_seeds(seeds(experiment, row, ending))


def best(experiment, row, ending):
    found = seeds(experiment, row, ending)
    return of_record(max(found, key=lambda r: r["value"])) if found else None


def seeds(experiment, row, ending):
    """The records of every finished seed, seeds ascending."""
    found = experiment.by_seed(row, METRICS.get(ending, ending))
    return [found[seed] for seed in sorted(found)]


def by_digits(experiment, row, ending):
    """[(most digits of an example, mean over seeds)], digits ascending."""
    name = re.compile(rf"{METRICS[ending]}\.to_(\d+)_digits")
    found = {
        int(m.group(1)): m.string
        for metric in experiment.metrics()
        if (m := name.fullmatch(metric))
    }
    values = [(digits, mean(experiment, row, found[digits])) for digits in sorted(found)]
    return [(digits, value) for digits, value in values if value is not None]


def judged(experiment):
    """{(task, ending, other): Judged} of the Terraformer less another model, seed by seed; all that were planned count."""
    planned = [
        (task, ending, other)
        for task in TASKS
        for ending in METRICS
        for other in ("transformer", *PARTS)
        if {f"terraformer.{task}", f"{other}.{task}"} <= {*experiment.planned}
    ]
    return contrasts.judge(
        contrasts.contrast(
            (task, ending, other),
            experiment,
            contrasts.difference(f"terraformer.{task}", f"{other}.{task}"),
            METRICS[ending],
        )
        for task, ending, other in planned
    )


def difference(experiment, task, ending, other="transformer"):
    """Value of the Terraformer's less the other's, over seeds that both have; None if there is none."""
    one = judged(experiment).get((task, ending, other))
    return one.contrast.value if one else None


def verdict(experiment, task, ending, other="transformer"):
    """(Whether the Terraformer is ahead, how many seeds would decide what is undecided)."""
    one = judged(experiment).get((task, ending, other))
    if one is None or one.contrast.value is None:
        return "not measured", ""
    if one.contrast.seeds > 1 and not one.contrast.value.value and not one.contrast.value.sd:
        return "alike in every seed", ""
    near = (
        ", both near chance"
        if one.sign and are_near_chance(experiment, task, ending, other)
        else ""
    )
    return one.verdict(BELOW, ABOVE) + near, one.wanted()


def are_near_chance(experiment, task, ending, other):
    """Whether neither model tells many more digits than chance does; of whole sequences chance tells none."""
    means = [mean(experiment, f"{model}.{task}", ending) for model in ("terraformer", other)]
    return ending == "token_accuracy" and all(value.value < NEAR for value in means)


def difference_text(experiment, task, ending, other="transformer"):
    """As a cell has it, with how many seeds where one of the models has more."""
    value = difference(experiment, task, ending, other)
    models = ("terraformer", other)
    most = max(len(seeds(experiment, f"{model}.{task}", ending)) for model in models)
    few = value and value.seeds < most
    return points(value) + (f" ({contrasts.seeds_text(value.seeds)})" if few else "")


def said(experiment, task, ending, other="transformer"):
    """The same as a cell has it."""
    word, wanted = verdict(experiment, task, ending, other)
    return f"**{word}**" + (f"; {wanted}" if wanted else "")


def numbers(records, _own):
    found = {}
    for experiment in experiments(records).values():
        for row in experiment.rows:
            found[f"{experiment.id}.{row}.{TRAINED}"] = mean(experiment, row, TRAINED)
        for ending in METRICS:
            for row in experiment.rows:
                found[f"{experiment.id}.{row}.{ending}"] = mean(experiment, row, ending)
                found[f"{experiment.id}.{row}.{ending}.best"] = best(experiment, row, ending)
            for task in TASKS:
                found[f"{experiment.id}.difference.{task}.{ending}"] = difference(
                    experiment, task, ending
                )
                for part in PARTS:
                    found[f"{experiment.id}.difference.{part}.{task}.{ending}"] = difference(
                        experiment, task, ending, part
                    )
    return {name: value for name, value in found.items() if value is not None}


def rows_table(report, experiment):
    lines = header(
        "row",
        "parameters",
        "tokens on trained lengths",
        "tokens",
        "best",
        "each seed",
        "sequences",
        "best",
        "each seed",
    )
    for row in experiment.rows:
        params = experiment.result(row, "params")
        if params is None:
            lines.append(line(f"`{row}`", experiment.state(row), *["–"] * 7))
            continue
        cells = []
        for ending in METRICS:
            each = " ".join(f"{100 * r['value']:.1f}" for r in seeds(experiment, row, ending))
            cells += [
                percent(mean(experiment, row, ending)),
                percent(best(experiment, row, ending)),
                each,
            ]
        trained = mean(experiment, row, TRAINED)
        lines.append(
            line(
                f"`{row}`" + failed_seeds(report, experiment, row),
                f"{params.value:,.0f}",
                percent(trained),
                *cells,
            )
        )
    return lines


def published(model, task, ending):
    """The paper's, in percent."""
    return next(
        float(r[f"{ending}_percent"])
        for r in paper.table("table4")
        if (r["model"], r["task"]) == (model, task)
    )


def difference_table(experiment):
    lines = header(
        "",
        "Transformer",
        "Terraformer",
        "difference",
        "Terraformer is",
        "paper: Transformer",
        "Terraformer",
    )
    for task in TASKS:
        for ending in METRICS:
            ours = [percent(mean(experiment, f"{model}.{task}", ending)) for model in MODELS]
            theirs = [f"{published(model, task, ending):g}" for model in MODELS]
            lines.append(
                line(
                    f"{task}, {ending.split('_')[0]}s",
                    *ours,
                    difference_text(experiment, task, ending),
                    said(experiment, task, ending),
                    *theirs,
                )
            )
    return lines


def parts_table(experiment):
    """What the Terraformer has over itself without each of its parts; empty if none was trained."""
    columns = [(task, ending) for task in TASKS for ending in METRICS]
    lines = []
    for part, name in PARTS.items():
        cells = [
            f"{difference_text(experiment, *column, part)} {said(experiment, *column, part)}"
            if difference(experiment, *column, part)
            else "not measured"
            for column in columns
        ]
        if set(cells) != {"not measured"}:
            lines.append(
                line(
                    f"without {name}",
                    *cells,
                )
            )
    names = (f"{task}, {ending.split('_')[0]}s" for task, ending in columns)
    return [*header("the Terraformer against itself", *names), *lines] if lines else []


def digits_table(experiment, task):
    """A line a row, a column a range of lengths, named by its longest; empty if not evaluated."""
    rows = {
        row: dict(by_digits(experiment, row, "token_accuracy"))
        for row in experiment.rows
        if row.endswith(f".{task}")
    }
    lengths = sorted({digits for found in rows.values() for digits in found})
    if not lengths:
        return []
    return [
        *header("digits, up to", *map(str, lengths)),
        *(
            line(f"`{row}`", *(percent(found.get(digits)) for digits in lengths))
            for row, found in rows.items()
            if found
        ),
    ]


def write(report, _own):
    """Nothing if nothing was trained."""
    found = experiments(report.records)
    if not found:
        return
    report.add(
        "## Table 4: copying and adding numbers",
        "",
        "Percent right on numbers longer than any trained on, teacher-forced: *sequences* "
        "are wholly right, as a greedy decode would have them. Means over seeds, in brackets their "
        "standard deviation; a difference is taken seed by seed, and has Student's 95 % interval over the seeds that "
        "both have. *Ahead*: above 0; *behind*: below; *undecided*: neither is sure; *so far*: of fewer than "
        f"{contrasts.FEW} seeds. All differences of an experiment count, {contrasts.STRICTER}. By chance a digit is "
        f"right in {100 * CHANCE:g} % of cases; *near chance*: fewer than {100 * NEAR:g} % of tokens are right. "
        "All rows of an experiment have as many parameters within 0.5 % and the same positions, starting at random in training, and the same "
        "learning rate, which was not swept. The paper trains on "
        "at most 128 digits and evaluates on 256 to 300; it does not say how many seeds.",
    )
    for name, experiment in found.items():
        record = next(
            (
                r
                for row in experiment.rows
                for r in experiment.by_seed(row, "log_perplexity").values()
            ),
            None,
        )
        title = f"### `{name}`"
        if record:
            digits = [
                setting(record, knob, "?")
                for knob in ("digits_max", "eval_digits_min", "eval_digits_max")
            ]
            title += ": trained on at most {} digits, evaluated on {} to {}".format(*digits)
        report.add(title, "", *difference_table(experiment))
        parts = parts_table(experiment)
        if parts:
            report.add(
                "Which part does it: the Terraformer minus itself without one part, at as "
                "many parameters. *Ahead*: that part helps. A plain stack, the "
                "Transformer's too, also drops attention's output, and drops embeddings "
                "and feed-forwards position by position where a reversible one takes one "
                "mask for all positions (paper 5.1, 5.2): that goes with the stack.",
                "",
                *parts,
            )
        report.add(*rows_table(report, experiment))
        for task in TASKS:
            lines = digits_table(experiment, task)
            if lines:
                report.add(f"Tokens right by length, {task}:", "", *lines)
        report.figure(name)
        report.figure(f"{name}_lengths")
        report.repeat(
            "./build/release/experiments/perplexity --config "
            f"experiments/configs/training/{name}.cfg"
        )


def draw_accuracies(records, experiment):
    """Accuracy of every seed on longer numbers, one model beside the other."""
    found = experiments(records).get(experiment)
    models = [
        m
        for m in LABELS
        if found and any(seeds(found, f"{m}.{task}", "token_accuracy") for task in LOOKS)
    ]
    if not models:
        raise chart.Missing(f"no finished curves in {experiment}")
    figure, panels = chart.new(3.6, panels=len(METRICS), sharex=True)
    for axes, ending in zip(panels, METRICS):
        for side, (task, look) in zip((-1, 1), LOOKS.items()):
            for place, model in enumerate(models):
                row, x = f"{model}.{task}", place + side * APART
                values = [100 * r["value"] for r in seeds(found, row, ending)]
                if not values:
                    continue
                axes.plot(
                    [x] * len(values),
                    values,
                    linestyle="",
                    markersize=4,
                    markerfacecolor="none",
                    **look,
                )
                middle = 100 * mean(found, row, ending).value
                axes.plot([x - 0.8 * APART, x + 0.8 * APART], [middle] * 2, color=look["color"])
        axes.set_ylim(-4, 104)
        axes.set_ylabel(f"{ending.split('_')[0]}s right, %")
    for task, look in LOOKS.items():
        panels[0].plot([], [], linestyle="", markerfacecolor="none", label=task, **look)
    chart.legend_above(panels[0], *panels[0].get_legend_handles_labels())
    panels[-1].set_xticks(range(len(models)), [LABELS[m] for m in models])
    panels[-1].set_xlim(-0.5, len(models) - 0.5)
    return figure


def draw_lengths(records, experiment):
    """Tokens right over the length of the numbers, a panel a task; trained lengths are shaded."""
    found = experiments(records).get(experiment)
    points = (
        {
            (task, model): by_digits(found, f"{model}.{task}", "token_accuracy")
            for task in TASKS
            for model in LINES
        }
        if found
        else {}
    )
    tasks = [task for task in TASKS if any(points.get((task, m)) for m in LINES)]
    if not tasks:
        raise chart.Missing(f"no accuracies by length in {experiment}")
    figure, panels = chart.new(1.9 * len(tasks) + 0.6, panels=len(tasks), sharex=True)
    for axes, task in zip(panels, tasks):
        for model, look in LINES.items():
            if points[task, model]:
                chart.curve(
                    axes,
                    [(x, scaled(v, 100)) for x, v in points[task, model]],
                    label=LABELS[model].replace("-\n", "").replace("\n", " "),
                    **look,
                )
        axes.set_ylim(-4, 104)
        axes.set_ylabel(f"{task}, tokens right, %")
        trained = next(
            digits for model in LINES if (digits := found.setting(f"{model}.{task}", "digits_max"))
        )
        if trained:
            axes.axvspan(0, trained, color="#eeeeee", zorder=0)
            axes.text(trained / 2, 2, "trained", ha="center", va="bottom", fontsize=7)
    axes.set_xlim(0)
    axes.set_xlabel("digits of an example, at most")
    chart.legend_above(panels[0])
    return figure


def figures(_records, own):
    return {
        name: draw
        for about in own
        for name, draw in (
            (about.name, functools.partial(draw_accuracies, experiment=about.name)),
            (f"{about.name}_lengths", functools.partial(draw_lengths, experiment=about.name)),
        )
    }


SECTION = section.Section(owns=OWNS, numbers=numbers, figures=figures, write=write, place=2)
