"""Training curves from records: points over steps, results over seeds, gaps, failures."""

import math
import statistics

import knobs
import section
from values import combine, of_record, over_seeds, setting

SIZES = ("small", "mini")  # the larger one first: it decides
EXPERTS = ("moe_block", "moe_switch")
CORPUS = ("corpus", "text_key", "validation")
# Settings by which the same curve may differ: how its sizes were found, where its text and its first weights lay (`data`
# and `init` are their contents), what multiplied its matrices (to a float's rounding the same), how often it was looked
# at and saved.
INCIDENTAL = ("solve", "reference_row", "twin", "equal_reads", "planned", "cache", "corpus")
INCIDENTAL += ("validation", "init_from", "gemm", "evaluate_every", "checkpoint_every")
SEEDS = ("seed", "data_seed")
# Of fine-tuning, the pre-trained row that a row starts from, where it has another name: two ways to tune one model.
STARTS_AS = {"ff_qkv_soft": "ff_qkv"}
COUNTED = ("params",)  # results that no seed changes


class Experiment:
    """The curves of one experiment that were trained on the same text as its newest record.

    A curve that was trained again replaces its older self: the newest key of a row and seed. One
    whose newest record is a failure has no results. Seeds that were trained with other settings
    (steps, say) than the newest finished one of their row do not count.
    """

    def __init__(self, records, name):
        mine = of_newest_text(records.history(name))
        last = {(r["row"], r["seed"]): r for r in mine}
        mine = [r for r in mine if r.get("key") == last[r["row"], r["seed"]].get("key")]
        self.name = name
        self.id = records.about(name).id
        self.data = next((r["config"]["data"] for r in mine if r["value"] is not None), None)
        self.rows = list(dict.fromkeys(r["row"] for r in mine))
        self.baseline = next((r["against"] for r in mine if r.get("against")), "dense")
        self._failed = {at: r for at, r in last.items() if r["value"] is None}
        self._points, self._results = {}, {}
        for r in mine:
            at = (r["row"], r["seed"])
            if r["metric"] == "evaluation":
                self._points.setdefault(at, {})[r["config"]["step"]] = r
            elif at not in self._failed and r["value"] is not None:
                self._results.setdefault(r["metric"], {})[at] = r
        self._leave_out_other_settings()
        self.planned = _planned(records.history(name), mine)
        # As planned, whatever was trained first.
        self.rows = [row for row in self.planned if row in self.rows]

    def _leave_out_other_settings(self):
        for row in self.rows:
            finished = self.by_seed(row, "log_perplexity")
            if not finished:
                continue
            newest = max(finished.values(), key=lambda r: r.get("date") or "")
            for seed, record in finished.items():
                if settings(record) != settings(newest):
                    for found in (self._points, *self._results.values()):
                        found.pop((row, seed), None)

    def by_seed(self, row, metric):
        """{seed: record} of a result."""
        return {seed: r for (name, seed), r in self._results.get(metric, {}).items() if name == row}

    def setting(self, row, knob):
        """A setting of a finished row, as its newest curve has it, or None."""
        curves = self.by_seed(row, "log_perplexity").values()
        record = max(curves, key=lambda r: r.get("date") or "", default=None)
        return setting(record, knob) if record else None

    def tokens(self, row):
        """That a finished row was trained on, of text; 0 where nothing is finished."""
        return math.prod(self.setting(row, knob) or 0 for knob in ("steps", "batch", "length"))

    def metrics(self):
        """Names of what any finished curve has."""
        return list(self._results)

    def failures(self, row):
        """{seed: reason} of the seeds that failed."""
        return {
            seed: r.get("note") or "no reason given"
            for (name, seed), r in sorted(self._failed.items())
            if name == row
        }

    def state(self, row):
        """Why a row has no result, in words."""
        failures = self.failures(row)
        if failures:
            return "failed: " + "; ".join(dict.fromkeys(failures.values()))
        reached = self.points(row)
        if reached:
            return f"unfinished, reached step {reached[-1][0]}"
        return "no evaluation yet" if row in self.rows else "not trained"

    def result(self, row, metric):
        """Mean over seeds as a Value with their sd; None if nothing ended."""
        value = over_seeds(list(self.by_seed(row, metric).values()))
        if value and metric in COUNTED:
            return value._replace(low=value.value, high=value.value)
        return value

    def gap(self, row):
        """Log-perplexity above the baseline's, seed by seed where both have it."""
        mine, base = (self.by_seed(r, "log_perplexity") for r in (row, self.baseline))
        shared = self.shared_seeds(row)
        pairs = [dict(mine[s], value=mine[s]["value"] - base[s]["value"]) for s in shared]
        value = over_seeds(pairs)
        if value is None:
            return None
        inputs = [of_record(r) for s in shared for r in (mine[s], base[s])]
        found = combine(value.value, value.unit, value.low, value.high, inputs, value.sd)
        return found._replace(seeds=len(shared))

    def shared_seeds(self, row):
        """Seeds that have a result of both the row and the baseline."""
        base = self.by_seed(self.baseline, "log_perplexity")
        return [seed for seed in self.by_seed(row, "log_perplexity") if seed in base]

    def points(self, row):
        """[(step, mean, lowest, highest)] of its finished seeds.

        Where none is finished, those steps that all seeds under way have reached; where none is
        under way, of those that failed.
        """
        begun = {seed: points for (name, seed), points in self._points.items() if name == row}
        seeds = (
            [begun[seed] for seed in self.by_seed(row, "log_perplexity") if seed in begun]
            or [begun[seed] for seed in self.seeds(row) if seed in begun]
            or list(begun.values())
        )
        if not seeds:
            return []
        steps = sorted(set.intersection(*(set(s) for s in seeds)) or set(seeds[0]))
        found = []
        for step in steps:
            values = [s[step]["value"] for s in seeds if step in s]
            found.append((step, statistics.fmean(values), min(values), max(values)))
        return found

    def last_evaluations(self, row):
        """{seed: record of its last point} of every finished seed."""
        finished = {
            seed: self._points.get((row, seed)) for seed in self.by_seed(row, "log_perplexity")
        }
        return {seed: points[max(points)] for seed, points in finished.items() if points}

    def seeds(self, row):
        """Those that have begun and have not failed."""
        begun = {*self._points, *self._results.get("log_perplexity", {})} - {*self._failed}
        return sorted(seed for name, seed in begun if name == row)

    def floor(self):
        for row in self.rows:
            value = self.result(row, "floor")
            if value:
                return value.value
        return None

    def unfinished(self, row):
        """Seeds that have points but no result yet."""
        return [s for s in self.seeds(row) if s not in self.by_seed(row, "log_perplexity")]


def _planned(history, mine):
    """{row: (twin, equal reads) or ()} of all rows that were planned, in the file's order, trained or not.

    As the newest record has it that says so; rows that it does not name, and all of records that do not say, as their
    own records have them.
    """
    text = next((p for r in reversed(history) if (p := setting(r, "planned"))), "")
    found = {}
    for one in filter(None, text.split(",")):
        row, *contrast = one.split(":")
        found[row] = tuple(contrast)
    for r in mine:
        contrast = tuple(setting(r, knob) or "" for knob in ("twin", "equal_reads"))
        if r["row"] not in found or (all(contrast) and not text):
            found[r["row"]] = contrast if all(contrast) else ()
    return found


def of_newest_text(history):
    """Its records of the text that was trained on last. A failure names only its corpus."""

    def corpus(record):
        return tuple(setting(record, knob) for knob in CORPUS)

    usable = [r for r in history if r["value"] is not None and setting(r, "data")]
    newest = usable[-1]["config"]["data"] if usable else None
    corpora = {
        corpus(r) for r in usable if r["config"]["data"] == newest and r["metric"] != "evaluation"
    }

    def counts(record):
        if record["value"] is not None:
            return bool(newest) and setting(record, "data") == newest
        return record["status"] == "failed" and (not corpora or corpus(record) in corpora)

    return [r for r in history if counts(r)]


def settings(record):
    """What a curve was trained with, but for its seeds."""
    return {
        knob: value
        for knob, value in knobs.settings(record).items()
        if knob not in INCIDENTAL + SEEDS
    }


def alike(one, other):
    """Whether two experiments have the same baseline: same text, same settings at a shared seed."""
    mine, theirs = (
        {seed: settings(r) for seed, r in e.by_seed(e.baseline, "log_perplexity").items()}
        for e in (one, other)
    )
    return one.data == other.data and any(mine[s] == theirs[s] for s in mine if s in theirs)


def experiments(records):
    """{name: Experiment} of every training experiment on text in the folder, in the report's order."""
    found = {
        about.name: Experiment(records, about.name) for about in records.of(section.of("training"))
    }
    return {name: e for name, e in found.items() if e.rows}


def known_as(known, about):
    """The experiment of this id, or None."""
    return next((e for e in known.values() if e.id == about), None)
