#!/usr/bin/env python3
"""Times two builds against each other on this machine: tools/compare_speed.py BEFORE AFTER [--only decode,attention,...]

BEFORE and AFTER are build folders (build/release), each of its own checkout, compiled with the same flags. A fixed number
of rounds, each with both builds in random order right after one another; printed are the medians, the median over rounds
of AFTER / BEFORE, and its 95 % interval (rounds resampled). Nothing else may run meanwhile, and no round is repeated.

  decode     Table 1 at 800M: block_ms of baseline, ff, ff_qkv at one and at all threads      bar 1.02
  attention  cores at 4,096 and 16,384 positions: forward and training step                   bar 1.03
  training   a training step of fig1_small's dense and ff_qkv                                 bar 1.02
  kernels    every 800M kernel at one and 16 tokens                                           bar 1.03

Ends with 1 if the lower end of an interval lies above its bar: a loss of speed that noise does not explain.
"""

import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

RESAMPLES = 4000
BARS = {"decode": 1.02, "attention": 1.03, "training": 1.02, "kernels": 1.03}


class Build:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.source = self.folder.parents[1]

    def program(self, name):
        found = [self.folder / part / name for part in ("experiments", "apps")]
        return next((str(path) for path in found if path.exists()), None) or sys.exit(
            f"error: {self.folder} has no program {name}; build it first (./build.sh release drivers)"
        )

    def config(self, name):
        found = sorted((self.source / "experiments" / "configs").rglob(f"{name}.cfg"))
        return (
            str(found[0]) if found else sys.exit(f"error: {self.source} has no config {name}.cfg")
        )

    def run(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.source)
        if done.returncode:
            sys.exit(
                f"error: {' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}"
            )
        return done.stdout

    def records(self, *command):
        """{row, threads, metric: value} of what the command records into a folder of its own."""
        with tempfile.TemporaryDirectory() as folder:
            self.run(*command, "--results", folder)
            lines = [line for path in pathlib.Path(folder).glob("*.jsonl") for line in path.open()]
        return {(r["row"], r["threads"], r["metric"]): r["value"] for r in map(json.loads, lines)}


def decode(build):
    values = build.records(
        build.program("decode_time"),
        "--config",
        build.config("table1_800m"),
        "--rows",
        "baseline,ff,ff_qkv",
        "--threads",
        "1,all",
        "--time-budget",
        "4",
    )
    return {
        f"{row}, {threads} threads, ms a block": value
        for (row, threads, metric), value in values.items()
        if metric == "block_ms"
    }


def attention(build):
    # Builds without a program of its own for it measure recall beside the times; briefly, then.
    has_recall = (build.folder / "experiments" / "attention_recall").exists()
    recall = (
        ()
        if has_recall
        else ("--recall-length", "64", "--recall-chunks", "8", "--recall-rounds", "1")
    )
    values = build.records(
        build.program("long_sequence"),
        "--config",
        build.config("long_sequence"),
        "--lengths",
        "4096,16384",
        "--repeats",
        "3",
        "--time-budget",
        "12",
        *recall,
    )
    return {
        f"{row}, {metric}": value
        for (row, _, metric), value in values.items()
        if metric in ("forward_ms", "step_ms")
    }


def training(build):
    values = {}
    with tempfile.TemporaryDirectory() as cache:
        for row in ("dense", "ff_qkv"):
            out = build.run(
                build.program("bench_training"),
                "--config",
                build.config("fig1_small"),
                "--row",
                row,
                "--steps",
                "15",
                "--cache",
                cache,
                "--gemm",
                "onednn",
            )
            values[f"{row}, s a training step"] = json.loads(out.strip().splitlines()[-1])["value"]
    return values


def kernels(build):
    command = (
        build.program("bench_kernels"),
        "--benchmark_min_time=0.02",
        "--threads",
        str(os.cpu_count()),
        "--benchmark_filter=800m.*/simd/[a-z0-9]+/(1|16)/real_time",
    )
    if "--results" in build.run(command[0], "--help"):
        values = build.records(*command)
        return {f"{row}, µs": v for (row, _, metric), v in values.items() if metric == "us"}
    # Builds of before records print what Google Benchmark prints.
    timed = re.findall(r"^(\S+/real_time)\s+([\d.]+) ([nu]s)", build.run(*command), re.MULTILINE)
    return {f"{name}, µs": float(time) / (1e3 if unit == "ns" else 1) for name, time, unit in timed}


def interval(ratios):
    draws = sorted(
        statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES)
    )
    return draws[int(0.025 * RESAMPLES)], draws[int(0.975 * RESAMPLES)]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--only", default="decode,attention,training,kernels")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    measures = {"decode": decode, "attention": attention, "training": training, "kernels": kernels}
    chosen = arguments.only.split(",")
    if unknown := [name for name in chosen if name not in measures]:
        sys.exit(f"error: --only has no '{unknown[0]}'; known: {', '.join(measures)}")
    if arguments.rounds < 1:
        sys.exit(f"error: --rounds is {arguments.rounds}; give at least 1")
    builds = [Build(arguments.before), Build(arguments.after)]
    random.seed(1)
    slower = False
    for name in chosen:
        rounds = []
        for at in range(arguments.rounds):
            print(f"{name}: round {at + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
            order = random.sample((0, 1), 2)
            values = {which: measures[name](builds[which]) for which in order}
            rounds.append((values[0], values[1]))
        print(
            f"\n| {name} | before | after | after / before | 95 % interval |\n|---|---:|---:|---:|---|"
        )
        all_ratios = []
        for what in rounds[0][0]:
            pairs = [(b[what], a[what]) for b, a in rounds if b.get(what) and a.get(what)]
            if len(pairs) < len(rounds):
                print(f"| {what} | missing after | | | |")
                slower = True
                continue
            ratios = [after / before for before, after in pairs]
            all_ratios.append(ratios)
            low, high = interval(ratios)
            late = low > BARS[name] and name != "kernels"
            slower |= late
            print(
                f"| {what} | {statistics.median(b for b, _ in pairs):.4g} "
                f"| {statistics.median(a for _, a in pairs):.4g} | {statistics.median(ratios):.3f} "
                f"| {low:.3f} to {high:.3f}{' **slower**' if late else ''} |",
                flush=True,
            )
        if name == "kernels" and all_ratios:
            # A hundred cases: some are off by chance, so all together are judged.
            means = [statistics.geometric_mean(of_round) for of_round in zip(*all_ratios)]
            low, high = interval(means)
            slower |= low > BARS[name]
            print(
                f"| geometric mean of {len(all_ratios)} cases | | | {statistics.median(means):.3f} "
                f"| {low:.3f} to {high:.3f} |"
            )
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
