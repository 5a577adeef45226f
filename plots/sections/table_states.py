"""Speed-ups of rows that took turns, in each state of the machine's memory, with intervals."""

import decode
import evidence
from report import header, line, number

CLOSING = "token_ms"
KINDS = ("token", "block")
FEWEST = 6  # rounds: fewer have no 95 % interval


def states_of(records, threads):
    """The machine's States at so many threads, from the reads of every decode in the folder."""
    reads = [
        d.read
        for record in records.all()
        if record["threads"] == threads and record["metric"] == CLOSING
        for d in evidence.decodes_of(record)
        if d.read
    ]
    return evidence.states_of(reads) if reads else None


def _kept(records, experiment, row, threads):
    record = records.get(experiment, row, threads, CLOSING)
    return [d for d in evidence.decodes_of(record or {}) if d.values["kept"] and d.read]


def _with_interval(ratio):
    ends = f"[{number(ratio.low)}, {number(ratio.high)}]" if ratio.rounds >= FEWEST else "[–]"
    return f"{number(ratio.value, '×')} {ends}"


def table(records, experiment, threads):
    """A line a row and state; empty where records do not hold their decodes."""
    states = states_of(records, threads)
    if states is None:
        return []
    lines = header(
        "row", "state", "rounds", *(f"{kind}, speed-up [95 %]" for kind in KINDS), "GB/s"
    )
    empty = len(lines)
    for row in records.rows(experiment):
        base = decode.against(records, experiment, row, threads)
        if base == row:
            continue
        ours, theirs = (_kept(records, experiment, r, threads) for r in (row, base))
        for name, centre in states.centres.items():
            found = [evidence.paired(theirs, ours, f"{kind}_ms", (states, name)) for kind in KINDS]
            if not all(found):
                continue
            lines.append(
                line(
                    f"`{row}`",
                    name,
                    str(found[0].rounds),
                    *map(_with_interval, found),
                    number(centre),
                )
            )
    if len(lines) == empty:
        return []
    shares = ", ".join(f"{name} {share:.0%}" for name, share in states.shares.items())
    return lines + [
        "",
        "Medians over rounds of the dense row's time over this row's, both of one round and in one "
        "state; blocks of rounds of at least 10 s resampled. States are read off the distribution "
        f"of a fixed 1 GiB read beside every decode of this folder: {shares} of the reads. Our own "
        "dense row is divided here, whoever is the fastest.",
    ]
