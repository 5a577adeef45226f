"""The report's tables as lines of Markdown; a missing number is a gap with its note."""

import datetime
import math

import derive
import kernel_runs
import paper

MEANING = {
    "scaled_down": "Scaled down: fewer distinct decoder blocks in memory than the model has; their "
                   "mean stands for all.",
    "extrapolated": "Extrapolated: a full token put together as layers × block + rest.",
    "untrusted": "Untrusted: faster than the machine's measured limit allows, or measured while "
                 "that limit kept changing so much that the median efficiency is uncertain by "
                 "more than 5 %; or a ratio of times between which memory's read rate differed by "
                 "more than 10 %.",
}
BF16 = "The paper's rows are float32."
BF16_DOT = "Kernel set `bf16_dot`: dense, multiplicative and convolution layers by the processor's " \
           "bf16 dot product, which rounds activations too. The floor counts that instruction's " \
           "rate for all that is computed."
NOT_RANKED = "Skips weights of zero activations; not ranked."
EQUAL_BANDWIDTH = "Each time multiplied by the read bandwidth measured beside it, so that a " \
                  "machine that was faster for one of the two does not decide; the goal of 0.97 " \
                  "goes by this one where both bandwidths are known."
FAR_APART = 30  # minutes: bandwidth of a shared machine changes from hour to hour
ABOVE = 1.03  # a share of its limit above this is more than noise
SHARE = {"token": "token_share_of_roofline", "block": "share_of_roofline"}
KIND = {"token": ("reads_limit", "token_roofline_limit"),
        "block": ("block_reads_limit", "roofline_limit")}


def number(value, unit="", digits=3):
    """`digits` significant digits, no exponent: 1,595  12.3  0.0456."""
    if value is None:
        return "–"
    decimals = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(decimals, 0)}f}{unit}"


def cell(report, value, unit="", spread=False):
    """A derived number with its status as a note; a gap if there is none."""
    if value is None:
        return "–"
    text = number(value.value, unit)
    if spread and value.spread > 1e-6 * abs(value.value):
        text += f" ± {number(value.spread, digits=1)}"
    return text + (report.note(MEANING[value.status]) if value.status in MEANING else "")


def header(*names):
    return ["| " + " | ".join(names) + " |", "|---" + "|---:" * (len(names) - 1) + "|"]


def line(*cells):
    return "| " + " | ".join(cells) + " |"


def not_measured(commands, what):
    """One line for all that a folder lacks, by the commands that measure them, one each.

    `what`: one and several, as ("claim", "claims").
    """
    counted = [f"`{c}` measures {commands.count(c)}" for c in sorted(set(commands))]
    return f"Not measured: {len(commands)} {what[len(commands) > 1]}; {', '.join(counted)}."


def sizes(record, *pairs):
    """blocks 3, d_model 128: of pairs (words, knob) those that the record knows."""
    return ", ".join(f"{words} {value}" for words, knob in pairs
                     if (value := derive.setting(record or {}, knob)))


def gap(report, experiment, row, threads):
    """The mark that stands for a row without numbers; its note says why."""
    reason = report.records.gaps.get((experiment, row, threads),
                                     "not measured at this thread count")
    return "gap " + report.note(f"`{experiment}`, `{row}`, {threads} threads: {reason}.")


def remark(report, experiment, row, threads, kind):
    """The mark of what the record itself says about its number."""
    record = report.records.get(experiment, row, threads, f"{kind}_ms")
    texts = [text for text in (record.get("note"), apart(report.records, record, threads),
                               again(report.records, record)) if text]
    return report.note("; ".join(f"{t[0].upper()}{t[1:]}" if i == 0 else t
                                 for i, t in enumerate(texts)) + ".") if texts else ""


def apart(records, record, threads):
    """How long before or after its baseline the row was measured, if that is long."""
    base = derive.against(records, record["experiment"], record["row"], threads)
    other = records.get(record["experiment"], base, threads, record["metric"])
    times = [r and r.get("date") for r in (record, other)]
    if not all(times):
        return ""
    minutes = abs((_time(times[0]) - _time(times[1])).total_seconds()) / 60
    return f"measured {minutes:.0f} minutes apart from `{base}`" if minutes > FAR_APART else ""


def again(records, record):
    """Whether earlier measurements by the same code stand behind this one."""
    count = sum(all(r.get(k) == record.get(k) for k in ("row", "threads", "metric", "commit"))
                and r["value"] is not None for r in records.history(record["experiment"]))
    return f"the last of {count} measurements by this code" if count > 1 else ""


def _time(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def decode_table(report, experiment, threads, kind):
    """paper | ours | speed-up paper | speed-up ours | limits | efficiency of tokens or blocks."""
    records = report.records
    rows = records.rows(experiment)
    if not any(records.of_row(experiment, r, threads) or (experiment, r, threads) in records.gaps
               for r in rows):
        return []
    lines = header("row", "paper, ms", "ours, ms", "speed-up paper", "speed-up ours", "reads limit",
                   "roofline limit", "share of roofline", "efficiency")
    for row in rows:
        figures = derive.row_figures(records, experiment, row, threads)
        theirs = paper.published(experiment, row) or paper.Published()
        note = report.note(theirs.note) if theirs.note else ""
        name = f"`{row}`" + ("" if ranked(records, experiment, row, threads)
                             else report.note(NOT_RANKED))
        if row.endswith(".bf16") and getattr(theirs, f"{kind}_ms"):
            note += report.note(BF16)
        if row.endswith("_dot.bf16"):
            name += report.note(BF16_DOT)
        ours = figures.get(f"{kind}_ms")
        share = SHARE[kind]
        lines.append(line(
            name, number(getattr(theirs, f"{kind}_ms")) + note,
            cell(report, ours, spread=True) + remark(report, experiment, row, threads, kind)
            if ours else gap(report, experiment, row, threads),
            number(getattr(theirs, f"{kind}_speedup"), "×"),
            cell(report, figures.get(f"{kind}_speedup"), "×"),
            *(number(figures[n].value, "×") if n in figures else "–" for n in KIND[kind]),
            number(figures[share].value) + above_limit(report, experiment, row, threads, kind)
            if share in figures else "–", cell(report, figures.get(f"{kind}_efficiency"))))
    return lines + ["", whose_dense(records, experiment, threads, kind) + read_rates(
        records, experiment, threads)]


def ranked(records, experiment, row, threads):
    return all(map(derive.is_ranked, records.of_row(experiment, row, threads).values()))


def above_limit(report, experiment, row, threads, kind):
    """The mark of a share above its limit, a ratio of floors under each row's own ceilings."""
    records = report.records
    base = derive.against(records, experiment, row, threads)
    ours, theirs = (derive.row_figures(records, experiment, r, threads) for r in (row, base))
    share, name = ours.get(SHARE[kind]), f"{kind}_efficiency"
    if share is None or share.value <= ABOVE:
        return ""
    floors = [records.get(experiment, r, threads, f"{kind}_floor_ms") for r in (row, base)]
    limits = {"read_gbps": "reading"}
    if len({derive.setting(r, "kernels") for r in floors}) == 1:
        limits["fma_gflops"] = "multiply-adds"  # else of two instructions
    apart = [f"{max(rates) / min(rates) - 1:.1%} in {words}" for limit, words in limits.items()
             if all(rates := [derive.ceiling(r, limit) for r in floors])]
    differed = " and ".join(apart) or "an unknown share"
    nearer = f"; efficiency {number(ours[name].value)} against {number(theirs[name].value)}" \
        if name in ours and name in theirs else ""
    return report.note(f"`{row}`, a {kind} at {threads} threads: above its limit; the two rows' "
                       f"ceilings, this one's and those of `{base}`, differed by {differed}"
                       f"{nearer}.")


def size_table(report, experiment):
    """Counts of every row: parameters, weights and bytes read; feed-forward rows where chosen."""
    records = report.records
    found = {}
    for row in records.rows(experiment):
        for threads in sorted(records.threads(), reverse=True):
            figures = derive.row_figures(records, experiment, row, threads)
            if "parameters" in figures:
                found.setdefault(row, figures)
    if not found:
        return []
    touched = len({f["rows_touched"].value for f in found.values() if "rows_touched" in f}) > 1
    lines = header("row", "parameters", "weights read a token", "a block", "MB a token", "a block",
                   *(["feed-forward rows"] if touched else []))
    for row, figures in found.items():
        cells = [number(figures[m].value * factor if m in figures else None) for m, factor in
                 (("parameters", 1), ("token_weights_read", 1), ("block_weights_read", 1),
                  ("token_bytes", 1e-6), ("block_bytes", 1e-6))]
        if touched:
            cells.append(cell(report, figures.get("rows_touched")))
        lines.append(line(f"`{row}`", *cells))
    if touched:
        lines += ["", "Feed-forward rows: different ones, of W1 and of W2 alike, that a block "
                  "read in a whole decode of 12 tokens; of W2 alone where zeros are skipped."]
    return lines


def whose_dense(records, experiment, threads, kind):
    said = {}
    bases = [derive.against(records, experiment, row, threads) for row in records.rows(experiment)]
    for base in dict.fromkeys(bases):
        value, whose = derive.dense_reference(records, experiment, base, threads, f"{kind}_ms")
        said[base] = f"`{base}`: {whose}, {number(value.value)} ms" if value else f"`{base}`: gap"
    return "Speed-ups divide the fastest dense measured (" + "; ".join(said.values()) + ")."


def read_rates(records, experiment, threads):
    rates = [r["value"] for row in records.rows(experiment)
             if (r := records.get(experiment, row, threads, "read_gbps"))]
    if not rates:
        return ""
    return f" Memory read {number(min(rates))} to {number(max(rates))} GB/s beside these rows."


# Rows of Table 6 and those of Table 1 that are sparse in the same parts.
SIDE_BY_SIDE = {"dense": "baseline", "ff": "ff", "ff_qkv": "ff_qkv_cross",
                "ff_qkv_loss4": "ff_qkv_cross_loss4"}


def transformer_beside_terraformer(report, threads, suffix=""):
    """Tokens of Tables 1 and 6 at 17B, each speed-up against its own dense model."""
    tables = tuple(name + suffix.replace(".", "_") for name in ("table1_17b", "table6_17b"))
    if not report.records.rows(tables[1]):
        return []
    lines = header("17B token, ms", *("Transformer, paper", "speed-up", "ours", "speed-up",
                                      "Terraformer, paper", "speed-up", "ours", "speed-up"))
    for terraformer, transformer in SIDE_BY_SIDE.items():
        cells = []
        for experiment, row in zip(tables, (transformer + suffix, terraformer + suffix)):
            theirs = paper.published(experiment, row) or paper.Published()
            figures = derive.row_figures(report.records, experiment, row, threads)
            cells += [number(theirs.token_ms), number(theirs.token_speedup, "×"),
                      cell(report, figures.get("token_ms")),
                      cell(report, figures.get("token_speedup"), "×")]
        lines.append(line(f"`{terraformer}{suffix}`", *cells))
    return lines


def scaled(value, factor):
    return value and value._replace(value=value.value * factor, spread=value.spread * factor)


def ceiling_table(report):
    records = report.records
    counts = sorted(records.threads(), reverse=True)
    rows = records.rows("ceilings")
    if not rows:
        return []
    lines = header("ceiling", *(f"{t} threads" if t > 1 else "1 thread" for t in counts))
    for row in rows:
        for metric, unit in (("read_gbps", " GB/s"), ("fma_gflops", " GFLOP/s"),
                             ("bf16_dot_gflops", " GFLOP/s"), ("gemm_gflops", " GFLOP/s"),
                             ("barrier_us", " µs")):
            values = [derive.measured(records, "ceilings", row, t, metric) for t in counts]
            if any(values):
                lines.append(line(f"`{row}`", *(cell(report, v, unit) for v in values)))
    return lines


def peer_table(report, threads):
    records = report.records
    lines = []
    for shape in ("800m", "17b"):
        ours = derive.peers_dense(records, shape, threads)
        for library in derive.PEERS:
            theirs = derive.peer(records, shape, library, threads)
            if theirs:
                lines.append(peer_line(report, f"{shape} dense, {library}", theirs, ours))
        theirs, ours = derive.sparse_peer(records, shape, threads)
        if theirs:
            lines.append(peer_line(report, f"{shape} FF+QKV, jax", theirs, ours))
    if not lines:
        return []
    return [*header("block", "theirs, ms", "ours, ms", "theirs / ours",
                    "at equal bandwidth" + report.note(EQUAL_BANDWIDTH)), *lines]


def peer_line(report, name, theirs, ours):
    """Of two records, the second maybe None."""
    times = [record and derive.of_record(record) for record in (theirs, ours)]
    return line(name, *(cell(report, v, spread=True) for v in times),
                cell(report, derive.ratio_of_times(theirs, ours)),
                cell(report, derive.at_equal_bandwidth(theirs, ours)))


def kernel_errors(records):
    return [f"`{run.name}`: {run.error}" for run in kernel_runs.read(records.kernels())
            if run.error]


def curve_table(report, experiment):
    """Curves of one training experiment: sizes, log-perplexity, gap, selections, memory, seeds."""
    lines = header("curve", "parameters", "d_ff, N", "log-perplexity, nats/token", "gap to dense",
                   "bits per byte", "hard − soft", "selection entropy, nats", "peak memory, MB",
                   "seeds")
    for row in experiment.rows:
        value = experiment.result(row, "log_perplexity")
        if value is None:
            lines.append(line(f"`{row}`", *["–"] * 2, experiment.state(row), *["–"] * 6))
            continue
        record = next(iter(experiment.by_seed(row, "log_perplexity").values()))
        params = experiment.result(row, "params")
        sparsity = f", N {derive.setting(record, 'sparsity')}" \
            if derive.setting(record, "feed_forward") == "sparse" else ""
        gap_value = None if row == experiment.baseline else experiment.gap(row)
        note = report.note(f"`{row}`: {record['note']}.") if record.get("note") else ""
        note += other_length(report, experiment, row)
        lines.append(line(
            f"`{row}`" + note + failed_seeds(report, experiment, row),
            f"{params.value:,.0f}" if params else "–",
            f"{derive.setting(record, 'd_ff', '–')}{sparsity}", perplexity(value),
            "–" if gap_value is None else perplexity(gap_value, "+"),
            perplexity(experiment.result(row, "bits_per_byte")),
            perplexity(experiment.result(row, "hard_soft_gap"), "+"),
            cell(report, experiment.result(row, "selection_entropy")),
            cell(report, scaled(experiment.result(row, "peak_memory_bytes"), 1e-6)),
            str(len(experiment.by_seed(row, "log_perplexity")))))
    return lines


def other_length(report, experiment, row):
    """The mark of a row that was not trained as long as the baseline."""
    ours, theirs = (experiment.setting(r, "steps") for r in (row, experiment.baseline))
    return report.note(f"`{experiment.name}`, `{row}`: {ours:,} steps, where "
                       f"`{experiment.baseline}` has {theirs:,}.") \
        if ours and theirs and ours != theirs else ""


def failed_seeds(report, experiment, row):
    """The mark of the seeds that a mean lacks because they failed."""
    failures = experiment.failures(row)
    return report.note(f"`{experiment.name}`, `{row}`: " + "; ".join(
        f"seed {seed} failed: {reason}" for seed, reason in failures.items()) + ".") \
        if failures else ""


def perplexity(value, sign=""):
    """Four decimals, and the spread over seeds where there are several."""
    if value is None:
        return "–"
    spread = f" ± {value.spread:.4f}" if value.spread else ""
    return f"{value.value:{sign}.4f}{spread}"
