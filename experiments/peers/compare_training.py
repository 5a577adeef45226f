"""Times training steps in turn and writes records: of the dense decoder-only model, ours and eager PyTorch's, or of rows
of a config of ours, one over another.

Each round runs every candidate once, in random order, in a process of its own with the same sizes, batch and
threads; a candidate's time is the median of its rounds' medians. Rows (--over) draw by another seed in each round, all
by the same, and a round gives means: steps of a sparse row are of several kinds, as its layers select hard or not; a
ratio is the median of the rounds' ratios. What is recorded is not repeated: the same programs, interpreters and settings, on the same machine. Examples, the first with
the newest PyTorch in a virtual environment and Debian's (package python3-torch):

    python3 compare_training.py --results DIR --python pytorch=build/peers/bin/python --python pytorch_1_13=/usr/bin/python3
    python3 compare_training.py --results DIR --config experiments/configs/training/fig1_16m.cfg --over ff_n16=dense
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

from record import HERE, ROOT, RecordFile, fingerprint

EXPERIMENT = "peers_training"
OF_ROWS = "step_cost"  # experiment of --over
SIZES = ("d_model", "d_ff", "n_heads", "layers", "vocab_size", "batch", "length")


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, required=True, help="folder of the records")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="an interpreter that has PyTorch, and the row's name; may be given again",
    )
    parser.add_argument(
        "--program", type=Path, default=ROOT / "build/release/experiments/bench_training"
    )
    parser.add_argument(
        "--config", type=Path, default=ROOT / "experiments/configs/training/fig1_small.cfg"
    )
    parser.add_argument("--row", default="dense", help="of the config (dense)")
    parser.add_argument(
        "--over",
        action="append",
        default=[],
        metavar="ROW=TWIN",
        help="rows of the config whose steps are compared, instead of --row; may be given again",
    )
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all"
    )
    parser.add_argument("--steps", type=int, default=20, help="timed in a round (20)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1, help="of the order (1)")
    parser.add_argument("--force", action="store_true", help="repeat what is already recorded")
    args = parser.parse_args()
    for entry in args.python:
        if "=" not in entry:
            parser.error(
                f"--python {entry}: give NAME=PATH, such as pytorch=build/peers/bin/python"
            )
    for entry in args.over:
        if "=" not in entry:
            parser.error(f"--over {entry}: give ROW=TWIN, such as ff_n16=dense")
    if args.over and args.python:
        parser.error("--over compares rows of ours, --python with others; give one of them")
    if args.rounds < 1 or args.steps < 1:
        parser.error(f"--rounds {args.rounds}, --steps {args.steps}: give numbers of at least 1")
    if not args.program.exists():
        parser.error(f"{args.program} is missing; build it with ./build.sh")
    return args


def last_json(command):
    """The JSON object that a command prints last; exits with its own words if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        outcome = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        sys.exit(
            f"{' '.join(map(str, command))}: ended with status {done.returncode} and no result"
        )
    if outcome["status"] != "ok":
        sys.exit(f"{' '.join(map(str, command))}: {outcome['status']}, {outcome.get('note', '')}")
    return outcome


def our_command(args, row):
    return [
        args.program,
        "--config",
        args.config,
        "--row",
        row,
        "--threads",
        str(args.threads),
        "--steps",
        str(args.steps),
    ]


def their_command(args, python, ours):
    sizes = [part for name in SIZES for part in (f"--{name}", str(ours[name]))]
    return [
        python,
        HERE / "train_step.py",
        *sizes,
        "--optimizer",
        ours["optimizer"],
        "--threads",
        str(args.threads),
        "--steps",
        str(args.steps),
    ]


def quartiles(values):
    """The lower and the upper one, which the fields low and high of a record hold."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def summary(rounds):
    """Record fields of one candidate from its rounds' outcomes."""
    medians = [outcome["value"] for outcome in rounds]
    low, high = medians * 2 if len(medians) == 1 else quartiles(medians)
    return {
        "value": statistics.median(medians),
        "low": low,
        "high": high,
        "spread": (high - low) / 2,
        "repeats": len(medians),
    }


def version_of(python):
    """What an interpreter has: its PyTorch, or its path where that cannot be asked."""
    asked = [python, "-c", "import sys, torch; print(sys.version, torch.__version__)"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout or python
    except OSError:
        return python


def in_turn(candidates, args):
    """{name: its rounds' outcomes}: every candidate once a round, in random order. A command may depend on the round."""
    order = random.Random(args.seed)
    outcomes = {name: [] for name in candidates}
    for number in range(args.rounds):
        for name in order.sample(sorted(candidates), len(candidates)):
            command = candidates[name]
            outcomes[name].append(last_json(command(number) if callable(command) else command))
            print(
                f"[{number + 1}/{args.rounds}] {name}: {outcomes[name][-1]['value'] * 1e3:.2f} ms a step",
                flush=True,
            )
    return outcomes


def records_of(name, rounds, ours, args, key):
    last = rounds[-1]
    versions = last.get("versions", "gemm " + last.get("gemm", ""))
    note = "; ".join(part for part in (versions, last.get("way", "")) if part)
    if name != "ours" and abs(last["parameters"] - ours["parameters"]) > 0.01 * ours["parameters"]:
        note += f"; {last['parameters']} parameters against our {ours['parameters']}"
    metrics = [("step_seconds", "s", summary(rounds))]
    if name == "ours":
        metrics += [
            (metric, unit, summary([{"value": outcome[metric]} for outcome in rounds]))
            for metric, unit in (("mfu", ""), ("tokens_per_s", "1/s"), ("peak_memory_bytes", "B"))
        ]
    shared = {
        "row": name,
        "against": "" if name == "ours" else "ours",
        "threads": args.threads,
        "status": "ok",
        "note": note,
        "config": {size: ours[size] for size in SIZES}
        | {"optimizer": ours["optimizer"], "steps": args.steps},
        "command": "experiments/peers/compare_training.py --results DIR",
        "seed": args.seed,
        "compiler": versions,
        "ceilings": {"gemm_gflops": ours["ceiling_gemm_gflops"]},
        "key": key,
    }
    return [
        {**shared, "metric": metric, "unit": unit, **fields} for metric, unit, fields in metrics
    ]


def open_key(file, args, **settings):
    """Key of what is asked for; none, and a word, if it is recorded and not forced. All or none: what is compared took
    turns."""
    key = file.key(
        program=fingerprint(args.program.read_bytes()),
        config=args.config.read_text(encoding="utf-8"),
        threads=args.threads,
        steps=args.steps,
        rounds=args.rounds,
        seed=args.seed,
        **settings,
    )
    if key in file.finished and not args.force:
        print("already recorded")
        return None
    return key


def compare_rows(args):
    """Records of every row's step, and of each one's over its twin's, round by round."""
    file = RecordFile(args.results, OF_ROWS, section="training")
    pairs = [tuple(entry.split("=", 1)) for entry in args.over]
    rows = list(dict.fromkeys(row for pair in pairs for row in reversed(pair)))
    key = open_key(file, args, pairs=pairs)
    if not key:
        return
    commands = {
        row: lambda number, row=row: [*our_command(args, row), "--seed", str(number + 1)]
        for row in rows
    }
    outcomes = in_turn(commands, args)
    means = {row: [outcome["mean"] for outcome in outcomes[row]] for row in rows}
    last = {row: outcomes[row][-1] for row in rows}
    command = ["experiments/peers/compare_training.py --results DIR --config", str(args.config)]
    command += [f"--over {row}={twin}" for row, twin in pairs]
    command += [f"--rounds {args.rounds} --steps {args.steps} --threads {args.threads}"]

    def record(row, metric, unit, values, **more):
        sizes = {name: last[row][name] for name in (*SIZES, "optimizer", "parameters")}
        return {
            "row": row,
            "metric": metric,
            "unit": unit,
            "threads": args.threads,
            "status": "ok",
            "note": f"gemm {last[row]['gemm']}",
            "config": sizes | {"config": args.config.stem, "steps": args.steps},
            "command": " ".join(command),
            "seed": args.seed,
            "ceilings": {"gemm_gflops": last[row]["ceiling_gemm_gflops"]},
            "key": key,
            **summary([{"value": value} for value in values]),
            **more,
        }

    records = [record(row, "step_seconds", "s", means[row]) for row in rows]
    for row, twin in pairs:
        ratios = [ours / theirs for ours, theirs in zip(means[row], means[twin])]
        records.append(record(row, f"over_{twin}", "", ratios, against=twin))
        print(f"{row}: {records[-1]['value']:.3f} x a step of {twin}")
    file.append(records)


def main():
    args = parse()
    if args.over:
        compare_rows(args)
        return
    file = RecordFile(args.results, EXPERIMENT, section="training")
    pythons = dict(entry.split("=", 1) for entry in args.python)
    key = open_key(
        file,
        args,
        pythons={name: version_of(python) for name, python in pythons.items()},
        row=args.row,
    )
    if not key:
        return
    ours = last_json(our_command(args, args.row))
    candidates = {"ours": our_command(args, args.row)} | {
        name: their_command(args, python, ours) for name, python in pythons.items()
    }
    outcomes = in_turn(candidates, args)
    file.append(
        [
            record
            for name, rounds in outcomes.items()
            for record in records_of(name, rounds, ours, args, key)
        ]
    )
    for name in pythons:
        print(
            f"{name}: {summary(outcomes[name])['value'] / summary(outcomes['ours'])['value']:.2f} x our step"
        )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; nothing was recorded")
