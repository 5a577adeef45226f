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
  decodings  of SumPubMed, by the first seed: the likeliest token each time, draws at temperature 0.5, a beam of 5 with the
             penalty n^alpha
  prompted   of SumPubMed, GPT-2's way: table5_prompted.cfg learns the next token of --text, reads an article and " TL;DR:",
             and goes on for 100 tokens drawn from the two likeliest, of which three sentences are kept
  baselines  the first and any sentences, the best ones in the reference's sight; each model's abstract of another article
  score      ROUGE by rouge-score, a row's seeds together; how far a row is above its abstracts of other articles, and a
             sparse row above `dense`
  page       ten documents side by side

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
    first_lines,
    main,
    parser_of,
    part,
    require_texts,
    rows_of,
    texts,
)

STEPS = ("pretrain", "finetune", "few", "generate", "decodings", "prompted")
STEPS += ("baselines", "score", "page")
OF_SUMPUBMED = ("few", "decodings", "prompted")
SETS = ("sumpubmed", "scisummnet")
FEW = (10, 100)
DENSE = "dense"
DECODINGS = {
    "greedy": (),
    "drawn": ("--temperature", "0.5"),
    "beam5": ("--beam", "5", "--length_penalty", "power", "--alpha", "1.2", "--block_trigrams"),
}
PROMPTED = "table5_prompted"
PROMPT = ("--cue", " TL;DR:", "--tokens", "100", "--temperature", "1", "--top_k", "2")
PROMPT += ("--sentences", "3")


class Plan(Abstracts):
    """Commands, one after another."""

    def __init__(self, args):
        super().__init__(args, args.set)
        self.name = f"table5_{args.set}"
        self.config = CONFIGS / f"{self.name}.cfg"
        self.scored_as = f"table5.{args.set}"

    def pretrain(self):
        yield self.curve("table5_pretrain.cfg", *texts(self.args.text, self.args.validation))

    def fine_tuned(self, config, corpus):
        valid = part(self.articles, "valid")
        for row in rows_of(config):
            weights = self.weights("table5_pretrain", row.partition(".")[0])
            yield self.curve(
                config,
                *("--rows", row, "--init_from", weights),
                *texts(corpus, valid),
            )

    def finetune(self):
        yield from self.fine_tuned(self.config, part(self.articles, "train"))

    def few(self):
        train = part(self.articles, "train")
        for count in FEW:
            corpus = self.results / "texts" / self.args.set / f"first_{count}.jsonl"
            if not self.args.dry_run:
                first_lines(train, count, corpus)
            yield from self.fine_tuned(CONFIGS / f"table5_few_{count}.cfg", corpus)

    def written(self):
        """Of --set, of SumPubMed also what learnt from few articles."""
        found = self.files(self.config, self.name)
        if self.args.set == "sumpubmed":
            for count in FEW:
                name = f"table5_few_{count}"
                found |= self.files(CONFIGS / f"{name}.cfg", name, f".first_{count}")
        return found

    def decoded(self):
        """[(row, checkpoint, file, flags)] of the first seed of each row, decoded in other ways."""
        found = []
        for row, files in self.files(self.config, self.name).items():
            seed, experiment, _, _ = files[0]
            for name, flags in DECODINGS.items():
                out = self.texts / f"{row}.{name}.{seed}.txt"
                found.append((f"{row}.{name}", self.checkpoint(experiment, row, seed), out, flags))
        return found

    def told(self):
        """The same of the prompted models."""
        config = CONFIGS / f"{PROMPTED}.cfg"
        return [
            (row, self.checkpoint(experiment, own, seed), out, PROMPT)
            for row, files in self.files(config, PROMPTED, ".prompted").items()
            for seed, experiment, own, out in files
        ]

    def decodings(self):
        for _, checkpoint, out, flags in self.decoded():
            yield self.text(checkpoint, out, flags)

    def prompted(self):
        yield self.curve(f"{PROMPTED}.cfg", *texts(self.args.text, self.args.validation))
        for _, checkpoint, out, flags in self.told():
            yield self.text(checkpoint, out, flags)

    def score(self):
        yield from super().score()
        yield from self.compared(DENSE)
        if self.args.set == "sumpubmed":
            for row, _, out, _ in (*self.decoded(), *self.told()):
                yield self.scored(row, [out])

    def page(self):
        """The first seed of each row that had all articles, since its number was fixed beforehand."""
        shown = [
            f"{row}={files[0][3]}" for row, files in self.written().items() if ".first_" not in row
        ]
        shown.append(f"lead={self.texts / 'lead.txt'}")
        yield self.scorer(
            "summaries_page.py",
            *("--articles", self.test(), *shown),
            *("--title", f"Table 9: abstracts of {self.args.set}"),
            *("--out", self.results / f"table9_{self.args.set}.md"),
        )


def parse(arguments=None):
    parser = parser_of(__doc__, STEPS)
    parser.add_argument("--set", choices=SETS, default="sumpubmed", help="of articles (sumpubmed)")
    parser.add_argument("--articles", type=pathlib.Path, required=True, help="folder of the set")
    add_python(parser)
    args = parser.parse_args(arguments)
    require_texts(parser, args, ("pretrain", "prompted"))
    if args.step in OF_SUMPUBMED and args.set != "sumpubmed":
        parser.error(f"--step {args.step} is of sumpubmed; {args.set} has one curve a row")
    return args


def steps_of(args):
    return [step for step in STEPS if args.set == "sumpubmed" or step not in OF_SUMPUBMED]


if __name__ == "__main__":
    args = parse()
    main("table5.py", Plan, args, steps_of(args))
