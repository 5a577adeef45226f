"""Plain and reversible stacks over depth and batch: memory, step times, gradients, the report."""

import derive
import report_tables as tables
from report_tables import cell, header, line, scaled

EXPERIMENT = "reversibility"
SEATS = ("dense", "sparse")
STACKS = ("plain", "stored", "reversible")
ERRORS = ("replay_ff", "recompute_ff", "replay_lsh", "recompute_lsh")
MEGABYTES = 1e-6
STACK_TABLES = (
    ("kept by the stack for its backward pass, MB", "stack_bytes", MEGABYTES, STACKS),
    ("stored decisions, MB", "decision_bytes", MEGABYTES, ("reversible",)),
    ("peak resident memory, MB", "peak_memory_bytes", MEGABYTES, STACKS),
    ("training step, ms", "step_ms", 1, STACKS),
    ("model FLOPs utilisation", "mfu", 1, STACKS))


def threads(records):
    """The one thread count that is shown."""
    return max((r["threads"] for r in records.history(EXPERIMENT)), default=1)


def group(records, family, metric, over):
    """(held, [(setting, Value)]) over "decoder_layers" or "batch", the other held where most
    points are; rows are named <family>_d<depth>_b<batch>."""
    held = "batch" if over == "decoder_layers" else "decoder_layers"
    groups = {}
    for row in records.rows(EXPERIMENT):
        record = records.get(EXPERIMENT, row, threads(records), metric)
        if record and row.rsplit("_", 2)[0] == family:
            point = (derive.setting(record, over), derive.of_record(record))
            groups.setdefault(derive.setting(record, held), []).append(point)
    return max(groups.items(), key=lambda found: len(found[1]), default=(None, []))


def curve(records, family, metric, over):
    """Those points, ascending."""
    return sorted(group(records, family, metric, over)[1])


def depths(records):
    """Of the depth sweep, ascending."""
    return sorted({x for seats in SEATS for stack in STACKS
                   for x, _ in curve(records, f"{seats}_{stack}", "step_ms", "decoder_layers")})


def growth(records, family):
    """What the deepest stack keeps over what the shallowest keeps; or None."""
    points = curve(records, family, "stack_bytes", "decoder_layers")
    return derive.ratio(points[-1][1], points[0][1]) if len(points) > 1 else None


def deepest(records, family, metric):
    points = curve(records, family, metric, "decoder_layers")
    return points[-1][1] if points else None


def figures(records):
    """{id: Value}: dense seats, then sparse ones under `reversible.sparse.`; at the deepest."""
    found = {}
    for seats in SEATS:
        prefix = "reversible." if seats == "dense" else f"reversible.{seats}."
        for stack in STACKS:
            family = f"{seats}_{stack}"
            name = prefix + ("" if stack == "reversible" else f"{stack}_")
            found[f"{name}activation_growth"] = growth(records, family)
            for metric in ("stack_bytes", "decision_bytes", "peak_memory_bytes", "step_ms", "mfu"):
                found[f"{name}{metric}"] = deepest(records, family, metric)
        ours, stored, plain = (deepest(records, f"{seats}_{stack}", "step_ms")
                               for stack in ("reversible", "stored", "plain"))
        found[f"{prefix}step_cost"] = derive.ratio(ours, plain)
        found[f"{prefix}step_cost_over_stored"] = derive.ratio(ours, stored)
    for family in ERRORS:
        for metric in ("gradient_error", "reconstruction_error"):
            found[f"reversible.{family}.{metric}"] = deepest(records, family, metric)
    return {name: value for name, value in found.items() if value is not None}


def held(records, knob, words):
    """", 4 sequences": the other setting of a sweep, where its points say it."""
    over = "decoder_layers" if knob == "batch" else "batch"
    values = {group(records, f"{seats}_{stack}", "step_ms", over)[0]
              for seats in SEATS for stack in STACKS} - {None}
    return f", {values.pop()} {words}" if len(values) == 1 else ""


def stack_table(report, over, words):
    """Rows: metric, seats and stack; columns: depths or batches."""
    curves = [(f"{title}: {seats}, {stack}", factor, dict(points))
              for title, metric, factor, stacks in STACK_TABLES
              for seats in SEATS for stack in stacks
              if (points := curve(report.records, f"{seats}_{stack}", metric, over))
              and any(v.value for _, v in points)]
    sizes = sorted({x for _, _, points in curves for x in points})
    if len(sizes) < 2:
        return []
    return [*header(words, *map(str, sizes)),
            *(line(title, *(cell(report, scaled(points.get(x), factor)) for x in sizes))
              for title, factor, points in curves)]


def error_table(report):
    """How far gradients and reconstructed inputs are off, over depth."""
    words = {"gradient_error": "gradient", "reconstruction_error": "input"}
    curves = [(f"{words[metric]}, `{family}`", dict(points)) for metric in words
              for family in ERRORS
              if (points := curve(report.records, family, metric, "decoder_layers"))]
    sizes = sorted({x for _, points in curves for x in points})
    if not sizes:
        return []
    return [*header("decoder blocks", *map(str, sizes)),
            *(line(title, *(f"{points[x].value:.2g}" if x in points else "–" for x in sizes))
              for title, points in curves)]


def write(report):
    """The report's section; nothing if nothing was measured, as by --quick."""
    by_depth = stack_table(report, "decoder_layers", "decoder blocks")
    if not by_depth:
        return
    record = next(reversed(report.records.history(EXPERIMENT)))
    sizes = tables.sizes(record, ("d_model", "d_model"), ("d_ff", "d_ff"), ("heads", "n_heads"),
                         ("tokens a sequence", "max_length"))
    report.add("## Reversible stacks: memory and step time", "",
               "Training keeps each block's activations for the backward pass, so that memory "
               "grows with depth. A reversible stack keeps its last output alone and makes the "
               "others again from it while it goes back, which costs time. Three stacks of a "
               f"decoder-only model{f' ({sizes})' if sizes else ''}: `plain`; `stored`, the "
               "reversible function with its activations kept all the same; `reversible`. Every "
               "row has two attentions a block, as reversible decoder blocks have, so that the "
               "work is equal. `sparse` has the sparse feed-forward and QKV.")
    report.add("*Kept*: bytes that a stack holds in the heap after a step, what the forward pass "
               "leaves for the backward pass and the buffers of one block of that, "
               "without *stored decisions*: which neurons were chosen, which the second "
               "computation of a block must repeat. *Peak*: resident memory of a process that "
               "does two steps, weights and gradients included. *Training step*: one forward and "
               f"backward pass over the batch, at {threads(report.records)} threads, the three "
               "stacks taking turns. *Utilisation*: FLOPs of a step, those of making activations "
               "again not counted, over its time, as a share of the best linked library's rate "
               "on a large product. MB are 10⁶ bytes.")
    report.add(f"**Against depth**{held(report.records, 'batch', 'sequences')}", "", *by_depth)
    by_batch = stack_table(report, "batch", "sequences")
    if by_batch:
        report.add(f"**Against batch**{held(report.records, 'decoder_layers', 'blocks')}", "",
                   *by_batch)
    errors = error_table(report)
    if errors:
        report.add("**If the backward pass decides anew**", "",
                   "Activations made again differ by rounding from those of the forward pass, and "
                   "a choice between near equals may then fall otherwise, which the paper warns "
                   "of. *Gradient*: distance |g − h| / |h| of all gradients g from those, h, of "
                   "the same model with its activations stored. *Input*: largest error of a "
                   "block's input made again, in the units of activations. `replay` uses the "
                   "selections of the sparse feed-forward (`ff`) or the buckets of LSH attention "
                   "(`lsh`) that the forward pass stored; `recompute` chooses again.",
                   "", *errors)
    report.figure(EXPERIMENT)
    report.repeat("./build/release/experiments/reversibility --config "
                  "experiments/configs/reversibility.cfg")
