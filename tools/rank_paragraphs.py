#!/usr/bin/env python3
"""Puts the paragraphs of articles in another order, best first, for models that read so many of them.

  tools/rank_paragraphs.py test.jsonl.gz --out ranked/test.jsonl.gz --by title
  tools/rank_paragraphs.py test.jsonl.gz --out ranked/test.jsonl.gz --by learned --train train.jsonl.gz --best 8

Files hold an object a line with a title and an article, whose paragraphs are parted by lines without text, as the task
`pairs` cuts them; what else an object has stays as it is. No order looks at the abstract of an article that is ranked.

  title     by the cosine of a paragraph's words with the title's, weighted by tf-idf. How rare a word is, the paragraphs
            of --train say, or those of the file itself.
  learned   by what a ridge regression, fitted on the articles of --train, expects of a paragraph's ROUGE-2 recall: the share
            of the abstract's pairs of words that it has (Liu and Lapata 2019 learn the same with an LSTM). It knows where
            a paragraph stands, how long it is, and how near its words are to the title's and to the article's.

Words are runs of letters, digits and apostrophes in lower case. Of equals the earlier comes first. Where articles have
abstracts, it prints how much of them the paragraphs that come first have. That is no score: it takes no stems.
"""

import argparse
import collections
import gzip
import json
import math
import pathlib
import re
import sys

try:
    import numpy
except ImportError:  # main() says what is missing
    numpy = None

SPACE = " \t\r\n\f\v"
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
RIDGE = 1.0
FEATURES = ("place", "share_before", "is_first", "is_last", "log_words", "title", "article")


def paragraphs_of(text):
    """As models/text/pair_chunks.h has them."""
    found, goes_on = [], False
    for line in text.split("\n"):
        has_text = bool(line.strip(SPACE))
        if has_text and goes_on:
            found[-1] += "\n" + line
        elif has_text:
            found.append(line)
        goes_on = has_text
    return found


def words_of(text):
    return WORD.findall(text.lower())


def pairs_of(words):
    return collections.Counter(zip(words, words[1:]))


def recall(paragraph, abstract):
    """ROUGE-2 recall: the share of the abstract's pairs of words; 0 if it has none."""
    wanted, found = pairs_of(words_of(abstract)), pairs_of(words_of(paragraph))
    return sum((wanted & found).values()) / max(1, sum(wanted.values()))


def articles_of(path, keys):
    """[object]; ValueError names the line that is none, or lacks text under one of the keys."""
    found = []
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                article = json.loads(line)
            except ValueError:
                article = None
            if not isinstance(article, dict):
                raise ValueError(f"{path}:{number}: no JSON object; give one article a line")
            for key in keys:
                text = article.get(key)
                if not isinstance(text, str) or not text.strip(SPACE):
                    raise ValueError(f"{path}:{number}: no text under '{key}'; take the line out")
            found.append(article)
    if not found:
        raise ValueError(f"{path} has no articles")
    return found


class Rarity:
    """Weights of words: 1 + the logarithm of how many paragraphs there are to one that has it."""

    def __init__(self, articles):
        self.count, self.having = 0, collections.Counter()
        for article in articles:
            for paragraph in paragraphs_of(article["article"]):
                self.count += 1
                self.having.update(set(words_of(paragraph)))

    def vector(self, words):
        return {
            word: times * (1 + math.log((1 + self.count) / (1 + self.having[word])))
            for word, times in collections.Counter(words).items()
        }


def cosine(one, other):
    """Of two Rarity.vectors; 0 if one has no words."""
    length = math.hypot(*one.values()) * math.hypot(*other.values())
    return sum(x * other.get(word, 0) for word, x in one.items()) / length if length else 0.0


class ByTitle:
    def __init__(self, rarity):
        self.rarity = rarity

    def scores(self, article):
        title = self.rarity.vector(words_of(article["title"]))
        return [
            cosine(self.rarity.vector(words_of(paragraph)), title)
            for paragraph in paragraphs_of(article["article"])
        ]


class Learned:
    def __init__(self, rarity, articles):
        self.rarity = rarity
        known = numpy.array([row for article in articles for row in self.features(article)])
        wanted = numpy.array(
            [
                recall(paragraph, article["abstract"])
                for article in articles
                for paragraph in paragraphs_of(article["article"])
            ]
        )
        # Of unit spread, so that one penalty is fair to all; the mean has none.
        self.mean, spread = known.mean(axis=0), known.std(axis=0)
        self.spread = numpy.where(spread > 0, spread, 1)
        known = (known - self.mean) / self.spread
        self.expected = wanted.mean()
        penalty = RIDGE * numpy.eye(known.shape[1])
        self.weights = numpy.linalg.solve(
            known.T @ known + penalty, known.T @ (wanted - self.expected)
        )

    def features(self, article):
        """A row of FEATURES for each paragraph."""
        paragraphs = [words_of(paragraph) for paragraph in paragraphs_of(article["article"])]
        title = self.rarity.vector(words_of(article["title"]))
        everything = self.rarity.vector([word for words in paragraphs for word in words])
        total = max(1, sum(map(len, paragraphs)))
        before, rows = 0, []
        for place, words in enumerate(paragraphs):
            own = self.rarity.vector(words)
            rows.append(
                (
                    place,
                    before / total,
                    place == 0,
                    place == len(paragraphs) - 1,
                    math.log(1 + len(words)),
                    cosine(own, title),
                    cosine(own, everything),
                )
            )
            before += len(words)
        return rows

    def scores(self, article):
        known = (numpy.array(self.features(article), float) - self.mean) / self.spread
        return list(self.expected + known @ self.weights)


def ranked(article, ranking):
    """Its paragraphs, best first."""
    paragraphs, scores = paragraphs_of(article["article"]), ranking.scores(article)
    order = sorted(range(len(paragraphs)), key=lambda place: (-scores[place], place))
    return [paragraphs[place] for place in order]


def ranking_of(args, articles):
    if args.by == "title":
        return ByTitle(Rarity(articles_of(args.train, ("article",)) if args.train else articles))
    if args.train is None:
        raise ValueError("--by learned wants articles with abstracts to learn from: --train FILE")
    if numpy is None:
        raise ValueError("--by learned wants NumPy; install python3-numpy, or rank --by title")
    train = articles_of(args.train, ("title", "article", "abstract"))
    return Learned(Rarity(train), train)


def rank(args):
    """What was done, for people; writes the file."""
    if args.best is not None and args.best < 1:
        raise ValueError(f"--best {args.best} is no number of paragraphs; give at least 1")
    for given in (args.file, args.train):
        if given is not None and given.resolve() == args.out.resolve():
            raise ValueError(f"--out {args.out} is a file that is read; name another")
    articles = articles_of(args.file, ("title", "article"))
    ranking = ranking_of(args, articles)
    first = args.best or 1
    paragraphs = kept = 0
    shares = []  # of abstracts: the first paragraphs as they stood, ranked
    lines = []
    for article in articles:
        before, after = paragraphs_of(article["article"]), ranked(article, ranking)
        if isinstance(article.get("abstract"), str):
            shares.append(
                [recall("\n".join(some[:first]), article["abstract"]) for some in (before, after)]
            )
        after = after[: args.best]
        paragraphs += len(before)
        kept += len(after)
        article["article"] = "\n\n".join(after)
        lines.append(json.dumps(article, ensure_ascii=False).encode() + b"\n")
    data = b"".join(lines)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    # Without a time, so that the same articles make the same file.
    args.out.write_bytes(gzip.compress(data, mtime=0) if args.out.suffix == ".gz" else data)
    said = [f"{args.out}: {len(articles)} articles, {kept} of {paragraphs} paragraphs"]
    if isinstance(ranking, Learned):
        weights = (f"{name} {weight:+.4f}" for name, weight in zip(FEATURES, ranking.weights))
        said.append("weights, features of unit spread: " + ", ".join(weights))
    if shares:
        stood, best = (sum(column) / len(shares) for column in zip(*shares))
        said.append(
            f"the abstract's pairs of words in the first {first}: {stood:.4f} as they stood, "
            f"{best:.4f} ranked"
        )
    return "\n".join(said)


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=pathlib.Path, help="articles: .jsonl or .jsonl.gz")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the same, ranked")
    parser.add_argument("--by", choices=("title", "learned"), required=True)
    parser.add_argument("--train", type=pathlib.Path, help="articles to learn from")
    parser.add_argument("--best", type=int, help="keep so many paragraphs of an article (all)")
    return parser.parse_args(arguments)


def main():
    try:
        print(rank(parse()))
    except (OSError, ValueError) as error:
        sys.exit(f"rank_paragraphs.py: {error}")


if __name__ == "__main__":
    main()
