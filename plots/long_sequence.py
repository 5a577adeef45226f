"""Full against LSH attention from records: curves over length, their crossing, recall."""

import math

import derive
import report_tables as tables

EXPERIMENT = "long_sequence"
SPEEDUP_LENGTH = 16384
DISTRIBUTIONS = ("random", "clustered")


def threads_of(records):
    """The most threads that the experiment was measured with."""
    return max((r["threads"] for r in records.history(EXPERIMENT)), default=0)


def curves(records, metric):
    """{full | lsh: [(length, Value)] ascending}."""
    found = derive.sweep(records, EXPERIMENT, threads_of(records), metric, "length")
    return {name: found[name] for name in ("full", "lsh") if name in found}


def speedups(records, metric="step_ms"):
    """[(length, Value)]: full over LSH attention where both were measured."""
    times = curves(records, metric)
    full, lsh = (dict(times.get(name, ())) for name in ("full", "lsh"))
    return [(length, derive.ratio(full[length], lsh[length])) for length in sorted(full)
            if length in lsh]


def crossover(records):
    """The length from which on LSH attention is faster, log-log between measured ones, or None.

    None too where it already is at the shortest length: then the crossing was not seen. The spread
    is that of the nearer ratio, divided by the slope.
    """
    points = speedups(records)
    for (shorter, before), (longer, after) in zip(points[-2::-1], points[:0:-1]):
        low, high = math.log(before.value), math.log(after.value)
        if low <= 0 < high:
            step = math.log(longer / shorter)
            length = shorter * math.exp(step * low / (low - high))
            near = before if -low < high else after
            spread = length * step * near.spread / near.value / (high - low)
            return derive.combine(length, "positions", spread, (before, after))
    return None


def recall(records, distribution, metric="recall"):
    """{chunk: [(rounds, Value)] ascending}."""
    found = {}
    threads = threads_of(records)
    for row in records.rows(EXPERIMENT):
        record = records.get(EXPERIMENT, row, threads, metric)
        if record and derive.setting(record, "distribution") == distribution:
            point = (derive.setting(record, "lsh_rounds"), derive.of_record(record))
            found.setdefault(derive.setting(record, "lsh_chunk"), []).append(point)
    return {chunk: sorted(found[chunk]) for chunk in sorted(found)}


def figures(records):
    """{id: Value} for summary.json."""
    found = {"lsh.crossover_length": crossover(records),
             f"lsh.speedup_{SPEEDUP_LENGTH}": dict(speedups(records)).get(SPEEDUP_LENGTH),
             "lsh.memory_exponent": derive.fit_exponent(
                 curves(records, "heap_bytes").get("lsh", ()))}
    return {name: value for name, value in found.items() if value is not None}


def per_token(points, factor):
    """[(length, Value)] of a whole example's."""
    return [(x, tables.scaled(v, factor / x)) for x, v in points]


def forward_us_per_token(records):
    return {name: per_token(points, 1e3) for name, points in curves(records, "forward_ms").items()}


def kilobytes_per_token(records, metric):
    return {name: per_token(points, 1e-3) for name, points in curves(records, metric).items()}


def cost_table(report, ratio_metric, times, others):
    """Full and LSH attention over length: times and their ratio, then {words: curves} of others."""
    records = report.records
    ratios = dict(speedups(records, ratio_metric))
    lines = tables.header("length", "full, µs a token", "LSH, µs a token", "full / LSH",
                          *(f"{name}, {words}" for words in others for name in ("full", "LSH")))

    def cell(found, name, length, **more):
        return tables.cell(report, dict(found.get(name, ())).get(length), **more)

    def time(name, length):
        if length in dict(times.get(name, ())):
            return cell(times, name, length, spread=True)
        return tables.gap(report, EXPERIMENT, f"{name}_l{length:.0f}", threads_of(records))

    for length in sorted({x for points in times.values() for x, _ in points}):
        lines.append(tables.line(
            f"{length:,.0f}", time("full", length), time("lsh", length),
            tables.cell(report, ratios.get(length), "×"),
            *(cell(found, name, length) for found in others.values() for name in ("full", "lsh"))))
    return lines


def step_table(report):
    """Of a training step."""
    records = report.records
    return cost_table(report, "step_ms", curves(records, "step_us_per_token"),
                      {"kB a token kept": kilobytes_per_token(records, "heap_bytes"),
                       "kB a token at the peak": kilobytes_per_token(records, "peak_bytes"),
                       "efficiency": curves(records, "step_efficiency")})


def forward_table(report):
    """Of a forward pass."""
    records = report.records
    return cost_table(report, "forward_ms", forward_us_per_token(records),
                      {"kB a token kept": kilobytes_per_token(records, "forward_heap_bytes"),
                       "kB a token at the peak": kilobytes_per_token(records,
                                                                     "forward_peak_bytes"),
                       "efficiency": curves(records, "forward_efficiency")})


def recall_table(report, distribution):
    found = recall(report.records, distribution)
    if not found:
        return []
    rounds = sorted({r for points in found.values() for r, _ in points})
    lines = tables.header("chunk", *(f"{r} round{'s' * (r > 1)}" for r in rounds))
    density = recall(report.records, distribution, "density")
    for chunk, points in found.items():
        of_rounds, pairs = dict(points), dict(density.get(chunk, ()))
        lines.append(tables.line(f"{chunk}", *(
            tables.cell(report, of_rounds.get(r))
            + (f" ({tables.number(pairs[r].value)})" if r in pairs else "") for r in rounds)))
    return lines


def write(report):
    """The report's section."""
    records = report.records
    if not records.rows(EXPERIMENT):
        return
    record = next((r for r in reversed(records.history(EXPERIMENT))
                   if r["row"].startswith("lsh_l")), None)
    sizes = tables.sizes(record, ("d_model", "d_model"), ("heads", "n_heads"),
                         ("positions a chunk", "lsh_chunk"), ("rounds", "lsh_rounds"))
    report.add("## Long sequences: full and LSH attention", "",
               "Full attention compares each position with every earlier one, so that its work "
               "grows with the square of the length. LSH attention (Reformer) hashes positions, "
               "sorts them by their hash and cuts them into chunks; a position then looks at its "
               "own chunk and the one before, in several rounds with hashes of their own, so that "
               "its work grows with the length.")
    report.add("Timed is the attention core, what lies between the projections, of one causal "
               f"example without dropout{f' ({sizes})' if sizes else ''}, at "
               f"{threads_of(records)} threads. A *training step* is a training forward and its "
               "backward. Times and bytes are those of the whole example over its positions (µs "
               "and kB a token). Memory, inputs and outputs not counted: *kept* is what the step "
               "or the forward pass leaves allocated, *peak* the most that was resident in it; a "
               "constant kB a token "
               "is memory linear in the length. *Efficiency*: FLOPs of products over pairs that "
               "may see each other, neither masked ones nor ones made again, over the time, as a "
               "share of the best linked library's rate on a large product in the same process "
               "(1: as fast).")
    report.add("**A training step**", "", *step_table(report))
    if curves(records, "forward_ms"):
        report.add("**A forward pass, as in evaluation**", "", *forward_table(report))
    crossing = crossover(records)
    if crossing:
        report.add("A training step of LSH attention is faster from about "
                   f"{tables.cell(report, crossing)} positions on.")
    length = max((derive.setting(r, "length", 0) for r in records.history(EXPERIMENT)
                  if derive.setting(r, "distribution")), default=0)
    shown = False
    for distribution in DISTRIBUTIONS:
        lines = recall_table(report, distribution)
        if lines:
            report.add(f"**Recall, {distribution} queries and keys, {length:,} positions**", "",
                       *lines)
            shown = True
    if shown:
        report.add("*Recall*: of the weights that exact attention would give to all earlier "
                   "positions, the share (0 to 1) that falls on those which LSH attention looks "
                   "at in any round; in brackets the share of pairs that it looks at, which recall "
                   "would be if all weights were equal. Rows: positions a chunk. *random*: all "
                   "components of queries and keys normal. *clustered*: groups of 64 positions "
                   "around centres, three quarters of the variance theirs.")
    report.figure(EXPERIMENT)
    report.repeat("./build/release/experiments/long_sequence --config "
                  "experiments/configs/long_sequence.cfg")
