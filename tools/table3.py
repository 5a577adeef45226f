#!/usr/bin/env python3
"""Table 3 from texts to records: pre-trains, chooses learning rates, fine-tunes, and measures what scores stand beside.

  tools/pool_text.py --out pooled wiki.train.tokens=train wiki.valid.tokens=valid web.jsonl \\
    SST-2/train.tsv:sentence=train QQP-10k/train.tsv:question1+question2=train ...
  tools/table3.py --glue GLUE --text pooled/train.jsonl --validation pooled/valid.jsonl --results DIR

GLUE is a folder of folders with GLUE's files as they come (GLUE in tools/table_steps.py). Steps, each of which goes on where it was
interrupted and is passed over when it is done:

  pretrain   the rows of table3_pretrain.cfg by denoising
  rates      each row at each rate of table3_rates_*.cfg, on training rows that tools/glue_hold_out.py kept back
  finetune   each row on each task, at the rate whose label_accuracy was the highest in the mean of both
  baselines  the commonest label and a bag of words for each task

`--step` runs one of them, `--tasks` some tasks, `--rows` some models, so that several of these programs may share DIR, each
with models of its own; `--seeds` fine-tunes by other seeds than the configs'. `--dry-run` prints the commands that are known
by now.
"""

import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "plots"), str(ROOT / "tools")]
import glue_hold_out  # noqa: E402
import records as rec  # noqa: E402
import training_curves  # noqa: E402
from table_steps import (  # noqa: E402
    CONFIGS,
    Curves,
    files_of,
    main,
    number_of,
    parser_of,
    require_texts,
    texts,
)
from table_steps import GLUE as FILES  # noqa: E402

RATES_FROM = ("sst2", "qqp")
STEPS = ("pretrain", "rates", "finetune", "baselines")
ROWS = ("dense", "ff_qkv", "ff_qkv_soft", "ff_qkv_loss", "terraformer")


def model_of(row):
    """dense of dense.r10."""
    return row.partition(".")[0]


def chosen_rates(records, models):
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
        for row in found[0].planned:
            # A rate at which training fails is none to take.
            if model_of(row) != model or any(e.failures(row) for e in found):
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


class Plan(Curves):
    """Commands, one after another."""

    def pretrained(self, row):
        return self.weights("table3_pretrain", training_curves.STARTS_AS.get(row, row))

    def pretrain(self):
        names = dict.fromkeys(training_curves.STARTS_AS.get(row, row) for row in self.args.rows)
        yield self.curve(
            "table3_pretrain.cfg",
            *("--rows", ",".join(names), *texts(self.args.text, self.args.validation)),
        )

    def rates(self):
        for task in RATES_FROM:
            (trained,), _ = files_of(self.args.glue, task)  # both tasks have one by name: train.tsv
            out = self.results / "held_out" / task
            if not self.args.dry_run:
                glue_hold_out.hold_out(trained, out)
            for row in self.args.rows:
                names = ",".join(f"{row}.{rate}" for rate in ("r3", "r10", "r30"))
                yield self.curve(
                    f"table3_rates_{task}.cfg",
                    *("--rows", names, "--init_from", self.pretrained(row)),
                    *texts(out / "train.tsv", out / "held_out.tsv"),
                )

    def finetune(self):
        rates = chosen_rates(rec.Records(self.results), self.args.rows)
        for task in self.args.tasks:
            own = self.glue_texts(task)
            for row in self.args.rows:
                yield self.curve(
                    f"table3_{task}.cfg",
                    *("--rows", row, "--init_from", self.pretrained(row)),
                    *("--learning_rate", f"{rates[row]:g}"),
                    *(("--seeds", self.args.seeds) if self.args.seeds else ()),
                    *own,
                )

    def baselines(self):
        for task in self.args.tasks:
            config = CONFIGS / f"table3_{task}.cfg"
            evaluated = number_of(config, "evaluate_batches") * number_of(config, "batch")
            yield [
                *(sys.executable, ROOT / "tools" / "glue_baselines.py", "--task", f"glue_{task}"),
                *self.glue_texts(task),
                *("--examples", str(evaluated), "--results", self.results),
            ]


def parse(arguments=None):
    parser = parser_of(__doc__, STEPS)
    parser.add_argument("--glue", type=pathlib.Path, required=True, help="folder of GLUE's folders")
    some = {"tasks": FILES, "rows": ROWS}
    for flag, known in some.items():
        parser.add_argument(f"--{flag}", default=",".join(known), help="comma between (all)")
    parser.add_argument("--seeds", help="of fine-tuning, comma between (the configs')")
    args = parser.parse_args(arguments)
    for flag, known in some.items():
        names = getattr(args, flag).split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            parser.error(f"--{flag} {unknown[0]} is none of {', '.join(known)}")
        setattr(args, flag, names)
    if args.seeds is not None and not all(seed.isdecimal() for seed in args.seeds.split(",")):
        parser.error(f"--seeds {args.seeds}: no whole numbers; give them as 1,2,3")
    require_texts(parser, args)
    return args


if __name__ == "__main__":
    main("table3.py", Plan, parse(), STEPS)
