"""Where a block's time goes: seat by seat of a decode, each beside its floor."""

from report_tables import header, line, number

# As models/seat.h has them.
SEATS = {"layer_norms": "norms and sums", "projection": "projections",
         "self_attention": "self-attention", "cross_projection": "cross projections",
         "cross_attention": "cross-attention", "feed_forward": "feed-forward",
         "recurrence": "recurrence"}


def of_row(records, experiment, row, threads):
    """{seat: (ms, floor ms)} of those that were measured."""
    measured = records.of_row(experiment, row, threads)
    pairs = {seat: tuple(measured.get(f"seat.{seat}.{ending}") for ending in ("ms", "floor_ms"))
             for seat in SEATS}
    return {seat: (time["value"], floor["value"]) for seat, (time, floor) in pairs.items()
            if time and floor}


def table(records, experiment, threads):
    """A line a row, a column a seat that any row has: "ms (floor over time)"."""
    rows = {row: found for row in records.rows(experiment)
            if (found := of_row(records, experiment, row, threads))}
    seats = [seat for seat in SEATS if any(seat in found for found in rows.values())]
    if not rows:
        return []
    lines = header("row", *(f"{SEATS[seat]}, ms" for seat in seats))
    for row, found in rows.items():
        cells = [f"{number(found[s][0])} ({number(found[s][1] / found[s][0], digits=2)})"
                 if s in found else "–" for s in seats]
        lines.append(line(f"`{row}`", *cells))
    return lines + [
        "", "In brackets the floor over the time. One thread reads the clock between seats, of "
        "tokens over 0.15 s on every one, else on the last of a decode that is not timed; what it "
        "waits for others counts. Norms are computed by every thread, on numbers that caches "
        "hold."]


def most_lost(records, experiment, row, threads):
    """In words, the seat that is furthest above its floor; empty if seats were not measured."""
    lost = {seat: time - floor for seat, (time, floor)
            in of_row(records, experiment, row, threads).items()}
    if not lost:
        return ""
    seat = max(lost, key=lost.get)
    return f"; {number(lost[seat], digits=2)} ms of a block lost in its {SEATS[seat]}"
