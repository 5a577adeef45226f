"""Plain and reversible stacks over depth and batch: memory, step times, gradients, the report."""

import functools

import chart
import records as rec
from claims import FULL, Verdict, factor_text, missing
from report import cell, header, line, sizes
from section import Section, of
from values import combine, of_record, ratio, scaled, setting

STACKS = ("plain", "stored", "reversible")
MEGABYTES = 1e-6
STACK_METRICS = (
    ("kept by the stack for its backward pass, MB", "stack_bytes", MEGABYTES, STACKS),
    ("stored decisions, MB", "decision_bytes", MEGABYTES, ("reversible",)),
    ("peak resident memory, MB", "peak_memory_bytes", MEGABYTES, STACKS),
    ("training step, ms", "step_ms", 1, STACKS),
    ("model FLOPs utilisation", "mfu", 1, STACKS),
)
# Layers by colour, stacks by marker and dash.
LOOKS = {
    "plain": {"marker": "s", "linestyle": "--"},
    "stored": {"marker": "x", "linestyle": ":"},
    "reversible": {"marker": "o", "linestyle": "-"},
}
LAYERS = {
    "sparse": "`sparse` has the sparse feed-forward and QKV.",
    "terraformer": "`terraformer` has the sparse feed-forward, sparse QKV and a recurrence.",
}
PANELS = (
    ("stack_bytes", "decoder_layers", 1e-6, "kept by the stack, MB"),
    ("stack_bytes", "batch", 1e-6, "kept by the stack, MB"),
    ("peak_memory_bytes", "decoder_layers", 1e-6, "peak resident, MB"),
    ("step_ms", "decoder_layers", 1, "training step, ms"),
)
WORDS = {"decoder_layers": "decoder blocks", "batch": "sequences"}
# Of a model of which a few blocks were measured: its metric, a factor, the unit, whether it is a token's share.
WHOLE = {
    "step_s": ("step_ms", 1e-3, "s", False),
    "ms_token": ("step_ms", 1, "ms", True),
    "peak_gb": ("peak_memory_bytes", 1e-9, "GB", False),
    "kept_kb_token": ("stack_bytes", 1e-3, "kB", True),
}
WHOLE_TITLES = {
    "step_s": "training step, s",
    "ms_token": "ms a token",
    "peak_gb": "peak resident memory, GB",
    "kept_kb_token": "kept by the stack, kB a token",
}
FLAT = 1.1  # growth of what is kept, from the shallowest to the deepest stack, that is none


def threads(records, experiment):
    """The one thread count that is shown."""
    return max((r["threads"] for r in records.history(experiment)), default=1)


def group(records, experiment, family, metric, over):
    """(held, [(setting, Value)]) over "decoder_layers" or "batch", the other held where most
    points are; rows are named <family>_d<depth>_b<batch>."""
    held = "batch" if over == "decoder_layers" else "decoder_layers"
    groups, count = {}, threads(records, experiment)
    for row in records.rows(experiment):
        record = records.get(experiment, row, count, metric)
        if record and row.rsplit("_", 2)[0] == family:
            point = (setting(record, over), of_record(record))
            groups.setdefault(setting(record, held), []).append(point)
    return max(groups.items(), key=lambda found: len(found[1]), default=(None, []))


def families(records, experiment):
    """[what its rows are called before depth and batch], as they were measured."""
    return list(dict.fromkeys(r.rsplit("_", 2)[0] for r in records.rows(experiment)))


def layers_in(records, experiment):
    """[layers] of the families <layers>_<stack>, as they were measured."""
    found = (family.rpartition("_") for family in families(records, experiment))
    return list(dict.fromkeys(layers for layers, _, stack in found if stack in STACKS))


def curve(records, experiment, family, metric, over):
    """Those points, ascending."""
    return sorted(group(records, experiment, family, metric, over)[1])


def depths(records, experiment):
    """Of the depth sweep, ascending."""
    return sorted(
        {
            x
            for layers in layers_in(records, experiment)
            for stack in STACKS
            for x, _ in curve(records, experiment, f"{layers}_{stack}", "step_ms", "decoder_layers")
        }
    )


def growth(records, experiment, family):
    """What the deepest stack keeps over what the shallowest keeps; or None."""
    points = curve(records, experiment, family, "stack_bytes", "decoder_layers")
    return ratio(points[-1][1], points[0][1]) if len(points) > 1 else None


def deepest(records, experiment, family, metric):
    points = curve(records, experiment, family, metric, "decoder_layers")
    return points[-1][1] if points else None


def peak_shares(records, experiment, layers, name):
    """{<name>_<blocks>: the reversible stack's peak memory over the plain one's}, of every depth that both have."""
    ours, plain = (
        dict(curve(records, experiment, f"{layers}_{s}", "peak_memory_bytes", "decoder_layers"))
        for s in ("reversible", "plain")
    )
    return {
        f"{name}_{depth:g}": ratio(ours[depth], plain[depth]) for depth in ours if depth in plain
    }


def figures_of(records, experiment, identifier):
    """{id: Value}: of dense layers, of others under `<id>.<layers>.`; at the deepest."""
    found = {}
    for layers in layers_in(records, experiment):
        prefix = f"{identifier}." if layers == "dense" else f"{identifier}.{layers}."
        for stack in STACKS:
            family = f"{layers}_{stack}"
            start = prefix + ("" if stack == "reversible" else f"{stack}_")
            found[f"{start}activation_growth"] = growth(records, experiment, family)
            for metric in ("stack_bytes", "decision_bytes", "peak_memory_bytes", "step_ms", "mfu"):
                found[f"{start}{metric}"] = deepest(records, experiment, family, metric)
        ours, stored, plain = (
            deepest(records, experiment, f"{layers}_{stack}", "step_ms")
            for stack in ("reversible", "stored", "plain")
        )
        found[f"{prefix}step_cost"] = ratio(ours, plain)
        found[f"{prefix}peak_share"] = ratio(
            found[f"{prefix}peak_memory_bytes"], found[f"{prefix}plain_peak_memory_bytes"]
        )
        found |= peak_shares(records, experiment, layers, f"{prefix}peak_share")
        found[f"{prefix}step_cost_over_stored"] = ratio(ours, stored)
    for family in families(records, experiment):
        for metric in ("gradient_error", "reconstruction_error"):
            found[f"{identifier}.{family}.{metric}"] = deepest(records, experiment, family, metric)
    return {name: value for name, value in found.items() if value is not None}


def held(records, experiment, knob, words):
    """ ", 4 sequences": the other setting of a sweep, where its points say it."""
    over = "decoder_layers" if knob == "batch" else "batch"
    values = {
        group(records, experiment, f"{layers}_{stack}", "step_ms", over)[0]
        for layers in layers_in(records, experiment)
        for stack in STACKS
    } - {None}
    return f", {values.pop()} {words}" if len(values) == 1 else ""


def stack_table(report, experiment, over, words):
    """Rows: metric, layers and stack; columns: depths or batches."""
    curves = [
        (f"{title}: {layers}, {stack}", factor, dict(points))
        for title, metric, factor, stacks in STACK_METRICS
        for layers in layers_in(report.records, experiment)
        for stack in stacks
        if (points := curve(report.records, experiment, f"{layers}_{stack}", metric, over))
        and any(v.value for _, v in points)
    ]
    columns = sorted({x for _, _, points in curves for x in points})
    if len(columns) < 2:
        return []
    return [
        *header(words, *map(str, columns)),
        *(
            line(title, *(cell(report, scaled(points.get(x), factor)) for x in columns))
            for title, factor, points in curves
        ),
    ]


def error_table(report, experiment):
    """How far gradients and reconstructed inputs are off, over depth."""
    words = {"gradient_error": "gradient", "reconstruction_error": "input"}
    curves = [
        (f"{words[metric]}, `{family}`", dict(points))
        for metric in words
        for family in families(report.records, experiment)
        if (points := curve(report.records, experiment, family, metric, "decoder_layers"))
    ]
    columns = sorted({x for _, points in curves for x in points})
    if not columns:
        return []
    return [
        *header("decoder blocks", *map(str, columns)),
        *(
            line(title, *(f"{points[x].value:.2g}" if x in points else "–" for x in columns))
            for title, points in curves
        ),
    ]


def whole_blocks(records, experiment):
    """Of the model that measured depths are a part of; 0 where they are all there is."""
    return max((setting(r, "whole_blocks", 0) for r in records.history(experiment)), default=0)


def whole(records, experiment, family):
    """{ending: Value} of the whole model: what its other blocks take is added as the straight line through the shallowest
    and the deepest measured has it. Empty where nothing is extrapolated, or of one depth."""
    blocks = whole_blocks(records, experiment)
    found = {}
    for ending, (metric, factor, unit, is_per_token) in WHOLE.items():
        batch, points = group(records, experiment, family, metric, "decoder_layers")
        points = sorted(points)
        if not blocks or len(points) < 2:
            continue
        (least, one), (most, other) = points[0], points[-1]
        weight = (blocks - least) / (most - least)  # of the deepest; the shallowest has the rest
        ends = [
            weight * mine - (weight - 1) * its
            for mine, its in (
                (other.value, one.value),
                (other.low, one.high),
                (other.high, one.low),
            )
        ]
        if is_per_token:
            record = next(reversed(records.history(experiment)))
            factor = factor / (batch * setting(record, "max_length"))
        value, low, high = (factor * end for end in ends)
        value = combine(value, unit, low, high, (one, other))
        worse = rec.worst((value.status, "extrapolated"))
        found[ending] = value._replace(status=worse, extrapolated=True)
    return found


def whole_table(report, experiment):
    """A line a family; empty where nothing is extrapolated."""
    records = report.records
    each = {family: whole(records, experiment, family) for family in families(records, experiment)}
    each = {family: found for family, found in each.items() if found}
    if not each:
        return []
    return [
        *header("", *WHOLE_TITLES.values()),
        *(
            line(
                f"`{family}`",
                *(cell(report, found.get(ending), interval=True) for ending in WHOLE_TITLES),
            )
            for family, found in each.items()
        ),
    ]


def numbers(records, own):
    found = {
        name: value
        for about in own
        for name, value in figures_of(records, about.name, about.id).items()
    }
    return found | {
        f"{about.id}.{family}.whole_{ending}": value
        for about in own
        for family in families(records, about.name)
        for ending, value in whole(records, about.name, family).items()
    }


def verdicts(records, own):
    """On memory over depth."""
    own = [about for about in own if not whole_blocks(records, about.name)]
    claim = "Reversible blocks keep activations from growing with depth (§4.2)"
    found = numbers(records, own[:1])
    growth, plain, cost = (
        found.get(f"{own[0].id}.{name}") if own else None
        for name in ("activation_growth", "plain_activation_growth", "step_cost")
    )
    if growth is None or plain is None:
        return [missing(claim, FULL)]
    verdict = (
        "reproduced"
        if growth.value <= FLAT
        else "partly reproduced"
        if growth.value < plain.value / 2
        else "not reproduced"
    )
    measured = depths(records, own[0].name)
    price = f"; a step costs {factor_text(cost)} a plain one" if cost else ""
    return [
        Verdict(
            claim,
            verdict,
            f"a stack of {measured[-1]} blocks keeps {growth.value:.3g}× "
            f"what {measured[0]} keep, a plain one {plain.value:.3g}×{price}",
        )
    ]


def write_one(report, experiment, title):
    """Nothing if nothing was measured, as by --quick."""
    by_depth = stack_table(report, experiment, "decoder_layers", "decoder blocks")
    if not by_depth:
        return
    record = next(reversed(report.records.history(experiment)))
    shape = sizes(
        record,
        ("d_model", "d_model"),
        ("d_ff", "d_ff"),
        ("heads", "n_heads"),
        ("tokens a sequence", "max_length"),
    )
    report.add(
        f"## {title}",
        "",
        "Training keeps each block's activations for the backward pass, so that memory "
        "grows with depth. A reversible stack keeps its last output alone and makes the "
        "others again from it while it goes back, which costs time. Three stacks of a "
        f"decoder-only model{f' ({shape})' if shape else ''}: `plain`; `stored`, the "
        "reversible function with its activations kept all the same; `reversible`. Every "
        "row has two attentions a block, as reversible decoder blocks have, so that the "
        "work is equal."
        + "".join(
            f" {words}"
            for layers, words in LAYERS.items()
            if layers in layers_in(report.records, experiment)
        ),
    )
    report.add(
        "*Kept*: bytes that a stack holds in the heap after a step, what the forward pass "
        "leaves for the backward pass and the buffers of one block of that, "
        "without *stored decisions*: which neurons were chosen, which the second "
        "computation of a block must repeat. *Peak*: resident memory of a process that "
        "does two steps, weights and gradients included. *Training step*: one forward and "
        f"backward pass over the batch, at {threads(report.records, experiment)} threads, the three "
        "stacks taking turns. *Utilisation*: FLOPs of a step, those of making activations "
        "again not counted, over its time, as a share of the best linked library's rate "
        "on a large product. MB are 10⁶ bytes."
    )
    report.add(
        f"**Against depth**{held(report.records, experiment, 'batch', 'sequences')}", "", *by_depth
    )
    extrapolated = whole_table(report, experiment)
    if extrapolated:
        report.add(
            f"**All {whole_blocks(report.records, experiment)} blocks, extrapolated** by the straight line through these depths, "
            "weights and their gradients included, an optimiser's state not",
            "",
            *extrapolated,
        )
    by_batch = stack_table(report, experiment, "batch", "sequences")
    if by_batch:
        report.add(
            f"**Against batch**{held(report.records, experiment, 'decoder_layers', 'blocks')}",
            "",
            *by_batch,
        )
    errors = error_table(report, experiment)
    if errors:
        report.add(
            "**If the backward pass decides anew**",
            "",
            "Activations made again differ by rounding from those of the forward pass, and "
            "a choice between near equals may then fall otherwise, which the paper warns "
            "of. *Gradient*: distance |g − h| / |h| of all gradients g from those, h, of "
            "the same model with its activations stored. *Input*: largest error of a "
            "block's input made again, in the units of activations. `replay` uses the "
            "selections of the sparse feed-forward (`ff`) or the buckets of LSH attention "
            "(`lsh`) that the forward pass stored; `recompute` chooses again.",
            "",
            *errors,
        )
    report.figure(experiment)
    blocks = whole_blocks(report.records, experiment)
    flags = f" --depths 1,2 --batches 1 --repeats 3 --whole_blocks {blocks}" if blocks else ""
    report.repeat(
        "./build/release/experiments/reversibility --config "
        f"experiments/configs/stacks/{experiment}.cfg{flags}"
    )


def write(report, own):
    for about in own:
        write_one(report, about.name, about.title)


def is_swept(records, experiment, metric, over):
    """Whether anything has two points."""
    return any(
        len(curve(records, experiment, family, metric, over)) > 1
        for family in families(records, experiment)
    )


def draw(records, experiment):
    """Memory against depth and batch and step time against depth."""
    shown = [panel for panel in PANELS if is_swept(records, experiment, *panel[:2])]
    if not shown:
        raise chart.Missing(f"no sweep in {experiment}")
    figure, panels = chart.new(2.15 * len(shown), panels=len(shown))
    for axes, (metric, over, factor, words) in zip(panels, shown):
        ticks = set()
        for index, layers in enumerate(layers_in(records, experiment)):
            colour = chart.style_of(layers, index)["color"]
            for stack, look in LOOKS.items():
                points = [
                    (x, scaled(v, factor))
                    for x, v in curve(records, experiment, f"{layers}_{stack}", metric, over)
                ]
                if not points:
                    continue
                ticks |= {x for x, _ in points}
                chart.curve(axes, points, label=f"{layers}, {stack}", color=colour, **look)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        chart.plain_log(axes.xaxis, sorted(ticks))
        chart.plain_log(axes.yaxis)
        axes.set_ylabel(words)
        axes.set_xlabel(WORDS[over])
    weights = [
        (x, scaled(v, 1e-6))
        for x, v in curve(records, experiment, "dense_plain", "model_bytes", "decoder_layers")
    ]
    for axes, (metric, over, *_) in zip(panels, shown):
        if metric == "peak_memory_bytes" and weights:
            axes.plot(
                [x for x, _ in weights],
                [v.value for _, v in weights],
                label="weights and gradients, dense",
                **chart.LIMIT,
            )
            axes.legend(*panel_legend(axes), loc="upper left")
        if metric == "step_ms":
            axes.set_xlabel(f"{WORDS[over]} ({threads(records, experiment)} threads)")
    chart.legend_above(panels[0])
    return figure


def panel_legend(axes):
    """Only what the panel has beside the shared series."""
    pairs = [
        (h, label)
        for h, label in zip(*axes.get_legend_handles_labels())
        if label.startswith("weights")
    ]
    return [h for h, _ in pairs], [label for _, label in pairs]


def figures(_records, own):
    return {about.name: functools.partial(draw, experiment=about.name) for about in own}


SECTION = Section(
    owns=of("stacks"), numbers=numbers, figures=figures, verdicts=verdicts, write=write, place=1
)
