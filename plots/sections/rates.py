"""Rows trained at several learning rates: the best of each, and whether a worse one stands on both of its sides."""

import functools
import math
import re
from typing import NamedTuple

import chart
import contrasts
import training_curves
from document import Cell
from report import header, line
from section import Section, of
from sections import curves
from values import Value, combine

NAME = re.compile(r"(.+)\.r\d+")  # dense.r4: `dense` at one of its rates
DIVERGED = re.compile(r"Lower learning_rate (\S+)")  # in a failure that the rate explains
BEST = {"marker": "*", "markersize": 8, "color": "black", "zorder": 4, "label": "_best"}
ALIKE = ("task", "d_model")  # sweeps of other tasks and widths say nothing of a row's best rate
OWNS = of("training", "rates")


class Trial(NamedTuple):
    """A row at one rate; `nats` is None where a seed of it diverged."""

    name: str
    rate: float
    nats: Value | None


class Sweep(NamedTuple):
    row: str
    trials: list  # [Trial], rates ascending

    @property
    def best(self):
        """The Trial of the fewest nats, or None."""
        finished = [trial for trial in self.trials if trial.nats]
        return min(finished, key=lambda trial: trial.nats.value, default=None)

    @property
    def bracket(self):
        """(rate below, rate above) of the best one's neighbours, which are worse; None of what is not there."""
        at = self.trials.index(self.best)
        below, above = self.trials[:at][-1:], self.trials[at + 1 :][:1]
        return tuple(trial[0].rate if trial else None for trial in (below, above))

    @property
    def is_bracketed(self):
        return None not in self.bracket


def sweeps(experiment):
    """[Sweep] of the rows with a result, in the file's order.

    A row at one rate is there for the others to be solved from: it is no sweep.
    """
    trials = {}
    for name in experiment.rows:
        if (named := NAME.fullmatch(name)) and (trial := _trial(experiment, name)):
            trials.setdefault(named[1], []).append(trial)
    found = [
        Sweep(row, sorted(each, key=lambda t: t.rate))
        for row, each in trials.items()
        if len(each) > 1
    ]
    return [sweep for sweep in found if sweep.best]


def planned(experiment):
    """[row] that was planned at more than one rate, trained or not."""
    names = dict.fromkeys((*experiment.planned, *experiment.rows))
    rows = [named[1] for name in names if (named := NAME.fullmatch(name))]
    return [row for row in dict.fromkeys(rows) if rows.count(row) > 1]


def _trial(experiment, name):
    """A Trial; None of one that has not ended, or failed for what the rate does not explain."""
    for reason in experiment.failures(name).values():
        if diverged := DIVERGED.search(reason):
            return Trial(name, float(diverged[1]), None)
    nats = experiment.result(name, "log_perplexity")
    if nats is None:
        return None
    seeds = len(experiment.by_seed(name, "log_perplexity"))
    nats = nats._replace(seeds=seeds, tokens=experiment.tokens(name))
    return Trial(name, experiment.setting(name, "learning_rate"), nats)


def experiments(records):
    """[(Experiment, [Sweep])] that have results."""
    found = [training_curves.Experiment(records, about.name) for about in records.of(OWNS)]
    return [(experiment, each) for experiment in found if (each := sweeps(experiment))]


def distance(sweep, experiment):
    """Between a sweep's budget of tokens and an experiment's, as the logarithm of their ratio; 0 of unknown ones."""
    own, swept_at = experiment.tokens(sweep.row), sweep.best.nats.tokens
    return abs(math.log(swept_at / own)) if own and swept_at else 0


def is_elsewhere(sweep, experiment):
    """Whether the budgets differ by more than what rounding to whole steps makes of them."""
    return distance(sweep, experiment) > math.log(1.1)


def nearest(records, experiment):
    """{row: (Experiment, Sweep)} of the sweeps of the same task and width; of several of a row the one whose budget
    of tokens is nearest."""
    known = {}
    for swept, each in experiments(records):
        for sweep in each:
            if any(
                swept.setting(sweep.best.name, knob) != experiment.setting(sweep.row, knob)
                for knob in ALIKE
            ):
                continue
            older = known.get(sweep.row)
            if older is None or distance(sweep, experiment) < distance(older[1], experiment):
                known[sweep.row] = (swept, sweep)
    return known


def doubts(records, experiment, rows):
    """What the sweeps of a folder say against the rates that an experiment's rows were trained at; nothing without any."""
    known = nearest(records, experiment)
    found = []
    for row in rows:
        if row not in known:
            continue
        sweep = known[row][1]
        best, rate = sweep.best, experiment.setting(row, "learning_rate")
        if rate and rate != best.rate:
            found.append(
                f"`{row}` was trained at the rate {rate:g}, the sweep's best is {best.rate:g}"
            )
        if not sweep.is_bracketed:
            found.append(f"no worse rate on both sides of `{row}`'s {best.rate:g}")
    return found


def choice(records, experiment, rows):
    """What is to be known of how the rows' rates were chosen: by one seed, at another budget, on the text or by a seed that
    is reported."""
    known = nearest(records, experiment)
    found = []
    for swept in dict.fromkeys(known[row][0] for row in rows if row in known):
        names = [known[row][1].best.name for row in rows if row in known and known[row][0] is swept]
        chose = {name: {*swept.by_seed(name, "log_perplexity")} for name in names}
        reported = {seed for row in rows for seed in experiment.by_seed(row, "log_perplexity")}
        words = []
        if any(len(seeds) == 1 for seeds in chose.values()):
            words.append("by one seed")
        budgets = {
            known[row][1].best.nats.tokens
            for row in rows
            if row in known and known[row][0] is swept and is_elsewhere(known[row][1], experiment)
        }
        if budgets:
            tokens = ", ".join(f"{budget / 1e6:.3g} M" for budget in sorted(budgets))
            words.append(f"at {tokens} tokens, which were not swept again at this budget")
        if swept.data == experiment.data:
            words.append("on the held-out text that is reported")
        if shared := sorted(set.union(*chose.values()) & reported):
            words.append(f"by seeds that are reported, too ({', '.join(map(str, shared))})")
        if words:
            found.append(f"`{swept.name}` chose rates {', '.join(words)}")
    return found


def numbers(records, _own):
    """The best rates, their bracket as the interval (an end that has no worse rate is infinite), and how many have both."""
    found = {}
    for experiment, each in experiments(records):
        prefix = f"quality.{experiment.name}"
        for sweep in each:
            low, high = sweep.bracket
            found[f"{prefix}.{sweep.row}.best_rate"] = sweep.best.nats._replace(
                value=sweep.best.rate,
                unit="1",
                low=-math.inf if low is None else low,
                high=math.inf if high is None else high,
                sd=0.0,
            )
        count = sum(sweep.is_bracketed for sweep in each)
        inputs = [sweep.best.nats for sweep in each]
        found[f"{prefix}.bracketed"] = combine(count, "rows", count, count, inputs)
        share = count / len(planned(experiment))
        found[f"{prefix}.bracketed_share"] = combine(share, "1", share, share, inputs)
    return found


def table(each):
    """A line a row, a column a rate; how many seeds a mean is of where not all are of as many."""
    found = [trial.nats for sweep in each for trial in sweep.trials if trial.nats]
    says_seeds = len({nats.seeds for nats in found}) > 1
    rates = sorted({trial.rate for sweep in each for trial in sweep.trials})
    lines = header("row", *(f"{rate:g}" for rate in rates), "best rate", "worse on both sides")
    for sweep in each:
        at = {trial.rate: trial for trial in sweep.trials}
        lines.append(
            line(
                f"`{sweep.row}`",
                *(_nats(at.get(rate), sweep.best, says_seeds) for rate in rates),
                f"{sweep.best.rate:g}",
                "yes" if sweep.is_bracketed else "no",
            )
        )
    return lines


def seeds_of(each):
    """How many seeds the numbers of sweeps are of, in words."""
    counts = {trial.nats.seeds for sweep in each for trial in sweep.trials if trial.nats}
    if len(counts) > 1:
        return "means over seeds"
    return "of one seed" if counts == {1} else f"means over {counts.pop()} seeds"


def _nats(trial, best, says_seeds):
    if trial is None:
        return Cell("–")
    if trial.nats is None:
        return Cell("diverged")
    mark = "**" if trial is best else ""
    seeds = f" ({contrasts.seeds_text(trial.nats.seeds)})" if says_seeds else ""
    return Cell(f"{mark}{trial.nats.value:.4f}{mark}{seeds}", trial.nats)


def text_of(records, experiment):
    """What held-out text the sweep is of, in words; empty of records that do not name it."""
    names = {
        record["config"].get("validation")
        for row in experiment.rows
        for record in experiment.by_seed(row, "log_perplexity").values()
    }
    name = ", ".join(f"`{name}`" for name in sorted(filter(None, names)))
    reported = {e.data for e in training_curves.experiments(records).values()}
    if not name:
        return ""
    return f", on {name}, " + (
        "which is reported, too" if experiment.data in reported else "the text for choosing"
    )


def write(report, own):
    titles = {about.name: about.title for about in own}
    for experiment, each in experiments(report.records):
        bracketed = sum(sweep.is_bracketed for sweep in each)
        absent = len(planned(experiment)) - len(each)
        report.add(
            f"## {titles[experiment.name]}",
            "",
            f"Nats a token of every row at each learning rate, {seeds_of(each)}"
            f"{text_of(report.records, experiment)}; the least in bold. A best rate counts once "
            "the next lower and the next higher one are worse, or diverge: so it is of "
            f"{bracketed} of {len(each)} rows"
            + (f"; {absent} of all planned ones were not swept yet." if absent else "."),
        )
        report.add(*table(each))
        report.figure(experiment.name)
        report.repeat(curves.command(experiment))


def draw(records, experiment):
    """Nats over the learning rate, a line a row, a star at its best."""
    each = dict((e.name, each) for e, each in experiments(records)).get(experiment)
    if not each:
        raise chart.Missing(f"no finished curve in {experiment}")
    figure, (axes,) = chart.new(3.0 + 0.11 * len(each))
    looks = curves.looks()
    for sweep in each:
        points = [(trial.rate, trial.nats) for trial in sweep.trials if trial.nats]
        look = chart.DENSE if sweep.row == "dense" else next(looks)
        chart.curve(axes, points, label=sweep.row, **look)
        axes.plot(sweep.best.rate, sweep.best.nats.value, **BEST)
    axes.set_xscale("log")
    chart.plain_log(axes.xaxis, sorted({t.rate for sweep in each for t in sweep.trials}))
    axes.set_xlabel("peak learning rate; a star: the row's best")
    axes.set_ylabel("log-perplexity, nats per token")
    chart.legend_above(axes)
    return figure


def figures(_records, own):
    return {about.name: functools.partial(draw, experiment=about.name) for about in own}


SECTION = Section(owns=OWNS, numbers=numbers, figures=figures, write=write)
