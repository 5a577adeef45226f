"""Checks one peer against the numpy block, times it, and prints one JSON object. Run by run_peers.py in a process
of its own, so that the threads it may use are settled before any library starts."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import ceilings

COLD_BYTES = 1_400_000_000


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", choices=("pytorch", "jax"), required=True)
    parser.add_argument("--shape", required=True)
    parser.add_argument("--variant", default="dense")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
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


def rounded(weights, dtype):
    """The weights as the peer will hold them, in f32."""
    if dtype == "f32":
        return {name: value.copy() for name, value in weights.items()}
    import numpy as np

    def to_bf16(v):
        bits = v.view(np.uint32).astype(np.uint64)
        return (
            ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
        )

    return {
        name: to_bf16(value) if value.ndim > 1 else value.copy() for name, value in weights.items()
    }


def check(peer_module, way, variant, dtype):
    """Runs a tiny stack for a few tokens; the largest relative error, in the norm, against numpy."""
    import numpy as np

    import block

    shape = block.SHAPES["tiny"]
    rng = np.random.default_rng(3)
    peer = peer_module.Peer(shape, variant, way, dtype)
    reference = []
    for _ in range(block.LAYERS["tiny"]):
        weights = block.make_weights(shape, variant, rng)
        state = block.make_state(shape, variant, rng)
        reference.append(
            (rounded(weights, dtype), {name: value.copy() for name, value in state.items()})
        )
        peer.add_block(weights, state)
    worst = 0.0
    for t in range(20):
        x = rng.standard_normal(shape.d_model, np.float32)
        got = peer.step(x, t)
        for weights, state in reference:
            x = block.reference_step(shape, variant, weights, state, x, t)
        worst = max(worst, float(np.linalg.norm(got - x) / np.linalg.norm(x)))
    return worst


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


def timed(peer, d_model, seconds, least):
    """Seconds of each token; inputs differ from token to token, so that selections do."""
    import numpy as np

    rng = np.random.default_rng(2)
    inputs = rng.standard_normal((64, d_model), np.float32)
    for t in range(3):
        peer.step(inputs[t], t)
    times, start = [], time.perf_counter()
    while len(times) < least or time.perf_counter() - start < seconds:
        x = inputs[len(times) % len(inputs)]
        before = time.perf_counter()
        peer.step(x, len(times))
        times.append(time.perf_counter() - before)
    return times


def timed_beside_ceilings(run, program, threads):
    """Times, and what a record says of the ceilings beside them."""
    if program is None:
        return run(), {}
    try:
        times, limits, unstable = ceilings.beside(run, lambda: ceilings.measure(program, threads))
    except ceilings.Unmeasured as why:
        print(f"  without ceilings: {why}", file=sys.stderr)
        return run(), {}
    return times, {"ceilings": limits, "unstable": unstable}


def main():
    args = parse()
    cores = sorted(os.sched_getaffinity(0))[: args.threads]
    os.sched_setaffinity(0, cores)
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    os.environ["JAX_PLATFORMS"] = "cpu"
    import block

    if args.peer == "jax":
        import jax_peer as peer_module
    else:
        import pytorch_peer as peer_module
    import numpy as np

    shape = block.SHAPES[args.shape]
    item = 2 if args.dtype == "bf16" else 4
    size = block.weight_bytes(shape, args.variant, item)
    # One block's largest matrices exist twice, and in f32, for a moment while they are converted.
    spare = block.weight_bytes(shape, args.variant, 4) * 1.2
    reserve = spare + (ceilings.NEEDED_BYTES if args.ceilings else 0)
    room = int((available_bytes() * 0.9 - reserve) // size)
    # A token should read more than caches hold; a sparse block reads little of what it holds.
    enough = -(-COLD_BYTES // size) if args.variant == "dense" else block.LAYERS[args.shape]
    layers = block.LAYERS[args.shape]
    blocks = max(0, min(layers, enough, room))
    if blocks < 1:
        print(
            json.dumps(
                {
                    "status": "skipped",
                    "note": f"a block needs {(size + reserve) / 2**30:.1f} GiB, "
                    f"{available_bytes() / 2**30:.1f} GiB are available",
                }
            )
        )
        return
    tolerance = 1e-4 if args.dtype == "f32" else 0.05
    tried = {}
    for way in peer_module.WAYS:
        error = check(peer_module, way, args.variant, args.dtype)
        if not error <= tolerance:
            print(f"{args.peer} {way}: relative error {error:.2g}, not timed", file=sys.stderr)
            continue
        tried[way] = float("inf")
    if not tried:
        print(
            json.dumps(
                {"status": "untrusted", "note": f"differs from numpy by more than {tolerance}"}
            )
        )
        return
    for way in tried if len(tried) > 1 else ():
        peer = build(
            peer_module,
            args.shape,
            args.variant,
            args.dtype,
            way,
            min(blocks, 6 if size < 2**28 else 1),
        )
        tried[way] = float(np.median(timed(peer, shape.d_model, args.seconds / 8, 3))) / len(
            peer.weights
        )
        del peer
        print(f"  {way}: {tried[way] * 1e3:.3f} ms a block", file=sys.stderr)
    way = min(tried, key=tried.get)
    peer = build(peer_module, args.shape, args.variant, args.dtype, way, blocks)
    times, beside = timed_beside_ceilings(
        lambda: timed(peer, shape.d_model, args.seconds, 10), args.ceilings, args.threads
    )
    low, median, high = np.percentile(np.array(times) * 1e3 / blocks, (25, 50, 75))
    outcome = {
        "status": "ok",
        "value": median,
        "low": low,
        "high": high,
        "repeats": len(times),
        "blocks_held": blocks,
        "way": way,
        "versions": peer_module.NAME,
        "note": "",
        **beside,
    }
    if blocks < layers:
        outcome |= {"status": "scaled_down", "note": f"{blocks} of {layers} blocks held"}
    if (
        args.variant == "dense"
    ):  # a sparse block reads little of its weights, and how much a framework reads is its own
        outcome["block_bytes"] = size
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
