"""Predicted attention graphs against gold graphs: recall over sparsity as step functions, a figure a teacher."""

import functools
import math
import re

import chart
import contrasts
from report import cell, header, line
from section import Section, of
from sections import sparsefinder_claims, sparsefinder_online, sparsefinder_texts
from values import combine, of_record

OWNS = of("sparsefinder")
GOLD, AREA = "gold_sparsity", "area"
PAPERS = "paper"  # of a configuration's two grids
GOLD_ROW, SECONDS = "gold", "sweep_s"
RANKED = re.compile(r"(.+)_rank(\d+)")  # a method with another number of dimensions than usual
RANK_WORDS = (
    "By how many dimensions queries and keys are projected into: of the gold pairs the share found by graphs that leave out as much "
    "as the gold ones, F at gold."
)
ONE_ROW = re.compile(r" --rows \S+")  # of a command that measures one method of a teacher
CONTROLS = ("oracle", "distance", "distance_per_query", "distance_pca", "distance_random")
CONTROLS += ("random_graph",)
PANELS = (("methods", sparsefinder_claims.COMPARED), ("controls", CONTROLS))
PERCENTS = (80, 90, 95)
FAR = 64  # positions, where a bin of distances begins
# A number of one seed's teacher, and its task; teachers of other lengths have names of their own.
ONE_TEACHER = re.compile(
    r"sparsefinder\.s_(lm|mlm|mt)\.\d+\.(\w+\.(?:recall_at_80|recall_at_90|quality_at_gold|area))"
)
SUMMARY = (*(f"recall_at_{percent}" for percent in PERCENTS), "recall_at_gold", "area")
# Learned predictors by colour; emulations in dashes, controls in dots.
LOOKS = {
    "distance": {"color": "#0072b2", "linestyle": "-"},
    "kmeans": {"color": "#d55e00", "linestyle": "-"},
    "quantization": {"color": "#009e73", "linestyle": "-"},
    "sim_routing": {"color": "#cc79a7", "linestyle": "--"},
    "sim_reformer": {"color": "#e69f00", "linestyle": "--"},
    "sim_bigbird": {"color": "#56b4e9", "linestyle": "--"},
    "sim_longformer": {"color": "#882255", "linestyle": "--"},
    "sim_window": {"color": "#444444", "linestyle": (0, (5, 1, 1, 1))},
    "oracle": {"color": "#444444", "linestyle": "-"},
    "distance_per_query": {"color": "#56b4e9", "linestyle": "--"},
    "distance_pca": {"color": "#009e73", "linestyle": ":"},
    "distance_random": {"color": "#d55e00", "linestyle": ":"},
    "random_graph": {"color": "#999999", "linestyle": ":"},
}
WORDS = (
    "Of each head's *gold graph*, the pairs with a probability that is not zero, the share that a predicted graph has "
    "(*recall*) when so many of all legal pairs are left out (*sparsity*). Each number is the best of a method's "
    "configurations that is as sparse: F(s), a step function, since between two configurations there is none; a dash: no "
    "configuration leaves out as much. "
    "`sim_*` are graphs as Sparsefinder's authors emulated other attentions, not those attentions. Intervals: {draws} "
    "resamples of the held-out sequences, one teacher. Teachers are small and trained from scratch: orderings may be "
    "compared with the paper's, values not."
)


def all_of_it(about):
    """Sweeps, and the differences that are made of them."""
    return OWNS(about) or sparsefinder_claims.OWNS(about)


def frontier(points):
    """[(sparsity, quality)] that no other point is at least as good as in both, sparsest first."""
    kept = []
    for sparsity, quality in sorted(points, key=lambda p: (-p[0], -p[1])):
        if not kept or quality > kept[-1][1]:
            kept.append((sparsity, quality))
    return kept


def at(points, sparsity):
    """F(s): the best quality among points of at least that sparsity; 0 where there is none."""
    return max((quality for s, quality in points if s >= sparsity), default=0.0)


def all_closings(records, experiment):
    """{teacher: {method: its closing record}}, gold graphs under "gold"; of other ranks, too."""
    found = {}
    for record in records.history(experiment):
        if record["metric"] in (GOLD, AREA) and record["value"] is not None:
            teacher, _, method = record["row"].rpartition(".")
            found.setdefault(teacher, {})[method] = record
    return found


def closings(records, experiment):
    """The same of the usual rank alone."""
    return {
        teacher: {m: closing for m, closing in methods.items() if not RANKED.fullmatch(m)}
        for teacher, methods in all_closings(records, experiment).items()
    }


def rank_lines(report, experiment, teacher):
    """A line a method that was swept with several ranks; nothing of none."""
    methods = all_closings(report.records, experiment).get(teacher, {})
    names = {m: RANKED.fullmatch(m)[1] for m in methods if RANKED.fullmatch(m)}
    found = {}
    for method in dict.fromkeys((*names, *names.values())):
        closing = methods.get(method)
        rank = closing and closing["config"].get("rank")
        if rank:
            value = value_of(report.records, experiment, closing, "recall_at_gold")
            # 0 stands for no configuration as sparse.
            shown = value if value and value.value else None
            found.setdefault(names.get(method, method), {})[rank] = shown
    if not found:
        return []
    ranks = sorted({rank for of_it in found.values() for rank in of_it})
    return [
        RANK_WORDS,
        "",
        *header("method, F at gold", *(f"rank {rank}" for rank in ranks)),
        *(
            line(f"`{m}`", *(cell(report, of_it.get(rank), interval=True) for rank in ranks))
            for m, of_it in found.items()
        ),
    ]


def configurations(records, experiment, closing):
    """The newest record of each configuration of the run that a closing record is of."""
    found = {}
    for record in records.history(experiment):
        of_run = all(record.get(field) == closing.get(field) for field in ("row", "key"))
        if record["metric"] != "recall" or not of_run:
            continue
        config = record["config"]
        found[tuple(config[k] for k in ("parameter", "value", "nearest"))] = record
    return list(found.values())


def points(records, experiment, closing, quality="recall", grid=None):
    """[(sparsity, quality)] of every configuration and window; grid: of that alone."""
    found = []
    for record in configurations(records, experiment, closing):
        if grid and record["config"]["grid"] != grid:
            continue
        columns = record["samples"]["columns"]
        if quality not in columns:
            continue
        x, y = columns.index("sparsity"), columns.index(quality)
        found += [(row[x], row[y]) for row in record["samples"]["rows"]]
    return found


def value_of(records, experiment, closing, metric):
    """The Value of a method's number, with its interval over sequences; or None."""
    record = records.get(experiment, closing["row"], closing["threads"], metric)
    if not record:
        return None
    if metric == GOLD:  # what recall_at_gold goes by: of all heads together, not of the middle one
        value = record["config"]["mean_gold_sparsity"]
        return of_record(record)._replace(value=value, low=-math.inf, high=math.inf)
    ends = (record["config"].get(f"{metric}_{end}") for end in ("low", "high"))
    low, high = (record["value"] if end is None else end for end in ends)
    return of_record(record)._replace(low=low, high=high)


def numbers(records, own):
    found = {}
    for about in own:
        for teacher, methods in closings(records, about.name).items():
            for method, closing in all_closings(records, about.name)[teacher].items():
                for metric in (GOLD,) if method == "gold" else SUMMARY:
                    value = value_of(records, about.name, closing, metric)
                    if value:
                        found[f"sparsefinder.{teacher}.{method}.{metric}"] = value
            found |= sparsefinder_online.numbers(records, about.name, teacher, methods)
            found |= sweep_time(records, about.name, teacher, methods)
    return found | over_teachers(found) | sparsefinder_claims.numbers(records)


def sweep_time(records, experiment, teacher, methods):
    """{id: Value}: seconds of the whole offline sweep; empty where a method does not say."""
    each = [value_of(records, experiment, closing, SECONDS) for closing in methods.values()]
    if not each or None in each or GOLD_ROW not in methods:
        return {}
    total = sum(value.value for value in each)
    # Timed once, so that nothing is known of its interval.
    found = combine(total, "s", -math.inf, math.inf, each)
    return {f"sparsefinder.{teacher}.{SECONDS}": found}


def over_teachers(found):
    """{id: Value} of a task, `lm`, `mlm` or `mt`: means over its teachers, with Student's intervals over these."""
    each = {}
    for name, value in found.items():
        of_one = ONE_TEACHER.fullmatch(name)
        if of_one:
            each.setdefault(f"sparsefinder.{of_one[1]}.{of_one[2]}", []).append(value)
    return {
        name: contrasts.paired([v.value for v in values], values, unit=values[0].unit)
        for name, values in each.items()
    }


def draw(records, experiment, teacher):
    """Recall over sparsity: the paper's methods above, controls below, the gold sparsity as a line."""
    methods = closings(records, experiment).get(teacher, {})
    drawn = {
        method: frontier(points(records, experiment, closing))
        for method, closing in methods.items()
        if method in LOOKS
    }
    if not drawn:
        raise chart.Missing(f"no method of {teacher} in {experiment}")
    ran = sparsefinder_online.of_teacher(records, experiment, methods)[0]
    wrote = bool(sparsefinder_texts.of_teacher(records, teacher)) and bool(ran)
    count = len(PANELS) + bool(ran) + wrote
    figure, panels = chart.new(2.6 * count, panels=count, sharex=True)
    for axes, (title, shown) in zip(panels, PANELS):
        for method in shown:
            steps = drawn.get(method, [])[::-1]
            if steps:
                # A value holds from the step before, which is less sparse, up to its own sparsity.
                xs, ys = [0, *(s for s, _ in steps)], [steps[0][1], *(q for _, q in steps)]
                axes.step(xs, ys, where="pre", label=method, **LOOKS[method])
        if "gold" in methods:
            gold = methods["gold"]["config"].get("mean_gold_sparsity")
            axes.axvline(gold, color="black", linewidth=0.6, linestyle=(0, (1, 1)))
        axes.set_title(title, loc="left")
        axes.set_ylabel("gold pairs found")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        axes.legend(loc="lower left", ncol=2)
    if ran:
        looks = {method: LOOKS[method] for method in (*sparsefinder_claims.COMPARED, "oracle")}
        axes = panels[len(PANELS)]
        sparsefinder_online.draw(axes, records, experiment, methods, looks)
        axes.set_title("the teacher with these graphs alone", loc="left")
    if wrote:
        sparsefinder_texts.draw(panels[-1], records, teacher, ran, LOOKS)
        panels[-1].set_title("what it writes with them", loc="left")
        panels[-1].legend(loc="lower left", ncol=2)
    panels[-1].set_xlabel("sparsity of the predicted graph")
    return figure


def figure_name(teacher):
    """Of its files, whose names end at the first dot."""
    return "sparsefinder_" + teacher.replace(".", "_")


def heads_name(teacher):
    return figure_name(teacher) + "_heads"


def names_of_percents():
    return [f"F at {percent} %" for percent in PERCENTS]


def has_heads(methods):
    gold = methods.get("gold")
    return bool(gold and gold.get("samples") and gold["config"].get("layers"))


def figures(records, own):
    found = {}
    for about in own:
        for teacher, methods in closings(records, about.name).items():
            at = {"experiment": about.name, "teacher": teacher}
            found[figure_name(teacher)] = functools.partial(draw, **at)
            if has_heads(methods):
                found[heads_name(teacher)] = functools.partial(
                    sparsefinder_online.draw_heads, **at, closing=methods["gold"]
                )
    return found


def best_first(methods):
    """[method] by the area of its closing record."""
    return sorted((m for m in methods if m != GOLD_ROW), key=lambda m: -methods[m]["value"])


def rows(report, experiment, methods):
    """A line a method, best area first."""
    for method in best_first(methods):
        closing = methods[method]
        values = (value_of(report.records, experiment, closing, metric) for metric in SUMMARY)
        yield line(
            f"`{method}`",
            str(closing["config"].get("points", "")),
            # 0 stands for no configuration as sparse.
            *(
                cell(report, value if value and value.value else None, interval=True)
                for value in values
            ),
        )


def grid_rows(records, experiment, methods):
    """A line a method that has configurations of the paper's grid: F by these alone, and by the probability that is found."""
    for method in best_first(methods):
        each = [
            points(records, experiment, methods[method], quality, PAPERS)
            for quality in ("recall", "mass_recall")
        ]
        if each[0]:
            values = [at(found, percent / 100) for found in each for percent in PERCENTS]
            cells = (f"{value:.3f}" if value else "–" for value in values)
            yield line(f"`{method}`", str(len(each[0])), *cells)


def is_far(column):
    """Whether a column is a share of pairs at least FAR positions apart; each is named by where its bin begins."""
    start = column.removeprefix("pairs_from_")
    return start != column and int(start) >= FAR


def gold_line(methods):
    """What the gold graphs of a teacher are like; empty without them."""
    gold = methods.get("gold")
    if not gold or not gold.get("samples"):
        return ""
    columns, heads = gold["samples"]["columns"], gold["samples"]["rows"]
    means = {name: sum(row[i] for row in heads) / len(heads) for i, name in enumerate(columns)}
    far = sum(share for name, share in means.items() if is_far(name))
    pairs = f"; {far:.0%} of the pairs lie {FAR} or more positions apart" if far else ""
    return (
        f"Gold graphs of {len(heads)} heads: sparsity {means['gold_sparsity']:.3f}, {means['support']:.1f} keys a query; "
        f"of the probability {means['local']:.0%} within 5 positions, {means['first']:.0%} on the first{pairs}."
    )


def write(report, own):
    for about in own:
        found = closings(report.records, about.name)
        if not found:
            continue
        report.add("## Sparsefinder: predicted attention graphs")
        draws = {
            closing["config"].get("draws")
            for methods in found.values()
            for closing in methods.values()
        }
        report.add(WORDS.format(draws=", ".join(map(str, sorted(draws - {None})))))
        for teacher, methods in found.items():
            report.add(f"### Teacher `{teacher}`")
            report.add(gold_line(methods))
            report.add(
                *header("method", "points", *names_of_percents(), "F at gold", "area 50-95 %"),
                *rows(report, about.name, methods),
            )
            alone = [*grid_rows(report.records, about.name, methods)]
            if alone:
                of_mass = (f"of probability, {percent} %" for percent in PERCENTS)
                report.add(
                    "By the paper's grid of configurations alone, where the table above has more of them; *of probability*: "
                    "the share of the teacher's probability that lies on pairs that were found:",
                    "",
                    *header("method", "points", *names_of_percents(), *of_mass),
                    *alone,
                )
            for more in (
                rank_lines(report, about.name, teacher),
                sparsefinder_online.lines(report, about.name, methods),
                sparsefinder_texts.lines(report, teacher),
            ):
                if more:
                    report.add(*more)
            report.figure(figure_name(teacher))
            if has_heads(methods):
                report.figure(heads_name(teacher))
            report.repeat(ONE_ROW.sub("", next(iter(methods.values()))["command"]))
    claims = sparsefinder_claims.lines(report.records)
    if claims:
        report.add(*claims)


SECTION = Section(owns=all_of_it, numbers=numbers, figures=figures, write=write)
