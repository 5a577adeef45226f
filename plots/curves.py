"""Training curves from records: points over steps, results over seeds, gaps, power and verdicts."""

import math
import statistics
from typing import NamedTuple, Optional

import derive

FIGURES = ("fig1", "fig3", "fig5", "fig7", "moe", "c4", "hour", "table8")
TOYS = "table4"  # how the names of experiments on numbers begin: plots/table4.py has their figures
SIZES = ("small", "mini")  # the larger one first: it decides
ENDINGS = ("log_perplexity", "gap", "bits_per_byte", "params")

# What a run must show to decide anything, and what counts as enough (nats a token).
POWER_GAP, POWER_SPREADS, ENOUGH = 0.1, 5, 0.25


class Experiment:
    """The curves of one experiment that were trained on the same text as its newest record."""

    def __init__(self, records, name):
        mine = [r for r in records.history(name)
                if (r.get("config") or {}).get("data") and r["value"] is not None]
        newest = mine[-1]["config"]["data"] if mine else None
        mine = [r for r in mine if r["config"]["data"] == newest]
        self.name = name
        self.rows = list(dict.fromkeys(r["row"] for r in mine))
        self.baseline = next((r["against"] for r in mine if r.get("against")), "dense")
        # A curve that was trained again replaces its older self: the newest key of a row and seed.
        keys = {(r["row"], r["seed"]): r.get("key") for r in mine}
        mine = [r for r in mine if r.get("key") == keys[r["row"], r["seed"]]]
        self._points, self._results = {}, {}
        for r in mine:
            at = (r["row"], r["seed"])
            if r["metric"] == "evaluation":
                self._points.setdefault(at, {})[r["config"]["step"]] = r
            else:
                self._results.setdefault(r["metric"], {})[at] = r

    def by_seed(self, row, metric):
        """{seed: record} of a result."""
        return {seed: r for (name, seed), r in self._results.get(metric, {}).items()
                if name == row}

    def result(self, row, metric):
        """Mean over seeds as a Value, spread = their standard deviation; None if nothing ended."""
        return over_seeds(list(self.by_seed(row, metric).values()))

    def gap(self, row):
        """Log-perplexity above the baseline's, seed by seed where both have it."""
        mine, base = (self.by_seed(r, "log_perplexity") for r in (row, self.baseline))
        shared = [s for s in mine if s in base]
        pairs = [dict(mine[s], value=mine[s]["value"] - base[s]["value"]) for s in shared]
        value = over_seeds(pairs)
        if value is None:
            return None
        inputs = [derive.of_record(r) for s in shared for r in (mine[s], base[s])]
        return derive.combine(value.value, value.unit, value.spread, inputs)

    def seed_spread(self):
        """Standard deviation over seeds, pooled over all rows that have two or more; or None."""
        groups = [[r["value"] for r in self.by_seed(row, "log_perplexity").values()]
                  for row in self.rows]
        groups = [g for g in groups if len(g) > 1]
        freedom = sum(len(g) - 1 for g in groups)
        if not freedom:
            return None
        return math.sqrt(sum((len(g) - 1) * statistics.variance(g) for g in groups) / freedom)

    def points(self, row):
        """[(step, mean, lowest, highest)] where every seed that has begun the row is."""
        seeds = [points for (name, _), points in self._points.items() if name == row]
        if not seeds:
            return []
        steps = sorted(set.intersection(*(set(s) for s in seeds)) or set(seeds[0]))
        found = []
        for step in steps:
            values = [s[step]["value"] for s in seeds if step in s]
            found.append((step, statistics.fmean(values), min(values), max(values)))
        return found

    def seeds(self, row):
        return sorted({seed for name, seed in (*self._points, *self._results.get(
            "log_perplexity", {})) if name == row})

    def floor(self):
        for row in self.rows:
            value = self.result(row, "floor")
            if value:
                return value.value
        return None

    def unfinished(self, row):
        """Seeds that have points but no result yet."""
        return [s for s in self.seeds(row) if s not in self.by_seed(row, "log_perplexity")]


def over_seeds(records, centre=statistics.fmean):
    """The centre of their values as a Value, spread = their standard deviation; None if none."""
    if not records:
        return None
    values = [r["value"] for r in records]
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return derive.combine(centre(values), records[0].get("unit") or "", spread,
                          [derive.of_record(r) for r in records])


def trained(records):
    """Names of the experiments of the folder that have curves."""
    return [n for n in records.experiments()
            if any(r["metric"] in ("evaluation", "log_perplexity") for r in records.history(n))]


def experiments(records):
    """{name: Experiment} of every training experiment on text in the folder, figures first."""
    names = [n for n in trained(records) if not n.startswith(TOYS)]

    def place(name):
        figure = name.split("_")[0]
        return (FIGURES.index(figure) if figure in FIGURES else len(FIGURES), name)

    found = {name: Experiment(records, name) for name in sorted(names, key=place)}
    return {name: e for name, e in found.items() if e.rows}


def identifier(name):
    """fig1.small of fig1_small: the prefix of the experiment's ids."""
    return name.replace("_", ".", 1)


def figures(records):
    """{id: Value} for summary.json."""
    found = {}
    for name, experiment in experiments(records).items():
        if name.startswith("tiny"):
            continue
        prefix = identifier(name)
        for row in experiment.rows:
            for ending in ENDINGS:
                value = experiment.gap(row) if ending == "gap" else experiment.result(row, ending)
                if value and not (ending == "gap" and row == experiment.baseline):
                    found[f"{prefix}.{row}.{ending}"] = value
    speed = dense_speed(records)
    for metric in ("mfu", "tokens_per_s"):
        if speed and (value := speed.result(speed.baseline, metric)):
            found[f"train.{metric}"] = value
    found.update(step_comparison(records))
    return found


def step_comparison(records):
    """{id: Value}: our training step beside other frameworks', timed in turn; replaces the curves' own speed."""
    threads = max((r["threads"] for r in records.history("peers_training")), default=0)

    def of(row, metric):
        return derive.measured(records, "peers_training", row, threads, metric)

    found = {f"train.{metric}": value for metric in ("mfu", "tokens_per_s") if (value := of("ours", metric))}
    for row in records.rows("peers_training"):
        if row != "ours" and (value := derive.ratio(of(row, "step_seconds"), of("ours", "step_seconds"))):
            found[f"train.vs_{row}"] = value
    return found


def dense_speed(records):
    """The experiment whose dense curve stands for training speed: `small` before `mini`."""
    known = experiments(records)
    for size in SIZES:
        for figure in FIGURES:
            experiment = known.get(f"{figure}_{size}")
            if experiment and experiment.result(experiment.baseline, "mfu"):
                return experiment
    return None


class Line(NamedTuple):
    claim: str
    verdict: str
    evidence: str


class Power(NamedTuple):
    """Whether an experiment can decide: the gap of iso_read_ff against the seeds' spread."""
    gap: Optional[derive.Value]
    spread: Optional[float]
    decides: bool

    def text(self):
        if self.gap is None:
            return "no gap of iso_read_ff: nothing tells a loss from a tie"
        beside = f"seeds' sd {self.spread:.4f}" if self.spread is not None else \
            "one seed, so no spread is known"
        word = "enough" if self.decides else "not enough"
        return (f"iso_read_ff lies {self.gap.value:+.4f} nats/token above dense, {beside}: power "
                f"{word} (wanted: at least {POWER_GAP} and {POWER_SPREADS} sd)")


def power(experiment):
    gap, spread = experiment.gap("iso_read_ff"), experiment.seed_spread()
    decides = bool(gap and spread is not None and gap.value >= POWER_GAP
                   and gap.value >= POWER_SPREADS * spread)
    return Power(gap, spread, decides)


def sized(known, figure):
    """The largest trained size of a figure."""
    for size in SIZES:
        if f"{figure}_{size}" in known:
            return known[f"{figure}_{size}"]
    return None


def pair(experiment, rows):
    return ", ".join(f"`{row}` {gap.value:+.4f}" for row in rows
                     if (gap := experiment.gap(row)) is not None)


def tolerance(experiment):
    """Differences of gaps below this are a tie: twice the error of a difference of two seeds."""
    spread = experiment.seed_spread()
    return 2 * math.sqrt(2) * spread if spread is not None else None


def ordered(experiment, rows):
    """Verdict on gaps that should rise along `rows`, against the seeds' spread."""
    gaps = [experiment.gap(row).value for row in rows]
    slack = tolerance(experiment)
    if slack is None:
        return "in the stated order, one seed" if gaps == sorted(gaps) else \
            "not in the stated order, one seed"
    if any(b < a - slack for a, b in zip(gaps, gaps[1:])):
        return "not reproduced"
    return "reproduced" if gaps[-1] > gaps[0] + slack else "tie within the seeds' spread"


def judged(records):
    """[Line]: what the paper says of perplexity, and what these curves say."""
    known = experiments(records)
    lines = []
    for name, paper in (("fig1", _figure1), ("fig3", _figure3), ("fig5", _figure5),
                        ("fig7", _figure7), ("moe", _moe), ("table8", _table8)):
        experiment = sized(known, name)
        if experiment:
            lines += paper(experiment)
    return lines


def _where(experiment):
    return f" ({identifier(experiment.name)})"


def sparse_rows(experiment):
    """[(N, row)] of rows ff_n<N>, N ascending."""
    found = [(int(row[4:]), row) for row in experiment.rows
             if row.startswith("ff_n") and row[4:].isdigit() and experiment.gap(row)]
    return sorted(found)


def _figure1(e):
    strength = power(e)
    lines = []
    both, least = e.gap("ff_qkv"), strength.gap
    claim = "Sparse FF+QKV reaches the dense log-perplexity at equally many parameters (Fig 1)"
    if both and least and least.value > 0:
        share = both.value / least.value
        words = f"gap {both.value:+.4f} nats/token (paper +0.04 with a sparse loss too), " \
                f"{share:.2f} of iso_read_ff's"
        verdict = "reproduced" if share <= ENOUGH else "not reproduced"
        if not strength.decides:
            verdict = f"undecided (it would be: {verdict})"
        lines.append(Line(claim + _where(e), verdict, f"{words}; {strength.text()}"))
    elif both:
        lines.append(Line(claim + _where(e), "undecided", strength.text()))
    sparse = sparse_rows(e)
    if sparse:
        first = sparse[0][1]
        lines += _controls(e, first)
    qkv = [r for r in ("qkv_mult", "qkv_mult_conv") if e.gap(r)]
    if qkv and least and least.value > 0:
        near = all(e.gap(r).value <= ENOUGH * least.value for r in qkv)
        verdict = "reproduced" if near else "not reproduced"
        if not strength.decides:
            verdict = f"undecided (it would be: {verdict})"
        lines.append(Line("Sparse QKV alone is similar to the baseline (Fig 1)" + _where(e),
                          verdict, pair(e, qkv)))
    return lines


def _controls(e, row):
    """Does the sparse feed-forward beat each control by more than seeds explain?"""
    lines = []
    for control, compared, words in (
            ("iso_read_ff", row, "a dense feed-forward with as many weights read a token"),
            ("iso_read_model", "ff_qkv", "a narrower dense model with as many weights read"),
            ("random_controller", row, "a controller that is never trained"),
            ("hash_selector", row, "a hash of the token id")):
        mine, theirs = e.gap(compared), e.gap(control)
        if mine is None or theirs is None:
            continue
        slack = tolerance(e)
        lead = theirs.value - mine.value
        if slack is None:
            verdict = ("ahead" if lead > 0 else "behind") + ", one seed"
        else:
            verdict = "yes" if lead > slack else "no" if lead < -slack else "tie"
        lines.append(Line(f"`{compared}` beats {words}: `{control}`" + _where(e), verdict,
                          f"{pair(e, (compared, control))}"))
    return lines


def _figure3(e):
    rows = [row for _, row in sparse_rows(e)]
    if len(rows) < 2:
        return []
    return [Line("Log-perplexity grows with N (Fig 3: N=64 as dense, 128 slightly worse)"
                 + _where(e), ordered(e, rows), pair(e, rows))]


def _figure5(e):
    rows = [r for r in e.rows if r.startswith("qkv_mult") and e.gap(r)]
    best = min(rows, key=lambda r: e.gap(r).value, default=None)
    if not best:
        return []
    verdict = "reproduced" if best == "qkv_mult" else "not reproduced"
    if tolerance(e) is None:
        verdict += ", one seed"
    return [Line("Of the sparse projections the multiplicative one is best (Fig 5)" + _where(e),
                 verdict, f"best is `{best}`; {pair(e, rows)}")]


def _figure7(e):
    rows = [r for r in ("loss_s2", "loss_s4", "loss_s8") if e.gap(r)]
    if len(rows) < 2:
        return []
    return [Line("A sparse loss degrades slightly with S (Fig 7)" + _where(e), ordered(e, rows),
                 pair(e, rows))]


def _moe(e):
    sparse = sparse_rows(e)
    experts = [r for r in ("moe_block", "moe_switch") if e.gap(r)]
    if not sparse or not experts:
        return []
    row = sparse[0][1]
    slack = tolerance(e)
    leads = [e.gap(r).value - e.gap(row).value for r in experts]
    verdict = "reproduced" if min(leads) > (slack or 0) else \
        "not reproduced" if max(leads) < -(slack or 0) else "partly reproduced"
    if slack is None:
        verdict += ", one seed"
    return [Line("Mixture of experts is worse than the sparse feed-forward (§3.1)" + _where(e),
                 verdict, pair(e, [row, *experts]))]


def _table8(e):
    rows = ("sparse_transformer", "terraformer_175k")
    if not all(e.gap(row) for row in rows):
        return []
    lead = e.gap(rows[0]).value - e.gap(rows[1]).value
    slack = tolerance(e)
    if slack is None:
        verdict = ("reproduced" if lead > 0 else "not reproduced") + ", one seed"
    else:
        verdict = "reproduced" if lead > slack else \
            "not reproduced" if lead < -slack else "tie within the seeds' spread"
    return [Line("A Terraformer with 4 × the batch and 0.35 of the steps comes below the sparse "
                 "Transformer (Table 8: 1.59 against 1.61)" + _where(e), verdict, pair(e, rows))]


def newest(records):
    """For live redrawing: the experiment written to last."""
    dated = [(r.get("date") or "", name) for name in trained(records)
             for r in records.history(name)]
    return max(dated)[1] if dated else None
