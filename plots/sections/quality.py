"""Is sparse enough? Rows that name what they are judged by: contrasts with intervals, verdicts, and both over the budget."""

import math
import operator
import re
import statistics
from typing import NamedTuple

import chart
import contrasts
import held_out
import paper
import training_curves
from report import count, ends, header, line, nats, not_begun, percent
from section import Section, of
from sections import curve_verdicts, curves, factors, rates
from sections.curve_verdicts import PLATEAU
from values import Value, combine

# Figure 1 at one budget: the millions of tokens that end the name (1m5: 1.5), or all of the text.
BUDGET = re.compile(r"fig1(_\d+m\d*)?")
BUDGETS = ("fig1_1m5", "fig1_5m", "fig1_16m")  # that there are configs of
FIGURE = "gap_by_budget"
FARTHEST = 15  # powers of ten of tokens; more of them is as good as never
BELOW, ABOVE = "enough", "not enough"
KIND = "feed_forward"  # what a change leaves as it is
# Experiments that change one thing at a time, whose rows count as claims of the paper's text.
OF_TEXT = ("recipes_1m5", "stacks_1m5")
SHORT = 2e6  # tokens: the least budget, where a start counts most
# What the report has over the budget: words, ending of the id.
OVER_BUDGETS = (
    ("gap to `{}`", "gap"),
    ("contrast", "contrast"),
    ("verdict contrast", "verdict_contrast"),
    ("verdict contrast to `{}`", "verdict_gap"),
)
WORDS = (
    "Of each row the percent of its steps on the plateau, where a model knows no more than how often tokens come; its "
    "nats a token; *gap*: above `{baseline}`; *contrast*: of a sparse row above its own "
    "twin, which is dense in place of what is judged; *verdict contrast*: that less a quarter of "
    "what the twin loses once it is made so small that it reads as little as the row. A row whose twin "
    "is not `{baseline}` is judged against that, too: its gap less a quarter of what `{baseline}` loses "
    "once made for the reads of the row whose twin it is, which are more than this row's. All are differences within a seed, since seeds share weights and the order of the text, and means "
    "of these. *Enough*: the verdict contrast lies below 0; *not enough*: above; *undecided*: neither is "
    "sure; *so far*: of fewer than {few} seeds. All contrasts that an experiment has named count, "
    f"{contrasts.STRICTER}."
)
INTERVALS = (
    "Intervals in brackets are Student's 95 % over seeds, all on one held-out text: what other seeds would "
    "give on the same text. *Over text* is the interval over stretches of that text, with these seeds: what "
    "other text of the kind would give. *Both*: what other seeds would give on other text. Verdicts are "
    "over seeds. Seeds that would decide are those that would if mean and spread stayed as they are: even odds."
)


def experiments(records):
    """[Experiment] whose rows name twins, in the report's order."""
    found = training_curves.experiments(records).values()
    return [experiment for experiment in found if contrasts.named(experiment)]


def row_figures(experiment, row):
    """{ending of its id: Value} of a row."""
    base = experiment.baseline
    weights = {"log_perplexity": {row: 1}}
    if row != base:
        weights["gap"] = contrasts.difference(row, base)
    for one in contrasts.named(experiment):
        if one.row == row and one.is_own:
            weights["contrast"] = contrasts.difference(row, one.twin)
            weights["verdict_contrast"] = one.weights
        elif one.row == row:
            weights["verdict_gap"] = one.weights
    found = {ending: contrasts.weighted(experiment, each) for ending, each in weights.items()}
    for ending, each in weights.items():
        text = held_out.over_text(experiment, each)
        if text and "contrast" in ending:
            found[f"{ending}_over_text"] = text.value
    found[PLATEAU] = experiment.result(row, PLATEAU)
    tokens = experiment.tokens(row)
    return {ending: value._replace(tokens=tokens) for ending, value in found.items() if value}


def numbers(records, _own):
    claims = undecided(curve_verdicts.judged(records, curve_verdicts.OF_FRONTIER))
    found = claims | undecided_in_all(records, claims) | plateau(records)
    for experiment in experiments(records):
        value = undecided_rows(experiment)
        found |= {f"quality.{name}.undecided": value for name in names_of(experiment) if value}
    return found | {
        f"quality.{name}.{row}.{ending}": value
        for experiment in experiments(records)
        for name in names_of(experiment)
        for row in experiment.rows
        for ending, value in row_figures(experiment, row).items()
    }


def undecided_rows(experiment):
    """Value: of the rows that are judged against twins of their own, how many have no decision; None of none."""
    said = contrasts.of_experiment(experiment)
    own = [said[one.name] for one in contrasts.named(experiment) if one.is_own]
    inputs = [one.contrast.value for one in own if one.contrast.value]
    number = float(sum(not one.is_sure for one in own))
    return combine(number, "1", number, number, inputs) if inputs else None


def names_of(experiment):
    """What ids call it: Figure 1 is, beside its own name, the largest budget's."""
    return (experiment.name, "fig1") if experiment.name == BUDGETS[-1] else (experiment.name,)


def undecided(claims):
    """{id: Value} of how many claims have no decision, for want of seeds, of rates, or of a contrast that is large enough."""
    inputs = [claim.value for claim in claims if claim.value]
    if not inputs:
        return {}
    decided = ("reproduced", "not reproduced")
    number = float(sum(not claim.verdict.startswith(decided) for claim in claims))
    value = combine(number, "1", number, number, inputs)
    return {"quality.claims.undecided": value._replace(seeds=min(i.seeds for i in inputs))}


def undecided_in_all(records, claims):
    """{id: Value} of the claims' and of all changes' together; empty where either is not there."""
    parts = [
        factors.undecided(experiment)
        for experiment in factors.experiments(records)
        if experiment.name in OF_TEXT
    ]
    parts = list(filter(None, [*claims.values(), *parts]))
    if len(parts) < 1 + len(OF_TEXT):
        return {}
    number = sum(part.value for part in parts)
    value = combine(number, "1", number, number, parts)
    return {"quality.undecided": value._replace(seeds=min(part.seeds for part in parts))}


def is_repaired(experiment, row):
    """Whether it starts otherwise than released: the token's share of the input, and how far nine taps' scores spread."""
    scale, projection = (experiment.setting(row, k) for k in ("embedding_scale", "projection"))
    return (scale or 1) > 1 and (
        projection != "conv" or bool(experiment.setting(row, "tap_scaling"))
    )


def plateau(records):
    """{id: Value}: the longest that a row stays on the plateau, as a share of its steps, of all short curves whose start is
    repaired and whose rates are chosen."""
    swept = {about.name for about in records.of(rates.OWNS)}
    found = []
    for experiment in training_curves.experiments(records).values():
        for row in experiment.rows if experiment.name not in swept else ():
            if is_repaired(experiment, row) and 0 < experiment.tokens(row) < SHORT:
                found.append(experiment.result(row, PLATEAU))
    found = list(filter(None, found))
    return {"quality.plateau_share": max(found, key=lambda one: one.value)} if found else {}


def table(experiment):
    """A line a row: budget, seeds, nats, gap, contrasts, verdict."""
    lines = header(
        "row",
        "tokens",
        "seeds",
        "plateau",
        "log-perplexity, nats/token",
        "gap",
        "contrast",
        "verdict contrast",
        "verdict",
    )
    said = contrasts.of_experiment(experiment)
    for row in experiment.rows:
        found = row_figures(experiment, row)
        own = found.get("log_perplexity")
        if own is None:
            lines.append(line(f"`{row}`", "–", "–", "–", experiment.state(row), *["–"] * 4))
            continue
        lines.append(
            line(
                f"`{row}`",
                count(own.tokens),
                str(own.seeds),
                percent(found.get(PLATEAU)),
                nats(own, ""),
                *(nats(found.get(ending)) for ending in ("gap", "contrast", "verdict_contrast")),
                f"**{said[row].verdict(BELOW, ABOVE)}**" if row in said else "–",
            )
        )
    return [*lines, *not_begun(experiment, experiment.planned)]


class Finding(NamedTuple):
    """What an experiment says of one of its contrasts."""

    experiment: training_curves.Experiment
    named: contrasts.Named
    judged: contrasts.Judged

    @property
    def text(self):
        return self.judged.verdict(BELOW, ABOVE)

    def claim(self):
        named = self.named
        own = "its twin " if named.is_own else ""
        least = (
            "equal reads lose" if named.is_own else "a dense row loses that reads as little or more"
        )
        return (
            f"`{named.row}` loses less than a quarter of what {least}: against {own}"
            f"`{named.twin}` and `{named.equal_reads}`, {count(self.experiment.tokens(named.row))} tokens"
        )

    def over_seeds(self, row, other):
        return contrasts.weighted(self.experiment, contrasts.difference(row, other))

    def over_text(self):
        return held_out.over_text(self.experiment, self.named.weights)

    def evidence(self):
        named, judged = self.named, self.judged.contrast.value
        text = self.over_text()
        parts = [
            f"contrast {nats(self.over_seeds(named.row, named.twin))}",
            f"equal reads lose {nats(self.over_seeds(named.equal_reads, named.twin))}",
            f"verdict contrast {nats(judged)}",
            f"over text{ends(text.value)} ({text.stretches} stretches, {count(text.tokens)} tokens)"
            if text
            else "over text: not in these records",
        ]
        if text and math.isfinite(judged.high):
            parts.append(f"both{ends(held_out.both(judged, text.value))}")
        parts.append(contrasts.seeds_text(judged.seeds))
        return "; ".join(filter(None, [*parts, self.judged.wanted()]))


def judged(experiment):
    """[Finding] of what has a seed of all its rows, in the file's order."""
    said = contrasts.of_experiment(experiment)
    return [
        Finding(experiment, one, said[one.name])
        for one in contrasts.named(experiment)
        if said[one.name].contrast.value
    ]


def against(records, one, everywhere):
    """[what speaks against a verdict]; everywhere: [Finding] of the whole folder."""
    experiment, named, contrast = one.experiment, one.named, one.judged.contrast
    found = []
    lost = one.over_seeds(named.equal_reads, named.twin)
    loss = one.over_seeds(named.row, named.twin)
    if lost.low <= 0:
        found.append(f"equal reads' own loss is not surely above 0: {nats(lost)}")
    if one.judged.sign < 0 and loss.low > 0:
        found.append(f"it still loses {nats(loss)} to `{named.twin}`")
    if one.judged.sign > 0:
        small = one.over_seeds(named.row, named.equal_reads)
        if small.high < 0:
            found.append(f"it beats `{named.equal_reads}`, which reads as little: {nats(small)}")
    if not one.judged.sign and contrast.p < contrasts.LEVEL:
        alone = contrasts.judge([contrast])[contrast.name]
        found.append(f"were it the only contrast, it would be *{alone.verdict(BELOW, ABOVE)}*")
    text = one.over_text()
    if one.judged.sign and text and text.value.low <= 0 <= text.value.high:
        found.append("on other text of the kind it might be otherwise")
    base = experiment.baseline
    if named.is_own and named.twin != base:
        gap = one.over_seeds(named.row, base)
        if gap and gap.value < loss.value:
            found.append(f"its gap to `{base}` is the smaller {nats(gap)}")
    elsewhere = [
        f"*{other.text}* at {count(other.experiment.tokens(named.row))} tokens"
        for other in everywhere
        if is_other_budget(other.experiment, experiment)
        and other.judged.contrast.seeds > 1
        and other.named.name == named.name
        and other.judged.sign != one.judged.sign
    ]
    if one.judged.sign >= 0:
        found += helped(records, named.row)
    if contrast.seeds < contrasts.FEW:
        found.append(f"{contrast.seeds} of {contrasts.FEW} seeds")
    rows = dict.fromkeys((named.row, named.twin, named.equal_reads))
    failed = [f"`{row}` {experiment.state(row)}" for row in rows if experiment.failures(row)]
    return (
        found
        + elsewhere
        + failed
        + rates.doubts(records, experiment, rows)
        + rates.choice(records, experiment, rows)
    )


def helped(records, row):
    """[what changes of a row surely helped it elsewhere], of experiments that change one thing at a time."""
    asked = {}  # change: [(tokens, Judged)]
    for experiment in factors.experiments(records):
        if experiment.baseline != row:
            continue
        for change, one in factors.judged(experiment).items():
            same_kind = experiment.setting(change, KIND) == experiment.setting(row, KIND)
            if one.contrast.value and same_kind:
                asked.setdefault(change, []).append((experiment.tokens(row), one))
    found = []
    for change, each in asked.items():
        if any(one.sign < 0 for _, one in each):
            numbers = (
                f"{nats(one.contrast.value)} at {count(tokens)} tokens"
                for tokens, one in sorted(each, key=lambda asked: asked[0])
            )
            last = max(each, key=lambda asked: asked[0])[1]
            word = "helps" if last.sign < 0 else "helped"
            found.append(f"`{change}` {word} `{row}`, {', '.join(numbers)}")
    return found


def is_other_budget(one, other):
    return one is not other and all(BUDGET.fullmatch(e.name) for e in (one, other))


def by_budget(records):
    """[Experiment] of Figure 1 that differ in tokens alone, the fewest first."""
    found = {
        experiment.tokens(experiment.baseline): experiment
        for experiment in experiments(records)
        if BUDGET.fullmatch(experiment.name)
    }
    return [found[tokens] for tokens in sorted(found) if tokens]


class Trend(NamedTuple):
    """The contrast of a row over budgets, and the line through it over the logarithm of tokens."""

    row: str
    points: list  # [(tokens, Value)], the fewest first
    slope: Value | None  # nats a tenfold of tokens: of each seed's own line; None of one budget
    center: float  # mean log10 tokens
    level: Value | None  # mean contrast, there
    fitted: tuple = ()  # tokens of the budgets that the line goes through

    def at(self, tokens):
        return self.level.value + self.slope.value * (math.log10(tokens) - self.center)

    def reaches(self, goal):
        """How many tokens the line wants for a contrast, in words; none unless it surely falls over three budgets."""
        most, last = self.points[-1]
        if last.high <= goal:
            return f"reached at {count(most)}"
        if self.slope is None:
            return "not extrapolated: no two budgets with the same seeds"
        if not math.isfinite(self.slope.low):
            return "not extrapolated: one seed"
        if len(self.fitted) == 2:  # any two lie on a line
            rises = self.slope.low >= 0
            return "rises between these two" if rises else "two budgets: no extrapolation"
        if self.slope.low >= 0:
            return "by none of these budgets: it rises over them"
        if self.slope.high >= 0:
            return "not extrapolated: the slope may be 0"
        best = self._tokens(self.slope.value, self.level.value, goal)
        times = "" if best > FARTHEST else f" ({10**best / most:.2g} × the largest run)"
        span = [
            self._tokens(self.slope.low, self.level.low, goal),
            self._tokens(self.slope.high, self.level.high, goal),
        ]
        return f"{_tokens_text(best)}{times}, " + " to ".join(map(_tokens_text, span))

    def _tokens(self, slope, level, goal):
        """Their log10, by a line of this slope through this level."""
        return self.center + (goal - level) / slope


def _tokens_text(log_tokens):
    return f"10^{FARTHEST} or more" if log_tokens > FARTHEST else count(10**log_tokens)


def trends(budgets):
    """[Trend] of the rows that have a contrast at one of the budgets [Experiment] at least."""
    found = []
    for row in dict.fromkeys(row for experiment in budgets for row in experiment.rows):
        each = [
            (experiment, value)
            for experiment in budgets
            if (value := row_figures(experiment, row).get("contrast"))
        ]
        if each:
            # One seed is a point, but bends no line.
            sure = [(e, v) for e, v in each if v.seeds > 1]
            line_of = sure if len(sure) > 1 else each
            found.append(
                Trend(
                    row,
                    [(v.tokens, v) for _, v in each],
                    *_line(row, line_of),
                    tuple(v.tokens for _, v in line_of),
                )
            )
    return found


def _line(row, each):
    """(slope, center, level) of a Trend; seeds that all budgets have count."""
    values = [value for _, value in each]
    logs = [math.log10(value.tokens) for value in values]
    seeds = [
        contrasts.by_seed(experiment, operator.sub, row, experiment.planned[row][0])
        for experiment, _ in each
    ]
    own = [[at[seed] for at in seeds] for seed in seeds[0] if all(seed in at for at in seeds)]
    center = statistics.fmean(logs)
    level = contrasts.paired([statistics.fmean(of_seed) for of_seed in own], values)
    if len(each) < 2 or not own:
        return None, center, level
    slope = contrasts.paired(
        [statistics.linear_regression(logs, of_seed).slope for of_seed in own],
        values,
        unit="nats/token a tenfold of tokens",
    )
    return slope, center, level


def papers_gap():
    """Of the sparse model above the dense one, nats a token (Table 8)."""
    return paper.log_perplexity("sparse_transformer_ff_qkv_loss") - paper.log_perplexity(
        "baseline_transformer"
    )


def write_budgets(report, budgets):
    """Gaps and contrasts over the tokens trained on, then the slopes of contrasts."""
    goal = papers_gap()
    columns = [f"{count(e.tokens(e.baseline))} tokens" for e in budgets]
    begun = {experiment.name for experiment in budgets}
    missing = [f"`{name}`" for name in BUDGETS if name not in begun]
    report.add(
        "### Figure 1 over the budget",
        "",
        "Every budget is a run of its own, whose learning rate ends at 0. *Slope*: of the contrast, "
        "nats a token for ten times the tokens, the mean of each seed's own line; whether a line is "
        f"right its interval does not say. *Tokens for {goal:+.2f}*: where that line "
        "comes to what the paper's sparse model lies above its dense one, between the ends of the slope's "
        "and the mean's intervals; of two budgets, or a slope that might be 0, nothing is extrapolated. The paper's is a model "
        "of other size, text and tokens."
        + (f" Not trained yet: {', '.join(missing)}." if missing else ""),
    )
    for words, ending in OVER_BUDGETS:
        lines = header(words.format(budgets[0].baseline), *columns)
        for row in dict.fromkeys(row for experiment in budgets for row in experiment.rows):
            values = [row_figures(experiment, row).get(ending) for experiment in budgets]
            if any(values):
                lines.append(line(f"`{row}`", *map(nats, values)))
        if len(lines) > 2:
            report.add(*lines)
    lines = header("contrast", "slope", f"tokens for {goal:+.2f}", are_numbers=False)
    for trend in trends(budgets):
        lines.append(line(f"`{trend.row}`", nats(trend.slope), trend.reaches(goal)))
    report.add(*lines)
    report.figure(FIGURE)


def write(report, _own):
    known = experiments(report.records)
    if not known:
        return
    report.add(
        "## Is sparse enough? Contrasts by budget",
        "",
        WORDS.format(baseline=known[0].baseline, few=contrasts.FEW),
        "",
        INTERVALS,
    )
    everywhere = [one for experiment in known for one in judged(experiment)]
    for experiment in known:
        report.add(f"### Contrasts of {report.records.about(experiment.name).title}")
        report.add(*table(experiment))
        lines = header("claim", "verdict", "numbers", are_numbers=False)
        for one in (one for one in everywhere if one.experiment is experiment):
            words = against(report.records, one, everywhere)
            lines.append(line(one.claim(), f"**{one.text}**", one.evidence()))
            lines.append(line("what speaks against it", "", "; ".join(words) or "nothing measured"))
        if len(lines) > 2:
            report.add(*lines)
    budgets = by_budget(report.records)
    if budgets:
        write_budgets(report, budgets)


def draw(records):
    """Gaps to dense above, contrasts with their lines below, over tokens."""
    budgets = by_budget(records)
    if len(budgets) < 2:
        raise chart.Missing("Figure 1 has no two budgets")
    found = trends(budgets)
    base = budgets[0].baseline
    rows = [
        row
        for row in dict.fromkeys(row for experiment in budgets for row in experiment.rows)
        if row != base
    ]
    figure, (above, below) = chart.new(4.4 + 0.08 * len(rows), panels=2, sharex=True)
    look_of = dict(zip(rows, curves.looks()))
    for row in rows:
        points = [
            (value.tokens / 1e6, value)
            for experiment in budgets
            if (value := row_figures(experiment, row).get("gap"))
        ]
        if points:
            chart.curve(above, points, label=row, capsize=2, **look_of[row])
    for trend in found:
        points = [(tokens / 1e6, value) for tokens, value in trend.points]
        look = {**look_of[trend.row], "linestyle": "none"}
        chart.curve(below, points, capsize=2, **look)
        if trend.slope:
            span = [trend.fitted[0], trend.fitted[-1]]
            line_look = {**look_of[trend.row], "marker": ""}
            below.plot([t / 1e6 for t in span], [trend.at(t) for t in span], **line_look)
    below.axhline(papers_gap(), label=f"the paper's {papers_gap():+.2f}", **chart.LIMIT)
    for axes, name in ((above, f"gap to {base}"), (below, "contrast to twin")):
        axes.axhline(0, color="black", linewidth=0.4)
        axes.set_ylabel(f"{name}, nats per token")
    below.set_xscale("log")
    ticks = [experiment.tokens(experiment.baseline) / 1e6 for experiment in budgets]
    chart.plain_log(below.xaxis, ticks)
    below.set_xticks(ticks, [f"{tick:.3g}" for tick in ticks])
    seeds = {value.seeds for trend in found for _, value in trend.points}
    of = f", {contrasts.seeds_text(seeds.pop())}" if len(seeds) == 1 else ""
    below.set_xlabel(f"million tokens trained on{of}")
    below.legend(loc="best")
    chart.legend_above(above)
    return figure


def figures(records, _own):
    return {FIGURE: draw} if len(by_budget(records)) > 1 else {}


SECTION = Section(owns=of("training"), numbers=numbers, figures=figures, write=write)
