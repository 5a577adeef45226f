"""What the paper says of perplexity, and what our curves say, claim by claim.

A figure is judged at its largest size whose curves are finished.
"""

import math

import contrasts
import paper
import training_curves
from sections.curve_power import ENOUGH, Verdicts

NEURONS = 128  # d_ff / N where N stands for the paper's 64 (4096 / 64 there)

# Control: (what it is compared with unless it was made with the reads of another row, words).
CONTROLS = {
    "iso_read_ff": ("sparse", "a dense feed-forward with as many weights read a token"),
    "iso_read_model": ("ff_qkv", "a narrower dense model with as many weights read"),
    "random_controller": ("sparse", "a controller that is never trained"),
    "hash_selector": ("sparse", "a hash of the token id"),
}


def sparse_rows(experiment):
    """[(N, row)] of rows ff_n<N>, N ascending."""
    return sorted(
        (int(row[4:]), row)
        for row in experiment.rows
        if row.startswith("ff_n") and row[4:].isdigit()
    )


def equivalent(experiment):
    """The row that stands for the paper's N = 64: N = d_ff / 128, else the least N; or None."""
    rows = sparse_rows(experiment)
    d_ff = experiment.setting(experiment.baseline, "d_ff")
    least = rows[0][1] if rows else None
    return next((row for n, row in rows if n * NEURONS == d_ff), least)


def control_leads(verdicts):
    """[(row, control, lead)] of the controls that are there."""
    e, found = verdicts.e, []
    for control, (compared, _) in CONTROLS.items():
        made_for = e.setting(control, "reference_row")
        row = equivalent(e) if compared == "sparse" else compared
        if made_for != e.baseline and e.gap(made_for):
            row = made_for
        if e.gap(row) and e.gap(control):
            found.append((row, control, verdicts.order(row, control)))
    return found


def _figure1(verdicts):
    leads = control_leads(verdicts)
    _enough(verdicts, leads)
    words = (
        {1: "yes", 0: "tie", -1: "no"}
        if verdicts.slack is not None
        else {1: "ahead", 0: "tie", -1: "behind"}
    )
    for row, control, lead in leads:
        verdicts.add(
            f"`{row}` beats {CONTROLS[control][1]}: `{control}`",
            verdicts.said(words[lead]),
            verdicts.gaps((row, control)),
        )
    verdicts.close(
        "Sparse QKV alone is similar to the baseline (Fig 1)", ("qkv_mult", "qkv_mult_conv")
    )


def _enough(verdicts, leads):
    """FF+QKV against a quarter of iso_read_ff's gap, and the controls."""
    claim = "Sparse FF+QKV reaches the dense log-perplexity at equally many parameters (Fig 1)"
    e, rows = verdicts.e, ("ff_qkv", *CONTROLS)
    both, least = e.gap("ff_qkv"), verdicts.power.gap
    if both is None:
        return verdicts.lacking(claim, rows[:1])
    if least is None or least.value <= 0:
        return verdicts.add(claim, "undecided", verdicts.power.text(), rows)
    share = both.value / least.value
    reasons = (
        [f"its gap is {share:.2f} of iso_read_ff's, where {ENOUGH} is enough"]
        if share > ENOUGH
        else []
    )
    reasons += [
        f"`{row}` {'only ties' if lead == 0 else 'is behind'} `{control}`"
        for row, control, lead in leads
        if lead < 1
    ]
    missing = [f"`{c}`" for c in CONTROLS if c not in (control for _, control, _ in leads)]
    verdict = "enough: yes"
    if reasons:
        verdict = "enough: no, because " + " and ".join(reasons)
    elif missing:
        verdict = "close enough, but not compared with " + ", ".join(missing)
    theirs = paper.log_perplexity("sparse_transformer_ff_qkv_loss") - paper.log_perplexity(
        "baseline_transformer"
    )
    evidence = [
        f"gap {both.value:+.4f} nats/token (paper {theirs:+.2f} with a sparse loss too), "
        f"{share:.2f} of iso_read_ff's"
    ]
    if reasons:
        evidence += filter(None, (selections(e, row) for row in (equivalent(e), "ff_qkv")))
    return verdicts.add(
        claim, verdicts.hedged(verdict), "; ".join([*evidence, verdicts.power.text()]), rows
    )


def selections(experiment, row):
    """What may explain a gap: N, steps, the gap on the way, hard against soft, entropy."""
    n = experiment.setting(row, "sparsity")
    parts = [
        f"{words} {value}"
        for words, value in (("N", n), ("steps", experiment.setting(row, "steps")))
        if value
    ]
    ours, base = ({p[0]: p[1] for p in experiment.points(r)} for r in (row, experiment.baseline))
    shared = sorted(ours.keys() & base.keys())
    if len(shared) > 1:
        step = shared[(len(shared) - 1) // 2]
        parts.append(f"gap after {step} steps {ours[step] - base[step]:+.4f}")
    difference, entropy = (
        experiment.result(row, metric) for metric in ("hard_soft_gap", "selection_entropy")
    )
    if difference:
        parts.append(f"hard − soft {difference.value:+.4f}")
    if entropy:
        most = f" of at most {math.log(n):.2f}" if n else ""
        parts.append(f"selection entropy {entropy.value:.2f}{most} nats")
    return f"`{row}`: " + ", ".join(parts) if parts else ""


def _figure3(verdicts):
    stands_for = equivalent(verdicts.e)
    if stands_for:
        verdicts.close(
            f"`{stands_for}`, for the paper's N=64, is close to dense (Fig 3)", [stands_for]
        )
    verdicts.ordered(
        "Log-perplexity grows with N (Fig 3: N=128 slightly worse)",
        [row for _, row in sparse_rows(verdicts.e)],
    )


def _figure5(verdicts):
    e = verdicts.e
    rows = [row for row in e.rows if row.startswith("qkv_")]
    products = [row for row in rows if row.startswith("qkv_mult")]
    others = [row for row in rows if row not in products]
    claim = "Of the sparse projections a multiplicative one, with convolution or without, is best"
    best, other = (
        min((row for row in some if e.gap(row)), key=lambda row: e.gap(row).value, default=None)
        for some in (products, others)
    )
    if best and other:
        verdicts.add(
            claim,
            verdicts.agrees(verdicts.order(best, other)),
            f"best are `{best}` and `{other}`; {verdicts.gaps(rows)}",
            rows,
        )
    else:
        verdicts.lacking(claim, rows)
    verdicts.close(
        "Multiplication with convolution is close to dense over S and F (Fig 5)",
        [row for row in products if row.startswith("qkv_mult_conv")],
    )
    claim = 'Multiplication alone even improves log-perplexity (Fig 5: "multi-layer")'
    if e.gap("qkv_mult"):
        verdicts.add(
            claim,
            verdicts.agrees(verdicts.sign(-e.gap("qkv_mult").value)),
            verdicts.gaps(["qkv_mult"]),
        )
    else:
        verdicts.lacking(claim, ["qkv_mult"])


def _figure7(verdicts):
    rows = ("loss_s2", "loss_s4", "loss_s8")
    verdicts.close("A sparse loss with S = 2, 4, 8 degrades only slightly (Fig 7)", rows)
    verdicts.ordered("... and the more, the larger S (Fig 7)", rows)


def _experts(verdicts):
    claim = "Mixture of experts is worse than the sparse feed-forward (§3.1)"
    row = equivalent(verdicts.e)
    rows = (*([row] if row else []), *training_curves.EXPERTS)
    found = [expert for expert in training_curves.EXPERTS if verdicts.e.gap(expert)]
    if not verdicts.e.gap(row) or not found:
        return verdicts.lacking(claim, rows)
    leads = {expert: verdicts.order(row, expert) for expert in found}
    worse = sum(lead > 0 for lead in leads.values())
    verdict = (
        "reproduced"
        if worse == len(leads)
        else "partly reproduced"
        if worse
        else "not reproduced"
        if min(leads.values()) < 0
        else "tie within the seeds' spread"
    )
    words = {1: "worse", 0: "tie", -1: "better"}
    each = ", ".join(f"`{expert}` {words[lead]}" for expert, lead in leads.items())
    return verdicts.add(claim, verdicts.said(verdict), f"{each}; {verdicts.gaps(rows)}", rows)


def _table8(verdicts):
    claim = (
        "A Terraformer with 4 × the batch and 0.35 of the steps comes below the sparse "
        f"Transformer (Table 8: {paper.log_perplexity('terraformer', 175000)} against "
        f"{paper.log_perplexity('sparse_transformer_ff_qkv_loss')})"
    )
    rows = ("sparse_transformer", "terraformer_175k")
    if all(verdicts.e.gap(row) for row in rows):
        verdicts.add(claim, verdicts.agrees(verdicts.order(rows[1], rows[0])), verdicts.gaps(rows))
    else:
        verdicts.lacking(claim, rows)


def _always(*rows):
    return lambda experiment: rows


def _sparse_pair(experiment):
    """The paper's N and the next larger one."""
    first = equivalent(experiment)
    rows = sparse_rows(experiment)
    n = next((n for n, row in rows if row == first), 16)
    larger = [row for m, row in rows if m > n] or [f"ff_n{2 * n}"]
    return f"ff_n{n}", larger[0]


def _with_experts(experiment):
    return equivalent(experiment) or "ff_n16", *training_curves.EXPERTS


# Figure, the rows without which a smaller size is judged, what gives the verdicts.
FIGURES = (
    ("fig1", _always("ff_qkv", "iso_read_ff"), _figure1),
    ("c4", _always("ff_qkv", "iso_read_ff"), _figure1),
    ("hour", _always("ff_qkv", "iso_read_ff"), _figure1),
    ("fig3", _sparse_pair, _figure3),
    (
        "fig5",
        _always("qkv_mult", "qkv_mult_conv", "qkv_conv", "qkv_local", "qkv_low_rank"),
        _figure5,
    ),
    ("fig7", _always("loss_s2", "loss_s4", "loss_s8"), _figure7),
    ("moe", _with_experts, _experts),
    ("table8", _always("sparse_transformer", "terraformer_175k"), _table8),
)


def sizes(known, figure):
    """A figure's experiments, the largest first."""
    ids = (*(f"{figure}.{size}" for size in training_curves.SIZES), figure)
    return [e for e in (training_curves.known_as(known, i) for i in ids) if e]


def lacks(experiment, rows):
    """Why an experiment cannot be judged yet, in words; empty if it can."""
    missing = [row for row in rows if experiment.gap(row) is None]
    if not missing:
        return ""
    states = [
        f"`{row}` ({experiment.state(row)})"
        for row in missing
        if not experiment.by_seed(row, "log_perplexity")
    ]
    return f"{experiment.id} lacks " + (
        ", ".join(states) or f"`{experiment.baseline}` of the same seeds"
    )


def judged(records):
    """[Verdict]: what the paper says of perplexity, and what these curves say.

    Of experiments whose rows name what they are judged by, quality.py has them.
    """
    known = training_curves.experiments(records)
    lines = []
    for figure, needed, decide in FIGURES:
        experiments = [e for e in sizes(known, figure) if not contrasts.are_named(e)]
        if experiments:
            lines += _at_largest(experiments, known, needed, decide)
    return lines


def _at_largest(experiments, known, needed, decide):
    """Lines of the largest finished size, else of the largest; the first says what others lack."""
    missing = [lacks(e, needed(e)) for e in experiments]
    at = missing.index("") if "" in missing else 0
    verdicts = Verdicts(experiments[at], known)
    decide(verdicts)
    lines = verdicts.lines
    if lines and at > 0:
        lines[0] = lines[0]._replace(evidence="; ".join([lines[0].evidence, *missing[:at]]))
    return lines
