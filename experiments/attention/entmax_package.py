"""Times a training step of causal 1.5-entmax attention, ours and the entmax package's on PyTorch, in turn. Example:

    python3 -m venv build/entmax && build/entmax/bin/pip install --requirement experiments/attention/entmax_requirements.txt
    build/entmax/bin/python experiments/attention/entmax_package.py --results DIR

A step is forward and backward of the attention alone, queries, keys and values given, of one example. Ours is
`long_sequence`'s row full_entmax15. The package's ways are its exact entmax15, sorting all of a row or the k largest
logits, and its bisection; each is tried on one head, and the fastest is timed, a head after another, since all at once
would hold length² numbers many times over. Rounds take turns; a time is the median of its rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "experiments" / "peers"))
from record import RecordFile, fingerprint  # noqa: E402

CONFIG = "experiments/configs/attention/attention_lengths.cfg"
ROW = "full_entmax15"
HEADS, D_HEAD = 16, 64  # of that config
LARGEST = (64, 256, 1024)  # k, if fewer than the length


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, required=True, help="folder of the records")
    parser.add_argument("--length", type=int, default=4096, help="positions (4096)")
    parser.add_argument("--rounds", type=int, default=3, help="each times both once (3)")
    parser.add_argument("--seed", type=int, default=1, help="of queries, keys and values (1)")
    parser.add_argument(
        "--program", type=Path, default=ROOT / "build/release/experiments/long_sequence"
    )
    parser.add_argument("--force", action="store_true", help="repeat what is already recorded")
    args = parser.parse_args()
    if args.length < 2 or args.rounds < 1:
        parser.error(f"--length {args.length}, --rounds {args.rounds}: give at least 2 and 1")
    if not args.program.exists():
        parser.error(f"{args.program} is missing; build it with ./build.sh release long_sequence")
    return args


def ways(entmax, length):
    """{name: function of logits (rows, length)}."""
    found = {"entmax15": lambda z: entmax.entmax15(z, dim=-1)}
    for k in LARGEST:
        if k < length:
            found[f"entmax15, k {k}"] = lambda z, k=k: entmax.entmax15(z, dim=-1, k=k)
    found["entmax_bisect"] = lambda z: entmax.entmax_bisect(z, alpha=1.5, dim=-1)
    return found


class Package:
    """Their step."""

    def __init__(self, torch, entmax, args):
        self.torch, self.args = torch, args
        torch.manual_seed(args.seed)
        size = (HEADS, args.length, D_HEAD)
        self.q, self.k, self.v, self.gradient = (torch.randn(size) for _ in range(4))
        self.hidden = torch.ones(args.length, args.length, dtype=torch.bool).triu(1)
        each = {name: self.seconds(fn, 1) for name, fn in ways(entmax, args.length).items()}
        self.way = min(each, key=each.get)
        self.fn = ways(entmax, args.length)[self.way]

    def seconds(self, fn, heads):
        """Of a step of so many heads."""
        started = time.perf_counter()
        for head in range(heads):
            q, k, v = (t[head].clone().requires_grad_() for t in (self.q, self.k, self.v))
            logits = (q @ k.T * D_HEAD**-0.5).masked_fill(self.hidden, float("-inf"))
            (fn(logits) @ v).backward(self.gradient[head])
        return time.perf_counter() - started

    def step(self):
        return self.seconds(self.fn, HEADS)


def our_step(args):
    """Seconds of a step, by the driver."""
    with tempfile.TemporaryDirectory() as folder:
        command = [args.program, "--config", ROOT / CONFIG, "--rows", ROW, "--results", folder]
        command += ["--lengths", str(args.length), "--repeats", "3"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        path = Path(folder) / "attention_lengths.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        found = [r for r in map(json.loads, lines) if r["metric"] == "step_ms"]
        if done.returncode or not found:
            sys.exit(f"long_sequence ended with status {done.returncode}: {done.stderr.strip()}")
        return found[-1]["value"] / 1e3


def record(row, seconds, args, threads, note, key):
    ordered = sorted(seconds)
    return {
        "study": "attention",
        "row": row,
        "against": "ours",
        "threads": threads,
        "metric": "step_ms",
        "unit": "ms",
        "value": 1e3 * statistics.median(ordered),
        "low": 1e3 * ordered[0],
        "high": 1e3 * ordered[-1],
        "spread": 1e3 * (ordered[-1] - ordered[0]) / 2,
        "repeats": len(ordered),
        "status": "ok",
        "note": note,
        "config": {"length": args.length, "n_heads": HEADS, "d_head": D_HEAD},
        "command": f"experiments/attention/entmax_package.py --length {args.length} --results DIR",
        "seed": args.seed,
        "key": key,
    }


def main():
    args = parse()
    try:
        import torch

        import entmax
    except ImportError as error:
        sys.exit(
            f"{error.name} is not installed here; run `python3 -m venv build/entmax && build/entmax/bin/pip install "
            "--requirement experiments/attention/entmax_requirements.txt`, then this with build/entmax/bin/python"
        )
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    versions = f"entmax {entmax.__version__}, torch {torch.__version__}"
    file = RecordFile(args.results, "entmax_package", "package")
    key = file.key(
        length=args.length,
        rounds=args.rounds,
        seed=args.seed,
        versions=versions,
        program=fingerprint(args.program.read_bytes()),
        script=fingerprint(Path(__file__).read_bytes()),
    )
    if key in file.finished and not args.force:
        print("already recorded")
        return
    package, ours, theirs = Package(torch, entmax, args), [], []
    for number in range(args.rounds):
        ours.append(our_step(args))
        theirs.append(package.step())
        print(
            f"[{number + 1}/{args.rounds}] ours {ours[-1]:.3f} s, theirs {theirs[-1]:.3f} s",
            flush=True,
        )
    file.append(
        [
            record("ours", ours, args, threads, ROW, key),
            record("package", theirs, args, threads, f"{versions}; {package.way}", key),
        ]
    )


if __name__ == "__main__":
    main()
