#!/usr/bin/env python3
"""Sparsefinder from text to claims: trains teachers, sweeps the graphs of each, and takes the claims' differences.

  tools/teachers.py --text pooled/train.jsonl --validation pooled/valid.jsonl --results DIR
  tools/teachers.py --teachers s_mt --text multi30k/train.en --validation multi30k/val.en \\
      --test multi30k/test_2016_flickr.en --results DIR

Steps, each of which goes on where it was interrupted and is passed over when it is done:

  train        s_lm and s_mlm of sparsefinder_small.cfg, three seeds each, and s_lm_512 and s_mlm_512, one seed each; or
               s_mt of sparsefinder_mt.cfg, which translates
  sweep        every method on every teacher, and the teacher with the predicted graphs alone, on 48 sequences
  differences  what the claims are judged by (tools/sparsefinder_differences.py)
  time         attentions that predict their pairs, on the clock; nothing else should run meanwhile
  translate    of s_mt: the test's captions, five at a time, by the teacher and by each of these attentions in its place,
               beams of five with GNMT's length penalty, by the teacher also with n^1 and the likeliest token each time, and
               their BLEU

`--teachers s_lm` takes some teachers alone, `--step` runs one step, `--dry-run` prints the commands.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from table_steps import (  # noqa: E402
    CONFIGS,
    Curves,
    add_python,
    main,
    parser_of,
    plain_python,
    rows_of,
    texts,
)

STEPS = ("train", "sweep", "ranks", "differences", "time", "translate")
NAME, TRANSLATES = "sparsefinder_small", "sparsefinder_mt"
ONE_SEED = ("s_lm_512", "s_mlm_512")
# Of projections, beside the usual 4: the control of how many dimensions a prediction takes.
RANKS, OF_RANKS = (2, 8, 16), ("distance", "distance_pca", "distance_random", "kmeans")
ONLINE = 48  # sequences that a teacher runs on with predicted graphs
# Of translations, by the ending of a row; all are made by the first.
DECODINGS = {
    "": ("--beam", "5", "--length_penalty", "gnmt"),
    ".greedy": (),
    ".power": ("--beam", "5", "--length_penalty", "power", "--alpha", "1"),
}
TOGETHER = 5  # captions, about as many as the teacher's training joins
QUICK_TEXTS = 4


def joined(path, out, most=None):
    """Writes a file's lines, TOGETHER on each."""
    lines = path.read_text(encoding="utf-8").splitlines()
    groups = [lines[i : i + TOGETHER] for i in range(0, len(lines), TOGETHER)][:most]
    data = "".join(" ".join(group) + "\n" for group in groups)
    out.parent.mkdir(parents=True, exist_ok=True)
    if not out.is_file() or out.read_text(encoding="utf-8") != data:
        out.write_text(data, encoding="utf-8")


class Plan(Curves):
    """Commands, one after another."""

    def __init__(self, args):
        super().__init__(args)
        self.name = TRANSLATES if args.translates else NAME
        self.native = self.results / "native"

    def seeds_of(self, teacher):
        seeds = self.seeds(CONFIGS / f"{self.name}.cfg")
        return seeds[:1] if teacher in ONE_SEED else seeds

    def train(self):
        for teacher in self.args.teachers:
            yield self.curve(
                f"{self.name}.cfg",
                *("--rows", teacher, "--seeds", ",".join(self.seeds_of(teacher))),
                *texts(self.args.text, self.args.validation),
            )

    def trained(self):
        """{name of a teacher and its seed: checkpoint}."""
        return {
            folder.name: folder / "latest.ckpt"
            for teacher in self.args.teachers
            for seed in self.seeds_of(teacher)
            for folder in [self.checkpoint(self.name, teacher, seed).parent]
        }

    def on_teachers(self, program, *more):
        """A command a teacher, which is told its checkpoint, its texts and where its models are."""
        for checkpoint in self.trained().values():
            yield [
                *(self.args.build / "experiments" / program, "--results", self.results),
                *("--checkpoint", checkpoint, "--models", self.native),
                *texts(self.args.text, self.args.validation),
                *more,
                *(("--quick",) if self.args.quick else ()),
            ]

    def sweep(self):
        online = "4" if self.args.quick else str(ONLINE)
        yield from self.on_teachers(
            "sparsefinder", "--threads", str(self.args.threads), "--online", online
        )

    def ranks(self):
        for rank in RANKS:
            for teacher, command in zip(self.trained(), self.on_teachers("sparsefinder")):
                rows = (f"{teacher}.{method}_rank{rank}" for method in OF_RANKS)
                threads = ("--threads", str(self.args.threads))
                yield [*command, "--rank", str(rank), "--rows", ",".join(rows), *threads]

    def time(self):
        yield from self.on_teachers("sparsefinder_time")

    def differences(self):
        yield [
            *(plain_python(), ROOT / "tools" / "sparsefinder_differences.py"),
            *("--results", self.results),
        ]

    def translate(self):
        if not self.args.translates:
            return
        config = (CONFIGS / f"{self.name}.cfg").read_text(encoding="utf-8")
        (side,) = re.findall(r"^target_side = (\w+)$", config, re.MULTILINE)
        files = [self.args.test, self.args.test.with_suffix(f".{side}")]
        sources, references = (self.results / "texts" / path.name for path in files)
        if not self.args.dry_run:
            (self.results / "translations").mkdir(parents=True, exist_ok=True)
            for path, out in zip(files, (sources, references)):
                joined(path, out, QUICK_TEXTS if self.args.quick else None)
        for teacher, checkpoint in self.trained().items():
            models = {f"{teacher}.full": checkpoint}
            models |= {p.stem: p for p in sorted(self.native.glob(f"{teacher}.*.safetensors"))}
            for row, model in models.items():
                # The teacher itself is also decoded in the other ways.
                for name in DECODINGS if model == checkpoint else ("",):
                    yield from self.translated(
                        row + name, model, DECODINGS[name], sources, references, f"{teacher}.full"
                    )

    def translated(self, row, model, flags, sources, references, baseline):
        """Texts, then their score, also above those of a row."""
        folder = self.results / "translations"
        out = folder / f"{row}.txt"
        yield [
            *(self.args.build / "apps" / "generate", "--checkpoint", model),
            *("--sources", sources, "--out", out, *flags, "--threads", str(self.args.threads)),
        ]
        yield [
            *(self.args.python, ROOT / "experiments" / "scoring" / "score_translations.py"),
            *("--results", self.results, "--row", row),
            *("--hypotheses", out, "--references", references),
            *(() if row == baseline else ("--against", folder / f"{baseline}.txt")),
        ]


def parse(arguments=None):
    parser = parser_of(__doc__, STEPS, pretrains=False)
    known = rows_of(CONFIGS / f"{NAME}.cfg")
    translating = rows_of(CONFIGS / f"{TRANSLATES}.cfg")
    parser.add_argument("--text", required=True, help="to train on; of s_mt the sources' file")
    parser.add_argument("--validation", required=True, help="to sweep on, likewise")
    parser.add_argument("--test", type=pathlib.Path, help="sources that s_mt translates")
    parser.add_argument("--teachers", default=",".join(known), help="comma between (%(default)s)")
    add_python(parser)
    args = parser.parse_args(arguments)
    args.teachers = args.teachers.split(",")
    unknown = [name for name in args.teachers if name not in known + translating]
    if unknown:
        parser.error(f"--teachers {unknown[0]} is none of {', '.join(known + translating)}")
    args.translates = [name for name in args.teachers if name in translating]
    if args.translates and args.translates != args.teachers:
        parser.error(
            f"{args.translates[0]} learns from pairs, other teachers from text; run them apart"
        )
    if args.translates and args.step in (None, "translate") and not args.test:
        parser.error("step translate wants --test, a file of sources with its translations beside")
    if args.step == "translate" and not args.translates:
        parser.error(f"step translate is of {', '.join(translating)} alone; name it by --teachers")
    return args


if __name__ == "__main__":
    main("teachers.py", Plan, parse(), STEPS)
