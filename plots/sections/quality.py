"""Is sparse enough? Rows that name what they are judged by: contrasts with intervals, verdicts, and both over the budget."""

import math
import operator
import re
import statistics
from typing import NamedTuple

import chart
import contrasts
import paper
import training_curves
from document import Cell
from report import header, interval_text, line
from section import Section, of
from sections import curves, rates
from values import Value

# Figure 1 at one budget: all of the text, or the millions of tokens that end the name (1m5: 1.5).
BUDGET = re.compile(r"fig1(_\d+m\d*)?")
FIGURE = "gap_by_budget"
FEW = 5  # seeds below this speak against a verdict
FARTHEST = 15  # powers of ten of tokens; more of them is as good as never
WORDS = (
    "Of each row its nats a token; *gap*: above `{baseline}`; *contrast*: of a sparse row above its own "
    "twin, which is dense in place of what is judged; *verdict contrast*: that less a quarter of "
    "what the twin loses once it is made so small that it reads as little as the row. All are "
    "differences within a seed, since seeds share weights and the order of the text, and means of "
    "these with Student's 95 % intervals. *Enough*: the verdict contrast lies below 0; *not enough*: "
    "above; *undecided*: neither is sure. Of several in one experiment the least sure are held to "
    "stricter intervals (Holm). All seeds and rows are evaluated on the same held-out text: intervals "
    "are over seeds, not over texts."
)


def experiments(records):
    """[Experiment] whose rows name twins, in the report's order."""
    found = training_curves.experiments(records).values()
    return [experiment for experiment in found if contrasts.are_named(experiment)]


def row_figures(experiment, row):
    """{ending of its id: Value} of a row."""
    base = experiment.baseline
    found = {"log_perplexity": contrasts.over_seeds(experiment, float, row)}
    if row != base:
        found["gap"] = contrasts.over_seeds(experiment, operator.sub, row, base)
    if twin := experiment.setting(row, "twin"):
        found["contrast"] = contrasts.over_seeds(experiment, operator.sub, row, twin)
    judged = {one.row: one.judged for one in contrasts.of_experiment(experiment)}
    found["verdict_contrast"] = judged.get(row)
    tokens = experiment.tokens(row)
    return {ending: value._replace(tokens=tokens) for ending, value in found.items() if value}


def numbers(records, _own):
    return {
        f"quality.{experiment.name}.{row}.{ending}": value
        for experiment in experiments(records)
        for row in experiment.rows
        for ending, value in row_figures(experiment, row).items()
    }


def count(tokens):
    """1.54 M"""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if tokens >= size:
            return f"{tokens / size:.3g} {unit}"
    return f"{tokens:,.0f}"


def nats(value, sign="+"):
    """Four decimals and the interval; a dash if there is none."""
    if value is None:
        return Cell("–")
    ends = f" [{value.low:{sign}.4f}, {value.high:{sign}.4f}]"
    return Cell(
        f"{value.value:{sign}.4f}" + (ends if math.isfinite(value.low) else interval_text(value)),
        value,
    )


def table(experiment):
    """A line a row: budget, seeds, nats, gap, contrasts, verdict."""
    lines = header(
        "row",
        "tokens",
        "seeds",
        "log-perplexity, nats/token",
        "gap",
        "contrast",
        "verdict contrast",
        "verdict",
    )
    figure = contrasts.of_experiment(experiment)
    said = contrasts.verdicts(figure)
    few = {one.row for one in figure if one.seeds < FEW}
    for row in experiment.rows:
        found = row_figures(experiment, row)
        own = found.get("log_perplexity")
        if own is None:
            lines.append(line(f"`{row}`", "–", "–", experiment.state(row), *["–"] * 4))
            continue
        lines.append(
            line(
                f"`{row}`",
                count(own.tokens),
                str(own.seeds),
                nats(own, ""),
                *(nats(found.get(ending)) for ending in ("gap", "contrast", "verdict_contrast")),
                f"**{said[row]}**" + (" so far" if row in few else "") if row in said else "–",
            )
        )
    return lines


class Judged(NamedTuple):
    """A contrast, its verdict by Holm's steps, and all of its experiment's."""

    experiment: training_curves.Experiment
    contrast: contrasts.Contrast
    verdict: str
    figure: list

    def claim(self):
        one = self.contrast
        return (
            f"`{one.row}` loses less than a quarter of what equal reads lose: against its twin "
            f"`{one.twin}` and `{one.equal_reads}`, {count(self.experiment.tokens(one.row))} tokens"
        )

    def evidence(self):
        one = self.contrast
        lost = contrasts.over_seeds(self.experiment, operator.sub, one.equal_reads, one.twin)
        parts = [
            f"contrast {nats(one.against_twin)}",
            f"equal reads lose {nats(lost)}",
            f"verdict contrast {nats(one.judged)}",
            "one seed" if one.seeds == 1 else f"{one.seeds} seeds",
        ]
        if self.verdict == "undecided":
            wanted = contrasts.seeds_wanted(one, contrasts.level_of_undecided(self.figure))
            parts.append(
                f"{wanted} seeds would decide it, should it stay as it is"
                if wanted
                else "how many seeds would decide it one seed cannot say"
                if one.seeds == 1
                else "a thousand seeds would not decide it, should it stay as it is"
            )
        return "; ".join(parts)


def judged(experiment):
    """[Judged] in the file's order."""
    figure = contrasts.of_experiment(experiment)
    said = contrasts.verdicts(figure)
    return [Judged(experiment, one, said[one.row], figure) for one in figure]


def against(records, one, everywhere):
    """[what speaks against a verdict]; everywhere: [Judged] of the whole folder."""
    experiment, contrast = one.experiment, one.contrast
    base = experiment.baseline
    found = []
    lost = contrasts.over_seeds(experiment, operator.sub, contrast.equal_reads, contrast.twin)
    if lost.low <= 0:
        found.append(f"equal reads' own loss is not surely above 0: {nats(lost)}")
    if one.verdict == "enough" and contrast.against_twin.low > 0:
        found.append(f"it still loses {nats(contrast.against_twin)} to its twin")
    if one.verdict == "not enough":
        small = contrasts.over_seeds(experiment, operator.sub, contrast.row, contrast.equal_reads)
        if small.high < 0:
            found.append(f"it beats `{contrast.equal_reads}`, which reads as little: {nats(small)}")
    if one.verdict == "undecided" and contrast.p < contrasts.LEVEL:
        alone = contrast.verdict(True)
        found.append(f"were it the only contrast, it would be *{alone}*")
    if contrast.twin != base:
        gap = contrasts.over_seeds(experiment, operator.sub, contrast.row, base)
        if gap and gap.value < contrast.against_twin.value:
            found.append(f"its gap to `{base}` is the smaller {nats(gap)}")
    elsewhere = [
        f"*{other.verdict}* at {count(other.experiment.tokens(contrast.row))} tokens"
        for other in everywhere
        if is_other_budget(other.experiment, experiment)
        and other.contrast.row == contrast.row
        and other.verdict != one.verdict
    ]
    if contrast.seeds < FEW:
        found.append(f"{contrast.seeds} of {FEW} seeds")
    rows = dict.fromkeys((contrast.row, contrast.twin, contrast.equal_reads))
    failed = [f"`{row}` {experiment.state(row)}" for row in rows if experiment.failures(row)]
    return found + elsewhere + failed + rates.doubts(records, experiment, rows)


def is_other_budget(one, other):
    return one is not other and all(BUDGET.fullmatch(e.name) for e in (one, other))


def by_budget(records):
    """[Experiment] of Figure 1 that differ in tokens alone, the fewest first; empty of one budget."""
    found = {
        experiment.tokens(experiment.baseline): experiment
        for experiment in experiments(records)
        if BUDGET.fullmatch(experiment.name)
    }
    ordered = [found[tokens] for tokens in sorted(found) if tokens]
    return ordered if len(ordered) > 1 else []


class Trend(NamedTuple):
    """The contrast of a row over budgets, and the line through it over the logarithm of tokens."""

    row: str
    points: list  # [(tokens, Value)], the fewest first
    slope: Value | None  # nats a tenfold of tokens: of each seed's own line
    middle: tuple  # (mean log10 tokens, mean contrast), which the line goes through

    def at(self, tokens):
        log_tokens, contrast = self.middle
        return contrast + self.slope.value * (math.log10(tokens) - log_tokens)

    def reaches(self, goal):
        """How many tokens the line wants for a contrast, in words."""
        most, last = self.points[-1]
        if last.high <= goal:
            return f"reached at {count(most)}"
        if self.slope is None:
            return "–"
        if self.slope.value >= 0:
            return "by no number of tokens: it does not fall"
        best = self._tokens(self.slope.value, goal)
        times = "" if best > FARTHEST else f" ({10**best / most:.2g} × the largest run)"
        if not math.isfinite(self.slope.low):
            return f"{_tokens_text(best)}{times}"
        # Where the slope might be 0, or more, nothing bounds the tokens.
        ends = (self.slope.low, self.slope.high)
        ends = sorted(self._tokens(end, goal) if end < 0 else math.inf for end in ends)
        return f"{_tokens_text(best)}{times}, " + " to ".join(map(_tokens_text, ends))

    def _tokens(self, slope, goal):
        """Their log10, by a line of this slope."""
        log_tokens, contrast = self.middle
        return log_tokens + (goal - contrast) / slope


def _tokens_text(log_tokens):
    if log_tokens == math.inf:
        return "no end"
    return f"10^{FARTHEST} or more" if log_tokens > FARTHEST else count(10**log_tokens)


def trends(budgets):
    """[Trend] of the rows that have a contrast at every one of the budgets [Experiment]."""
    found = []
    for row in budgets[0].rows if budgets else ():
        each = [row_figures(experiment, row).get("contrast") for experiment in budgets]
        if not all(each):
            continue
        found.append(Trend(row, [(v.tokens, v) for v in each], *_line(budgets, row, each)))
    return found


def _line(budgets, row, values):
    """(slope, middle) of a Trend; seeds that all budgets have count."""
    logs = [math.log10(value.tokens) for value in values]
    seeds = [
        contrasts.by_seed(experiment, operator.sub, row, experiment.setting(row, "twin"))
        for experiment in budgets
    ]
    own = [[at[seed] for at in seeds] for seed in seeds[0] if all(seed in at for at in seeds)]
    slope = contrasts.paired(
        [statistics.linear_regression(logs, of_seed).slope for of_seed in own], values
    )
    middle = [statistics.fmean(of_seed) for of_seed in own]
    return (
        slope and slope._replace(unit="nats/token a tenfold of tokens"),
        (statistics.fmean(logs), statistics.fmean(middle) if middle else math.nan),
    )


def papers_gap():
    """Of the sparse model above the dense one, nats a token (Table 8)."""
    return paper.log_perplexity("sparse_transformer_ff_qkv_loss") - paper.log_perplexity(
        "baseline_transformer"
    )


def write_budgets(report, budgets):
    """Gaps, then contrasts with their slopes, over the tokens trained on."""
    goal = papers_gap()
    columns = [f"{count(e.tokens(e.baseline))} tokens" for e in budgets]
    report.add(
        "### Figure 1 over the budget",
        "",
        "Every budget is a run of its own, whose learning rate ends at 0. *Slope*: of the contrast, "
        "nats a token for ten times the tokens, the mean of each seed's own line; whether a line is "
        f"right its interval does not say. *Tokens for {goal:+.2f}*: extrapolated, where that line "
        "comes to what the paper's sparse model lies above its dense one, by the slope and by the ends "
        "of its interval; the paper's is a model of other size, text and tokens.",
    )
    lines = header("gap to dense", *columns)
    for row in budgets[0].rows:
        gaps = [row_figures(experiment, row).get("gap") for experiment in budgets]
        if any(gaps):
            lines.append(line(f"`{row}`", *map(nats, gaps)))
    report.add(*lines)
    lines = header("contrast", *columns, "slope", f"tokens for {goal:+.2f}")
    for trend in trends(budgets):
        values = (nats(value) for _, value in trend.points)
        lines.append(line(f"`{trend.row}`", *values, nats(trend.slope), trend.reaches(goal)))
    report.add(*lines)
    report.figure(FIGURE)


def write(report, _own):
    known = experiments(report.records)
    if not known:
        return
    report.add(
        "## Is sparse enough? Contrasts by budget",
        "",
        WORDS.format(baseline=known[0].baseline),
    )
    everywhere = [one for experiment in known for one in judged(experiment)]
    for experiment in known:
        report.add(f"### Contrasts of {report.records.about(experiment.name).title}")
        report.add(*table(experiment))
        lines = header("claim", "verdict", "numbers", are_numbers=False)
        for one in (one for one in everywhere if one.experiment is experiment):
            words = against(report.records, one, everywhere)
            lines.append(line(one.claim(), f"**{one.verdict}**", one.evidence()))
            lines.append(line("what speaks against it", "", "; ".join(words) or "nothing measured"))
        if len(lines) > 2:
            report.add(*lines)
    budgets = by_budget(report.records)
    if budgets:
        write_budgets(report, budgets)


def draw(records):
    """Gaps to dense above, contrasts with their lines below, over tokens."""
    budgets = by_budget(records)
    if not budgets:
        raise chart.Missing("Figure 1 has no two budgets")
    found = trends(budgets)
    rows = [row for row in budgets[0].rows if row != budgets[0].baseline]
    figure, (above, below) = chart.new(4.4 + 0.08 * len(rows), panels=2, sharex=True)
    look_of = dict(zip(rows, curves.looks()))
    for row in rows:
        points = [
            (value.tokens / 1e6, _drawable(value))
            for experiment in budgets
            if (value := row_figures(experiment, row).get("gap"))
        ]
        if points:
            chart.curve(above, points, label=row, capsize=2, **look_of[row])
    for trend in found:
        points = [(tokens / 1e6, _drawable(value)) for tokens, value in trend.points]
        look = {**look_of[trend.row], "linestyle": "none"}
        chart.curve(below, points, capsize=2, **look)
        if trend.slope:
            ends = [trend.points[0][0], trend.points[-1][0]]
            line_look = {**look_of[trend.row], "marker": ""}
            below.plot([t / 1e6 for t in ends], [trend.at(t) for t in ends], **line_look)
    below.axhline(papers_gap(), label=f"the paper's {papers_gap():+.2f}", **chart.LIMIT)
    for axes, name in ((above, "gap to dense"), (below, "contrast to twin")):
        axes.axhline(0, color="black", linewidth=0.4)
        axes.set_ylabel(f"{name}, nats per token")
    below.set_xscale("log")
    ticks = [experiment.tokens(experiment.baseline) / 1e6 for experiment in budgets]
    chart.plain_log(below.xaxis, ticks)
    below.set_xticks(ticks, [f"{tick:.3g}" for tick in ticks])
    below.set_xlabel("million tokens trained on")
    below.legend(loc="best")
    chart.legend_above(above)
    return figure


def _drawable(value):
    """One seed's is a point without ends."""
    if math.isfinite(value.low):
        return value
    return value._replace(low=value.value, high=value.value)


def figures(records, _own):
    return {FIGURE: draw} if by_budget(records) else {}


SECTION = Section(owns=of("training"), numbers=numbers, figures=figures, write=write)
