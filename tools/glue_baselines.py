#!/usr/bin/env python3
"""What a score on GLUE stands beside: the commonest label, and logistic regression on bags of words.

  tools/glue_baselines.py --task glue_rte --corpus RTE/train.tsv --validation RTE/dev.tsv --results DIR

Both learn from the rows of --corpus (several files: a glob in quotes) and are scored on those of --validation by the
measures of models/tasks/metrics.h, under the same names. A row's features say which words stand in which of its
columns (lower case; letters, digits, apostrophes) and have Euclidean length 1 together; the regression is scikit-learn's
with C = 1. Of STS-B labels are the nearest fifths, as there. Records go to glue_baselines.jsonl; what is recorded is not
repeated without --force.
"""

import argparse
import glob
import hashlib
import pathlib
import re
import sys
from typing import NamedTuple

try:
    import sklearn
    from scipy import stats
    from sklearn import feature_extraction, linear_model, metrics, pipeline, preprocessing
except ImportError:  # files are read without it; main() says what is missing
    sklearn = None

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "experiments" / "peers")]
from glue_tables import lines_of  # noqa: E402
from record import RecordFile, fingerprint  # noqa: E402

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
# Of a task, the column of its labels and those of its texts.
COLUMNS = {
    "glue_mnli": ("gold_label", {"sentence1", "sentence2"}),
    "glue_qnli": ("label", {"question", "sentence"}),
    "glue_sst2": ("label", {"sentence"}),
    "glue_qqp": ("is_duplicate", {"question1", "question2"}),
    "glue_mrpc": ("Quality", {"#1 String", "#2 String"}),
    "glue_rte": ("label", {"sentence1", "sentence2"}),
    "glue_cola": ("cola_label", {"sentence"}),
    "glue_stsb": ("score", {"sentence1", "sentence2"}),
}
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
ROUNDS = 10_000  # of the fit, at most


def table_of(path):
    """(column names, [fields of a row]); ValueError says what is wrong with the file."""
    rows = [fields for _, fields in lines_of(pathlib.Path(path))]
    first = rows[0]
    if any(name in MEASURES for name in first):
        return tuple(first), rows[1:]
    if len(first) != len(COLA) or first[1] not in ("0", "1"):
        raise ValueError(
            f"{path}:1: no column of labels among {', '.join(first)}; give a file with labels"
        )
    return COLA, rows


def rows_of(pattern):
    """([texts of a row], [label], name of the label's column) of one or several files."""
    paths = sorted(glob.glob(str(pattern)))
    if not paths:
        raise ValueError(f"no file fits {pattern}; give one of GLUE's own files")
    texts, labels, label_columns = [], [], set()
    for path in paths:
        names, rows = table_of(path)
        at = next(i for i, name in enumerate(names) if name in MEASURES)
        label_columns.add(names[at])
        wanted = sorted((name, i) for i, name in enumerate(names) if name in TEXTS)
        texts += [tuple(fields[i] for _, i in wanted) for fields in rows]
        labels += [fields[at] for fields in rows]
    if len(label_columns) != 1 or not labels:
        raise ValueError(f"{pattern} has no rows or those of several tasks; give one task's files")
    return texts, labels, label_columns.pop()


def require_task(task, pattern):
    """ValueError if a file is of another task."""
    for path in glob.glob(str(pattern)):
        names, _ = table_of(path)
        label, texts = COLUMNS[task]
        if label not in names or {*names} & {*TEXTS} != texts:
            raise ValueError(
                f"{path} has the columns {', '.join(names)}; {task} wants {label} and {', '.join(sorted(texts))}"
            )


def told_as(label, column):
    """The label that is learnt: of a similarity the nearest fifth, halves to the even one."""
    return str(round(5 * float(label)) / 5) if column == "score" else label


def words_of(texts):
    """Words of a row, each with the place of its column."""
    found = {(i, word) for i, text in enumerate(texts) for word in WORD.findall(text.lower())}
    return sorted(found)


def bag_of_words():
    """The regression, to be fitted to rows and labels."""
    return pipeline.make_pipeline(
        feature_extraction.text.CountVectorizer(analyzer=words_of, binary=True),
        preprocessing.Normalizer(),
        linear_model.LogisticRegression(C=1.0, max_iter=ROUNDS),
    )


def scores_of(column, labels, told):
    """{metric: value} of what is told of rows with these labels; None where there is none."""
    right = [told_as(label, column) == one for label, one in zip(labels, told)]
    scores = {"label_accuracy": sum(right) / len(right)}
    truth, said = labels, told
    if MEASURES[column]:
        truth, said = [float(one) for one in labels], [float(one) for one in told]
    for measure in MEASURES[column]:
        if measure == "f1":
            scores[measure] = float(metrics.f1_score(truth, said, zero_division=0))
        elif measure == "matthews":
            scores[measure] = float(metrics.matthews_corrcoef(truth, said))
        elif len(set(truth)) < 2 or len(set(said)) < 2:
            scores[measure] = None
        else:
            correlation = stats.pearsonr if measure == "pearson" else stats.spearmanr
            scores[measure] = float(correlation(truth, said)[0])
    return scores


class Rows(NamedTuple):
    """What is learnt from, and what is scored."""

    column: str  # of the labels
    texts: list  # of each row to learn from
    learnt: list  # its label
    held_out: list  # texts of each row that is scored
    truth: list  # its label, as the file has it


def read(corpus, validation, examples=None):
    """Rows of files. examples: so many are scored, spread evenly."""
    texts, labels, column = rows_of(corpus)
    held_out, truth, other = rows_of(validation)
    if other != column:
        raise ValueError(f"{corpus} and {validation} are of different tasks; give one task's files")
    if examples is not None and examples < len(truth):
        kept = [i * len(truth) // examples for i in range(examples)]
        held_out, truth = [held_out[i] for i in kept], [truth[i] for i in kept]
    return Rows(column, texts, [told_as(label, column) for label in labels], held_out, truth)


def majority(rows):
    commonest = max(sorted(set(rows.learnt)), key=rows.learnt.count)
    return [commonest] * len(rows.truth)


def regression(rows):
    if len(set(rows.learnt)) == 1:
        return majority(rows)
    return list(bag_of_words().fit(rows.texts, rows.learnt).predict(rows.held_out))


BASELINES = {"majority": majority, "bag_of_words": regression}  # what each tells of the rows


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
    parser.add_argument("--force", action="store_true", help="repeat what is already recorded")
    args = parser.parse_args()
    if args.examples is not None and args.examples < 1:
        parser.error(f"--examples {args.examples}: give at least 1")
    if args.task not in COLUMNS:
        parser.error(f"--task {args.task}: known are {', '.join(COLUMNS)}")
    return args


def content_of(pattern):
    """Hash of a pattern's files, whose names do not count."""
    contents = [pathlib.Path(path).read_bytes() for path in sorted(glob.glob(pattern))]
    return hashlib.sha256(b"".join(contents)).hexdigest()


def program():
    """Fingerprint of what measures here, beside scikit-learn."""
    names = ("glue_baselines.py", "glue_tables.py")
    return fingerprint(b"\0".join((ROOT / "tools" / name).read_bytes() for name in names))


def main():
    args = parse()
    if sklearn is None:
        sys.exit("scikit-learn is missing; install the package python3-sklearn")
    try:
        for pattern in (args.corpus, args.validation):
            require_task(args.task, pattern)
        rows = read(args.corpus, args.validation, args.examples)
        if content_of(args.corpus) == content_of(args.validation):
            raise ValueError(
                f"{args.corpus} and {args.validation} have the same rows; score on rows that were not learnt from"
            )
    except (OSError, ValueError) as error:
        sys.exit(f"glue_baselines.py: {error}")
    file = RecordFile(args.results, "glue_baselines", section="glue", programs=None)
    settings = {
        "task": args.task,
        "examples": len(rows.truth),
        "learnt_from": len(rows.learnt),
        "method": "scikit-learn",
        "corpus": content_of(args.corpus),
        "validation": content_of(args.validation),
    }
    for name, told in BASELINES.items():
        key = file.key(name=name, program=program(), **settings)
        if key in file.finished and not args.force:
            print(f"{args.task} {name}: already recorded")
            continue
        found = scores_of(rows.column, rows.truth, told(rows))
        known = {metric: value for metric, value in found.items() if value is not None}
        file.append(
            {
                "row": f"{args.task}.{name}",
                "against": "",
                "threads": 1,
                "status": "ok",
                "note": f"{len(rows.texts)} rows to learn from, scored on {len(rows.truth)}",
                "config": settings,
                "command": "tools/glue_baselines.py --results DIR",
                "seed": 0,
                "compiler": f"scikit-learn {sklearn.__version__}",
                "ceilings": {},
                "key": key,
                "metric": metric,
                "unit": "1",
                "value": value,
                **{"low": value, "high": value, "spread": 0.0, "repeats": 1},
            }
            for metric, value in known.items()
        )
        text = ", ".join(f"{metric} {value:.4f}" for metric, value in known.items())
        print(f"{args.task} {name}: {text}")


if __name__ == "__main__":
    main()
