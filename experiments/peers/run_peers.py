"""Times one decoder block in PyTorch (eager and compiled), jitted JAX, ggml, MKL and oneDNN and writes records beside the
other experiments'.

Needs the packages of requirements.txt and what build_libraries.py makes (run_all.sh --peers makes a virtual
environment with both). Memory is on huge pages, as ours is. Each row runs in a process of its own, bound to as many cores
as it may use, and is checked against numpy first. Its tokens are timed in batches (sampling.py), a line each in the
records; before and after each our driver `ceilings`, where it is built, reads a fixed GiB. A batch after which memory was
not as fast as before is rejected.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from record import HERE, ROOT, RecordFile

EXPERIMENT = "peers_python"
TIME_ONE = HERE / "time_one.py"
MAX_EFFICIENCY = 1.03  # above it, something is measured or counted wrongly
# Weight types that the peer computes with as they are: the sparse block's choices flip when JAX rounds the controller's
# products to bf16, so that it cannot be checked against the definition.
ROWS = [
    (f"{shape}.{name}{'' if dtype == 'f32' else f'.{dtype}'}", peer, shape, variant, dtype)
    for shape in ("800m", "17b")
    for dtype, name, peer, variant in (
        ("f32", "pytorch", "pytorch", "dense"),
        ("f32", "pytorch.ff_qkv_cross", "pytorch", "ff_qkv_cross"),
        ("f32", "pytorch_compiled", "pytorch_compiled", "dense"),
        ("f32", "pytorch_compiled.ff_qkv_cross", "pytorch_compiled", "ff_qkv_cross"),
        ("f32", "jax", "jax", "dense"),
        ("f32", "jax.ff_qkv_cross", "jax", "ff_qkv_cross"),
        ("f32", "onednn_current", "onednn", "dense"),
        ("f32", "mkl", "mkl", "dense"),
        ("f32", "ggml", "ggml", "dense"),
        ("bf16", "pytorch", "pytorch", "dense"),
        ("bf16", "pytorch_compiled", "pytorch_compiled", "dense"),
        ("bf16", "jax", "jax", "dense"),
        ("bf16", "onednn_current", "onednn", "dense"),
        ("bf16", "mkl", "mkl", "dense"),
        ("bf16", "ggml", "ggml", "dense"),
        ("q8_0", "ggml", "ggml", "dense"),
        ("q4_0", "ggml", "ggml", "dense"),
    )
]
HUGE_PAGES = (
    "glibc.malloc.hugetlb=1"  # what malloc takes for weights asks for them, in every library
)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, required=True, help="folder of the records")
    parser.add_argument("--seconds", type=float, default=10, help="of measuring a row (10)")
    parser.add_argument(
        "--rows", help="comma-separated; default: all of " + ", ".join(row[0] for row in ROWS)
    )
    parser.add_argument("--threads", help="comma-separated; default: 1 and all")
    parser.add_argument(
        "--ceilings",
        type=Path,
        metavar="PROGRAM",
        default=ROOT / "build/release/experiments/ceilings",
        help="our driver of that name (of the release build)",
    )
    parser.add_argument("--force", action="store_true", help="repeat what is already recorded")
    return parser.parse_args()


def measure(row, threads, seconds, ceilings):
    """What time_one.py says; ceilings: the driver, or None."""
    _, peer, shape, variant, dtype = row
    command = [
        sys.executable,
        str(TIME_ONE),
        "--peer",
        peer,
        "--shape",
        shape,
        "--variant",
        variant,
        "--dtype",
        dtype,
        "--threads",
        str(threads),
        "--seconds",
        str(seconds),
    ]
    if ceilings:
        command += ["--ceilings", str(ceilings)]
    tunables = ":".join(t for t in (os.environ.get("GLIBC_TUNABLES"), HUGE_PAGES) if t)
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "GLIBC_TUNABLES": tunables},
    )
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"status": "failed", "note": f"the process ended with status {done.returncode}"}


def of_quartiles(numbers):
    """Record fields of (low, median, high), or of None."""
    if numbers is None:
        return {"value": None, "low": None, "high": None, "spread": None}
    low, median, high = numbers
    return {"value": median, "low": low, "high": high, "spread": (high - low) / 2}


def records_of(row, threads, seconds, outcome, key):
    """The row's time with its samples and, for a dense block beside which memory was read, its efficiency."""
    name, peer, shape, variant, dtype = row
    versions = outcome.get("versions", "")
    samples = outcome.get("samples")
    efficiency = of_quartiles(outcome.get("block_efficiency"))
    too_fast = efficiency["value"] is not None and efficiency["value"] > MAX_EFFICIENCY
    doubt = (
        f"faster than its floor (efficiency {100 * efficiency['value']:.1f} %)" if too_fast else ""
    )
    unstable = (
        "unstable: memory was often more than 5 % faster or slower after a batch than before it"
        if outcome.get("unstable")
        else ""
    )
    note = "; ".join(
        part
        for part in (doubt, unstable, versions, outcome.get("note"), outcome.get("way"))
        if part
    )
    shared = {
        "row": name,
        "against": "",
        "threads": threads,
        "key": key,
        "repeats": outcome.get("repeats", 0),
        "status": "untrusted" if too_fast else outcome["status"],
        "note": note,
        "config": {
            "shape": shape,
            "peer": peer,
            "variant": variant,
            "weight_type": dtype,
            "batch": 1,
            "context": 16,
            "source_length": 16,
            "decoder_layers": outcome.get("layers", 0),
            "blocks_held": outcome.get("blocks_held", 0),
            "way": outcome.get("way", ""),
            "huge_page_share": outcome.get("huge_page_share"),
            "seconds": seconds,
            "batches": len(samples["rows"]) if samples else 0,
        },
        "command": f"experiments/peers/run_peers.py --rows {name} --threads {threads} --seconds {seconds:g} --results DIR",
        "seed": 1,
        "compiler": versions,
        "ceilings": outcome.get("ceilings", {}),
    }
    found = []
    if efficiency["value"] is not None:
        found.append({**shared, "metric": "block_efficiency", "unit": "1", **efficiency})
    block = of_quartiles(outcome.get("block_ms"))
    found.append({**shared, "metric": "block_ms", "unit": "ms", **block})
    if samples:
        # A group of their own in every sitting: times between batches are of one process alone.
        began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        group = f"{name}, {threads} threads, {began}, {os.getpid()}"
        found[-1]["samples"] = {"group": group, **samples}
    return found


def main():
    args = parse()
    rows = ROWS
    if args.rows:
        known = {row[0]: row for row in ROWS}
        wanted = args.rows.split(",")
        for name in wanted:
            if name not in known:
                sys.exit(f"no row '{name}'; known rows: {', '.join(known)}")
        rows = [known[name] for name in wanted]
    cores = len(os.sched_getaffinity(0))
    try:
        counts = sorted({int(n) for n in args.threads.split(",")} if args.threads else {1, cores})
    except ValueError:
        sys.exit(f"--threads {args.threads}: give numbers such as 1,2")
    if counts[0] < 1 or counts[-1] > cores:
        sys.exit(f"--threads {args.threads}: this process may use 1 to {cores} threads")
    file = RecordFile(args.results, EXPERIMENT)
    ceilings = args.ceilings
    if not ceilings.exists():
        print(
            f"{ceilings} is missing, so no ceilings are measured beside the times; ./build.sh release makes it"
        )
        ceilings = None
    for number, row in enumerate(rows):
        for threads in counts:
            key = file.key(row=row, threads=threads, seconds=args.seconds)
            title = (
                f"[{number + 1}/{len(rows)}] {row[0]}, {threads} thread{'s' if threads > 1 else ''}"
            )
            if key in file.finished and not args.force:
                print(f"{title}: already recorded", flush=True)
                continue
            print(title, flush=True)
            outcome = measure(row, threads, args.seconds, ceilings)
            records = records_of(row, threads, args.seconds, outcome, key)
            file.append(records)
            block_ms = records[-1]
            held = f"{block_ms['config']['blocks_held']} blocks"
            text = f"{block_ms['value']:.3f} ms a block, {held}, " if block_ms["value"] else ""
            print(f"  {text}{block_ms['status']}: {block_ms['note']}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; finished records stay, the same command goes on")
