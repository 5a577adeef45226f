"""The paper's claims about decoding, as Tables 1, 2, 6, 7 and 8 bear on them."""

import math

import decode
import paper
from claims import CLOSE, FAR, FULL, RUN, Verdict, factor_text, missing
from report import interval_text
from values import ratio

LITTLE = 0.1  # a token's time changes little up to this share
ONE_DECODE = "no verdict: one decode"
NO_INTERVAL = "no verdict: no interval"  # of one round, or down to 0


class Verdicts:
    """Collects one verdict a claim; all figures at one thread count."""

    def __init__(self, records, threads):
        self.records, self.threads, self.lines = records, threads, []

    def figure(self, experiment, row, ending):
        return decode.row_figures(self.records, experiment, row, self.threads).get(ending)

    def add(self, claim, verdict, evidence, *figures):
        """figures: Values that the verdict stands on; it is as certain as the least certain of them."""
        doubtful = [figure for figure in figures if figure.status == "untrusted"]
        if any(figure.low == figure.high for figure in doubtful):
            verdict = ONE_DECODE
        elif not all(math.isfinite(figure.high - figure.low) for figure in figures):
            verdict = NO_INTERVAL
        elif doubtful:
            verdict += " but untrusted"
        self.lines.append(Verdict(claim, verdict, evidence))

    def missing(self, claim, command=RUN):
        self.lines.append(missing(claim, command))

    def speedup(self, claim, experiment, row, ending, command=RUN):
        """At least CLOSE of the paper's factor reproduces it; more than 1 is a part of it."""
        ours, theirs = self.figure(experiment, row, ending), paper.published(experiment, row)
        factor = getattr(theirs, ending)
        if ours is None:
            return self.missing(claim, command)
        verdict = "not reproduced"
        if ours.low > FAR * factor:
            verdict = "exceeded"
        elif ours.low >= CLOSE * factor:
            verdict = "reproduced"
        elif ours.low > 1:
            verdict = "partly reproduced"
        bf16 = self.figure(f"{experiment}_bf16", f"{row}.bf16", ending)
        beside = f"; in bf16 {factor_text(bf16)}" if bf16 else ""
        evidence = f"paper {factor:.3g}×, ours {factor_text(ours)}{beside}"
        return self.add(claim, verdict, evidence, ours)


def verdicts(records, _own):
    """At all threads, in the paper's order."""
    verdicts = Verdicts(records, records.all_threads())
    verdicts.speedup(
        "Sparse feed-forward alone makes an 800M token faster (Table 1)",
        "table1_800m",
        "ff",
        "token_speedup",
    )
    _qkv_alone(verdicts)
    verdicts.speedup(
        "Sparse FF and QKV together make an 800M token faster (Table 1)",
        "table1_800m",
        "ff_qkv",
        "token_speedup",
    )
    verdicts.speedup(
        "... and an 800M decoder block (Table 1)", "table1_800m", "ff_qkv", "block_speedup"
    )
    verdicts.speedup(
        "Sparse FF and QKV together make a 17B token faster (Table 1)",
        "table1_17b",
        "ff_qkv_cross",
        "token_speedup",
    )
    verdicts.speedup(
        "... and a 17B decoder block (Table 1)", "table1_17b", "ff_qkv_cross", "block_speedup"
    )
    _grows(verdicts)
    _sparsity(verdicts)
    _moe(verdicts)
    verdicts.speedup(
        "A sparse loss (S=8) makes an 800M token slightly faster (Table 7)",
        "table7",
        "s8",
        "token_speedup",
    )
    verdicts.speedup(
        "Sparse FF, QKV and loss together make a 17B Terraformer's token faster (Table 6)",
        "table6_17b",
        "ff_qkv_loss4",
        "token_speedup",
        FULL,
    )
    _sparse_loss_17b(verdicts)
    verdicts.speedup(
        "An 800M Terraformer decodes faster than the dense Transformer (Table 8)",
        "table8",
        "terraformer",
        "token_speedup",
        FULL,
    )
    return verdicts.lines


def _qkv_alone(verdicts):
    claim = "Sparse QKV alone changes an 800M token little (Table 1)"
    ours = verdicts.figure("table1_800m", "qkv", "token_speedup")
    if ours is None:
        return verdicts.missing(claim)
    factor = paper.published("table1_800m", "qkv").token_speedup
    within = ours.low >= 1 - LITTLE and ours.high <= 1 + LITTLE
    beyond = ours.high < 1 - LITTLE or ours.low > 1 + LITTLE
    verdict = "reproduced" if within else "not reproduced" if beyond else "undecided"
    is_opposite = (factor - 1) * (ours.value - 1) < 0
    if within and is_opposite and not ours.low <= 1 <= ours.high:
        verdict = "partly reproduced"
    opposite = " (opposite sign)" if is_opposite else ""
    evidence = f"paper {factor:.3g}×, ours {factor_text(ours)}{opposite}; little: {100 * LITTLE:g} % to either side"
    return verdicts.add(claim, verdict, evidence, ours)


def _grows(verdicts):
    claim = "The gain grows with the model: 17B gains more than 800M (§1, Table 1)"
    small = verdicts.figure("table1_800m", "ff_qkv", "block_speedup")
    large = verdicts.figure("table1_17b", "ff_qkv_cross", "block_speedup")
    if small is None or large is None:
        return verdicts.missing(claim)
    same = verdicts.figure("table1_800m", "ff_qkv_cross", "block_speedup")
    beside = f"; with sparse cross-attention at 800M too: {factor_text(same)}" if same else ""
    rivals = list(filter(None, (small, same)))
    verdict = "undecided"
    if large.low > max(rival.high for rival in rivals):
        verdict = "reproduced"
    elif large.high < max(rival.low for rival in rivals):
        verdict = "not reproduced"
    theirs = [
        paper.published(*row).block_speedup
        for row in (("table1_800m", "ff_qkv"), ("table1_17b", "ff_qkv_cross"))
    ]
    return verdicts.add(
        claim,
        verdict,
        "block: paper {:.3g}× to {:.3g}×".format(*theirs)
        + f", ours {factor_text(small)} to {factor_text(large)}{beside}",
        *(small, large),
    )


def _sparse_loss_17b(verdicts):
    claim = "... where a sparse loss (S=4) nearly halves the sparse token (Table 6)"
    for suffix in ("", ".bf16"):
        experiment = "table6_17b" + suffix.replace(".", "_")
        gain = ratio(
            verdicts.figure(experiment, "ff_qkv" + suffix, "token_ms"),
            verdicts.figure(experiment, "ff_qkv_loss4" + suffix, "token_ms"),
        )
        if gain:
            factor = (
                paper.published(experiment, "ff_qkv").token_ms
                / paper.published(experiment, "ff_qkv_loss4").token_ms
            )
            verdict = "reproduced" if gain.low >= CLOSE * factor else "partly reproduced"
            verdict = verdict if gain.low > 1.05 else "not reproduced"
            weights = " in bf16" if suffix else ""
            return verdicts.add(
                claim, verdict, f"paper {factor:.3g}×, ours{weights} {factor_text(gain)}", gain
            )
    return verdicts.missing(claim, FULL)


def _sparsity(verdicts):
    claim = "N=128 is a little faster than N=64, both far from dense (Table 2)"
    n64, n128 = (verdicts.figure("table2", f"n{n}", "token_speedup") for n in (64, 128))
    if n64 is None or n128 is None:
        return verdicts.missing(claim)
    verdict = "reproduced" if n128.low > n64.high and n64.low > 1.2 else "not reproduced"
    if min(n64.low, n128.low) > 1.2 and n128.low <= n64.high and n64.low <= n128.high:
        verdict = "undecided"
    theirs = [paper.published("table2", row).token_speedup for row in ("n64", "n128")]
    return verdicts.add(
        claim,
        verdict,
        "paper {:.3g}× and {:.3g}×".format(*theirs)
        + f", ours {factor_text(n64)} and {factor_text(n128)}",
        *(n64, n128),
    )


def _moe(verdicts):
    claim = "Sparse feed-forward decodes faster than mixture-of-experts (§3.1)"
    sparse, experts = (verdicts.figure("table2", row, "token_ms") for row in ("n64", "moe64"))
    if sparse is None or experts is None:
        return verdicts.missing(claim)
    verdict = "undecided"
    if sparse.high < experts.low:
        verdict = "reproduced"
    elif sparse.low >= experts.high:
        verdict = "not reproduced"
    theirs = [paper.published("table2", row).token_ms for row in ("n64", "moe64")]
    evidence = (
        "paper {:.3g} ms against {:.3g} ms".format(*theirs)
        + ", ours "
        + " against ".join(
            f"{value.value:.3g} ms{interval_text(value)}" for value in (sparse, experts)
        )
    )
    if verdict != "reproduced":
        evidence += "; both read about as many weights, so a fair implementation of both must tie"
    return verdicts.add(claim, verdict, evidence, sparse, experts)
