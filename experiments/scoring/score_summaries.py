"""ROUGE-1, ROUGE-2, ROUGE-LSum and ROUGE-L (of whole texts) of hypotheses by rouge-score, words stemmed (Porter)
and not: means of F1 over documents, with 95 % bootstrap intervals over these. Example:

    build/scoring/bin/python experiments/scoring/score_summaries.py --results DIR --row ff_qkv \\
      --hypotheses seed1.txt seed2.txt seed3.txt --references test.jsonl.gz --key abstract \\
      --against another1.txt another2.txt another3.txt

Several files are what several seeds of one row wrote: means are over all, and resamples take seeds and documents, of
all seeds the same ones. --against: hypotheses of the same documents by something else, a file for each or one for all;
how far the others are above these is recorded too, with intervals over the differences. LSum compares sentences: see
scores.sentences, since a line of hypotheses has no line ends within.
"""

import importlib.metadata
import re
import statistics

import scores

KINDS = ("rouge1", "rouge2", "rougeLsum", "rougeL")
PARTS = ("precision", "recall")


def scorer(stemmed):
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        scores.package("rouge-score")
    return RougeScorer(list(KINDS), use_stemmer=stemmed)


def version(name):
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return name


def each_score(hypotheses, references, stemmed):
    """[{kind: score}], one a document; texts are given to the package a sentence a line."""
    own = scorer(stemmed)
    return [
        own.score("\n".join(scores.sentences(reference)), "\n".join(scores.sentences(text)))
        for text, reference in zip(hypotheses, references)
    ]


def measured(metric, values, args, note, config):
    """values: a list a seed, a number a document."""
    low, high = scores.interval(values, args.draws, args.seed)
    mean = statistics.fmean(value for of_seed in values for value in of_seed)
    return scores.Score(metric, "1", mean, low, high, note, config)


def score(each_hypotheses, references, args):
    """[Score], F1 from 0 to 1, precision and recall in their config; then differences to --against, if given."""
    seeds = len(each_hypotheses)
    over = "documents" if seeds == 1 else f"{seeds} seeds and their documents"
    note = f"{version('rouge-score')}, {version('nltk')}; F1, 95 % bootstrap interval over {over}"
    others = [scores.read_both(path, args.references, args.key)[0] for path in args.against] or None
    # another of another1.txt, and of another.dense.1.txt.
    name = re.split(r"[.\d]", args.against[0].stem)[0] if others else ""
    found, above = [], []
    for stemmed in (False, True):
        each = [each_score(texts, references, stemmed) for texts in each_hypotheses]
        each_other = others and [each_score(texts, references, stemmed) for texts in others]
        for kind in KINDS:
            metric = kind + (".stemmed" if stemmed else "")
            config = {
                part: statistics.fmean(getattr(one[kind], part) for ones in each for one in ones)
                for part in PARTS
            }
            values = [[one[kind].fmeasure for one in ones] for ones in each]
            found.append(measured(metric, values, args, note, config))
            if not others:
                continue
            beside = [[other[kind].fmeasure for other in ones] for ones in each_other]
            if len(beside) == 1:
                beside *= seeds
            above.append(
                measured(
                    f"{metric}.above_{name}",
                    [[v - o for v, o in zip(*both)] for both in zip(values, beside)],
                    args,
                    f"{note}; less {name} document by document",
                    {"others": statistics.fmean(value for ones in beside for value in ones)},
                )
            )
    return found + above


if __name__ == "__main__":
    scores.run(scores.parse(__doc__, "summaries", takes_several=True), "score_summaries.py", score)
