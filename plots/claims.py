"""The paper's claims about decoding speed and memory, each with a verdict computed from the records."""

import derive
import goals
import paper
import reversibility
import sweep_tables

FLAT = 1.1  # growth of what is kept, from the shallowest to the deepest stack, that is none
LITTLE = 0.1  # a token's time changes little up to this share
CLOSE = 0.95  # a speed-up counts as reproduced from this share of the paper's on


NOT_MEASURED = "not measured"


class Judge:
    """Collects one line a claim; all figures at one thread count."""

    def __init__(self, records, threads):
        self.records, self.threads, self.lines = records, threads, []

    def figure(self, experiment, row, ending):
        return derive.row_figures(self.records, experiment, row, self.threads).get(ending)

    def add(self, claim, verdict, evidence):
        self.lines.append((claim, verdict, evidence))

    def missing(self, claim, command=goals.RUN):
        """The line of a claim whose records are missing, and the command that measures them."""
        self.add(claim, NOT_MEASURED, command)

    def speedup(self, claim, experiment, row, ending, command=goals.RUN):
        """At least CLOSE of the paper's factor reproduces it; more than 1 is a part of it."""
        ours, theirs = self.figure(experiment, row, ending), paper.published(experiment, row)
        factor = getattr(theirs, ending)
        if ours is None:
            return self.missing(claim, command)
        verdict = "not reproduced"
        if ours.value >= CLOSE * factor:
            verdict = "reproduced"
        elif ours.value - 2 * ours.spread > 1:
            verdict = "partly reproduced"
        if ours.status == "untrusted":
            verdict += " but untrusted"
        bf16 = self.figure(f"{experiment}_bf16", f"{row}.bf16", ending)
        beside = f"; in bf16 {factor_text(bf16)}" if bf16 else ""
        return self.add(claim, verdict, f"paper {factor:.3g}×, ours {factor_text(ours)}{beside}")


def factor_text(value):
    marks = "" if value.status == "ok" else f" ({value.status})"
    return f"{value.value:.3g}×{marks}"


def judged(records, threads):
    """[(claim, verdict, evidence)] in the paper's order."""
    judge = Judge(records, threads)
    judge.speedup("Sparse feed-forward alone makes an 800M token faster (Table 1)",
                  "table1_800m", "ff", "token_speedup")
    _qkv_alone(judge)
    judge.speedup("Sparse FF and QKV together make an 800M token faster (Table 1)",
                  "table1_800m", "ff_qkv", "token_speedup")
    judge.speedup("... and an 800M decoder block (Table 1)", "table1_800m", "ff_qkv",
                  "block_speedup")
    judge.speedup("Sparse FF and QKV together make a 17B token faster (Table 1)",
                  "table1_17b", "ff_qkv_cross", "token_speedup")
    judge.speedup("... and a 17B decoder block (Table 1)", "table1_17b", "ff_qkv_cross",
                  "block_speedup")
    _grows(judge)
    _sparsity(judge)
    _moe(judge)
    judge.speedup("A sparse loss (S=8) makes an 800M token slightly faster (Table 7)",
                  "table7", "s8", "token_speedup")
    judge.speedup("Sparse FF, QKV and loss together make a 17B Terraformer's token faster "
                  "(Table 6)", "table6_17b", "ff_qkv_loss4", "token_speedup", goals.FULL)
    _sparse_loss_17b(judge)
    judge.speedup("An 800M Terraformer decodes faster than the dense Transformer (Table 8)",
                  "table8", "terraformer", "token_speedup", goals.FULL)
    _reversible(judge)
    _exponents(judge)
    return judge.lines


def _qkv_alone(judge):
    claim = "Sparse QKV alone changes an 800M token little (Table 1)"
    ours = judge.figure("table1_800m", "qkv", "token_speedup")
    if ours is None:
        return judge.missing(claim)
    factor = paper.published("table1_800m", "qkv").token_speedup
    verdict = "reproduced" if abs(ours.value - 1) <= LITTLE else "not reproduced"
    opposite = " (opposite sign)" if (factor - 1) * (ours.value - 1) < 0 else ""
    return judge.add(claim, verdict, f"paper {factor:.3g}×, ours {factor_text(ours)}{opposite}")


def _grows(judge):
    claim = "The gain grows with the model: 17B gains more than 800M (§1, Table 1)"
    small = judge.figure("table1_800m", "ff_qkv", "block_speedup")
    large = judge.figure("table1_17b", "ff_qkv_cross", "block_speedup")
    if small is None or large is None:
        return judge.missing(claim)
    same = judge.figure("table1_800m", "ff_qkv_cross", "block_speedup")
    beside = f"; with sparse cross-attention at 800M too: {factor_text(same)}" if same else ""
    hardest = max(small.value, same.value if same else 0)
    verdict = "reproduced" if large.value > hardest else "not reproduced"
    theirs = [paper.published(*row).block_speedup for row in
              (("table1_800m", "ff_qkv"), ("table1_17b", "ff_qkv_cross"))]
    return judge.add(claim, verdict, "block: paper {:.3g}× to {:.3g}×".format(*theirs)
                     + f", ours {factor_text(small)} to {factor_text(large)}{beside}")


def _sparse_loss_17b(judge):
    claim = "... where a sparse loss (S=4) nearly halves the sparse token (Table 6)"
    for suffix in ("", ".bf16"):
        experiment = "table6_17b" + suffix.replace(".", "_")
        gain = derive.ratio(judge.figure(experiment, "ff_qkv" + suffix, "token_ms"),
                            judge.figure(experiment, "ff_qkv_loss4" + suffix, "token_ms"))
        if gain:
            factor = paper.published(experiment, "ff_qkv").token_ms \
                / paper.published(experiment, "ff_qkv_loss4").token_ms
            verdict = "reproduced" if gain.value >= CLOSE * factor else "partly reproduced"
            verdict = verdict if gain.value > 1.05 else "not reproduced"
            weights = " in bf16" if suffix else ""
            return judge.add(claim, verdict,
                             f"paper {factor:.3g}×, ours{weights} {factor_text(gain)}")
    return judge.missing(claim, goals.FULL)


def _reversible(judge):
    claim = "Reversible blocks keep activations from growing with depth (§4.2)"
    found = reversibility.figures(judge.records)
    growth, plain, cost = (found.get(f"reversible.{name}") for name in
                           ("activation_growth", "plain_activation_growth", "step_cost"))
    if growth is None or plain is None:
        return judge.missing(claim, goals.FULL)
    verdict = "reproduced" if growth.value <= FLAT else \
        "partly reproduced" if growth.value < plain.value / 2 else "not reproduced"
    depths = reversibility.depths(judge.records)
    price = f"; a step costs {factor_text(cost)} a plain one" if cost else ""
    return judge.add(claim, verdict,
                     f"a stack of {depths[-1]} blocks keeps {growth.value:.3g}× what "
                     f"{depths[0]} keep, a plain one {plain.value:.3g}×{price}")


def _sparsity(judge):
    claim = "N=128 is a little faster than N=64, both far from dense (Table 2)"
    n64, n128 = (judge.figure("table2", f"n{n}", "token_speedup") for n in (64, 128))
    if n64 is None or n128 is None:
        return judge.missing(claim)
    verdict = "reproduced" if n128.value > n64.value > 1.2 else "not reproduced"
    if min(n64.value, n128.value) > 1.2 and abs(n128.value - n64.value) < n64.spread + n128.spread:
        verdict = "undecided"
    theirs = [paper.published("table2", row).token_speedup for row in ("n64", "n128")]
    return judge.add(claim, verdict, "paper {:.3g}× and {:.3g}×".format(*theirs)
                     + f", ours {factor_text(n64)} and {factor_text(n128)}, ± "
                     f"{max(n64.spread, n128.spread):.1g}")


def _moe(judge):
    claim = "Sparse feed-forward decodes faster than mixture-of-experts (§3.1)"
    sparse, experts = (judge.figure("table2", row, "token_ms") for row in ("n64", "moe64"))
    if sparse is None or experts is None:
        return judge.missing(claim)
    verdict = "reproduced" if sparse.value + sparse.spread + experts.spread < experts.value \
        else "not reproduced"
    theirs = [paper.published("table2", row).token_ms for row in ("n64", "moe64")]
    evidence = "paper {:.3g} ms against {:.3g} ms".format(*theirs) \
        + f", ours {sparse.value:.3g} ms against {experts.value:.3g} ms"
    if verdict == "not reproduced":
        evidence += "; both read about as many weights, so a fair implementation of both must tie"
    return judge.add(claim, verdict, evidence)


def _exponents(judge):
    claim = "Decoding cost grows as d^1.5 where the dense model's grows as d^2 (§1, §3.2)"
    fits = derive.width_exponents(judge.records, judge.threads)
    if ("sparse", "bytes") not in fits or ("sparse", "time") not in fits:
        return judge.missing(claim)
    parts = [f"{what} {fits['dense', what].value:.2f} dense, "
             f"{fits['sparse', what].value:.2f} sparse" for what in ("bytes", "flops", "time")
             if ("dense", what) in fits and ("sparse", what) in fits]
    verdicts = {what: fits["sparse", what].value <= 1.6 for what in ("bytes", "time")}
    verdict = {2: "reproduced", 1: "partly reproduced", 0: "not reproduced"}[sum(verdicts.values())]
    if any(fits[key].status == "untrusted" for key in fits if key[1] == "time"):
        verdict += " but untrusted"
    over = derive.floors_over_bytes(judge.records, judge.threads).get("sparse", {})
    return judge.add(claim, verdict, "exponents of a block: " + "; ".join(parts) + ". The "
                     "claim counts weights; the multiplicative layer's FLOPs stay d², which bends "
                     "the time. " + sweep_tables.floor_over_bytes_text(over))
