"""Times training steps of the dense decoder-only model, ours and eager PyTorch's in turn, and writes records.

Each round runs every candidate once, in random order, in a process of its own with the same sizes, batch and
threads; a candidate's time is the median of its rounds' medians. Example, with the newest PyTorch in a virtual
environment and Debian's (package python3-torch):

    python3 compare_training.py --results DIR --python pytorch=build/peers/bin/python --python pytorch_1_13=/usr/bin/python3
"""

import argparse
import datetime
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

import run_peers

EXPERIMENT = "peers_training"
SIZES = ("d_model", "d_ff", "n_heads", "layers", "vocab_size", "batch", "length")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="folder of the records")
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH",
                        help="an interpreter that has PyTorch, and the row's name; may be given again")
    parser.add_argument("--program", type=Path, default=run_peers.ROOT / "build/release/experiments/bench_training")
    parser.add_argument("--config", type=Path, default=run_peers.ROOT / "experiments/configs/training/fig1_small.cfg")
    parser.add_argument("--row", default="dense", help="of the config (dense)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all")
    parser.add_argument("--steps", type=int, default=20, help="timed in a round (20)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1, help="of the order (1)")
    args = parser.parse_args()
    for entry in args.python:
        if "=" not in entry:
            parser.error(f"--python {entry}: give NAME=PATH, such as pytorch=build/peers/bin/python")
    if args.rounds < 1 or args.steps < 1:
        parser.error(f"--rounds {args.rounds}, --steps {args.steps}: give numbers of at least 1")
    if not args.program.exists():
        parser.error(f"{args.program} is missing; build it with ./build.sh")
    return args


def last_json(command, environment=None):
    """The JSON object that a command prints last; exits with its own words if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment)
    try:
        outcome = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        sys.exit(f"{' '.join(map(str, command))}: ended with status {done.returncode} and no result")
    if outcome["status"] != "ok":
        sys.exit(f"{' '.join(map(str, command))}: {outcome['status']}, {outcome.get('note', '')}")
    return outcome


def our_command(args):
    return [args.program, "--config", args.config, "--row", args.row, "--threads", str(args.threads),
            "--steps", str(args.steps)]


def their_command(args, python, ours):
    sizes = [part for name in SIZES for part in (f"--{name}", str(ours[name]))]
    return [python, run_peers.HERE / "train_step.py", *sizes, "--optimizer", ours["optimizer"],
            "--threads", str(args.threads), "--steps", str(args.steps)]


def summary(rounds):
    """Record fields of one candidate from its rounds' outcomes."""
    medians = sorted(outcome["value"] for outcome in rounds)
    low, high = medians[0], medians[-1]
    return {"value": statistics.median(medians), "low": low, "high": high, "spread": (high - low) / 2,
            "repeats": len(medians)}


def main():
    args = parse()
    ours = last_json(our_command(args))
    candidates = {"ours": our_command(args)}
    for entry in args.python:
        name, python = entry.split("=", 1)
        candidates[name] = their_command(args, python, ours)
    order = random.Random(args.seed)
    outcomes = {name: [] for name in candidates}
    for number in range(args.rounds):
        for name in order.sample(sorted(candidates), len(candidates)):
            outcomes[name].append(last_json(candidates[name]))
            print(f"[{number + 1}/{args.rounds}] {name}: {outcomes[name][-1]['value'] * 1e3:.2f} ms a step", flush=True)
    changed = [line for line in run_peers.git("status", "--porcelain").splitlines()
               if not line[2:].strip().startswith(("results/", "plots/"))]
    about = {"commit": run_peers.git("rev-parse", "--short=12", "HEAD"), "dirty": bool(changed),
             "cpu": run_peers.cpu_model(), "cores": len(os.sched_getaffinity(0))}
    args.results.mkdir(parents=True, exist_ok=True)
    with open(args.results / f"{EXPERIMENT}.jsonl", "a", encoding="utf-8") as file:
        for name, rounds in outcomes.items():
            last = rounds[-1]
            versions = last.get("versions", "gemm " + last.get("gemm", ""))
            note = "; ".join(part for part in (versions, last.get("way", "")) if part)
            config = {size: ours[size] for size in SIZES} | {"optimizer": ours["optimizer"], "steps": args.steps}
            if name != "ours" and abs(last["parameters"] - ours["parameters"]) > 0.01 * ours["parameters"]:
                note += f"; {last['parameters']} parameters against our {ours['parameters']}"
            key = hashlib.sha256(json.dumps([name, config, args.threads, args.rounds, about]).encode()).hexdigest()[:16]
            metrics = [("step_seconds", "s", summary(rounds))]
            if name == "ours":
                metrics += [(metric, unit, summary([{"value": outcome[metric]} for outcome in rounds]))
                            for metric, unit in (("mfu", ""), ("tokens_per_s", "1/s"), ("peak_memory_bytes", "B"))]
            for metric, unit, fields in metrics:
                file.write(json.dumps({
                    "experiment": EXPERIMENT, "row": name, "against": "" if name == "ours" else "ours",
                    "threads": args.threads, "metric": metric, "unit": unit, "status": "ok", "note": note,
                    "config": config, "command": "experiments/peers/compare_training.py --results DIR", "seed": args.seed,
                    "compiler": versions, "flags": "", "native": True,
                    "ceilings": {"gemm_gflops": ours["ceiling_gemm_gflops"]}, "key": key,
                    "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    **fields, **about}) + "\n")
    for name, rounds in outcomes.items():
        if name != "ours":
            print(f"{name}: {summary(rounds)['value'] / summary(outcomes['ours'])['value']:.2f} x our step")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; nothing was recorded")
