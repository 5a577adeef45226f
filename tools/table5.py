#!/usr/bin/env python3
"""Table 5 from articles to records: pre-trains, fine-tunes, writes abstracts, scores them, and makes Table 9's page.

  tools/table5.py --set sumpubmed --articles SUMPUBMED --text pooled/train.jsonl --validation pooled/valid.jsonl \\
    --results DIR

SUMPUBMED is a folder with train, valid and test.jsonl.gz (or .jsonl), an object a document with an article and an
abstract. Steps, each of which goes on where it was interrupted and is passed over when it is done:

  pretrain   the rows of table5_pretrain.cfg by gap sentences
  finetune   the rows of table5_<set>.cfg, from these weights
  few        the same on the first 10 and the first 100 articles of SumPubMed (table5_few_*.cfg)
  generate   an abstract of every test article from every checkpoint, by a beam of 4 with GNMT's length penalty
  baselines  the first and any sentences, the best ones in the reference's sight; each model's abstract of another article
  score      ROUGE by rouge-score, a row's seeds together, and how far a row is above its abstracts of other articles
  page       ten documents side by side

`--step` runs one of them, `--dry-run` prints the commands. Scoring has an environment of its own
(experiments/scoring/requirements.txt): --python names it.
"""

import argparse
import gzip
import itertools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from table3 import run  # noqa: E402

CONFIGS = ROOT / "experiments" / "configs" / "training"
SCORING = ROOT / "experiments" / "scoring"
STEPS = ("pretrain", "finetune", "few", "generate", "baselines", "score", "page")
SETS = ("sumpubmed", "scisummnet")
FEW = (10, 100)
# Sentences of a baseline: about as many words as the set's abstracts have.
SENTENCES = {"sumpubmed": 10, "scisummnet": 4}
BEAM = ("--beam", "4", "--length_penalty", "gnmt", "--alpha", "0.8", "--block_trigrams")


def rows_of(config):
    """Names of a config's rows, in its order."""
    return re.findall(r"^row = ([^:\s]+)", config.read_text(encoding="utf-8"), re.MULTILINE)


def seeds_of(config):
    (seeds,) = re.findall(r"^seeds = ([\d,]+)$", config.read_text(encoding="utf-8"), re.MULTILINE)
    return seeds.split(",")


def part(folder, name):
    """A file of the set; ValueError names what is missing."""
    for ending in (".jsonl.gz", ".jsonl"):
        path = folder / f"{name}{ending}"
        if path.is_file():
            return path
    raise ValueError(f"{folder} has no {name}.jsonl.gz, nor {name}.jsonl")


def first_lines(path, count, out):
    """Writes them as they are."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as lines:
        found = list(itertools.islice(lines, count))
    if len(found) < count:
        raise ValueError(f"{path} has {len(found)} articles, fewer than {count}")
    out.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join(found)
    if not out.is_file() or out.read_bytes() != data:
        out.write_bytes(data)


class Plan:
    """Commands, one after another."""

    def __init__(self, args):
        self.args = args
        self.results = args.results.resolve()
        self.name = f"table5_{args.set}"
        self.config = CONFIGS / f"{self.name}.cfg"
        self.texts = self.results / "abstracts" / args.set

    def curve(self, config, *flags):
        return [
            *(self.args.build / "experiments" / "perplexity", "--config", config),
            *("--results", self.results, "--scratch", self.results),
            *("--threads", str(self.args.threads), *flags),
        ]

    def checkpoint(self, experiment, row, seed):
        return self.results / "checkpoints" / experiment / f"{row}.{seed}" / "best.ckpt"

    def pretrain(self):
        yield self.curve(
            CONFIGS / "table5_pretrain.cfg",
            *("--corpus", self.args.text, "--validation", self.args.validation),
        )

    def fine_tuned(self, config, corpus, *flags):
        valid = part(self.args.articles, "valid")
        for row in rows_of(config):
            weights = self.checkpoint("table5_pretrain", row.partition(".")[0], 1)
            yield self.curve(
                config,
                *("--rows", row, "--init_from", weights),
                *("--corpus", corpus, "--validation", valid, *flags),
            )

    def finetune(self):
        yield from self.fine_tuned(self.config, part(self.args.articles, "train"))

    def few(self):
        train = part(self.args.articles, "train")
        for count in FEW:
            corpus = self.results / "texts" / self.args.set / f"first_{count}.jsonl"
            if not self.args.dry_run:
                first_lines(train, count, corpus)
            yield from self.fine_tuned(CONFIGS / f"table5_few_{count}.cfg", corpus)

    def written(self):
        """{row: [(seed, experiment, file of abstracts)]}"""
        found = {}
        configs = [(self.name, self.config, "")]
        if self.args.set == "sumpubmed":
            configs += [
                (f"table5_few_{count}", CONFIGS / f"table5_few_{count}.cfg", f".first_{count}")
                for count in FEW
            ]
        for experiment, config, ending in configs:
            for row in rows_of(config):
                found[row + ending] = [
                    (seed, experiment, row, self.texts / f"{row}{ending}.{seed}.txt")
                    for seed in seeds_of(config)
                ]
        return found

    def generate(self):
        test = part(self.args.articles, "test")
        if not self.args.dry_run:
            self.texts.mkdir(parents=True, exist_ok=True)
        for files in self.written().values():
            for seed, experiment, row, out in files:
                yield [
                    *(self.args.build / "apps" / "generate", "--threads", str(self.args.threads)),
                    *("--checkpoint", self.checkpoint(experiment, row, seed)),
                    *("--sources", test, "--text_key", "article", "--out", out, *BEAM),
                ]

    def scorer(self, program, *flags):
        return [self.args.python, SCORING / program, *flags]

    def another(self, path):
        return path.with_name(f"another.{path.name}")

    def baselines(self):
        test = part(self.args.articles, "test")
        made = self.texts
        sentences = str(SENTENCES[self.args.set])
        for kind in ("lead", "random", "oracle"):
            yield self.scorer(
                "baseline_summaries.py",
                *(kind, "--sentences", sentences, "--out", made / f"{kind}.txt"),
                *("--articles", test, "--key", "article"),
                *(("--references_key", "abstract") if kind == "oracle" else ()),
            )
        for files in self.written().values():
            for _, _, _, path in files:
                yield self.scorer(
                    "baseline_summaries.py",
                    *("another", "--hypotheses", path, "--out", self.another(path)),
                )

    def scored(self, row, files, *flags):
        return self.scorer(
            "score_summaries.py",
            *("--results", self.results, "--experiment", f"table5.{self.args.set}"),
            *("--references", part(self.args.articles, "test"), "--key", "abstract"),
            *("--row", row, "--hypotheses", *files, *flags),
        )

    def score(self):
        for kind in ("lead", "random", "oracle"):
            yield self.scored(kind, [self.texts / f"{kind}.txt"])
        for row, files in self.written().items():
            paths = [path for _, _, _, path in files]
            yield self.scored(row, paths, "--against", *map(self.another, paths))

    def page(self):
        """The first seed of each row that had all articles, since its number was fixed beforehand."""
        shown = [
            f"{row}={files[0][3]}" for row, files in self.written().items() if ".first_" not in row
        ]
        shown.append(f"lead={self.texts / 'lead.txt'}")
        yield self.scorer(
            "summaries_page.py",
            *("--articles", part(self.args.articles, "test"), *shown),
            *("--title", f"Table 9: abstracts of {self.args.set}"),
            *("--out", self.results / f"table9_{self.args.set}.md"),
        )


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", choices=SETS, default="sumpubmed", help="of articles (sumpubmed)")
    parser.add_argument("--articles", type=pathlib.Path, required=True, help="folder of the set")
    parser.add_argument("--text", help="to pre-train on (of step pretrain)")
    parser.add_argument("--validation", help="text to evaluate pre-training on")
    parser.add_argument("--results", type=pathlib.Path, required=True, help="folder of records")
    parser.add_argument("--step", choices=STEPS, help="one step (all)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument(
        "--python",
        type=pathlib.Path,
        default=ROOT / "build" / "scoring" / "bin" / "python",
        help="with the scorers (build/scoring/bin/python)",
    )
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args(arguments)
    if args.step in (None, "pretrain") and not (args.text and args.validation):
        parser.error("step pretrain wants --text and --validation (tools/pool_text.py makes both)")
    if args.step == "few" and args.set != "sumpubmed":
        parser.error(f"--step few is of sumpubmed; {args.set} has one curve a row")
    return args


def main():
    args = parse()
    steps = [args.step] if args.step else STEPS
    if args.set != "sumpubmed":
        steps = [step for step in steps if step != "few"]
    try:
        sys.exit(run(Plan(args), steps, args.dry_run))
    except (OSError, ValueError) as error:
        sys.exit(f"table5.py: {error}")


if __name__ == "__main__":
    main()
