"""Checks one peer against the numpy block, times it, and prints one JSON object. Run by run_peers.py in a process
of its own, so that the threads it may use are settled before any library starts."""

import argparse
import importlib
import json
import os
import sys
import time
from pathlib import Path

import ceilings
import sampling

COLD_BYTES = 1_400_000_000
TRIED_BYTES = 350_000_000  # of blocks that each way is tried with
CHECKED_BYTES = 1 << 28  # a smaller block is checked whole
WARM_TOKENS = (
    3  # of a batch, uncounted: a read of a GiB went through the caches before, and threads slept
)
FEWEST_TOKENS = 3  # of a batch, counted
FRAMEWORKS, LIBRARIES = ("pytorch", "pytorch_compiled", "jax"), ("ggml", "mkl", "onednn")
DTYPES = ("f32", "bf16", "q8_0", "q4_0")


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", choices=FRAMEWORKS + LIBRARIES, required=True)
    parser.add_argument("--shape", required=True)
    parser.add_argument("--variant", default="dense")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument(
        "--ceilings", type=Path, metavar="PROGRAM", help="driver that measures them beside the time"
    )
    return parser.parse_args()


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in file}
    return memory["MemAvailable"]


def check(peer_module, way, variant, dtype, shape_name="tiny", layers=3, tokens=20):
    """Runs a stack for a few tokens; the largest relative error, in the norm, against numpy."""
    import numpy as np

    import block
    import narrow

    shape = block.SHAPES[shape_name]
    rng = np.random.default_rng(3)
    peer = peer_module.Peer(shape, variant, way, dtype)
    reference = []
    for _ in range(layers):
        weights = block.make_weights(shape, variant, rng)
        state = block.make_state(shape, variant, rng)
        reference.append(
            (narrow.rounded(weights, dtype), {name: value.copy() for name, value in state.items()})
        )
        peer.add_block(weights, state)
    worst = 0.0
    for t in range(tokens):
        x = rng.standard_normal(shape.d_model, np.float32)
        got = peer.step(x, t)
        for weights, state in reference:
            x = block.reference_step(shape, variant, weights, state, x, t)
        worst = max(worst, float(np.linalg.norm(got - x) / np.linalg.norm(x)))
    return worst


def error_of(peer_module, way, args, block_bytes):
    """The larger error of a tiny stack and, where that is soon done, of one block of the size that is timed."""
    error = check(peer_module, way, args.variant, args.dtype)
    if args.variant == "dense" and block_bytes < CHECKED_BYTES:
        whole = check(peer_module, way, args.variant, args.dtype, args.shape, layers=1, tokens=3)
        error = max(error, whole)
    return error


def build(peer_module, shape_name, variant, dtype, way, blocks):
    import numpy as np

    import block

    shape = block.SHAPES[shape_name]
    rng = np.random.default_rng(1)
    peer = peer_module.Peer(shape, variant, way, dtype)
    for _ in range(blocks):
        peer.add_block(
            block.make_weights(shape, variant, rng), block.make_state(shape, variant, rng)
        )
    return peer


def tokens_of(peer, d_model, seconds):
    """A function that runs tokens for so long, so many at least, and gives the seconds of each; inputs differ from token to
    token, so that selections do."""
    import numpy as np

    rng = np.random.default_rng(2)
    inputs = rng.standard_normal((64, d_model), np.float32)
    t = 0

    def token():
        nonlocal t
        before = time.perf_counter()
        peer.step(inputs[t % len(inputs)], t)
        took = time.perf_counter() - before
        t += 1
        return took

    def run():
        for _ in range(WARM_TOKENS):
            token()
        times, start = [], time.perf_counter()
        while len(times) < FEWEST_TOKENS or time.perf_counter() - start < seconds:
            times.append(token())
        return times

    return run


def sampled(run, seconds, program, threads):
    """(batches between reads of memory, whether that would not stay as it was, ceilings); without the driver, or if it fails,
    nothing is read."""
    if program:
        try:
            limits = ceilings.measure(program, threads)
            first = [limits["read_gbps"]]

            def read():
                if first:
                    return first.pop()
                return ceilings.measure(program, threads, ("read_gbps",))["read_gbps"]

            return *sampling.take(run, read, seconds), limits
        except ceilings.Unmeasured as why:
            print(f"  without ceilings: {why}", file=sys.stderr)
    return *sampling.take(run, lambda: None, seconds), {}


def huge_page_share():
    """Of this process's memory without a file; None where the system does not tell."""
    try:
        with open("/proc/self/smaps_rollup", encoding="ascii") as file:
            sizes = {line.split(":")[0]: line.split()[1] for line in file if " kB" in line}
        return round(int(sizes["AnonHugePages"]) / int(sizes["Anonymous"]), 3)
    except (OSError, KeyError, ZeroDivisionError):
        return None


def module_of(args):
    """What has NAME, WAYS and Peer; library_peer.Missing if the library is not there."""
    if args.peer in FRAMEWORKS:
        return importlib.import_module(f"{args.peer}_peer")
    import library_peer

    return library_peer.Library(args.peer, args.dtype)


def blocks_wanted(args, size):
    """As many as the model has, and fewer once no cache could hold what a token reads. A sparse block reads little of
    what it holds. Of quantised blocks there are as many as that takes: the model's might fit."""
    import block
    import narrow

    layers = block.LAYERS[args.shape]
    if args.variant != "dense":
        return layers
    cold = -(-COLD_BYTES // size)
    return cold if args.dtype in narrow.QUANTISED else min(layers, cold)


def give_up(status, note):
    print(json.dumps({"status": status, "note": note}))


def main():
    args = parse()
    cores = sorted(os.sched_getaffinity(0))[: args.threads]
    os.sched_setaffinity(0, cores)
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    os.environ["JAX_PLATFORMS"] = "cpu"
    import numpy as np

    import block
    import library_peer
    import narrow

    try:
        peer_module = module_of(args)
    except library_peer.Missing as why:
        return give_up("skipped", str(why))
    shape = block.SHAPES[args.shape]
    size = block.weight_bytes(shape, args.variant, narrow.BYTES[args.dtype])
    # One block's largest matrices exist twice, and in f32, for a moment while they are converted.
    spare = block.weight_bytes(shape, args.variant, 4) * 1.2
    reserve = spare + (ceilings.NEEDED_BYTES if args.ceilings else 0)
    room = int((available_bytes() * 0.9 - reserve) // size)
    layers = block.LAYERS[args.shape]
    blocks = max(0, min(blocks_wanted(args, size), room))
    if blocks < 1:
        needed, available = (size + reserve) / 2**30, available_bytes() / 2**30
        return give_up(
            "skipped", f"a block needs {needed:.1f} GiB, {available:.1f} GiB are available"
        )
    tolerance = 1e-4 if args.dtype == "f32" else 0.05
    tried, refusals = {}, []
    for way in peer_module.WAYS:
        try:
            error = error_of(peer_module, way, args, size)
        except RuntimeError as refusal:  # what this processor, or this version, cannot do
            refusals.append(f"{way}: {refusal}".splitlines()[0])
            print(f"{args.peer} {refusals[-1]}, not timed", file=sys.stderr)
            continue
        if not error <= tolerance:
            print(f"{args.peer} {way}: relative error {error:.2g}, not timed", file=sys.stderr)
            continue
        tried[way] = float("inf")
    if len(refusals) == len(peer_module.WAYS):
        return give_up("skipped", "; ".join(refusals))
    if not tried:
        return give_up("untrusted", f"no way is within {tolerance} of numpy")
    for way in tried if len(tried) > 1 else ():
        peer = build(
            peer_module,
            args.shape,
            args.variant,
            args.dtype,
            way,
            min(blocks, -(-TRIED_BYTES // size)),
        )
        tries = tokens_of(peer, shape.d_model, args.seconds / 8)()
        tried[way] = float(np.median(tries)) / len(peer.weights)
        del peer
        print(f"  {way}: {tried[way] * 1e3:.3f} ms a block", file=sys.stderr)
    way = min(tried, key=tried.get)
    peer = build(peer_module, args.shape, args.variant, args.dtype, way, blocks)
    pages = huge_page_share()
    run = tokens_of(peer, shape.d_model, sampling.batch_seconds(args.seconds))
    batches, unstable, limits = sampled(run, args.seconds, args.ceilings, args.threads)
    # A sparse block reads little of its weights, and how much a framework reads is its own.
    is_dense = args.variant == "dense"
    samples = sampling.table(batches, unstable, blocks, size if is_dense else 0)
    numbers = sampling.numbers(samples)
    outcome = {
        "status": "ok",
        "repeats": numbers["repeats"],
        "block_ms": numbers["block_ms"],
        "block_efficiency": numbers["block_efficiency"],
        "samples": samples,
        "ceilings": limits | ({"read_gbps": numbers["read_gbps"]} if limits else {}),
        "unstable": unstable,
        "blocks_held": blocks,
        "layers": layers,
        "way": way,
        "versions": peer_module.NAME,
        "huge_page_share": pages,
        "note": "",
    }
    if blocks < layers:
        outcome |= {"status": "scaled_down", "note": f"{blocks} of {layers} blocks held"}
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
