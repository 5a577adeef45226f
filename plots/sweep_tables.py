"""The report's tables of the sweeps over width, cached positions and batch, and what they say."""

import derive
from report_tables import cell, header, line, number, scaled


def width_table(report, threads):
    fits = derive.width_exponents(report.records, threads)
    if not fits:
        return []
    lines = header("exponent of d_model", "paper", "bytes", "FLOPs", "block time")
    for family, theirs in (("dense", "2"), ("sparse", "1.5")):
        cells = [cell(report, fits.get((family, what)), spread=True)
                 for what in ("bytes", "flops", "time")]
        lines.append(line(family, theirs, *cells))
    times = derive.sweep(report.records, "width_sweep", threads, "block_ms", "d_model")
    at = derive.sweep_records(report.records, "width_sweep", threads, "block_ms", "d_model")
    over = derive.floors_over_bytes(report.records, threads)
    lines += ["", *header("d_model", "dense, ms", "FF+QKV, ms", "speed-up",
                          "floor / bytes, dense", "FF+QKV")]
    dense, sparse = dict(times.get("dense", ())), dict(times.get("sparse", ()))
    for d in sorted({*dense, *sparse}):
        lines.append(line(f"{d:.0f}", cell(report, dense.get(d)), cell(report, sparse.get(d)),
                          cell(report, derive.ratio_of_times(
                              *(at.get(f, {}).get(d) for f in ("dense", "sparse"))), "×"),
                          *(number(over.get(family, {}).get(d)) for family in
                            ("dense", "sparse"))))
    return lines + ["", "The paper's 1.5 counts weights. The multiplicative layers' FLOPs stay d² "
                    "each, so the sparse curve bends towards 2 where they, not memory, are the "
                    "limit. *Floor / bytes*: the floor of a block over the time of its bytes "
                    "alone at the bandwidth beside it; 1 where memory is the only limit. "
                    + floor_over_bytes_text(over.get("sparse", {})) + "."]


def floor_over_bytes_text(over):
    """Where FLOPs bend FF+QKV's floor, {d_model: floor over bytes}, in a sentence."""
    if not over:
        return "Where, is not known: no floors with ceilings beside them"
    width = derive.flops_bend_from(over)
    words = "The floor of FF+QKV over the time of its bytes alone"
    if width is None:
        return f"{words} stays at or below {derive.BENT} up to d_model {max(over):.0f}"
    return f"{words} first exceeds {derive.BENT} at d_model {width:.0f} ({over[width]:.2f}), " \
        f"and is {over[max(over)]:.2f} at {max(over):.0f}"


def context_table(report, threads):
    curves = derive.sweep(report.records, "context_sweep", threads, "block_ms", "context")
    if not curves:
        return []
    lengths = sorted({x for points in curves.values() for x, _ in points})
    lines = header("block, ms, at cached positions", *(f"{x:.0f}" for x in lengths))
    for family, points in curves.items():
        lines.append(line(f"`{family}`", *(cell(report, dict(points).get(x)) for x in lengths)))
    lines += ["", "Attention's added time at a length: a block there less a block at "
              f"{lengths[0]:.0f} cached positions."]
    for family, points in curves.items():
        lines += ["", overtaking_text(report.records, family, points, threads)]
    return lines


def overtaking_text(records, family, points, threads):
    """Where attention's added time passes the projections and the whole rest, in a sentence."""
    doubt = " (drawn from untrusted times)" if any(v.status == "untrusted" for _, v in points) else ""
    rest = f"passes all that a block takes at {points[0][0]:.0f} positions, feed-forward and " \
           f"projections together, {where(overtaking(points))}{doubt}"
    floor = projection_floor(records, f"{family}_c{points[0][0]:.0f}", threads)
    if floor is None:
        return f"`{family}`: it {rest}. What these projections take alone is not recorded."
    return f"`{family}`: it passes the floor of the projections ({number(floor)} ms: the block's " \
        "weights but for the feed-forward's, at the bandwidth beside it) " \
        f"{where(crossing(points, points[0][1].value + floor))}; it {rest}."


def where(length):
    return f"at about {about(length)} positions" if length else "nowhere in this sweep"


def about(length):
    """Two digits of a crossing between measured lengths: 5,000."""
    return f"{float(f'{length:.2g}'):,.0f}"


def projection_floor(records, row, threads):
    """ms that reading a dense block's projections takes at least; None of other blocks."""
    record = records.get("context_sweep", row, threads, "block_weights_read")
    rate = record and derive.ceiling(record, "read_gbps")
    if not rate or not derive.is_dense(record):
        return None
    sizes = [derive.setting(record, knob, 0) for knob in ("d_model", "d_ff")]
    weights = record["value"] - 2 * sizes[0] * sizes[1]
    return weights * (2 if derive.setting(record, "weight_type") == "bf16" else 4) / rate * 1e-6


def overtaking(points):
    """Cached positions where the block takes twice its time at the shortest, or None."""
    return crossing(points, 2 * points[0][1].value) if points else None


def crossing(points, target):
    """Where [(x, Value)] rises to the target, by straight lines, or None."""
    for (x0, v0), (x1, v1) in zip(points, points[1:]):
        if v0.value < target <= v1.value:
            return x0 + (x1 - x0) * (target - v0.value) / (v1.value - v0.value)
    return None


def batch_table(report, threads):
    curves = derive.sweep(report.records, "batch_sweep", threads, "block_ms", "batch")
    if not curves:
        return []
    rows = derive.sweep(report.records, "batch_sweep", threads, "rows_touched", "batch")
    floors, efficiencies = (derive.sweep(report.records, "batch_sweep", threads, metric, "batch")
                            for metric in ("block_floor_ms", "block_efficiency"))
    sizes = sorted({x for points in curves.values() for x, _ in points})
    lines = header("tokens at once", *(f"{x:.0f}" for x in sizes))
    first = next(iter(curves))
    dense_floors = dict(floors.get(first, ()))
    for family, points in curves.items():
        at = dict(points)
        lines.append(line(f"`{family}`, ms a block and token",
                          *(cell(report, scaled(at.get(x), 1 / x)) for x in sizes)))
        if family != first:
            dense = dict(curves[first])
            least = dict(floors.get(family, ()))
            lines.append(line("speed-up of a block", *(
                cell(report, derive.ratio(dense.get(x), at.get(x)), "×") for x in sizes)))
            lines.append(line("its roofline limit", *(
                cell(report, derive.ratio(dense_floors.get(x), least.get(x)), "×")
                for x in sizes)))
        lines.append(line(f"`{family}`, efficiency", *(
            cell(report, dict(efficiencies.get(family, ())).get(x)) for x in sizes)))
        touched = dict(rows.get(family, ()))
        if any(v.value for v in touched.values()):
            lines.append(line("feed-forward rows a block read in 12 steps",
                              *(cell(report, touched.get(x)) for x in sizes)))
    return lines + ["", "The limit is the ratio of both floors; a speed-up above it means that the "
                    "dense block is further from its own floor."]
