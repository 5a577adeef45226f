#!/usr/bin/env python3
"""Sparsefinder from text to claims: trains teachers, sweeps the graphs of each, and takes the claims' differences.

  tools/teachers.py --text pooled/train.jsonl --validation pooled/valid.jsonl --results DIR

Steps, each of which goes on where it was interrupted and is passed over when it is done:

  train        s_lm and s_mlm of sparsefinder_small.cfg, three seeds each, and s_lm_512 and s_mlm_512, one seed each
  sweep        every method on every teacher, and the teacher with the predicted graphs alone, on 48 sequences
  differences  what the claims are judged by (tools/sparsefinder_differences.py)

`--teachers s_lm` takes some teachers alone, `--step` runs one step, `--dry-run` prints the commands.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from table_steps import CONFIGS, Curves, main, parser_of, rows_of, texts  # noqa: E402

STEPS = ("train", "sweep", "differences")
NAME = "sparsefinder_small"
ONE_SEED = ("s_lm_512", "s_mlm_512")
ONLINE = 48  # sequences that a teacher runs on with predicted graphs


class Plan(Curves):
    """Commands, one after another."""

    def seeds_of(self, teacher):
        seeds = self.seeds(CONFIGS / f"{NAME}.cfg")
        return seeds[:1] if teacher in ONE_SEED else seeds

    def train(self):
        for teacher in self.args.teachers:
            yield self.curve(
                f"{NAME}.cfg",
                *("--rows", teacher, "--seeds", ",".join(self.seeds_of(teacher))),
                *texts(self.args.text, self.args.validation),
            )

    def sweep(self):
        for teacher in self.args.teachers:
            for seed in self.seeds_of(teacher):
                folder = self.checkpoint(NAME, teacher, seed).parent
                yield [
                    *(self.args.build / "experiments" / "sparsefinder", "--results", self.results),
                    *("--checkpoint", folder / "latest.ckpt", "--threads", str(self.args.threads)),
                    *texts(self.args.text, self.args.validation),
                    *("--online", "4" if self.args.quick else str(ONLINE)),
                    *(("--quick",) if self.args.quick else ()),
                ]

    def differences(self):
        yield [
            *(sys.executable, ROOT / "tools" / "sparsefinder_differences.py"),
            *("--results", self.results),
        ]


def parse(arguments=None):
    parser = parser_of(__doc__, STEPS, pretrains=False)
    known = rows_of(CONFIGS / f"{NAME}.cfg")
    parser.add_argument("--text", required=True, help="to train on")
    parser.add_argument("--validation", required=True, help="to sweep on")
    parser.add_argument("--teachers", default=",".join(known), help="comma between (all)")
    args = parser.parse_args(arguments)
    args.teachers = args.teachers.split(",")
    unknown = [name for name in args.teachers if name not in known]
    if unknown:
        parser.error(f"--teachers {unknown[0]} is none of {', '.join(known)}")
    return args


if __name__ == "__main__":
    main("teachers.py", Plan, parse(), STEPS)
