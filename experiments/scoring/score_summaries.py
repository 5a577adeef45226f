"""ROUGE-1, ROUGE-2, ROUGE-LSum and ROUGE-L (of whole texts) of hypotheses by rouge-score, words stemmed (Porter)
and not: means of F1 over documents, with 95 % bootstrap intervals over these. Example:

    build/scoring/bin/python experiments/scoring/score_summaries.py --results DIR --row ff_qkv.1 \\
      --hypotheses hypotheses.txt --references test.jsonl.gz --key abstract --against another.txt

--against: hypotheses of the same documents by something else; how far the others are above these is recorded
too, with intervals over the documents' differences. LSum compares sentences: see scores.sentences, since a line of
hypotheses has no line ends within.
"""

import importlib.metadata
import statistics

import scores

KINDS = {"rouge1": "rouge_1", "rouge2": "rouge_2", "rougeLsum": "rouge_lsum", "rougeL": "rouge_l"}
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
    low, high = scores.interval(values, args.draws, args.seed)
    return scores.Score(metric, "1", statistics.fmean(values), low, high, note, config)


def score(hypotheses, references, args):
    """[Score], F1 from 0 to 1, precision and recall in their config; then differences to --against, if given."""
    note = (
        f"{version('rouge-score')}, {version('nltk')}; F1, 95 % bootstrap interval over documents"
    )
    others = args.against and scores.read_both(args.against, args.references, args.key)[0]
    found, above = [], []
    for stemmed in (False, True):
        each = each_score(hypotheses, references, stemmed)
        each_other = each_score(others, references, stemmed) if others else []
        for kind, name in KINDS.items():
            metric = name + (".stemmed" if stemmed else "")
            config = {
                part: statistics.fmean(getattr(one[kind], part) for one in each) for part in PARTS
            }
            values = [one[kind].fmeasure for one in each]
            found.append(measured(metric, values, args, note, config))
            if not others:
                continue
            differences = [value - other[kind].fmeasure for value, other in zip(values, each_other)]
            above.append(
                measured(
                    f"{metric}.above_{args.against.stem}",
                    differences,
                    args,
                    f"{note}; less {args.against.name} document by document",
                    {"others": statistics.fmean(other[kind].fmeasure for other in each_other)},
                )
            )
    return found + above


if __name__ == "__main__":
    scores.run(scores.parse(__doc__, "summaries", has_others=True), "score_summaries.py", score)
