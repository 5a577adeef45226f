#!/usr/bin/env python3
"""Table 3 from texts to records: pre-trains, chooses learning rates, fine-tunes, and measures what scores stand beside.

  tools/pool_text.py --out pooled wiki.train.tokens=train wiki.valid.tokens=valid web.jsonl \\
    SST-2/train.tsv:sentence=train QQP-10k/train.tsv:question1+question2=train ...
  tools/table3.py --glue GLUE --text pooled/train.jsonl --validation pooled/valid.jsonl --results DIR

GLUE is a folder of folders with GLUE's files as they come (FILES below). Steps, each of which goes on where it was
interrupted and is passed over when it is done:

  pretrain   the rows of table3_pretrain.cfg by span corruption
  rates      each row at each rate of table3_rates_*.cfg, on training rows that tools/glue_hold_out.py kept back
  finetune   each row on each task, at the rate whose label_accuracy was the highest in the mean of both
  baselines  the commonest label and a bag of words for each task

`--step` runs one of them, `--tasks` some tasks, `--dry-run` prints the commands that are known by now.
"""

import argparse
import pathlib
import shlex
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "plots"), str(ROOT / "tools")]
import glue_hold_out  # noqa: E402
import records as rec  # noqa: E402
import training_curves  # noqa: E402

# Below GLUE, to train on and to evaluate on; where copies differ, the first that is there.
FILES = {
    "sst2": ("SST-2/train.tsv", "SST-2/dev.tsv"),
    "qqp": ("QQP*/train.tsv", "QQP*/dev.tsv"),
    "qnli": ("QNLI/*train.tsv", "QNLI/split_dev.tsv", "QNLI/dev.tsv"),
    "mnli": ("MNLI/*.tsv", "MNLI/dev_matched.tsv"),
    "mrpc": ("MRPC/train.tsv", "MRPC/dev.tsv"),
    "rte": ("RTE/train.tsv", "RTE/dev.tsv"),
    "cola": ("CoLA/train.tsv", "CoLA/dev.tsv"),
    "stsb": ("STS-B/train.tsv", "STS-B/dev.tsv"),
}
RATES_FROM = ("sst2", "qqp")
STEPS = ("pretrain", "rates", "finetune", "baselines")
# The row of table3_pretrain.cfg that a row starts from, where it has another name.
STARTS_AS = {"ff_qkv_soft": "ff_qkv"}
ROWS = ("dense", "ff_qkv", "ff_qkv_soft", "ff_qkv_loss", "terraformer")


def files_of(glue, task):
    """(file or glob to train on, file to evaluate on); ValueError names what is missing."""
    train, *evaluated = FILES[task]
    found = next((f for name in evaluated for f in sorted(glue.glob(name))), None)
    trained = [f for f in sorted(glue.glob(train)) if f != found]
    if found is None or not trained:
        raise ValueError(
            f"{glue} lacks files of {task}: {train} to train on, {evaluated[0]} to evaluate on"
        )
    return trained, found


def linked(paths, folder):
    """Links to files in a folder of their own, so that a glob names them all."""
    folder.mkdir(parents=True, exist_ok=True)
    for older in folder.glob("*.tsv"):
        older.unlink()
    for number, path in enumerate(paths, 1):
        (folder / f"{number}.tsv").symlink_to(path.resolve())


def model_of(row):
    """dense of dense.r10."""
    return row.partition(".")[0]


def chosen_rates(records, models=ROWS):
    """{model: learning rate} as the docstring says; ValueError says what is not trained yet."""
    found = [
        training_curves.Experiment(records, f"table3_rates_{task}")
        for task in RATES_FROM
        if records.history(f"table3_rates_{task}")
    ]
    if len(found) < len(RATES_FROM):
        raise ValueError("no learning rates on record for both tasks; run --step rates first")
    rates = {}
    for model in models:
        scores = {}
        for row in found[0].rows:
            if model_of(row) != model:
                continue
            each = [experiment.result(row, "label_accuracy") for experiment in found]
            if None in each:
                raise ValueError(f"{row} is not trained on both tasks; run --step rates first")
            scores[found[0].setting(row, "learning_rate")] = statistics.fmean(
                value.value for value in each
            )
        if not scores:
            raise ValueError(f"no learning rate of {model} on record; run --step rates first")
        # Of rates that are as good, the lower.
        rates[model] = max(sorted(scores), key=scores.get)
    return rates


class Plan:
    """Commands, one after another."""

    def __init__(self, args):
        self.args = args
        self.results = args.results.resolve()

    def curve(self, config, *flags):
        perplexity = self.args.build / "experiments" / "perplexity"
        return [
            *(perplexity, "--config", ROOT / "experiments" / "configs" / "training" / config),
            *("--results", self.results, "--scratch", self.results),
            *("--threads", str(self.args.threads)),
            *flags,
        ]

    def weights(self, row):
        name = f"{STARTS_AS.get(row, row)}.1"
        return self.results / "checkpoints" / "table3_pretrain" / name / "best.ckpt"

    def texts(self, corpus, validation):
        return ("--corpus", corpus, "--validation", validation)

    def texts_of(self, task):
        trained, evaluated = files_of(self.args.glue, task)
        if len(trained) == 1:
            return self.texts(trained[0], evaluated)
        folder = self.results / "texts" / task
        if not self.args.dry_run:
            linked(trained, folder)
        return self.texts(folder / "*.tsv", evaluated)

    def pretrain(self):
        texts = self.texts(self.args.text, self.args.validation)
        yield self.curve("table3_pretrain.cfg", *texts)

    def rates(self):
        for task in RATES_FROM:
            trained, _ = files_of(self.args.glue, task)
            out = self.results / "held_out" / task
            if not self.args.dry_run:
                glue_hold_out.hold_out(trained[0], out)
            for row in ROWS:
                names = ",".join(f"{row}.{rate}" for rate in ("r3", "r10", "r30"))
                yield self.curve(
                    f"table3_rates_{task}.cfg",
                    *("--rows", names, "--init_from", self.weights(row)),
                    *self.texts(out / "train.tsv", out / "held_out.tsv"),
                )

    def finetune(self):
        rates = chosen_rates(rec.Records(self.results))
        for task in self.args.tasks:
            texts = self.texts_of(task)
            for row in ROWS:
                yield self.curve(
                    f"table3_{task}.cfg",
                    *("--rows", row, "--init_from", self.weights(row)),
                    *("--learning_rate", f"{rates[row]:g}"),
                    *texts,
                )

    def baselines(self):
        for task in self.args.tasks:
            yield [
                *(sys.executable, ROOT / "tools" / "glue_baselines.py", "--task", f"glue_{task}"),
                *self.texts_of(task),
                *("--results", self.results),
            ]


def run(plan, steps, dry_run):
    """Exit status: 1 if a command of a step failed; the step goes on, those behind it do not begin."""
    for step in steps:
        failed = 0
        try:
            for command in getattr(plan, step)():
                words = [str(word) for word in command]
                print(shlex.join(words), flush=True)
                if not dry_run:
                    failed += subprocess.run(words, check=False).returncode != 0
        except ValueError as error:
            if not dry_run:
                raise
            print(f"# {step}: {error}")
        if failed:
            return 1
    return 0


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--glue", type=pathlib.Path, required=True, help="folder of GLUE's folders")
    parser.add_argument("--text", help="to pre-train on (of step pretrain)")
    parser.add_argument("--validation", help="text to evaluate pre-training on")
    parser.add_argument("--results", type=pathlib.Path, required=True, help="folder of records")
    parser.add_argument("--step", choices=STEPS, help="one step (all)")
    parser.add_argument("--tasks", default=",".join(FILES), help="comma between (all)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args(arguments)
    args.tasks = args.tasks.split(",")
    unknown = [task for task in args.tasks if task not in FILES]
    if unknown:
        parser.error(f"--tasks {unknown[0]} is none of {', '.join(FILES)}")
    if args.step in (None, "pretrain") and not (args.text and args.validation):
        parser.error("step pretrain wants --text and --validation (tools/pool_text.py makes both)")
    return args


def main():
    args = parse()
    try:
        sys.exit(run(Plan(args), [args.step] if args.step else STEPS, args.dry_run))
    except (OSError, ValueError) as error:
        sys.exit(f"table3.py: {error}")


if __name__ == "__main__":
    main()
