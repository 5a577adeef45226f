"""Reads Google Benchmark's output of bench_kernels into plain runs.

Names are kernel/shape/set/weight type/tokens; counters are `bytes` and `flops` of one iteration, or
`bytes_per_second` and `flops_per_second`, and `percent_of_ceiling`.
"""

from typing import NamedTuple

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


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
    percent_of_ceiling: float = 0.0
    error: str = ""

    @property
    def intensity(self):
        """FLOP per byte of weights."""
        return self.gflops / self.gbps


def read(document):
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
        seconds = entry.get("real_time", 0) * SECONDS[entry.get("time_unit", "ns")]
        bytes_rate = _rate(entry, "bytes", seconds)
        flops_rate = _rate(entry, "flops", seconds)
        if bytes_rate and flops_rate:
            found[name] = Run(name, *parts, gbps=bytes_rate / 1e9, gflops=flops_rate / 1e9,
                              percent_of_ceiling=entry.get("percent_of_ceiling", 0.0))
        else:
            found.setdefault(name, Run(name, *parts, error="no counters of bytes and FLOPs"))
    return list(found.values())


def _rate(entry, counter, seconds):
    """Counts a second from `<counter>_per_second`, or from `<counter>`, a count an iteration."""
    rate = entry.get(f"{counter}_per_second")
    if rate is None and seconds > 0:
        rate = entry.get(counter, 0) / seconds
    return rate
