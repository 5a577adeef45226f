"""Decode tables: times of tokens and blocks beside the paper's and the limits, part by part of a block."""

import datetime

import decode
import paper
import states
from report import bare, cell, gap, header, line, number, thread_counts
from section import Section
from sections import table_claims, table_figures
from values import ceiling, setting

BF16 = "The paper's rows are float32."
BF16_DOT = (
    "Kernel set `bf16_dot`: dense, multiplicative and convolution layers by the processor's "
    "bf16 dot product, which rounds activations too. The floor counts that instruction's "
    "rate for all that is computed."
)
OF_ALL_STATES = ("uncertain", "interval", "unstable", "disagreed")  # words of such notes
NOT_RANKED = "Skips weights of zero activations; not ranked."
FAR_APART = 30  # minutes: bandwidth of a shared machine changes from hour to hour
SHARE = {"token": "token_share_of_roofline", "block": "share_of_roofline"}
KIND = {
    "token": ("reads_limit", "token_roofline_limit"),
    "block": ("block_reads_limit", "roofline_limit"),
}
ENDINGS = (
    "token_ms",
    "block_ms",
    "token_speedup",
    "block_speedup",
    "reads_limit",
    "block_reads_limit",
    "roofline_limit",
    "token_roofline_limit",
    "block_efficiency",
    "token_efficiency",
    "share_of_roofline",
    "token_share_of_roofline",
    "block_overlap_efficiency",
    "token_overlap_efficiency",
    "block_overlap_share",
    "token_overlap_share",
    "cache_share",
)
# Other names of the same rows: Table 2's dense model is its N = 1.
ALIASES = {"table2.baseline": "table2.n1"}
# As models/block_part.h names the parts of a block.
PARTS = {
    "layer_norms": "norms and sums",
    "projection": "projections",
    "self_attention": "self-attention",
    "cross_projection": "cross projections",
    "cross_attention": "cross-attention",
    "feed_forward": "feed-forward",
    "recurrence": "recurrence",
}
# Rows of Table 6 and those of Table 1 that are sparse in the same parts.
SIDE_BY_SIDE = {
    "dense": "baseline",
    "ff": "ff",
    "ff_qkv": "ff_qkv_cross",
    "ff_qkv_loss4": "ff_qkv_cross_loss4",
}
DECODE = "./build/release/experiments/decode_time --config experiments/configs/decode/{}.cfg"


def numbers_at(records, own, threads):
    found = {}
    for about in own:
        for row in records.rows(about.name):
            figures = decode.row_figures(records, about.name, row, threads)
            names = (f"{about.id}.{row}", ALIASES.get(f"{about.id}.{row}"))
            found.update(
                {
                    f"{name}.{e}": figures[e]
                    for name in names
                    if name
                    for e in ENDINGS
                    if e in figures
                }
            )
    return found


def place(records, name):
    """(experiment, row, ending) of an id of a decode table's row; None of others."""
    for about in records.of(decode.is_table):
        for row in records.rows(about.name):
            ending = name.removeprefix(f"{about.id}.{row}.")
            if ending != name and ending in ENDINGS:
                return about.name, row, ending
    return None


def decode_table(report, experiment, threads, kind):
    """paper | ours | speed-up paper | speed-up ours | limits | efficiency of tokens or blocks."""
    records = report.records
    rows = records.rows(experiment)
    if not any(
        records.of_row(experiment, r, threads) or (experiment, r, threads) in records.gaps
        for r in rows
    ):
        return []
    lines = header(
        "row",
        "paper, ms",
        "ours, ms",
        "speed-up paper",
        "speed-up ours",
        "reads limit",
        "roofline limit",
        "share of roofline",
        "efficiency",
    )
    for row in rows:
        figures = decode.row_figures(records, experiment, row, threads)
        theirs = paper.published(experiment, row) or paper.Published()
        note = report.note(theirs.note) if theirs.note else ""
        name = f"`{row}`" + (
            "" if ranked(records, experiment, row, threads) else report.note(NOT_RANKED)
        )
        if row.endswith(".bf16") and getattr(theirs, f"{kind}_ms"):
            note += report.note(BF16)
        if row.endswith("_dot.bf16"):
            name += report.note(BF16_DOT)
        ours = figures.get(f"{kind}_ms")
        share = SHARE[kind]
        lines.append(
            line(
                name,
                number(getattr(theirs, f"{kind}_ms")) + note,
                cell(report, ours, interval=True) + remark(report, experiment, row, threads, kind)
                if ours
                else gap(report, experiment, row, threads),
                number(getattr(theirs, f"{kind}_speedup"), "×"),
                cell(report, figures.get(f"{kind}_speedup"), "×", interval=True),
                *(bare(figures.get(name), "×") for name in KIND[kind]),
                bare(figures[share]) + above_limit(report, experiment, row, threads, kind)
                if share in figures
                else "–",
                cell(report, figures.get(f"{kind}_efficiency")),
            )
        )
    return lines + [
        "",
        whose_dense(records, experiment, threads, kind)
        + read_rates(records, experiment, threads)
        + how_paired(records, experiment, threads),
    ]


def ranked(records, experiment, row, threads):
    return all(map(decode.is_ranked, records.of_row(experiment, row, threads).values()))


def above_limit(report, experiment, row, threads, kind):
    """The mark of a share above its limit, a ratio of floors at one read rate or under each row's own ceilings."""
    records = report.records
    base = decode.against(records, experiment, row, threads)
    ours, theirs = (decode.row_figures(records, experiment, r, threads) for r in (row, base))
    share, name = ours.get(SHARE[kind]), f"{kind}_efficiency"
    if share is None or share.value <= states.MAX_EFFICIENCY:
        return ""
    if records.limit(experiment, base, row, threads, f"{kind}_floor_ms"):
        own = ceiling(records.get(experiment, row, threads, f"{kind}_floor_ms"), "read_gbps")
        return report.note(
            f"`{row}`, a {kind} at {threads} threads: above its limit, which stands on memory's {number(states.read_rate(records))} "
            f"GB/s for all rows; beside this one {number(own)} were read, over as much as it reads."
        )
    floors = [records.get(experiment, r, threads, f"{kind}_floor_ms") for r in (row, base)]
    limits = {"read_gbps": "reading"}
    if len({setting(r, "kernels") for r in floors}) == 1:
        limits["fma_gflops"] = "multiply-adds"  # else of two instructions
    apart = [
        f"{max(rates) / min(rates) - 1:.1%} in {words}"
        for limit, words in limits.items()
        if all(rates := [ceiling(r, limit) for r in floors])
    ]
    differed = " and ".join(apart) or "an unknown share"
    nearer = (
        f"; efficiency {number(ours[name].value)} against {number(theirs[name].value)}"
        if name in ours and name in theirs
        else ""
    )
    return report.note(
        f"`{row}`, a {kind} at {threads} threads: above its limit; the two rows' "
        f"ceilings, this one's and those of `{base}`, differed by {differed}"
        f"{nearer}."
    )


def remark(report, experiment, row, threads, kind):
    """The mark of what the record itself says about its number."""
    record = report.records.get(experiment, row, threads, f"{kind}_ms")
    texts = [
        text
        for text in (
            (made_how(record),)
            if record.get("state")
            else (
                record.get("note"),
                apart(report.records, record, threads),
                again(report.records, record),
            )
        )
        if text
    ]
    return (
        report.note(
            "; ".join(f"{t[0].upper()}{t[1:]}" if i == 0 else t for i, t in enumerate(texts)) + "."
        )
        if texts
        else ""
    )


def made_how(record):
    """The record's note without what it says of all its decodes, whatever state they were in."""
    parts = (record.get("note") or "").split("; ")
    return "; ".join(p for p in parts if not any(word in p for word in OF_ALL_STATES))


def apart(records, record, threads):
    """How long before or after its baseline the row was measured, if that is long."""
    base = decode.against(records, record["experiment"], record["row"], threads)
    other = records.get(record["experiment"], base, threads, record["metric"])
    times = [r and r.get("date") for r in (record, other)]
    if not all(times):
        return ""
    minutes = abs((_time(times[0]) - _time(times[1])).total_seconds()) / 60
    return f"measured {minutes:.0f} minutes apart from `{base}`" if minutes > FAR_APART else ""


def again(records, record):
    """Whether earlier measurements by the same code stand behind this one."""
    count = sum(
        all(r.get(k) == record.get(k) for k in ("row", "threads", "metric", "commit"))
        and r["value"] is not None
        for r in records.history(record["experiment"])
    )
    return f"the last of {count} measurements by this code" if count > 1 else ""


def _time(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def whose_dense(records, experiment, threads, kind):
    said = {}
    bases = [decode.against(records, experiment, row, threads) for row in records.rows(experiment)]
    for base in dict.fromkeys(bases):
        value, whose = decode.dense_reference(records, experiment, base, threads, f"{kind}_ms")
        said[base] = f"`{base}`: {whose}, {number(value.value)} ms" if value else f"`{base}`: gap"
    return "Speed-ups divide the fastest dense measured (" + "; ".join(said.values()) + ")."


def read_rates(records, experiment, threads):
    rates = [
        r["value"]
        for row in records.rows(experiment)
        if (r := records.get(experiment, row, threads, "read_gbps"))
    ]
    if not rates:
        return ""
    return f" Memory read {number(min(rates))} to {number(max(rates))} GB/s beside these rows."


def how_paired(records, experiment, threads):
    """In words, what stands behind speed-ups of one state."""
    if not states.name_of(records):
        return ""
    sittings = max(
        len(states.closings(records, experiment, row, threads)) for row in records.rows(experiment)
    )
    return (
        f" In the {records.state} state the fixed read comes to "
        f"{number(records.states.centres[records.state])} GB/s. Speed-ups are medians over rounds "
        "that both rows were in (of rows that were never in memory together, ratios of medians), in "
        "brackets their 95 % interval (rounds resampled in blocks of 10 s)"
        + (
            f"; medians of {sittings} sittings, from the lowest to the highest end."
            if sittings > 1
            else "."
        )
    )


def size_table(report, experiment):
    """Counts of every row: parameters, weights and bytes read; feed-forward rows where chosen."""
    records = report.records
    found = {}
    for row in records.rows(experiment):
        for threads in sorted(records.threads(), reverse=True):
            figures = decode.row_figures(records, experiment, row, threads)
            if "parameters" in figures:
                found.setdefault(row, figures)
    if not found:
        return []
    cached = any("cache_share" in f for f in found.values())
    touched = len({f["rows_touched"].value for f in found.values() if "rows_touched" in f}) > 1
    lines = header(
        "row",
        "parameters",
        "weights read a token",
        "a block",
        "MB a token",
        "a block",
        *(["caches could hold of it"] if cached else []),
        *(["feed-forward rows"] if touched else []),
    )
    for row, figures in found.items():
        cells = [
            number(figures[m].value * factor if m in figures else None)
            for m, factor in (
                ("parameters", 1),
                ("token_weights_read", 1),
                ("block_weights_read", 1),
                ("token_bytes", 1e-6),
                ("block_bytes", 1e-6),
            )
        ]
        if cached:
            share = figures.get("cache_share")
            cells.append(f"{share.value:.0%}" if share else "–")
        if touched:
            cells.append(cell(report, figures.get("rows_touched")))
        lines.append(line(f"`{row}`", *cells))
    if any(f["cache_share"].value > decode.WARM for f in found.values() if "cache_share" in f):
        lines += [
            "",
            f"Where caches could hold more than {decode.WARM:.0%} of what a token reads, a decode may be faster than from "
            "memory alone; of the others a stream over everything leaves next to nothing in a cache.",
        ]
    if touched:
        lines += [
            "",
            "Feed-forward rows: different ones, of W1 and of W2 alike, that a block "
            "read in a whole decode of 12 tokens; of W2 alone where zeros are skipped.",
        ]
    return lines


def transformer_beside_terraformer(report, threads, suffix=""):
    """Tokens of Tables 1 and 6 at 17B, each speed-up against its own dense model."""
    names = tuple(name + suffix.replace(".", "_") for name in ("table1_17b", "table6_17b"))
    if not report.records.rows(names[1]):
        return []
    lines = header(
        "17B token, ms",
        *(
            "Transformer, paper",
            "speed-up",
            "ours",
            "speed-up",
            "Terraformer, paper",
            "speed-up",
            "ours",
            "speed-up",
        ),
    )
    for terraformer, transformer in SIDE_BY_SIDE.items():
        cells = []
        for experiment, row in zip(names, (transformer + suffix, terraformer + suffix)):
            theirs = paper.published(experiment, row) or paper.Published()
            figures = decode.row_figures(report.records, experiment, row, threads)
            cells += [
                number(theirs.token_ms),
                number(theirs.token_speedup, "×"),
                cell(report, figures.get("token_ms")),
                cell(report, figures.get("token_speedup"), "×"),
            ]
        lines.append(line(f"`{terraformer}{suffix}`", *cells))
    return lines


def parts_of(records, experiment, row, threads):
    """{part: (ms, floor ms)} of those that were measured; older records say seat, not part."""
    measured = records.of_row(experiment, row, threads)

    def number_of(part, ending):
        return measured.get(f"part.{part}.{ending}") or measured.get(f"seat.{part}.{ending}")

    pairs = {part: (number_of(part, "ms"), number_of(part, "floor_ms")) for part in PARTS}
    return {
        part: (time["value"], floor["value"])
        for part, (time, floor) in pairs.items()
        if time and floor
    }


def parts_table(records, experiment, threads):
    """A line a row, a column a part that any row has: "ms (floor over time)"."""
    rows = {
        row: found
        for row in records.rows(experiment)
        if (found := parts_of(records, experiment, row, threads))
    }
    parts = [part for part in PARTS if any(part in found for found in rows.values())]
    if not rows:
        return []
    lines = header("row", *(f"{PARTS[part]}, ms" for part in parts))
    for row, found in rows.items():
        cells = [
            f"{number(found[p][0])} ({number(found[p][1] / found[p][0], digits=2)})"
            if p in found
            else "–"
            for p in parts
        ]
        lines.append(line(f"`{row}`", *cells))
    return lines + [
        "",
        "In brackets the floor over the time. One thread reads the clock between parts, of "
        "tokens over 0.15 s on every one, else on the last of a decode that is not timed; what it "
        "waits for others counts. Norms are computed by every thread, on numbers that caches "
        "hold.",
    ]


def most_lost(records, experiment, row, threads):
    """In words, the part that is furthest above its floor; empty if parts were not measured."""
    lost = {
        part: time - floor
        for part, (time, floor) in parts_of(records, experiment, row, threads).items()
    }
    if not lost:
        return ""
    part = max(lost, key=lost.get)
    return f"; {number(lost[part], digits=2)} ms of a block lost in its {PARTS[part]}"


def barriers(records, experiment, row, threads):
    """In words, the barriers that a block passes, and what they take where threads come at once; empty if not counted."""
    measured = records.of_row(experiment, row, threads)
    met = [found["value"] for part in PARTS if (found := measured.get(f"part.{part}.barriers"))]
    if not sum(met):
        return ""
    words = f"; {sum(met):g} barriers in a block"
    each = states.barrier_us(records) if states.name_of(records) else None
    if each is None:
        return words
    took = 1e-3 * each * sum(met)
    return words + f", {number(took, digits=2)} ms at {number(each, digits=2)} µs"


def write(report, own):
    for about in own:
        report.add(f"## {about.title}")
        if paper.note(about.name):
            report.add(paper.note(about.name))
        for threads, words in thread_counts(report.records):
            views = [view for view, _ in states.views(report.records, threads)]
            for view in views:
                write_at(report.of(view), about.name, threads, words + states.words_of(view))
            lines = parts_table(report.records, about.name, threads)
            if lines:
                whole = ", whatever the state" if len(views) > 1 else ""
                report.add(f"**Where a block's time goes, {words}{whole}**", "", *lines)
        sizes = size_table(report, about.name)
        if sizes:
            report.add("**What a row reads, counted**", "", *sizes)
        report.figure(about.name)
        report.repeat(DECODE.format(about.name))


def write_at(report, experiment, threads, words):
    """One thread count's tables."""
    for kind in ("token", "block"):
        lines = decode_table(report, experiment, threads, kind)
        if lines:
            report.add(f"**One {kind}, {words}**", "", *lines)
    if experiment.startswith("table6"):
        suffix = ".bf16" if experiment.endswith("_bf16") else ""
        lines = transformer_beside_terraformer(report, threads, suffix)
        if lines:
            report.add(f"**Tables 1 and 6 side by side, {words}**", "", *lines)


SECTION = Section(
    owns=decode.is_table,
    numbers_at=numbers_at,
    figures=table_figures.figures,
    verdicts=table_claims.verdicts,
    write=write,
)
