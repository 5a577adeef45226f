"""Quality against measured time: rows of a decode table beside the nats of the curves of the same names.

A decode experiment of section `frontier` times models of one width. Where its rows are as large as the trained ones they
are those models, but for their weights; wider tables time the same layers at the same proportions, where no cache holds
them, beside the nats of the small ones.
"""

import functools
from typing import NamedTuple

import chart
import decode
import knobs
import states
import training_curves
from report import bare, cell, count, header, line, status_mark
from report import nats as nats_cell
from section import Section, of
from sections import curve_verdicts, decode_paths, quality
from values import Value, combine, measured, over_seeds, ratio, setting

OWNS = of("decode", "frontier")
# What makes a timed row the model that was trained, of the knobs that both have.
SAME = (
    "feed_forward",
    "sparsity",
    "d_ff",
    "d_lowrank",
    "experts",
    "projection",
    "modules",
    "kernel_size",
    "projection_rank",
    "loss",
    "loss_modules",
    "loss_rank",
    "recurrence",
    "recurrence_width",
    "attention_layers",
    "decoder_layers",
    "encoder_layers",
    "n_heads",
    "vocab_size",
)
WORDS = (
    "Each row is a model of one size decoded token by token by one thread, one sequence; *nats* are of the "
    "curve of the same name in `{experiment}` ({tokens} tokens, seeds in their interval), *above* those of the "
    "baseline seed by seed: rows are compared by these; beside, where Figure 1 has the row, the same after more "
    "tokens, which may order rows otherwise.{bf16} *On the frontier*: "
    "no other row is both faster and better, in the means and at {tokens} tokens. The ladder, dense over row: what the layer promises "
    "in FLOPs, in weights read and in the sum of its phases' limits, and what a token gains: *measured* is the median of "
    "ratios within rounds where the rows took turns, and so not the quotient of the two times shown. {same}"
)


DECODED = "decode_log_perplexity.f32"
OWN = "_own"  # ends the name of a row's twin that takes the choices of its own, random weights
TWINS = (
    "What trained choices change, in time and in rows of W1 that a decode touches: a row, whose blocks take those of its "
    "trained model's trace, over its twin with the choices of random weights, in the same rounds where there were any."
)


OF_BF16 = (
    " Nats of rows in bf16 are of the seeds whose decode path was followed in bf16, with what that changed; without a seed "
    "there are none."
)
BF16 = ".bf16"  # ends the name of a row that decodes a trained row's weights in bf16
DOT = "_dot"  # before that: activations too


class Point(NamedTuple):
    row: str
    nats: Value
    time: Value  # ms a token


def rows_of(records, experiment):
    """The rows of a table but for twins."""
    return [row for row in records.rows(experiment) if not row.endswith(OWN)]


def trained(row):
    """The row of the curves that a timed one decodes."""
    return row.removesuffix(BF16).removesuffix(DOT) if row.endswith(BF16) else row


def curves_of(records, rows):
    """The Experiment of training that has the most of the rows, of several that of the most tokens; or None."""
    found = [
        (
            sum(e.result(trained(row), "log_perplexity") is not None for row in rows),
            e.tokens(e.baseline),
            e,
        )
        for e in training_curves.experiments(records).values()
        if quality.BUDGET.fullmatch(e.name) or e.name.startswith("frontier")
    ]
    most = max(found, key=lambda one: one[:2], default=(0, 0, None))
    return most[2] if most[0] else None


def ending_of(row):
    """Of a row in bf16 what its name has behind the trained row's; empty of others."""
    return row.removeprefix(trained(row))


def in_bf16(curves, row):
    """{seed: record} of a trained row's nats with what bf16 changed in that seed's decode path; of seeds decoded so."""
    kind = "bf16_dot" if ending_of(row).startswith(DOT) else "bf16"
    shifts = decode_paths.apart(curves, trained(row), f"decode_log_perplexity.{kind}")
    nats = curves.by_seed(trained(row), "log_perplexity")
    return {
        r["seed"]: dict(nats[r["seed"]], value=nats[r["seed"]]["value"] + r["value"])
        for r in shifts
        if r["seed"] in nats
    }


def nats_of(curves, row):
    """Value of a row, its tokens and seeds in it; None if it was not trained, or of one in bf16 never decoded so."""
    if not curves:
        return None
    if not ending_of(row):
        return quality.row_figures(curves, row).get("log_perplexity")
    value = over_seeds([*in_bf16(curves, row).values()])
    return value and value._replace(tokens=curves.tokens(trained(row)))


def above(curves, row):
    """Value of its nats less the baseline's in the same arithmetic, seed by seed; None of the baseline, or if unknown."""
    if not ending_of(row):
        return quality.row_figures(curves, row).get("gap")
    if trained(row) == curves.baseline:
        return None
    mine, base = (in_bf16(curves, name) for name in (row, curves.baseline + ending_of(row)))
    return over_seeds(
        [dict(mine[s], value=mine[s]["value"] - base[s]["value"]) for s in mine if s in base]
    )


def larger_budgets(records, experiment, curves):
    """[Experiment] of Figure 1 with more tokens than the curves and two rows of the table at least, the fewest first."""
    tokens = curves.tokens(curves.baseline)
    return [
        budget
        for budget in quality.by_budget(records)
        if budget.tokens(budget.baseline) > tokens
        and (budget.data, budget.baseline) == (curves.data, curves.baseline)
        and sum(budget.gap(trained(row)) is not None for row in rows_of(records, experiment)) > 1
    ]


def points(records, experiment, curves, threads=1):
    """[Point] of the rows that have both."""
    found = []
    for row in rows_of(records, experiment):
        nats = nats_of(curves, row)
        time = measured(records, experiment, row, threads, "token_ms")
        if nats and time:
            found.append(Point(row, nats, time))
    return found


def hull(found):
    """Rows of [Point] that no other is at least as fast and as good as."""
    best, kept = float("inf"), []
    for point in sorted(found, key=lambda p: (p.time.value, p.nats.value)):
        if point.nats.value < best:
            best = point.nats.value
            kept.append(point.row)
    return kept


def differing(records, experiment, curves, row):
    """Knobs in which the timed row is not the model that was trained, of those that its components read."""
    record = records.get(experiment, row, 1, "token_ms")
    learnt = knobs.settings(next(iter(curves.by_seed(trained(row), "log_perplexity").values())))
    return [
        knob
        for knob in SAME
        if knob in learnt and setting(record, knob) not in (None, learnt[knob])
    ]


def is_own_width(records, experiment, curves):
    """Whether the table is of the width that was trained."""
    rows = [row for row in rows_of(records, experiment) if nats_of(curves, row)]
    return bool(rows) and all(
        setting(records.get(experiment, row, 1, "token_ms"), "d_model")
        == curves.setting(trained(row), "d_model")
        for row in rows
        if records.get(experiment, row, 1, "token_ms")
    )


def ladder(records, experiment, row, base):
    """[Value or None]: dense over row in FLOPs, weights read, floor and time of a token."""
    counts = [
        ratio(*(measured(records, experiment, name, 1, metric) for name in (base, row)))
        for metric in ("token_flops", "token_weights_read", "token_floor_ms")
    ]
    return [*counts, decode.over(records, experiment, base, row, 1, "token_ms")]


def numbers(records, own):
    """{id: Value}; times of the slow state, where there are two, end with @slow."""
    found = {}
    for view, suffix in states.views(records, 1):
        for about in own:
            found |= _numbers_at(view, about.name, suffix)
    return found


def _numbers_at(records, experiment, suffix):
    curves = curves_of(records, records.rows(experiment))
    if curves is None:
        return {}
    found = {}
    of_width = "" if is_own_width(records, experiment, curves) else f"{experiment}."
    both = points(records, experiment, curves)
    if not suffix and not of_width:
        found |= of_all(curves, both)
    for point in both:
        found[f"{point.row}.ms_token{suffix}"] = point.time
        floor = measured(records, experiment, point.row, 1, "token_floor_ms")
        found[f"{point.row}.floor_ms{suffix}"] = floor
        if not suffix:
            reads = measured(records, experiment, point.row, 1, "token_weights_read")
            found[f"{point.row}.reads"] = reads
            found[f"{point.row}.nats"] = None if of_width else point.nats
    return {f"frontier.{of_width}{name}": value for name, value in found.items() if value}


def of_all(curves, both):
    """{ending: Value} of [Point]: how many there are, and how far a seed's decode path was from its trainer at most."""
    if not both:
        return {}
    number, inputs = len(both), [point.nats for point in both]
    times = [point.time for point in both]
    found = {"rows": combine(number, "1", number, number, [*inputs, *times])}
    each = [decode_paths.farthest(curves, trained(point.row), DECODED) for point in both]
    if None not in each:
        most = max(each)
        found["decode_difference"] = combine(most, "nats/token", most, most, inputs)
    return found


def table(report, experiment, curves):
    records = report.records
    base = decode.against(records, experiment, records.rows(experiment)[0], 1)
    best = hull(points(records, experiment, curves))
    larger = larger_budgets(records, experiment, curves)
    lines = header(
        "row",
        "nats/token",
        "above",
        *(f"above, {count(e.tokens(e.baseline))} tokens" for e in larger),
        "token, ms",
        "of its floor",
        "on the frontier",
        "FLOPs",
        "weights read",
        "floor",
        "measured",
    )
    for row in rows_of(records, experiment):
        nats = nats_of(curves, row)
        time = measured(records, experiment, row, 1, "token_ms")
        floor = measured(records, experiment, row, 1, "token_floor_ms")
        steps = ladder(records, experiment, row, base)
        lines.append(
            line(
                f"`{row}`",
                nats_cell(nats, ""),
                nats_cell(above(curves, row) if nats else None),
                *(nats_cell(quality.row_figures(e, trained(row)).get("gap")) for e in larger),
                cell(report, time),
                f"{floor.value / time.value:.0%}" if floor and time else "–",
                ("yes" if row in best else "no") + status_mark(report, time)
                if nats and time
                else "–",
                *(cell(report, step, "×") for step in steps),
            )
        )
    return lines


def twins(records, experiment):
    """[(row, its time over its twin's, rows it touches, rows the twin does)], Values or None."""
    known = records.rows(experiment)
    return [
        (
            row,
            decode.over(records, experiment, row, row + OWN, 1, "token_ms"),
            *(measured(records, experiment, r, 1, "rows_touched") for r in (row, row + OWN)),
        )
        for row in known
        if row + OWN in known
    ]


def twins_table(report, experiment):
    lines = header("row", "time, trained over own", "rows touched in 12 tokens, trained", "own")
    for row, time, *touched in twins(report.records, experiment):
        lines.append(
            line(f"`{row}`", cell(report, time, "×", interval=True), *(bare(t) for t in touched))
        )
    return lines


def write(report, own):
    for about in own:
        rows = rows_of(report.records, about.name)
        curves = curves_of(report.records, rows)
        if not rows or curves is None:
            continue
        same = (
            "Times are of models as trained, with random weights; layers that choose take the choices of the trained "
            "model's trace, where the row has one."
        )
        if not is_own_width(report.records, about.name, curves):
            same = "Nats are of the width that was trained, times of this one's."
        else:
            unlike = {
                row: apart
                for row in rows
                if nats_of(curves, row)
                and (apart := differing(report.records, about.name, curves, row))
            }
            if unlike:
                same = "Not the models that were trained: " + "; ".join(
                    f"`{row}` differs in {', '.join(apart)}" for row, apart in unlike.items()
                )
        tokens = count(curves.tokens(curves.baseline))
        report.add(
            f"## {about.title}",
            "",
            WORDS.format(
                experiment=curves.name,
                tokens=tokens,
                same=same,
                bf16=OF_BF16 if any(row.endswith(BF16) for row in rows) else "",
            ),
        )
        for view, _ in states.views(report.records, 1):
            title = [f"**One thread{states.words_of(view)}**", ""] if states.words_of(view) else []
            report.add(*title, *table(report.of(view), about.name, curves))
            if twins(view, about.name):
                report.add(TWINS, "", *twins_table(report.of(view), about.name))
        report.figure(about.name)


# A component that is not dense tells a row's kind, the first of these; of feed-forwards experts are one of their own.
KINDS = ("feed_forward", "projection", "loss", "recurrence")


def kind_of(curves, row):
    """In what a row differs from a dense model, for colours."""
    for part in KINDS:
        name = curves.setting(trained(row), part)
        if name not in (None, "dense", "none"):
            return "experts" if name.startswith("moe") else f"{name} {part}".replace("_", " ")
    return "dense"


def looks_of(curves, rows):
    """{row: look}: rows of a kind alike."""
    kinds = dict.fromkeys(["dense", *(kind_of(curves, row) for row in rows)])
    look = {kind: chart.one_of_many(index) for index, kind in enumerate(kinds)}
    return {row: look[kind_of(curves, row)] for row in rows}


def scatter(axes, found, looks):
    """[Point] on a log axis of time, doubtful ones ringed, and the steps of the frontier."""
    best = hull(found)
    steps = sorted((p.time.value, p.nats.value) for p in found if p.row in best)
    axes.step(*zip(*steps), where="post", **chart.LIMIT)
    for point in found:
        whiskers = chart.bars([point.nats]) if point.nats.seeds >= chart.FEWEST_SEEDS else None
        look = looks[point.row] | {"linestyle": "none"}
        axes.errorbar(
            point.time.value, point.nats.value, whiskers, chart.bars([point.time]), **look
        )
    chart.ring(axes, [(p.time.value, p.nats._replace(status=p.time.status)) for p in found])
    axes.set_xscale("log")
    times = [p.time.value for p in found]
    ticks = [digit * 10.0**power for power in range(-4, 5) for digit in (1, 2, 5)]
    shown = [tick for tick in ticks if min(times) / 2 < tick < max(times) * 2]
    chart.plain_log(axes.xaxis, shown)


def is_of_its_start(curves, row):
    """Whether a row's nats are those of its start: it knew no more than how often tokens come for too long."""
    share = curves.result(trained(row), curve_verdicts.PLATEAU)
    return bool(share) and share.value > curve_verdicts.LONG_PLATEAU


def draw(records, experiment):
    """Nats a token over measured ms a token, of two states of memory in the fast one, and the steps of the frontier.

    Small marks are single seeds; of two seeds Student's interval would hide everything else.
    """
    records, _ = states.views(records, 1)[0]
    curves = curves_of(records, records.rows(experiment))
    found = points(records, experiment, curves)
    if len(found) < 2:
        raise chart.Missing(f"fewer than two rows of {experiment} have both nats and a time")
    # So far above that the others would lie in one line.
    far = [point.row for point in found if is_of_its_start(curves, point.row)]
    found = [point for point in found if point.row not in far]
    figure, (axes,) = chart.new(max(2.8, 0.16 * len(found)))  # room for names
    looks = looks_of(curves, [point.row for point in found])
    scatter(axes, found, looks)
    for point in found:
        of_seeds = [
            r["value"] for r in curves.by_seed(trained(point.row), "log_perplexity").values()
        ]
        axes.plot(
            [point.time.value] * len(of_seeds),
            of_seeds,
            **looks[point.row] | {"linestyle": "none", "markersize": 2, "label": "_of a seed"},
        )
    without = f"\nnot drawn, being long on the plateau: {', '.join(far)}" if far else ""
    axes.set_xlabel(f"measured token, ms (1 thread{states.words_of(records)}){without}")
    budgets = {point.nats.tokens for point in found if point.nats.tokens}
    of = f"\n{count(budgets.pop())} tokens trained on" if len(budgets) == 1 else ""
    axes.set_ylabel(f"log-perplexity, nats per token{of}")
    kinds = {kind_of(curves, point.row): looks[point.row] for point in found}
    for kind, look in kinds.items():
        axes.plot([], [], label=kind, **look | {"linestyle": "none"})
    chart.legend_above(axes, *axes.get_legend_handles_labels(), columns=3)
    # What all end with is in the title.
    alike = BF16 if all(p.row.endswith(BF16) for p in found) else ""
    named = [(p.time.value, p.nats.value, p.row.removesuffix(alike)) for p in found]
    chart.label_points(axes, named)
    return figure


def figures(_records, own):
    return {about.name: functools.partial(draw, experiment=about.name) for about in own}


SECTION = Section(owns=OWNS, numbers=numbers, figures=figures, write=write, place=2)
