"""Sparsity sweep (Table 2): time and floor of a token over N, mixture-of-experts beside it."""

import chart
import derive
import paper


def draw(records):
    threads = records.all_threads()
    points, floors, experts, skipping = [], [], None, []
    for row in records.rows("table2"):
        time = derive.measured(records, "table2", row, threads, "token_ms")
        floor = derive.measured(records, "table2", row, threads, "token_floor_ms")
        record = records.get("table2", row, threads, "token_ms")
        if time is None:
            continue
        if not derive.is_ranked(record):
            skipping.append((1, time))
            continue
        if derive.setting(record, "feed_forward", "").startswith("moe"):
            experts = (row, time)
            continue
        sparse = derive.setting(record, "feed_forward") == "sparse"
        n = int(derive.setting(record, "sparsity", 1)) if sparse else 1
        points.append((n, time))
        floors += [(n, floor)] if floor else []
    if not points:
        raise chart.Missing("no token times in table2")
    points.sort(key=lambda p: p[0])
    floors.sort(key=lambda p: p[0])
    figure, (axes,) = chart.new(2.5)
    chart.curve(axes, points, label="ours", **chart.SPARSE)
    axes.plot([n for n, _ in floors], [v.value for _, v in floors], label="ours, floor",
              **chart.LIMIT)
    theirs = [(n, paper.published("table2", f"n{n}").token_ms) for n in (1, 64, 128)]
    axes.plot(*zip(*theirs), label="paper", markerfacecolor="white", **chart.DENSE)
    if experts:
        row, time = experts
        doubt = "" if time.status == "ok" else f" ({time.status.replace('_', ' ')})"
        axes.axhline(time.value, label=f"ours, {chart.pretty(row)}{doubt}", color="#d55e00",
                     linestyle="-.", linewidth=0.9)
    if skipping:
        chart.curve(axes, skipping, label="dense, skips zeros, not ranked", color="#444444",
                    marker="x", linestyle="none")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    chart.plain_log(axes.xaxis, sorted({n for n, _ in points} | {1, 64, 128}))
    chart.plain_log(axes.yaxis)
    axes.set_xlabel("N: one neuron in N is computed (1: dense)")
    axes.set_ylabel("time of a token, ms")
    chart.legend_above(axes)
    return figure
