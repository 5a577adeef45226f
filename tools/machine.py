"""What a machine is, as far as times depend on it and the system tells: written to machine.json beside the records."""

import json
import os
from pathlib import Path

CACHE = "sys/devices/system/cpu/cpu{}/cache"
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _read(root, path):
    try:
        return (root / path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _after(text, key):
    """What stands behind the colon of the first line that begins with key."""
    found = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith(key))
    return next(found, "")


def _bytes(text):
    """Of "32768K"."""
    digits = text.rstrip("KMG")
    return int(digits) * UNITS.get(text[-1:], 1) if digits.isdigit() else 0


def last_level_cache(root, processors):
    """(bytes, [processors that share it]) of each that these processors have; bytes 0: not told."""
    found = {}
    for processor in processors:
        levels = sorted((root / CACHE.format(processor)).glob("index*"))
        if levels:
            last = max(levels, key=lambda level: int(_read(level, "level") or 0))
            shared = _read(last, "shared_cpu_list")
            found.setdefault(shared, (_bytes(_read(last, "size")), shared))
    return list(found.values())


def cpu(root=Path("/")):
    """A processor's model name and family-model-stepping, as in records: "AMD EPYC (25-17-1)"; virtual machines give
    processors of several generations one name."""
    cpuinfo = _read(root, "proc/cpuinfo")
    name, generation = _after(cpuinfo, "model name"), _generation(cpuinfo)
    if not name:
        return "unknown"
    return f"{name} ({generation})" if _after(cpuinfo, "cpu family") else name


def _generation(cpuinfo):
    return "-".join(_after(cpuinfo, key) for key in ("cpu family", "model\t", "stepping"))


def describe(root=Path("/"), processors=None):
    """{"cpu", "processors", "l3_bytes", "l3_shared_by", "memory_bytes", "virtual", "huge_pages", "kernel"}; root: of another
    machine's /proc and /sys."""
    processors = sorted(os.sched_getaffinity(0)) if processors is None else processors
    cpuinfo = _read(root, "proc/cpuinfo")
    caches = last_level_cache(root, processors)
    memory = _after(_read(root, "proc/meminfo"), "MemTotal").split()
    pages = _read(root, "sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "cpu": _after(cpuinfo, "model name"),
        "family_model_stepping": _generation(cpuinfo),
        "processors": processors,
        "l3_bytes": sum(size for size, _ in caches),
        "l3_shared_by": [shared for _, shared in caches],
        "memory_bytes": int(memory[0]) * 1024 if memory else 0,
        "virtual": "hypervisor" in _after(cpuinfo, "flags").split(),
        "huge_pages": pages.partition("[")[2].partition("]")[0],
        "kernel": _read(root, "proc/sys/kernel/osrelease"),
    }


def write(folder):
    path = Path(folder) / "machine.json"
    path.write_text(json.dumps(describe(), indent=1) + "\n", encoding="utf-8")
