#!/usr/bin/env python3
"""Objectives of pre-training from texts to records: a model by each, and what QQP and SumPubMed make of it.

  tools/objectives.py --glue GLUE --articles SUMPUBMED --text pooled/train.jsonl --validation pooled/valid.jsonl \\
    --results DIR

GLUE is a folder of folders with GLUE's files, SUMPUBMED one with train, valid and test.jsonl.gz (or .jsonl), as
tools/table3.py and tools/table5.py take them. Steps, each of which goes on where it was interrupted and is passed over
when it is done:

  pretrain   the rows of objectives_pretrain.cfg at equal tokens; `none` stays as it was drawn
  finetune   each on QQP and on SumPubMed at equal steps (objectives_qqp.cfg, objectives_sumpubmed.cfg)
  generate   an abstract of every test article from every row, by a beam of 4 with GNMT's length penalty
  baselines  QQP's commonest label and a bag of words; the first, any and the best sentences; abstracts of other articles
  score      ROUGE by rouge-score; how far a row is above its abstracts of other articles, and above those of `none`

`--step` runs one of them, `--dry-run` prints the commands. Scoring has an environment of its own
(experiments/scoring/requirements.txt): --python names it.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from table_steps import (  # noqa: E402
    CONFIGS,
    Abstracts,
    add_python,
    main,
    parser_of,
    part,
    require_texts,
    rows_of,
    texts,
)

STEPS = ("pretrain", "finetune", "generate", "baselines", "score")
PRETRAIN, QQP, SUMPUBMED = "objectives_pretrain", "objectives_qqp", "objectives_sumpubmed"
CONTROL = "none"


class Plan(Abstracts):
    """Commands, one after another."""

    scored_as = "objectives"

    def __init__(self, args):
        super().__init__(args, "sumpubmed", folder=self.scored_as)

    def pretrain(self):
        yield self.curve(f"{PRETRAIN}.cfg", *texts(self.args.text, self.args.validation))

    def finetune(self):
        articles = texts(part(self.articles, "train"), part(self.articles, "valid"))
        for name, own in ((QQP, self.glue_texts("qqp")), (SUMPUBMED, articles)):
            for row in rows_of(CONFIGS / f"{name}.cfg"):
                weights = self.weights(PRETRAIN, row)
                yield self.curve(f"{name}.cfg", *("--rows", row, "--init_from", weights), *own)

    def written(self):
        return self.files(CONFIGS / f"{SUMPUBMED}.cfg", SUMPUBMED)

    def baselines(self):
        yield [
            *(sys.executable, ROOT / "tools" / "glue_baselines.py", "--task", "glue_qqp"),
            *(*self.glue_texts("qqp"), "--results", self.results),
        ]
        yield from super().baselines()

    def score(self):
        yield from super().score()
        yield from self.compared(CONTROL)


def parse(arguments=None):
    parser = parser_of(__doc__, STEPS)
    parser.add_argument("--glue", type=pathlib.Path, required=True, help="folder of GLUE's folders")
    parser.add_argument("--articles", type=pathlib.Path, required=True, help="folder of SumPubMed")
    add_python(parser)
    args = parser.parse_args(arguments)
    require_texts(parser, args)
    return args


if __name__ == "__main__":
    main("objectives.py", Plan, parse(), STEPS)
