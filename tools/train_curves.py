#!/usr/bin/env python3
"""Trains the curves of several configs, one on each processor: tools/train_curves.py --results DIR CONFIG ... [-- FLAGS]

  tools/train_curves.py --results results/local/curves recipes_1m5:bias,rank_32 stacks_1m5 --seeds 4,5 \\
    -- --corpus pooled/train.jsonl --validation pooled/valid.jsonl

CONFIG is a file, or the name of one in experiments/configs/training; :ROW,ROW behind it takes some of its rows. A curve, a
row with a seed, is a run of `perplexity` on one thread, which FLAGS go to as they are. Every row has its first seed
before any has its second. What is finished is passed over and what was begun goes on, so that the same command resumes. Ctrl-C and SIGTERM end all curves at
a checkpoint. What a curve says goes to DIR/logs; one that fails is named with that file, the others go on, and the status
is 1.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from table_steps import CONFIGS, ROOT, rows_of, seeds_of

INTERRUPTED = 130
PASSED_OVER_S = 5  # a run that ends sooner had nothing to train


class Curve(NamedTuple):
    config: pathlib.Path
    row: str
    seed: str

    def __str__(self):
        return f"{self.config.stem}, {self.row}, seed {self.seed}"


def curves_of(argument, seeds):
    """[Curve] of a CONFIG; ValueError names the config or the row that does not exist."""
    name, _, some = argument.partition(":")
    known = [pathlib.Path(name), CONFIGS / f"{name}.cfg"]
    config = next((path for path in known if path.is_file()), None)
    if config is None:
        raise ValueError(f"{name} is neither a file nor a config of {CONFIGS.relative_to(ROOT)}")
    rows = rows_of(config)
    for row in some.split(",") if some else ():
        if row not in rows:
            raise ValueError(f"{config.name} has no row {row}; it has {', '.join(rows)}")
    if ":" in argument and not some:
        raise ValueError(f"{argument} names no row behind its colon; leave the colon out for all")
    chosen = dict.fromkeys(some.split(",") if some else rows)
    wanted = dict.fromkeys(seeds or seeds_of(config))
    return [Curve(config, row, seed) for seed in wanted for row in chosen]


def in_turns(each):
    """One list of several: first seeds come first, whichever config they are of."""
    placed = []
    for curves in each:
        order = list(dict.fromkeys(c.seed for c in curves))
        placed += [(order.index(curve.seed), curve) for curve in curves]
    return [curve for _, curve in sorted(placed, key=lambda p: p[0])]


def words_of(seconds):
    """12 s, 5 min, 2 h 10 min."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


class Workers:
    """Trains curves, so many at once."""

    def __init__(self, curves, args):
        self.curves, self.args = curves, args
        self.lock = threading.Lock()
        self.running = {}  # {process: curve}
        self.took = {}  # {config: [seconds of a curve that was trained]}
        self.waiting = list(curves)
        self.ended = 0
        self.failed = []
        self.is_stopped = False

    def command(self, curve):
        return [
            *(str(self.args.build / "experiments" / "perplexity"), "--config", str(curve.config)),
            *("--rows", curve.row, "--seeds", curve.seed, "--threads", "1"),
            *("--results", str(self.args.results), *self.args.flags),
        ]

    def log(self, curve):
        return self.args.results / "logs" / f"{curve.config.stem}.{curve.row}.{curve.seed}.log"

    def train(self, curve):
        began = time.monotonic()
        with self.lock:
            if self.is_stopped:
                return
            self.waiting.remove(curve)
            with open(self.log(curve), "w", encoding="utf-8") as log:
                process = subprocess.Popen(
                    self.command(curve),
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # a terminal's Ctrl-C comes by way of stop()
                )
            self.running[process] = curve
            if self.is_stopped:  # before stop() could find it
                process.send_signal(signal.SIGTERM)
        status = process.wait()
        with self.lock:
            del self.running[process]
            self.tell(curve, status, time.monotonic() - began)

    def tell(self, curve, status, seconds):
        self.ended += 1
        said = words_of(seconds)
        if self.is_stopped and status == INTERRUPTED:
            said = "stopped, goes on when the command is given again"
        elif status:
            self.failed.append(curve)
            said = f"failed with status {status}, see {self.log(curve)}"
        elif seconds < PASSED_OVER_S:
            said = "was there"
        else:
            self.took.setdefault(curve.config, []).append(seconds)
        print(f"[{self.ended}/{len(self.curves)}] {curve}: {said}{self.left()}", flush=True)

    def left(self):
        """Of curves as long as those of their config were, or, where it has none yet, as those of all."""
        known = [s for each in self.took.values() for s in each]
        if self.is_stopped or not known or not (self.waiting or self.running):
            return ""

        def expected(curve):
            return statistics.fmean(self.took.get(curve.config, known))

        # What runs is on average half done.
        total = sum(map(expected, self.waiting)) + sum(map(expected, self.running.values())) / 2
        return f"; about {words_of(total / self.args.workers)} left"

    def stop(self, *_):
        # No lock: the signal may have come while this very thread holds it.
        self.is_stopped = True
        for process in list(self.running):
            process.send_signal(signal.SIGTERM)

    def run(self):
        """Exit status."""
        try:
            (self.args.results / "logs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            sys.exit(
                f"train_curves.py: {self.args.results} cannot be written ({error.strerror}); choose another with --results"
            )
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.stop)
        with concurrent.futures.ThreadPoolExecutor(self.args.workers) as pool:
            futures = [pool.submit(self.train, curve) for curve in self.curves]
            for future in futures:
                future.result()
        for curve in self.failed:
            print(f"train_curves.py: {curve} failed, see {self.log(curve)}", file=sys.stderr)
        if self.is_stopped:
            return INTERRUPTED
        return 1 if self.failed else 0


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of curves; take 1 or more")
    return int(text)


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("configs", nargs="+", metavar="CONFIG")
    parser.add_argument("--results", type=pathlib.Path, required=True, help="folder of records")
    parser.add_argument("--seeds", help="in place of the configs' own, as 4,5,6")
    parser.add_argument(
        "--workers",
        type=positive,
        default=len(os.sched_getaffinity(0)),
        help="curves at once (one a processor)",
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    arguments = sys.argv[1:] if arguments is None else arguments
    split = arguments.index("--") if "--" in arguments else len(arguments)
    args = parser.parse_args(arguments[:split])
    args.flags = arguments[split + 1 :]
    if args.seeds is not None and not re.fullmatch(r"\d+(,\d+)*", args.seeds):
        parser.error(f"--seeds {args.seeds}: give whole numbers with commas between, as 4,5,6")
    args.results = args.results.resolve()
    program = args.build / "experiments" / "perplexity"
    if not program.is_file():
        parser.error(f"{program} does not exist; ./build.sh makes it")
    seeds = args.seeds.split(",") if args.seeds else None
    try:
        args.curves = in_turns([curves_of(argument, seeds) for argument in args.configs])
    except ValueError as error:
        parser.error(str(error))
    return args


if __name__ == "__main__":
    args = parse()
    sys.exit(Workers(args.curves, args).run())
