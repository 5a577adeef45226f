#!/usr/bin/env python3
"""Compares what two builds compute on this machine, bit for bit: tools/compare_builds.py BEFORE AFTER.

BEFORE and AFTER are build folders (build/release), each of its own checkout, compiled with the same flags. Only their
programs are run, so that sources may have changed beyond recognition:

  training     20 steps of five small models on one thread with Eigen's products: every recorded value that is no time
  resuming     a training that BEFORE was interrupted in, finished by AFTER: the values of one never interrupted
  generation   texts of the trained models, the likeliest and drawn; AFTER also reads BEFORE's weights
  plans        --dry-run of every experiment that both have: parameters, sizes, costs, knobs of every row
  where        the name of this machine's folder of records

Prints each difference and ends with 1 if there is any. Floats depend on the compiler and its flags, hence two builds
rather than a file of results.
"""

import argparse
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

CURVES = """
experiment = golden
title = Golden
seeds = 1
solve = none
d_model = 32
d_ff = 128
n_heads = 4
decoder_layers = 2
encoder_layers = 0
max_length = 64
vocab_size = 260
tokenizer = bytes
corpus = generated
modules = 4
length = 32
batch = 4
steps = 20
optimizer = adam
schedule = warmup_rsqrt
learning_rate = 0.02
warmup_steps = 10
dropout = 0.1
evaluate_every = 5
evaluate_batches = 2
checkpoint_every = 5
row = causal
row = span: task=span_corruption encoder_layers=2 target_length=32 optimizer=adafactor
row = copy_pairs: task=copy_pairs encoder_layers=1 vocab_size=13 digits_max=8 eval_digits_min=8 eval_digits_max=12
row = moe: feed_forward=moe_switch experts=4
row = terraformer: residual_stack=reversible attention_layers=2 recurrence=sru feed_forward=sparse sparsity=4 d_lowrank=4 projection=mult_conv kernel_size=3 loss=multiplicative loss_modules=4
"""
PROMPTS = {
    "causal": ["--prompt", "the key"],
    "span": ["--prompt", "", "--source", "the ___ of ___."],
    "moe": ["--prompt", "the key"],
    "terraformer": ["--prompt", "the key"],
}
# Of these only the presence is compared: they are times, or follow from times.
TIMED_METRICS = {"train_seconds", "tokens_per_s", "mfu", "gemm_gflops", "peak_memory_bytes"}
TIMED_FIELDS = {"seconds", "tokens_per_s"}
LONG_STEPS = 400

failures = []


def fail(message):
    failures.append(message)
    print(f"DIFFERENT  {message}", flush=True)


def compare(what, before, after):
    """Names every differing entry of two dictionaries, lists or texts; what only AFTER has is no difference."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            if key not in after:
                fail(f"{what}: {key} is missing after")
            else:
                compare(f"{what}, {key}", before[key], after[key])
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            fail(f"{what}: {len(before)} entries before, {len(after)} after")
        for i, (old, new) in enumerate(zip(before, after)):
            compare(f"{what} [{i}]", old, new)
    elif before != after:
        fail(f"{what}: {before!r} before, {after!r} after")


class Build:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        cache = self.folder / "CMakeCache.txt"
        if not cache.exists():
            sys.exit(
                f"compare_builds: '{folder}' is no build folder (it has no CMakeCache.txt); give build/release of a checkout"
            )
        self.cache = cache.read_text()
        self.source = pathlib.Path(self.cached("CMAKE_HOME_DIRECTORY"))

    def cached(self, name):
        found = re.search(rf"^{name}:[A-Z]+=(.*)$", self.cache, re.M)
        return found[1] if found else ""

    def flags(self):
        kind = self.cached("CMAKE_BUILD_TYPE")
        own = self.cached(f"CMAKE_CXX_FLAGS_{kind.upper()}")
        return [
            kind,
            self.cached("CMAKE_CXX_FLAGS"),
            own,
            self.cached("SCALING_NATIVE"),
            self.cached("SCALING_SANITIZE"),
        ]

    def program(self, name):
        for folder in ("experiments", "apps"):
            if (self.folder / folder / name).exists():
                return str(self.folder / folder / name)
        sys.exit(
            f"compare_builds: {self.folder} has no program {name}; build it: ./build.sh release drivers"
        )

    def run(self, name, *arguments):
        done = subprocess.run(
            [self.program(name), *map(str, arguments)],
            cwd=self.source,
            capture_output=True,
            text=True,
            errors="backslashreplace",
        )
        if done.returncode:
            fail(
                f"{self.folder}: {name} {' '.join(map(str, arguments))} ended with {done.returncode}: {done.stderr.strip()[-400:]}"
            )
        return done.stdout

    def configs(self):
        return {
            path.name: path for path in sorted((self.source / "experiments/configs").rglob("*.cfg"))
        }


def train_arguments(config, results, *more):
    return ["--config", config, "--results", results, "--threads", 1, "--gemm", "eigen", *more]


def values(results):
    """{row: {metric, or "evaluation at step n": record}} of what a training has recorded, times left out."""
    found = {}
    for line in (results / "golden.jsonl").read_text().splitlines():
        record = json.loads(line)
        metric = record["metric"]
        entry = {"metric": metric, "unit": record["unit"], "status": record["status"]}
        if metric not in TIMED_METRICS:
            entry["value"] = record["value"]
            if metric == "evaluation":
                entry["config"] = {
                    k: v for k, v in record["config"].items() if k not in TIMED_FIELDS
                }
            else:
                entry["data"] = record["config"].get("data")
        key = metric if metric != "evaluation" else f"evaluation at step {record['config']['step']}"
        found.setdefault(record["row"], {})[key] = entry
    return found


def train(build, config, results):
    build.run("perplexity", *train_arguments(config, results))
    return values(results)


def interrupt_training(build, config, results):
    """Stops a training of row causal after its first checkpoint; false if it ended by itself before."""
    checkpoint = results / "checkpoints/golden/causal.1/latest.ckpt"
    command = [
        build.program("perplexity"),
        *map(str, train_arguments(config, results, "--rows", "causal", "--steps", LONG_STEPS)),
    ]
    running = subprocess.Popen(
        command, cwd=build.source, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while running.poll() is None and not checkpoint.exists():
        time.sleep(0.005)
    running.send_signal(signal.SIGINT)
    return running.wait() == 130


def convert_checkpoints(build, folder):
    """Rewrites those of the first format, if the build's checkout has a program for that."""
    converter = build.source / "tools/convert_checkpoint.py"
    old = [path for path in folder.rglob("*.ckpt") if path.read_bytes()[:8] == b"SCALCKPT"]
    if converter.exists() and old:
        subprocess.run([sys.executable, converter, *old], check=True, capture_output=True)


def compare_resuming(before, after, config, folder):
    whole, parts = folder / "whole", folder / "parts"
    before.run(
        "perplexity", *train_arguments(config, whole, "--rows", "causal", "--steps", LONG_STEPS)
    )
    if not interrupt_training(before, config, parts):
        fail("resuming: the training ended before it could be interrupted; raise LONG_STEPS")
        return
    convert_checkpoints(after, parts)
    after.run(
        "perplexity",
        *train_arguments(config, parts, "--rows", "causal", "--steps", LONG_STEPS, "--resume"),
    )
    compare("resuming", values(whole), values(parts))


def texts(build, folder):
    found = {}
    for row, prompt in PROMPTS.items():
        checkpoint = folder / f"checkpoints/golden/{row}.1/latest.ckpt"
        common = ["--checkpoint", checkpoint, "--tokens", 32, "--threads", 1, *prompt]
        found[row] = [
            build.run("generate", *common, *more)
            for more in ([], ["--temperature", 1, "--kernels", "ref"])
        ]
    return found


def plan(build, program, path):
    """{row: knobs} of --dry-run, and under "" all counts in it: parameters, weights read, bytes, FLOP."""
    text = build.run(program, "--config", path, "--threads", 1, "--dry-run")
    rows, row = {}, ""
    for line in text.splitlines():
        words = line.split()
        if re.fullmatch(r"\S+( \(against \S+\))?", line):
            row = line
        elif len(words) > 10 and all("=" in word for word in words):
            rows[row] = dict(word.split("=", 1) for word in words)
    counts = r"[\d,]+ parameters|parameters \d+|(?m:^  (?:token|block): .*)|[\d.]+ GFLOP a step"
    rows[""] = sorted(found.replace(",", "") for found in re.findall(counts, text))
    return rows


def program_of(path):
    """The program whose plan tells counts, or None."""
    if path.parent.name == "training":
        return "perplexity"
    return "decode_time" if path.parent.name == "decode" else None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", help="build folder")
    parser.add_argument("after", help="build folder")
    arguments = parser.parse_args()
    before, after = Build(arguments.before), Build(arguments.after)
    if before.flags() != after.flags():
        print(
            f"note: compiled differently, so that floats may differ: {before.flags()}, {after.flags()}"
        )

    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        config = folder / "golden.cfg"
        config.write_text(CURVES)
        print("training", flush=True)
        compare(
            "training",
            train(before, config, folder / "before"),
            train(after, config, folder / "after"),
        )
        print("resuming", flush=True)
        compare_resuming(before, after, config, folder)
        print("generation", flush=True)
        expected = texts(before, folder / "before")
        compare("generation", expected, texts(after, folder / "after"))
        convert_checkpoints(after, folder / "before")
        compare("generation from weights written before", expected, texts(after, folder / "before"))

    old, new = before.configs(), after.configs()
    print(f"plans of {len(old)} experiments", flush=True)
    for name, path in old.items():
        if name not in new:
            fail(f"plans: {name} is missing after")
        elif program := program_of(path):
            compare(f"plan of {name}", plan(before, program, path), plan(after, program, new[name]))

    folders = [
        pathlib.Path(build.run("decode_time", "--where").strip()).name for build in (before, after)
    ]
    compare("folder of this machine", *folders)
    print(f"{len(failures)} differences" if failures else "the same")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
