"""What the paper says of perplexity, and what our curves say, claim by claim: each a contrast that contrasts.py judges.

A figure is judged at its largest size whose curves are finished. The frontier's models, every row at a learning rate of its
own, come before figures of their own, but for those of more tokens whose rows have rates of their own, too; a claim about rows that Figure 1 has at a larger
budget, each at its own rate too, is judged there, and says what it was at the frontier's.
"""

import math
from typing import NamedTuple

import contrasts
import held_out
import paper
import section
import training_curves
from claims import Verdict
from report import count, ends, nats

NEURONS = 128  # d_ff / N where N stands for the paper's 64 (4096 / 64 there)
YARDSTICK = (
    "iso_read_ff"  # what a loss is a share of: a dense feed-forward with as few weights read
)
# Share of steps in which a model knows no more than how often tokens come: above, a row's nats are those of its start.
PLATEAU, LONG_PLATEAU = "plateau_share", 0.1
ONE_RATE = "decides nothing (one learning rate for all)"
HARD = "{}_hard"  # a row with hard_probability = 1, as the controls below have it
REGIMES = "`{}` selects hard in every step of training, `{}` in the released code's share of them"

# Control: (what it is compared with unless it was made with the reads of another row, words, always selects hard).
CONTROLS = {
    "iso_read_ff": ("sparse", "a dense feed-forward with as many weights read a token", False),
    "iso_read_model": ("ff_qkv", "a narrower dense model with as many weights read", False),
    "random_controller": ("sparse", "a controller that is never trained", True),
    "hash_selector": ("sparse", "a hash of the token id", True),
}

CHOICES = (
    "random_controller",
    "hash_selector",
)  # controls that choose as many neurons as what they control
ALWAYS_HARD = "hard_always"  # what recipes call ff_n16 with hard_probability = 1


class Claim(NamedTuple):
    """A contrast that was named before the run; below 0 as the claim says, or above."""

    words: str
    weights: dict  # {row: weight}
    is_above: bool = False
    note: str = ""
    unit: str = ""  # of the contrast, if not nats a token

    def verdict(self, judged):
        words = ("reproduced", "not reproduced")
        return judged.verdict(*(reversed(words) if self.is_above else words))


class WithYardstick:
    """An experiment with Figure 1's YARDSTICK where it has none: as far above its baseline as there, seed by seed."""

    def __init__(self, experiment, figure1):
        self._experiment, self._figure1 = experiment, figure1

    def by_seed(self, row, metric):
        own = self._experiment.by_seed(row, metric)
        if own or row != YARDSTICK or self._figure1 is None:
            return own
        small, there = (self._figure1.by_seed(r, metric) for r in (row, self._figure1.baseline))
        here = self._experiment.by_seed(self._experiment.baseline, metric)
        return {
            seed: record | {"value": record["value"] - there[seed]["value"] + here[seed]["value"]}
            for seed, record in small.items()
            if seed in there and seed in here
        }


def figure1_beside(experiment, known):
    """Figure 1 of the same size, if it has the same text and baseline; or None."""
    figure1 = training_curves.known_as(known, "fig1." + experiment.id.rpartition(".")[2])
    same = figure1 and figure1 is not experiment and training_curves.alike(experiment, figure1)
    return figure1 if same else None


def sparse_rows(experiment):
    """[(N, row)] of rows ff_n<N> that were planned, N ascending."""
    return numbered(experiment, "ff_n")


def numbered(experiment, prefix):
    """[(number, row)] of planned rows <prefix><number>, ascending."""
    return sorted(
        (int(row.removeprefix(prefix)), row)
        for row in experiment.planned
        if row.startswith(prefix) and row.removeprefix(prefix).isdigit()
    )


def equivalent(experiment):
    """The row that stands for the paper's N = 64: N = d_ff / 128, else the least N; or None."""
    rows = sparse_rows(experiment)
    d_ff = experiment.setting(experiment.baseline, "d_ff")
    least = rows[0][1] if rows else None
    return next((row for n, row in rows if n * NEURONS == d_ff), least)


def close(experiment, words, row):
    """That a row loses at most a quarter of what the yardstick loses."""
    return Claim(words, contrasts.beyond_a_share(row, experiment.baseline, YARDSTICK))


def below(words, row, other, note=""):
    return Claim(words, contrasts.difference(row, other), note=note)


def grows(experiment, words, rows, letter):
    """[Claim] that nats rise with the logarithm of [(number, row)]; of the rows that have results; empty of one."""
    found = {
        row: math.log2(number) for number, row in rows if experiment.by_seed(row, contrasts.METRIC)
    }
    if len(found) < 2:
        return []
    lacking = [f"`{row}`" for _, row in rows if row not in found]
    note = f"without {', '.join(lacking)}" if lacking else ""
    unit = f" nats a doubling of {letter}"
    return [Claim(words, contrasts.growth(found), is_above=True, note=note, unit=unit)]


def _figure1(e):
    claims = [
        close(
            e,
            "Sparse FF+QKV reaches the dense log-perplexity at equally many parameters (Fig 1): it loses "
            f"at most a quarter of what `{YARDSTICK}` does",
            "ff_qkv",
        )
    ]
    for control, (compared, words, is_hard) in CONTROLS.items():
        if control not in e.planned:
            continue
        made_for = e.setting(control, "reference_row")
        row = equivalent(e) if compared == "sparse" else compared
        if made_for != e.baseline and made_for in e.planned:
            row = made_for
        if row is None:
            continue
        note = ""
        if is_hard and HARD.format(row) in e.planned:
            row = HARD.format(row)
        elif is_hard:
            note = REGIMES.format(control, row)
        claims.append(below(f"`{row}` beats {words}: `{control}`", row, control, note))
    claims += [
        close(e, f"Sparse QKV alone is similar to the baseline (Fig 1): `{row}`", row)
        for row in ("qkv_mult", "qkv_mult_conv")
        if row in e.planned
    ]
    return claims


def _controls(e):
    """All of them select hard in every step of training, each at a rate of its own."""
    return [
        below(f"`{ALWAYS_HARD}` beats {CONTROLS[row][1]}: `{row}`", ALWAYS_HARD, row)
        for row in CHOICES
        if row in e.planned
    ]


def _figure3(e):
    row = equivalent(e)
    claims = (
        [close(e, f"`{row}`, for the paper's N=64, is close to dense (Fig 3)", row)] if row else []
    )
    return claims + grows(
        e, "Log-perplexity grows with N (Fig 3: N=128 slightly worse)", sparse_rows(e), "N"
    )


def _figure5(e):
    best = "qkv_mult_conv"
    claims = [
        below(
            f"`{best}` is better than `{other}` (Fig 5: multiplication with convolution is best)",
            best,
            other,
        )
        for other in ("qkv_conv", "qkv_conv_taps", "qkv_local", "qkv_low_rank")
        if other in e.planned
    ]
    started, other = (f"{row}_taps" for row in (best, "qkv_conv"))
    if started in e.planned and other in e.planned:
        words = (
            f"`{started}` is better than `{other}`, both begun with the variance of one tap (Fig 5)"
        )
        claims.append(below(words, started, other))
    claims += [
        close(e, f"Multiplication with convolution is close to dense (Fig 5): `{row}`", row)
        for row in e.planned
        if row.startswith(best)
    ]
    if "qkv_mult" in e.planned:
        claims.append(
            below(
                'Multiplication alone even improves log-perplexity (Fig 5: "multi-layer")',
                "qkv_mult",
                e.baseline,
            )
        )
    return claims


def _figure7(e):
    rows = numbered(e, "loss_s")
    claims = [
        close(e, f"A sparse loss degrades only slightly (Fig 7): `{row}`", row) for _, row in rows
    ]
    return claims + grows(e, "... and the more, the larger S (Fig 7)", rows, "S")


def _experts(e):
    """As released, and with all selecting hard in every call of training, as moe_switch always does."""
    claims, row = [], equivalent(e)
    hard = HARD.format(row)
    for ours, theirs in (
        (row, "moe_block"),
        (row, "moe_switch"),
        (hard, HARD.format("moe_block")),
        (hard, "moe_switch"),
    ):
        if ours in e.planned and theirs in e.planned:
            words = f"Mixture of experts is worse than the sparse feed-forward (§3.1): `{theirs}` than `{ours}`"
            note = REGIMES.format(theirs, ours) if (ours, theirs) == (row, "moe_switch") else ""
            claims.append(below(words, ours, theirs, note))
    return claims


def _table8(e):
    rows = ("terraformer_175k", "sparse_transformer")
    if not all(row in e.planned for row in rows):
        return []
    return [
        below(
            "A Terraformer with 4 × the batch and 0.35 of the steps comes below the sparse "
            f"Transformer (Table 8: {paper.log_perplexity('terraformer', 175000)} against "
            f"{paper.log_perplexity('sparse_transformer_ff_qkv_loss')})",
            *rows,
        )
    ]


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


OF_FRONTIER = ("fig3", "fig5", "fig7", "moe", "table8")  # Figure 1 has budgets of its own

# Figure, the rows without which a smaller size is judged, what it claims.
FIGURES = (
    ("fig1", _always("ff_qkv", YARDSTICK), _figure1),
    ("c4", _always("ff_qkv", YARDSTICK), _figure1),
    ("hour", _always("ff_qkv", YARDSTICK), _figure1),
    ("controls", _always(*CHOICES), _controls),
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


def controls(records):
    """{name: Experiment} of controls of the choice, which stand among those that change one thing."""
    found = (
        training_curves.Experiment(records, about.name)
        for about in records.of(section.of("training", "factors"))
        if about.id.startswith("controls.")
    )
    return {e.name: e for e in found if e.rows}


def sizes(known, figure):
    """A figure's own experiments, the largest first."""
    ids = (*(f"{figure}.{size}" for size in ("5m", "1m5", *training_curves.SIZES)), figure)
    return [e for e in (training_curves.known_as(known, i) for i in ids) if e]


def at_frontier(known, figure, needed):
    """[The frontier], if that has all rows of the figure that are needed."""
    frontier = training_curves.known_as(known, "frontier")
    if figure not in OF_FRONTIER or frontier is None or lacks(frontier, needed(frontier)):
        return []
    return [frontier]


def is_larger(experiment, frontier):
    """Whether a figure of its own, every row at its own rate, was trained on more tokens of the same text."""
    base = experiment.baseline
    return (
        (experiment.data, base) == (frontier.data, frontier.baseline)
        and experiment.tokens(base) > frontier.tokens(base)
        and not has_one_rate(experiment)
    )


def at_larger_budget(experiment, known, claim):
    """Figure 1 at the largest budget above an experiment's that has all rows of a claim in enough seeds; or None.

    Of budgets that have fewer, the one with the most, two at least: fewer seeds do not displace a verdict of more.
    """
    tokens = experiment.tokens(experiment.baseline)
    found = [
        (min(value.seeds, contrasts.FEW), e.tokens(e.baseline), e)
        for e in known.values()
        if e.id.startswith("fig1.")
        and contrasts.named(e)
        and (e.data, e.baseline) == (experiment.data, experiment.baseline)
        and e.tokens(e.baseline) > tokens
        and not has_one_rate(e)
        and (value := contrasts.weighted(e, claim.weights))
        and value.seeds > 1
    ]
    return max(found, key=lambda one: one[:2], default=(None,))[-1]


def at_smaller_budget(experiment, claim):
    value = contrasts.weighted(experiment, claim.weights)
    at = f"at {count(experiment.tokens(experiment.baseline))} tokens ({experiment.id})"
    return f"{at} {nats(value)}, {contrasts.seeds_text(value.seeds)}" if value else f"{at} no seed"


def lacks(experiment, rows):
    """Why an experiment cannot be judged yet, in words; empty if it can."""
    missing = [row for row in rows if experiment.gap(row) is None]
    if not missing:
        return ""
    states = [
        f"`{row}` ({experiment.state(row)})"
        for row in missing
        if not experiment.by_seed(row, contrasts.METRIC)
    ]
    return f"{experiment.id} lacks " + (
        ", ".join(states) or f"`{experiment.baseline}` of the same seeds"
    )


def has_one_rate(experiment):
    """Whether all rows were trained at one learning rate: it suits some better than others, so that none is told apart."""
    rates = [experiment.setting(row, "learning_rate") for row in experiment.rows]
    known = list(filter(None, rates))
    return len(known) > 1 and len(set(known)) == 1


def judged(records, figures=()):
    """[Verdict]: what the paper says of perplexity, and what these curves say; of some figures, or all.

    Of experiments whose rows name what they are judged by, quality.py has them.
    """
    known = training_curves.experiments(records) | controls(records)
    lines = []
    for figure, needed, claims_of in FIGURES:
        if figures and figure not in figures:
            continue
        own = [e for e in sizes(known, figure) if not contrasts.named(e)]
        frontier = at_frontier(known, figure, needed)
        larger = [e for e in own if frontier and is_larger(e, frontier[0])]
        experiments = [*larger, *frontier] if frontier else own
        if experiments:
            lines += _at_largest(experiments, known, needed, claims_of)
    return lines


def _at_largest(experiments, known, needed, claims_of):
    """Lines of the largest finished size, else of the largest; the first says what others lack."""
    missing = [lacks(e, needed(e)) for e in experiments]
    at = missing.index("") if "" in missing else 0
    lines = _lines(experiments[at], known, claims_of)
    if lines and at > 0:
        lines[0] = lines[0]._replace(evidence="; ".join([lines[0].evidence, *missing[:at]]))
    return lines


def _lines(figure, known, claims_of):
    """A Verdict a claim that has a seed of all its rows, or lacks one that failed; all of them count for Holm's steps."""
    claims = claims_of(figure)
    beside = figure1_beside(figure, known)
    at = {claim.words: at_larger_budget(figure, known, claim) or figure for claim in claims}
    said = contrasts.judge(
        contrasts.contrast(claim.words, WithYardstick(at[claim.words], beside), claim.weights)
        for claim in claims
    )
    lines = []
    for claim in claims:
        one, experiment = said[claim.words], at[claim.words]
        decides = not has_one_rate(experiment)
        failed = [
            f"`{row}` {experiment.state(row)}"
            for row in claim.weights
            if not experiment.by_seed(row, contrasts.METRIC) and experiment.failures(row)
        ]
        if not one.contrast.value and not failed:
            continue
        parts = (
            [*evidence(experiment, claim, one, decides), *failed] if one.contrast.value else failed
        )
        borrowed = (
            one.contrast.value
            and YARDSTICK in claim.weights
            and not experiment.by_seed(YARDSTICK, contrasts.METRIC)
        )
        if borrowed:
            parts.append(f"`{YARDSTICK}` of {beside.id}")
        if experiment is not figure:
            parts.append(at_smaller_budget(figure, claim))
        verdict = "not judged"
        if one.contrast.value:
            verdict = claim.verdict(one) if decides else ONE_RATE
        words, value = f"{claim.words} ({experiment.id})", one.contrast.value
        lines.append(Verdict(words, verdict, "; ".join(parts), value=value))
    return lines


def evidence(experiment, claim, one, decides):
    """[gaps of its rows, the contrast with its intervals, seeds, how many would decide, what else there is to know].

    decides: whether seeds can decide it at all.
    """
    value = one.contrast.value
    gaps = ", ".join(
        f"`{row}` {gap.value:+.4f}"
        for row in claim.weights
        if row != experiment.baseline and (gap := experiment.gap(row))
    )
    parts = [f"gaps {gaps}"] if gaps else []
    parts.append(f"contrast {nats(value)}{claim.unit}")
    text = held_out.over_text(experiment, claim.weights)
    if text:
        parts.append(
            f"over text{ends(text.value)} ({text.stretches} stretches, {count(text.tokens)} tokens)"
        )
    parts += [contrasts.seeds_text(value.seeds), one.wanted() if decides else "", claim.note]
    parts += [
        f"`{row}` reads all of its weights, as many as `{experiment.baseline}`: its own equal reads would lose nothing"
        for row in claim.weights
        if YARDSTICK in claim.weights and reads_all(experiment, row)
    ]
    parts += [
        f"`{row}` spends {share.value:.0%} of its steps on the plateau"
        for row in claim.weights
        if (share := experiment.result(row, PLATEAU)) and share.value > LONG_PLATEAU
    ]
    if decides and one.sign == (-1 if claim.is_above else 1):
        parts += [selections(experiment, row) for row in claim.weights]
    return [part for part in parts if part]


def reads_all(experiment, row):
    """Whether a row beside the baseline has its parameters and chooses none of them, so that it reads as many."""
    beside = row not in (experiment.baseline, YARDSTICK)
    return beside and experiment.setting(row, "feed_forward") == "dense"


def selections(experiment, row):
    """What may explain a sparse row's gap: N, steps, the gap on the way, hard against soft, entropy; empty of others."""
    difference, entropy = (
        experiment.result(row, metric) for metric in ("hard_soft_gap", "selection_entropy")
    )
    if not difference and not entropy:
        return ""
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
    if difference:
        parts.append(f"hard − soft {difference.value:+.4f}")
    if entropy:
        most = f" of at most {math.log(n):.2f}" if n else ""
        parts.append(f"selection entropy {entropy.value:.2f}{most} nats")
    return f"`{row}`: " + ", ".join(parts)
