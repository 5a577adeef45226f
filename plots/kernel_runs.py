"""Reads Google Benchmark's output of bench_kernels into plain runs.

Names are kernel/shape/set/weight type/tokens; of the counters the rates `bytes/s` and `FLOP/s` are
read. A file holds one thread count.
"""

from typing import NamedTuple


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
        bytes_rate, flops_rate = entry.get("bytes/s"), entry.get("FLOP/s")
        if bytes_rate and flops_rate:
            found[name] = Run(name, *parts, gbps=bytes_rate / 1e9, gflops=flops_rate / 1e9)
        else:
            found.setdefault(name, Run(name, *parts, error="no rates of bytes and FLOPs"))
    return list(found.values())


def threads(document):
    """How many shared each call, one unless the document's context says otherwise."""
    return int(((document or {}).get("context") or {}).get("team_threads", 1))
