"""The machine's limits: ceilings, and every kernel under them (Google Benchmark's kernels.json).

Kernels are named kernel/shape/set/weight type/tokens; of the counters the rates `bytes/s` and `FLOP/s`
are read. A file holds one thread count.
"""

from typing import NamedTuple

import numpy

import chart
import evidence
import states
from report import cell, header, line, number
from section import Section, of
from values import combine, measured, of_record, setting

MARKERS = "osD^v<>pPX*h"
LOADS = "load", "load_apart"
SHARES = (5, 25, 50, 75, 95)  # percentiles of reads
SMALL_PAGES = (
    1.5  # of a neighbour's load: from there on a load in another page tells of a small one
)


PAGES_CHANGED = 1.5
SHOWN = 5  # rows that a sentence names


class Run(NamedTuple):
    """One kernel case; without `error`, rates are positive."""

    name: str
    kernel: str
    shape: str
    kernel_set: str
    weight_type: str
    tokens: str
    gbps: float = 0.0
    gflops: float = 0.0
    error: str = ""

    @property
    def intensity(self):
        """FLOP per byte of weights."""
        return self.gflops / self.gbps


def read_kernels(document):
    """[Run] of the parsed JSON, medians or single iterations; empty if there is no document."""
    found = {}
    for entry in (document or {}).get("benchmarks", ()):
        if entry.get("run_type") == "aggregate" and entry.get("aggregate_name") != "median":
            continue
        name = entry.get("run_name") or entry["name"]
        parts = (name.split("/") + [""] * 5)[:5]
        if entry.get("error_occurred"):
            found.setdefault(name, Run(name, *parts, error=entry.get("error_message") or "failed"))
            continue
        bytes_rate, flops_rate = entry.get("bytes/s"), entry.get("FLOP/s")
        if bytes_rate and flops_rate:
            found[name] = Run(name, *parts, gbps=bytes_rate / 1e9, gflops=flops_rate / 1e9)
        else:
            found.setdefault(name, Run(name, *parts, error="no rates of bytes and FLOPs"))
    return list(found.values())


def kernel_threads(document):
    """How many shared each call, one unless the document's context says otherwise."""
    return int(((document or {}).get("context") or {}).get("team_threads", 1))


def ceilings(records, threads):
    """{metric: (Value, row)}: reading is from memory, not cache; the product the best library's."""
    found = {}
    for metric in ("read_gbps", "fma_gflops", "bf16_dot_gflops", "gemm_gflops"):
        rows = [
            (row, measured(records, "ceilings", row, threads, metric))
            for row in records.rows("ceilings")
        ]
        rows = [(row, value) for row, value in rows if value]
        if not rows:
            continue
        if metric == "read_gbps":  # the largest buffer is the one no cache holds
            row, value = max(
                rows,
                key=lambda item: setting(
                    records.get("ceilings", item[0], threads, metric), "size", 0
                ),
            )
        else:
            row, value = max(rows, key=lambda item: item[1].value)
        found[metric] = (value, row)
    return found


def loads(records):
    """(Value beside, Value apart) of a load by one thread: ceilings.h; None where they were not measured."""
    for threads in records.threads():  # both are measured at the first count of a run
        each = [measured(records, "ceilings", row, threads, "load_ns") for row in LOADS]
        if all(each):
            return each
    return None


def pages(records):
    """Whether huge pages are such for the processor, in words; empty where loads were not measured."""
    found = loads(records)
    if not found:
        return ""
    beside, apart = (number(value.value, " ns") for value in found)
    small = SMALL_PAGES * found[0].value
    if found[1].value < small <= found[1].high:
        return f"small underneath in some sittings (a load in another 4 KiB takes up to {number(found[1].high)} ns, one beside {beside})."
    if found[1].value < small:
        return f"huge (a load in another 4 KiB takes {apart}, one beside {beside})."
    return (
        f"**small underneath what the system calls huge** (a load in another 4 KiB takes {apart}, one beside {beside}), as a "
        "hypervisor may have it: every row in another page waits for page tables; what that costs a layer is not measured."
    )


def of_weights(records):
    """(Value, [row]) of a load from another page of a row's own weights, beside its decodes: the median over rows and decodes,
    to its 5th and 95th percentile, and the rows of which two decodes at least had loads PAGES_CHANGED times as long as two
    others: their pages changed meanwhile. None where it was not measured."""
    every, changed, inputs = [], [], []
    for experiment, row, threads in records.places():
        for closing in states.closings(records, experiment, row, threads):
            each = sorted(
                ns
                for decode in evidence.decodes_of(closing)
                if decode.values["kept"] and (ns := decode.values.get("load_apart_ns"))
            )
            if each:
                every += each
                inputs.append(of_record(closing)._replace(status="ok"))
                if len(each) > 3 and each[-2] >= PAGES_CHANGED * each[1]:
                    changed.append(f"{experiment}, {row}")
    if not every:
        return None
    low, middle, high = numpy.percentile(every, (5, 50, 95))
    return combine(float(middle), "ns", float(low), float(high), inputs), sorted({*changed})


def weights_text(records):
    """The same in words; empty where it was not measured."""
    found = of_weights(records)
    if not found:
        return ""
    value, changed = found
    text = (
        f"In the rows' own weights such a load took {number(value.value, ' ns')} beside decodes, "
        f"{number(value.low)} to {number(value.high, ' ns')} but for one in twenty at either end"
    )
    if not changed:
        return f"{text}."
    named = "; ".join(f"`{row}`" for row in changed[:SHOWN])
    more = f" and {len(changed) - SHOWN} others" if len(changed) > SHOWN else ""
    return f"{text}; pages changed between the decodes of {named}{more}."


def numbers(records, _own):
    found = loads(records)
    weights = of_weights(records)
    return {f"memory.{name}_ns": value for name, value in zip(LOADS, found or ())} | (
        {"memory.load_apart_in_weights_ns": weights[0]} if weights else {}
    )


def numbers_at(records, _own, threads):
    return {f"ceilings.{name}": value for name, (value, _) in ceilings(records, threads).items()}


def ceiling_table(report):
    records = report.records
    counts = sorted(records.threads(), reverse=True)
    rows = records.rows("ceilings")
    if not rows:
        return []
    lines = header("ceiling", *(f"{t} threads" if t > 1 else "1 thread" for t in counts))
    for row in rows:
        for metric, unit in (
            ("read_gbps", " GB/s"),
            ("fma_gflops", " GFLOP/s"),
            ("bf16_dot_gflops", " GFLOP/s"),
            ("gemm_gflops", " GFLOP/s"),
            ("barrier_us", " µs"),
            ("load_ns", " ns"),
        ):
            values = [measured(records, "ceilings", row, t, metric) for t in counts]
            if any(values):
                lines.append(line(f"`{row}`", *(cell(report, v, unit) for v in values)))
    return lines


def reads_table(records):
    """The distribution of the reads beside decodes, a line a number of threads and state; empty without any."""
    lines = header("threads", "state", "reads", *(f"{share} %" for share in SHARES))
    begun = len(lines)
    for threads in sorted(records.threads(), reverse=True):
        known = states.of_machine(records, threads)
        reads = states.reads(records, threads)
        for name in known.centres if known else ():
            mine = [read for read in reads if known.name(read) == name]
            ends = numpy.percentile(mine, SHARES)
            lines.append(line(str(threads), name, str(len(mine)), *map(number, ends)))
    return lines if len(lines) > begun else []


def of_which_state(records):
    """In which of two states the largest buffer was read, in words; empty where there are not two or none was."""
    said = []
    for threads in sorted(records.threads(), reverse=True):
        known = states.of_machine(records, threads)
        value, row = ceilings(records, threads).get("read_gbps", (None, ""))
        if value and known and len(known.centres) > 1:
            name = known.of_reading(value.value)
            place = f"met the {name} state" if name else "met neither state"
            said.append(f"`{row}` above, at {threads} thread{'s' if threads > 1 else ''}, {place}")
    return f"{'; '.join(said)}." if said else ""


def write(report, _own):
    report.add("## The machine's limits")
    report.add(*(ceiling_table(report) or ["Not measured: no records of `ceilings`."]))
    reads = reads_table(report.records)
    if reads:
        words = (
            "Beside every decode a fixed GiB is read; GB/s by shares of the reads. A state is found from these alone, and "
            "tables stand on the ceilings read beside their decodes, not on those above. "
        )
        report.add(words + of_which_state(report.records), "", *reads)
    report.repeat("./build/release/experiments/ceilings")
    document = report.records.benchmark("kernels.json")
    if document:
        count = kernel_threads(document)
        report.add(
            f"Kernels of the roofline at {count} thread{'s' if count > 1 else ''}, commit "
            f"{(document.get('context') or {}).get('commit', 'unknown')}."
        )
    report.figure("roofline")
    failed = [f"`{run.name}`: {run.error}" for run in read_kernels(document) if run.error]
    if failed:
        report.add("Kernels that did not run:", "", *(f"- {line}" for line in failed))


def draw(records):
    """Roofline with every kernel: FLOP/s over FLOP/byte under the measured ceilings."""
    document = records.benchmark("kernels.json")
    runs = read_kernels(document)
    good = [r for r in runs if not r.error]
    if not good:
        raise chart.Missing("no usable kernels.json" + (", every kernel failed" if runs else ""))
    threads = kernel_threads(document)
    limits = {n: v.value for n, (v, _) in ceilings(records, threads).items()}
    figure, (axes,) = chart.new(3.9)
    kernels = sorted({r.kernel for r in good})
    for index, kernel in enumerate(kernels):
        marker = MARKERS[index % len(MARKERS)]
        for filled in (True, False):
            points = [r for r in good if r.kernel == kernel and (r.kernel_set == "simd") == filled]
            axes.plot(
                [r.intensity for r in points],
                [r.gflops for r in points],
                marker,
                color=f"C{index % 10}",
                markersize=4.5 if filled else 3.5,
                markerfacecolor=None if filled else "none",
                markeredgewidth=0.6,
                markeredgecolor="black" if filled else f"C{index % 10}",
                label=kernel.replace("_", " ") if filled else None,
                zorder=3 if filled else 2,
            )
    low, high = min(r.intensity for r in good) / 2, max(r.intensity for r in good) * 2
    roof(axes, limits, low, max(high, 2 * knee(limits)))
    axes.set_xscale("log")
    axes.set_yscale("log")
    chart.plain_log(axes.xaxis)
    chart.plain_log(axes.yaxis)
    axes.set_xlabel("intensity, FLOP/byte")
    axes.set_ylabel(f"GFLOP/s ({threads} thread{'s' if threads > 1 else ''})")
    handles, labels = axes.get_legend_handles_labels()
    handles.append(
        axes.plot([], [], "o", markerfacecolor="none", markeredgecolor="black", markersize=3.5)[0]
    )
    labels.append("other kernel sets")
    chart.legend_above(axes, handles, labels, columns=2)
    failed = len(runs) - len(good)
    if failed:
        axes.text(
            0.98,
            0.02,
            f"{failed} kernels did not run: see the report",
            fontsize=7,
            transform=axes.transAxes,
            ha="right",
        )
    return figure


def knee(limits):
    if "read_gbps" not in limits or "fma_gflops" not in limits:
        return 0.0
    return limits["fma_gflops"] / limits["read_gbps"]


def roof(axes, limits, low, high):
    """min(bandwidth × intensity, peak), as far as it was measured, with its numbers."""
    if not knee(limits):
        return
    bend = knee(limits)
    read, peak = limits["read_gbps"], limits["fma_gflops"]
    axes.plot([low, bend, high], [low * read, peak, peak], color="black", linewidth=1.2, zorder=1)
    axes.annotate(
        f"{peak:.0f} GFLOP/s",
        (high, peak),
        xytext=(0, 3),
        fontsize=7,
        ha="right",
        textcoords="offset points",
    )
    dot = limits.get("bf16_dot_gflops", 0)
    if dot > peak:
        high = max(high, dot / read)
        axes.plot(
            [bend, dot / read, high],
            [peak, dot, dot],
            color="black",
            linewidth=0.8,
            linestyle="--",
            zorder=1,
        )
        axes.annotate(
            f"{dot:.0f} GFLOP/s, bf16 dot product",
            (high, dot),
            xytext=(0, 3),
            fontsize=7,
            ha="right",
            textcoords="offset points",
        )
    axes.annotate(
        f"{read:.0f} GB/s",
        (bend / 4, peak / 4),
        xytext=(-4, 3),
        fontsize=7,
        ha="right",
        textcoords="offset points",
    )


def figures(_records, _own):
    return {"roofline": draw}


SECTION = Section(
    owns=of("ceilings"),
    numbers_at=numbers_at,
    numbers=numbers,
    figures=figures,
    write=write,
    place=-1,
)
