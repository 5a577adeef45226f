"""Roofline with every kernel: FLOP/s over FLOP/byte under the measured ceilings."""

import chart
import derive
import kernel_runs

MARKERS = "osD^v<>pPX*h"


def draw(records):
    runs = kernel_runs.read(records.kernels())
    good = [r for r in runs if not r.error]
    if not good:
        raise chart.Missing("no usable kernels.json" + (", every kernel failed" if runs else ""))
    threads = kernel_runs.threads(records.kernels())
    limits = {n: v.value for n, (v, _) in derive.ceilings(records, threads).items()}
    figure, (axes,) = chart.new(3.9)
    kernels = sorted({r.kernel for r in good})
    for index, kernel in enumerate(kernels):
        marker = MARKERS[index % len(MARKERS)]
        for filled in (True, False):
            points = [r for r in good if r.kernel == kernel and (r.kernel_set == "simd") == filled]
            axes.plot([r.intensity for r in points], [r.gflops for r in points], marker,
                      color=f"C{index % 10}", markersize=4.5 if filled else 3.5,
                      markerfacecolor=None if filled else "none",
                      markeredgewidth=0.6, markeredgecolor="black" if filled else f"C{index % 10}",
                      label=kernel.replace("_", " ") if filled else None, zorder=3 if filled else 2)
    low, high = min(r.intensity for r in good) / 2, max(r.intensity for r in good) * 2
    roof(axes, limits, low, max(high, 2 * knee(limits)))
    axes.set_xscale("log")
    axes.set_yscale("log")
    chart.plain_log(axes.xaxis)
    chart.plain_log(axes.yaxis)
    axes.set_xlabel("intensity, FLOP/byte")
    axes.set_ylabel(f"GFLOP/s ({threads} thread{'s' if threads > 1 else ''})")
    handles, labels = axes.get_legend_handles_labels()
    handles.append(axes.plot([], [], "o", markerfacecolor="none", markeredgecolor="black",
                             markersize=3.5)[0])
    labels.append("other kernel sets")
    chart.legend_above(axes, handles, labels, columns=2)
    failed = len(runs) - len(good)
    if failed:
        axes.text(0.98, 0.02, f"{failed} kernels did not run: see the report", fontsize=7,
                  transform=axes.transAxes, ha="right")
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
    axes.annotate(f"{peak:.0f} GFLOP/s", (high, peak), xytext=(0, 3), fontsize=7, ha="right",
                  textcoords="offset points")
    dot = limits.get("bf16_dot_gflops", 0)
    if dot > peak:
        high = max(high, dot / read)
        axes.plot([bend, dot / read, high], [peak, dot, dot], color="black", linewidth=0.8,
                  linestyle="--", zorder=1)
        axes.annotate(f"{dot:.0f} GFLOP/s, bf16 dot product", (high, dot), xytext=(0, 3),
                      fontsize=7, ha="right", textcoords="offset points")
    axes.annotate(f"{read:.0f} GB/s", (bend / 4, peak / 4), xytext=(-4, 3), fontsize=7,
                  ha="right", textcoords="offset points")
