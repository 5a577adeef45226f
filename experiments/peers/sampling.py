"""Batches of tokens between fixed reads of memory: what a peer's time, its interval and its state are made of again."""

import statistics
import time
from typing import NamedTuple

import ceilings

BATCH_SECONDS = 1
MOST, FEWEST = 6, 3  # batches at least: of a whole measurement, of one too short for so many
COLUMNS = ("round", "at_s", "kept", "tokens", "block_ms", "read_before_gbps", "state_read_gbps")
FLOORS = ("read_gbps", "block_floor_ms")  # of a dense block beside which memory was read


class Batch(NamedTuple):
    """Reads are in GB/s, None where nothing reads."""

    at: float  # seconds since the first began
    times: list  # seconds of each token
    before: float | None
    after: float | None

    @property
    def is_steady(self):
        """Whether memory was as fast after as before."""
        return self.before is None or ceilings.agree(self.before, self.after)


def least_batches(seconds):
    return max(FEWEST, min(MOST, round(seconds)))


def batch_seconds(seconds):
    """Of each, of a measurement that takes so long."""
    return min(BATCH_SECONDS, seconds / least_batches(seconds))


def take(run, read, seconds, clock=time.perf_counter):
    """([Batch], whether memory would not stay as it was): run() gives the seconds of each token of a batch, read() GB/s.

    Goes on until steady batches last so many seconds; if all of them last twice that before, it ends.
    """
    least = least_batches(seconds)
    found, lasted = [], []
    before = read()
    began = clock()
    while True:
        at = clock()
        times = run()
        lasted.append(clock() - at)
        after = read()
        found.append(Batch(at - began, times, before, after))
        before = after
        steady = [s for s, batch in zip(lasted, found) if batch.is_steady]
        if len(steady) >= least and sum(steady) >= seconds:
            return found, False
        if len(found) >= 2 * least and sum(lasted) >= 2 * seconds:
            return found, True


def table(found, unstable, blocks, size):
    """{"columns", "rows"} of batches, a line each, as decodes have them; blocks: in a token; size: bytes a dense one reads,
    or 0.

    An unstable machine's batches are kept all.
    """
    has_floor = bool(size) and all(batch.before for batch in found)
    rows = []
    for number, batch in enumerate(found):
        row = [
            number,
            _rounded(batch.at),
            int(unstable or batch.is_steady),
            len(batch.times),
            _rounded(1e3 * statistics.median(batch.times) / blocks),
            _rounded(batch.before),
            _rounded(batch.after),
        ]
        if has_floor:
            rate = statistics.fmean((batch.before, batch.after))
            row += [_rounded(rate), _rounded(size / rate / 1e6)]
        rows.append(row)
    return {"columns": [*COLUMNS, *(FLOORS if has_floor else ())], "rows": rows}


def numbers(samples):
    """What a record says of kept lines: {"block_ms": quartiles, "block_efficiency": quartiles or None, "read_gbps": median or
    None, "repeats"}; quartiles: (low, median, high)."""
    kept = [
        row for row in (dict(zip(samples["columns"], r)) for r in samples["rows"]) if row["kept"]
    ]
    reads = [
        statistics.fmean((row["read_before_gbps"], row["state_read_gbps"]))
        for row in kept
        if row["state_read_gbps"]
    ]
    shares = [row["block_floor_ms"] / row["block_ms"] for row in kept if "block_floor_ms" in row]
    return {
        "block_ms": quartiles([row["block_ms"] for row in kept]),
        "block_efficiency": quartiles(shares) if shares else None,
        "read_gbps": statistics.median(reads) if reads else None,
        "repeats": len(kept),
    }


def quartiles(values):
    """(low, median, high) by straight lines between neighbours."""
    if len(values) < 2:
        return (values[0],) * 3
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


def _rounded(value):
    """Six digits, more than any of these is known to."""
    return None if value is None else float(f"{value:.6g}")
