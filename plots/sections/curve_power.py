"""How gaps are judged: the power of an experiment, its tolerance, and the lines of a verdict.

All gaps and differences are in nats per token.
"""

import math
from typing import NamedTuple

import training_curves
from claims import Verdict
from values import Value

# What a run must show to decide anything, and what share of iso_read_ff's gap is enough.
POWER_GAP, POWER_SPREADS, ENOUGH = 0.1, 5, 0.25
SURE = 2  # a difference counts from so many standard errors of a difference of two seeds


class Power(NamedTuple):
    """Whether an experiment can decide: the gap of iso_read_ff against what seeds do."""

    gap: Value | None
    spread: float | None  # sd of log-perplexities over seeds, pooled over rows
    paired: float | None  # sd of that gap, taken seed by seed

    @property
    def decides(self):
        if self.gap is None or self.spread is None or self.paired is None:
            return False
        return self.gap.value >= max(
            POWER_GAP, POWER_SPREADS * self.spread, POWER_SPREADS * self.paired
        )

    def text(self):
        if self.gap is None:
            return "no gap of iso_read_ff: nothing tells a loss from a tie"
        beside = "one seed, so no sd is known"
        if self.spread is not None:
            paired = f"{self.paired:.4f}" if self.paired is not None else "unknown"
            beside = f"sd over seeds {self.spread:.4f} of log-perplexities, {paired} of this gap"
        word = "enough" if self.decides else "not enough"
        return (
            f"iso_read_ff lies {self.gap.value:+.4f} nats/token above dense, {beside}: power "
            f"{word} (wanted: at least {POWER_GAP} and {POWER_SPREADS} of either sd)"
        )


def power(experiment):
    gap = experiment.gap("iso_read_ff")
    paired = gap.sd if len(experiment.shared_seeds("iso_read_ff")) > 1 else None
    return Power(gap, experiment.seed_spread(), paired)


def figure1_beside(experiment, known):
    """Figure 1 of the same size, if it has the same text and baseline; or None."""
    figure1 = training_curves.known_as(known, "fig1." + experiment.id.rpartition(".")[2])
    same = figure1 and figure1 is not experiment and training_curves.alike(experiment, figure1)
    return figure1 if same else None


class Verdicts:
    """Collects the lines of one experiment.

    What it does not know, a spread over seeds and the gap of iso_read_ff, it takes from Figure 1
    of the same size, text and baseline among `known`, all experiments by name.
    """

    def __init__(self, experiment, known):
        self.e, self.lines, self.reference = experiment, [], ""
        beside = figure1_beside(experiment, known)
        spread = experiment.seed_spread()
        if spread is None and beside and (spread := beside.seed_spread()) is not None:
            self.reference = f" (sd of {beside.id})"
        self.slack = SURE * math.sqrt(2) * spread if spread is not None else None
        measured = experiment if experiment.gap("iso_read_ff") or not beside else beside
        self.power = power(measured)
        self.yardstick = f"{measured.id}'s iso_read_ff"

    def add(self, claim, verdict, evidence, rows=()):
        """A line, with those of the rows that are missing because they failed."""
        parts = [evidence] if evidence else []
        parts += [
            f"`{row}` {self.e.state(row)}"
            for row in rows
            if self.e.gap(row) is None and self.e.failures(row)
        ]
        where = f" ({self.e.id})"
        self.lines.append(Verdict(claim + where, verdict, "; ".join(parts)))

    def lacking(self, claim, rows):
        """The line of a claim that cannot be judged; none while its rows have only not ended."""
        if any(self.e.failures(row) for row in rows):
            self.add(claim, "not judged", "", rows)

    def sign(self, difference):
        """1, a tie's 0, or -1."""
        slack = self.slack or 0
        return (difference > slack) - (difference < -slack)

    def order(self, row, over):
        """1 if `row` lies below `over`, 0 if they tie, -1."""
        return self.sign(self.e.gap(over).value - self.e.gap(row).value)

    def said(self, verdict):
        """A verdict with what it was judged by, if not the spread over the experiment's seeds."""
        return verdict + (", one seed" if self.slack is None else self.reference)

    def agrees(self, sign):
        return self.said(
            {1: "reproduced", 0: "tie within the seeds' spread", -1: "not reproduced"}[sign]
        )

    def hedged(self, verdict):
        return verdict if self.power.decides else f"undecided (it would be: {verdict})"

    def gaps(self, rows):
        return ", ".join(
            f"`{row}` {gap.value:+.4f}" for row in rows if (gap := self.e.gap(row)) is not None
        )

    def ordered(self, claim, rows):
        """Gaps should rise along the rows: none falls, and the last lies above the first."""
        found = [row for row in rows if self.e.gap(row)]
        if len(found) < 2:
            return self.lacking(claim, rows)
        falls = any(self.order(later, sooner) > 0 for sooner, later in zip(found, found[1:]))
        sign = -1 if falls else self.order(found[0], found[-1])
        return self.add(claim, self.agrees(sign), self.gaps(found), rows)

    def close(self, claim, rows):
        """Gaps that count as none: a quarter of iso_read_ff's at most, or within the tolerance."""
        found = [row for row in rows if self.e.gap(row)]
        if not found:
            return self.lacking(claim, rows)
        limits = [(self.slack, "the seeds' spread")] if self.slack is not None else []
        least = self.power.gap
        if least:
            limits.append((ENOUGH * least.value, f"{ENOUGH} of {self.yardstick}"))
        if not limits:
            return self.add(
                claim,
                "undecided: one seed, and no `iso_read_ff` to measure by",
                self.gaps(found),
                rows,
            )
        limit, words = max(limits)
        near = [self.e.gap(row).value <= limit for row in found]
        verdict = (
            "reproduced" if all(near) else "partly reproduced" if any(near) else "not reproduced"
        )
        verdict = (self.hedged(verdict) if least else verdict) + self.reference
        return self.add(
            claim, verdict, f"{self.gaps(found)}; close: up to {limit:+.4f}, {words}", rows
        )
