#!/usr/bin/env python3
"""What a score on GLUE stands beside: the commonest label, and logistic regression on bags of words.

  tools/glue_baselines.py --task glue_rte --corpus RTE/train.tsv --validation RTE/dev.tsv --results DIR

Both learn from the rows of --corpus (several files: a glob in quotes) and are scored on those of --validation by the
measures of models/tasks/metrics.h, under the same names. A row's features say which words stand in which of its
columns (lower case; letters, digits, apostrophes) and have Euclidean length 1 together; the regression has a bias for
each label and minimises the sum of cross-entropies plus half the sum of squared weights, biases left out (what
scikit-learn calls C = 1). Of STS-B labels are the nearest fifths, as there. Records go to glue_baselines.jsonl.
"""

import argparse
import glob
import hashlib
import math
import pathlib
import re
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "experiments" / "peers"))
from record import RecordFile  # noqa: E402

# Columns as GLUE's files name them; CoLA's have no header line.
TEXTS = (
    *("sentence", "sentence1", "sentence2", "question", "question1", "question2"),
    *("#1 String", "#2 String"),
)
COLA = ("source", "cola_label", "mark", "sentence")
# Of a label's column, what is measured beside the share of right labels.
MEASURES = {
    "label": (),
    "gold_label": (),
    "is_duplicate": ("f1",),
    "Quality": ("f1",),
    "cola_label": ("matthews",),
    "score": ("pearson", "spearman"),
}
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
GRADIENT, ROUNDS = 1e-5, 20_000  # the fit ends where no entry of its gradient is larger


def table_of(path):
    """(column names, [fields of a row]); exits naming file and line if a row is broken."""
    text = pathlib.Path(path).read_bytes().decode("utf-8-sig", errors="replace")
    lines = [
        (number, line.removesuffix("\r").split("\t"))
        for number, line in enumerate(text.split("\n"), 1)
        if line.removesuffix("\r")
    ]
    if not lines:
        sys.exit(f"{path} is empty; give one of GLUE's own files")
    first = lines[0][1]
    has_header = any(name in MEASURES for name in first)
    if not has_header and (len(first) != len(COLA) or first[1] not in ("0", "1")):
        sys.exit(f"{path}:1: no column of labels among {', '.join(first)}; give a file with labels")
    names = tuple(first) if has_header else COLA
    rows = lines[1:] if has_header else lines
    for number, fields in rows:
        if len(fields) != len(names):
            sys.exit(f"{path}:{number}: {len(fields)} fields, {len(names)} columns; mend the line")
    return names, [fields for _, fields in rows]


def rows_of(pattern):
    """([texts of a row], [label], name of the label's column) of one or several files."""
    paths = sorted(glob.glob(str(pattern)))
    if not paths:
        sys.exit(f"no file fits {pattern}; give one of GLUE's own files")
    texts, labels, label_columns = [], [], set()
    for path in paths:
        names, rows = table_of(path)
        at = next(i for i, name in enumerate(names) if name in MEASURES)
        label_columns.add(names[at])
        wanted = sorted((name, i) for i, name in enumerate(names) if name in TEXTS)
        texts += [tuple(fields[i] for _, i in wanted) for fields in rows]
        labels += [fields[at] for fields in rows]
    if len(label_columns) != 1 or not labels:
        sys.exit(f"{pattern} has no rows or those of several tasks; give one task's files")
    return texts, labels, label_columns.pop()


def told_as(label, column):
    """The label that is learnt: of a similarity the nearest fifth, halves to the even one."""
    return str(round(5 * float(label)) / 5) if column == "score" else label


def words_of(texts):
    """Words of a row, each with the place of its column."""
    found = {(i, word) for i, text in enumerate(texts) for word in WORD.findall(text.lower())}
    return sorted(found)


class Bags:
    """Rows as sparse features; the last feature is 1 in every row, for the biases."""

    def __init__(self, rows, known):
        self.starts, indices, values = [], [], []
        for row in rows:
            self.starts.append(len(indices))
            found = [known[word] for word in words_of(row) if word in known]
            indices += [*found, len(known)]
            values += [1 / math.sqrt(len(found) or 1)] * len(found) + [1.0]
        self.indices = numpy.array(indices)
        self.values = numpy.array(values)
        counts = numpy.diff([*self.starts, len(indices)])
        self.row_of = numpy.repeat(numpy.arange(len(self.starts)), counts)
        self.features = len(known) + 1

    def times(self, weights):
        """(rows, labels) of weights (features, labels)."""
        terms = self.values[:, None] * weights[self.indices]
        return numpy.add.reduceat(terms, self.starts, axis=0)

    def transposed_times(self, rows):
        """(features, labels) of (rows, labels)."""
        columns = [
            numpy.bincount(self.indices, self.values * column[self.row_of], self.features)
            for column in rows.T
        ]
        return numpy.stack(columns, axis=1)


def gradient_of(bags, truth, weights):
    """Of the objective of the module's text divided by the rows. truth: one-hot (rows, labels)."""
    scores = bags.times(weights)
    scores -= scores.max(axis=1, keepdims=True)
    shares = numpy.exp(scores)
    shares /= shares.sum(axis=1, keepdims=True)
    penalty = weights.copy()
    penalty[-1] = 0
    return (bags.transposed_times(shares - truth) + penalty) / len(truth)


def fitted(bags, truth):
    """Weights (features, labels) where the objective is least, by Nesterov's descent."""
    rows = len(truth)
    # Features have length sqrt(2) with the bias, and the cross-entropy bends by 1/2 at most.
    largest, least = 1 + 1 / rows, 1 / rows
    momentum = (1 - math.sqrt(least / largest)) / (1 + math.sqrt(least / largest))
    weights = ahead = numpy.zeros((bags.features, truth.shape[1]))
    for _ in range(ROUNDS):
        gradient = gradient_of(bags, truth, ahead)
        if numpy.abs(gradient).max() <= GRADIENT:
            return ahead
        before, weights = weights, ahead - gradient / largest
        ahead = weights + momentum * (weights - before)
    sys.exit(f"the regression has not ended after {ROUNDS} rounds; give fewer rows")


def ranks_of(values):
    """From 1; equal values share the mean of theirs."""
    _, group, counts = numpy.unique(values, return_inverse=True, return_counts=True)
    ends = numpy.cumsum(counts)
    return (ends - (counts - 1) / 2)[group]


def correlation(one, other):
    """Pearson's, or None where a side is constant."""
    if len(set(one)) < 2 or len(set(other)) < 2:
        return None
    return float(numpy.corrcoef(one, other)[0, 1])


def scores_of(column, labels, told):
    """{metric: value} of what is told of rows with these labels; None where there is none."""
    right = [told_as(label, column) == one for label, one in zip(labels, told)]
    scores = {"label_accuracy": sum(right) / len(right)}
    truth, said = labels, told
    if MEASURES[column]:
        truth, said = [float(one) for one in labels], [float(one) for one in told]
    for measure in MEASURES[column]:
        if measure == "f1":
            hits = sum(a * b for a, b in zip(truth, said))
            all_of = sum(truth) + sum(said)
            scores[measure] = 2 * hits / all_of if all_of else 0.0
        elif measure == "matthews":
            scores[measure] = correlation(truth, said) or 0.0
        elif measure == "pearson":
            scores[measure] = correlation(truth, said)
        else:
            scores[measure] = correlation(ranks_of(truth), ranks_of(said))
    return scores


def baselines(corpus, validation, examples=None):
    """{name: {metric: value}}, rows trained on, rows scored. examples: that many rows, spread evenly."""
    texts, labels, column = rows_of(corpus)
    held_out, truth, other = rows_of(validation)
    if other != column:
        sys.exit(f"{corpus} and {validation} are of different tasks; give one task's files")
    if examples is not None and examples < len(truth):
        kept = [i * len(truth) // examples for i in range(examples)]
        held_out, truth = [held_out[i] for i in kept], [truth[i] for i in kept]
    learnt = [told_as(label, column) for label in labels]
    classes = sorted(set(learnt))
    commonest = max(classes, key=learnt.count)
    known = sorted({word for row in texts for word in words_of(row)})
    place = {word: i for i, word in enumerate(known)}
    one_hot = numpy.array([[float(label == one) for one in classes] for label in learnt])
    weights = fitted(Bags(texts, place), one_hot)
    likeliest = Bags(held_out, place).times(weights).argmax(axis=1)
    told = {
        "majority": [commonest] * len(truth),
        "bag_of_words": [classes[i] for i in likeliest],
    }
    scores = {name: scores_of(column, truth, said) for name, said in told.items()}
    return scores, len(texts), len(truth)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", required=True, help="names the rows: glue_rte")
    parser.add_argument("--corpus", required=True, help="file to learn from, or a glob")
    parser.add_argument("--validation", required=True, help="file to be scored on, or a glob")
    parser.add_argument("--results", type=pathlib.Path, required=True, help="folder of the records")
    parser.add_argument(
        "--examples",
        type=int,
        help="rows to be scored on, spread evenly: evaluate_batches x batch of a curve (all)",
    )
    args = parser.parse_args()
    if args.examples is not None and args.examples < 1:
        parser.error(f"--examples {args.examples}: give at least 1")
    return args


def content_of(pattern):
    """Hash of a pattern's files, whose names do not count."""
    contents = [pathlib.Path(path).read_bytes() for path in sorted(glob.glob(pattern))]
    return hashlib.sha256(b"".join(contents)).hexdigest()


def main():
    args = parse()
    scores, trained, scored = baselines(args.corpus, args.validation, args.examples)
    file = RecordFile(args.results, "glue_baselines", section="glue")
    contents = {"corpus": content_of(args.corpus), "validation": content_of(args.validation)}
    for name, found in scores.items():
        shared = {
            "row": f"{args.task}.{name}",
            "against": "",
            "threads": 1,
            "status": "ok",
            "note": f"{trained} rows to learn from, scored on {scored}",
            "config": {"task": args.task, "examples": scored, **contents},
            "command": "tools/glue_baselines.py --results DIR",
            "seed": 0,
            "compiler": f"NumPy {numpy.__version__}",
            "ceilings": {},
            "key": file.key(task=args.task, name=name, examples=scored, **contents),
        }
        known = {metric: value for metric, value in found.items() if value is not None}
        file.append(
            [
                {
                    **shared,
                    "metric": metric,
                    "unit": "1",
                    "value": value,
                    **{"low": value, "high": value, "spread": 0.0, "repeats": 1},
                }
                for metric, value in known.items()
            ]
        )
        text = ", ".join(f"{metric} {value:.4f}" for metric, value in known.items())
        print(f"{args.task} {name}: {text}")


if __name__ == "__main__":
    main()
