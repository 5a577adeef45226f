#!/usr/bin/env python3
"""The hierarchical encoder from articles to records: ranks paragraphs, trains, writes abstracts, scores them.

  tools/hierarchy.py --articles SCISUMMNET --results DIR

SCISUMMNET is a folder with train, valid and test.jsonl.gz (or .jsonl), an object a paper with a title, an article whose
sections are parted by lines without text, and an abstract. Steps, each of which goes on where it was interrupted and, but
for the first, which takes seconds, is passed over when it is done:

  rank       the paragraphs of each paper, the best first, by a regression on the training papers (tools/rank_paragraphs.py)
  train      the rows of hierarchy_scisummnet.cfg
  generate   an abstract of every test paper from every checkpoint, by a beam of 5 with GNMT's length penalty (Liu and
             Lapata 2019)
  baselines  the first and any sentences, the best ones in the reference's sight; each model's abstract of another paper
  score      ROUGE by rouge-score, a row's seeds together; how far a row is above its abstracts of other papers, and
             `hierarchical` above `flat`

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
    plain_python,
    texts,
)

STEPS = ("rank", "train", "generate", "baselines", "score")
NAME = "hierarchy_scisummnet"
BASELINE = "flat"


class Plan(Abstracts):
    """Commands, one after another."""

    scored_as = "hierarchy.scisummnet"
    search = ("--beam", "5", "--length_penalty", "gnmt", "--alpha", "0.4")

    def __init__(self, args):
        super().__init__(args, "scisummnet", folder="hierarchy")
        self.articles = self.results / "texts" / "ranked"
        self.extracted = args.articles

    def rank(self):
        for name in ("train", "valid", "test"):
            yield [
                *(plain_python(), ROOT / "tools" / "rank_paragraphs.py"),
                *(part(self.args.articles, name), "--out", self.articles / f"{name}.jsonl.gz"),
                *("--by", "learned", "--train", part(self.args.articles, "train")),
            ]

    def train(self):
        own = texts(part(self.articles, "train"), part(self.articles, "valid"))
        yield self.curve(f"{NAME}.cfg", *own)

    def written(self):
        return self.files(CONFIGS / f"{NAME}.cfg", NAME)

    def score(self):
        yield from super().score()
        yield from self.compared(BASELINE)


def parse(arguments=None):
    parser = parser_of(__doc__, STEPS, pretrains=False)
    parser.add_argument("--articles", type=pathlib.Path, required=True, help="folder of ScisummNet")
    add_python(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main("hierarchy.py", Plan, parse(), STEPS)
