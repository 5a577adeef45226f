"""Summaries that no model wrote, a line a document, for score_summaries.py to score like a model's. Examples:

    python3 experiments/scoring/baseline_summaries.py lead --sentences 8 --out lead.txt \\
      --articles test.jsonl.gz --key article
    python3 experiments/scoring/baseline_summaries.py oracle --sentences 8 --out oracle.txt \\
      --articles test.jsonl.gz --key article --references_key abstract
    python3 experiments/scoring/baseline_summaries.py another --out another.txt --hypotheses hypotheses.txt

lead: an article's first sentences; random: any, in their order; oracle: those that, added one by one, raise
ROUGE-1 + ROUGE-2 F1 against the reference most, until none does or there are as many as --sentences, so that it
knows the answer; another: of hypotheses, each goes to another document, which shows whether a model reads its source.
Sentences are those of scores.sentences that end as sentences do: headings are none.
"""

import argparse
import random
import re
import sys
from collections import Counter
from pathlib import Path

import scores

ENDS = re.compile(r"[.!?][\"')\]}]*$")
KINDS = ("lead", "random", "oracle", "another")


def without_headings(sentences):
    """Those that end as sentences do; all of a text that has none."""
    return [sentence for sentence in sentences if ENDS.search(sentence)] or sentences


def lead(article, count):
    return article[:count]


def any_of(article, count, seed, place):
    """Of the document at this place; in the article's order."""
    draws = random.Random(f"{seed} {place}")
    return [article[i] for i in sorted(draws.sample(range(len(article)), min(count, len(article))))]


def words(text):
    """As rouge-score takes a text apart, without stems: runs of a-z and 0-9 of its lower case."""
    return re.findall(r"[a-z0-9]+", text.lower())


def grams(tokens, n):
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


class Overlap:
    """Of a growing selection of sentences with a reference, in n-grams; none goes over a sentence's end."""

    def __init__(self, reference, n):
        self.n = n
        self.reference = grams(words(reference), n)
        self.wanted = sum(self.reference.values())
        self.selected = Counter()
        self.common = self.size = 0

    def f1_with(self, sentence):
        """ROUGE-n F1 if this sentence, as words, were added."""
        new = grams(sentence, self.n)
        common = self.common + sum(
            min(self.selected[gram] + count, self.reference[gram])
            - min(self.selected[gram], self.reference[gram])
            for gram, count in new.items()
            if gram in self.reference
        )
        size = self.size + sum(new.values())
        return 2 * common / (size + self.wanted) if common else 0.0

    def add(self, sentence):
        self.selected.update(grams(sentence, self.n))
        self.size += max(0, len(sentence) - self.n + 1)
        self.common = sum(min(count, self.selected[gram]) for gram, count in self.reference.items())


def oracle(article, reference, count):
    """In the article's order; of equally good sentences the earlier."""
    each = [words(sentence) for sentence in article]
    overlaps = [Overlap(reference, n) for n in (1, 2)]
    chosen, best = set(), 0.0
    while len(chosen) < count:
        left = [i for i in range(len(article)) if i not in chosen]
        gains = {i: sum(overlap.f1_with(each[i]) for overlap in overlaps) for i in left}
        top = max(left, key=lambda i: (gains[i], -i), default=None)
        if top is None or gains[top] <= best:
            break
        best = gains[top]
        chosen.add(top)
        for overlap in overlaps:
            overlap.add(each[top])
    return [article[i] for i in sorted(chosen)]


def another(texts, seed):
    """Each text at another's place: round a circle in an order that is drawn."""
    order = list(range(len(texts)))
    random.Random(seed).shuffle(order)
    moved = list(texts)
    for i, place in enumerate(order):
        moved[place] = texts[order[i - 1]]
    return moved


def summaries(args):
    """[text], one a document; exits with a sentence."""
    if args.kind == "another":
        texts = scores.read_texts(args.hypotheses, args.key)
        if len(texts) < 2:
            sys.exit(f"{args.hypotheses} has {len(texts)} texts; there is no other document")
        return another(texts, args.seed)
    articles = scores.read_texts(args.articles, args.key)
    if not articles:
        sys.exit(f"{args.articles} has no texts")
    each = [without_headings(scores.sentences(article)) for article in articles]
    if args.kind == "lead":
        chosen = [lead(article, args.sentences) for article in each]
    elif args.kind == "random":
        chosen = [any_of(a, args.sentences, args.seed, i) for i, a in enumerate(each)]
    else:
        references = scores.read_texts(args.articles, args.references_key)
        chosen = [oracle(a, r, args.sentences) for a, r in zip(each, references, strict=True)]
    return [" ".join(sentences) for sentences in chosen]


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--articles", type=Path, help="texts, one a line or in JSON lines")
    parser.add_argument("--hypotheses", type=Path, help="another: texts, likewise")
    parser.add_argument("--key", default="text", help="of these texts in JSON lines (text)")
    parser.add_argument("--references_key", help="oracle: of the references beside the articles")
    parser.add_argument("--sentences", type=int, help="of a summary; of oracle at most")
    parser.add_argument("--seed", type=int, default=1, help="of random and another (1)")
    parser.add_argument("--out", type=Path, required=True, help="a summary a line")
    args = parser.parse_args()
    needed = {
        "lead": ("articles", "sentences"),
        "random": ("articles", "sentences"),
        "oracle": ("articles", "sentences", "references_key"),
        "another": ("hypotheses",),
    }
    for name in needed[args.kind]:
        if getattr(args, name) is None:
            parser.error(f"{args.kind} needs --{name}")
    for given in (args.articles, args.hypotheses):
        if given is not None and given.resolve() == args.out.resolve():
            parser.error(f"--out {args.out} is a file that is read; name another")
    if args.sentences is not None and args.sentences < 1:
        parser.error(f"--sentences {args.sentences}: give 1 at least")
    return args


def main():
    args = parse()
    lines = [re.sub(r"[\r\n]+", " ", text) for text in summaries(args)]
    try:
        args.out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        sys.exit(f"cannot write {args.out}: {error.strerror}")


if __name__ == "__main__":
    main()
