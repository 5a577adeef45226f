#!/usr/bin/env python3
"""The copy task of the Reformer paper: trains with each number of LSH rounds, and evaluates each with all others.

  tools/copy_rounds.py --results DIR

Steps, each of which goes on where it was interrupted and is passed over when it is done:

  train      the rows of copy_rounds.cfg, minutes each
  evaluate   the weights of each row with the attention of every other (copy_rounds_cross.cfg)

`--step` runs one of them, `--dry-run` prints the commands. The report has the table of accuracies.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from table_steps import CONFIGS, Curves, main, parser_of, rows_of  # noqa: E402

STEPS = ("train", "evaluate")
TRAINED, CROSS = "copy_rounds", "copy_rounds_cross"


class Plan(Curves):
    """Commands, one after another."""

    def train(self):
        yield self.curve(f"{TRAINED}.cfg")

    def evaluate(self):
        for row in rows_of(CONFIGS / f"{CROSS}.cfg"):
            weights = self.weights(TRAINED, row.partition(".")[0], "train")
            yield self.curve(f"{CROSS}.cfg", "--rows", row, "--init_from", weights)


def parse(arguments=None):
    parser = parser_of(__doc__, STEPS, pretrains=False)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main("copy_rounds.py", Plan, parse(), STEPS)
