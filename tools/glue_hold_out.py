#!/usr/bin/env python3
"""Keeps rows of GLUE's training files back, on which learning rates may be chosen: tools/glue_hold_out.py FILE --out DIR

  tools/glue_hold_out.py SST-2/train.tsv --out held_out/sst2      # -> train.tsv and held_out.tsv in it
  tools/glue_hold_out.py QQP-10k/train.tsv --out held_out/qqp

Whole groups of rows that share text go to one side, one group in ten is kept back, by the SHA-256 of its text: where a row
goes depends on nothing but the file.

Of single sentences (SST-2), rows are phrases of the sentences of which the file was made. A sentence is a phrase that is
part of no longer one. Sentences that are kept back are evaluated on, as whole as those of GLUE's own validation file; their
phrases are left out, but those that some other sentence has, too.

Of pairs, a group is all pairs that are joined by questions or sentences in common, from pair to pair.
"""

import argparse
import hashlib
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from glue_tables import lines_of  # noqa: E402

ONE_IN = 10
SENTENCE = ("sentence",)
PAIRS = (
    ("question1", "question2"),
    ("sentence1", "sentence2"),
    ("question", "sentence"),
    ("#1 String", "#2 String"),
)


def is_held_out(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % ONE_IN == 0


def texts_of(path):
    """(header line, [line], [texts of a row])."""
    (header, names), *rows = lines_of(path)
    columns = next((c for c in (SENTENCE, *PAIRS) if set(c) <= set(names)), None)
    if columns is None:
        known = ", ".join("+".join(c) for c in (SENTENCE, *PAIRS))
        raise ValueError(f"{path}: no columns {known} among {', '.join(names)}")
    places = [names.index(column) for column in columns]
    texts = [tuple(fields[place] for place in places) for _, fields in rows]
    return header, [line for line, _ in rows], texts


def parts(words):
    """Every run of consecutive words, as text."""
    for begin in range(len(words)):
        run = words[begin]
        yield run
        for word in words[begin + 1 :]:
            run += " " + word
            yield run


def sides_of_phrases(phrases):
    """For each phrase True (held out), False (to train on) or None (left out)."""
    normal = [" ".join(phrase.split()) for phrase in phrases]
    covered, sentences = set(), set()
    # A phrase can only be part of one with more words, or equal to one with as many.
    for phrase in sorted(set(normal), key=lambda text: (-len(text.split()), text)):
        if phrase not in covered:
            sentences.add(phrase)
            covered.update(parts(phrase.split()))
    trained = set()
    for sentence in sentences:
        if not is_held_out(sentence):
            trained.update(parts(sentence.split()))
    return [
        False if phrase in trained else True if phrase in sentences else None for phrase in normal
    ]


def sides_of_pairs(pairs):
    """For each pair whether it is held out."""
    parent = {}

    def root(text):
        parent.setdefault(text, text)
        while parent[text] != text:
            parent[text] = parent[parent[text]]
            text = parent[text]
        return text

    for one, other in pairs:
        # The smallest text stands for its group, whatever the order of the rows.
        low, high = sorted((root(one), root(other)))
        parent[high] = low
    return [is_held_out(root(one)) for one, _ in pairs]


def hold_out(path, out):
    """(rows to train on, rows held out, rows left out); writes both files into a folder."""
    if any((out / f"{name}.tsv").resolve() == path.resolve() for name in ("train", "held_out")):
        raise ValueError(
            f"--out {out} holds the file that is read, {path.name}; name another folder"
        )
    header, lines, texts = texts_of(path)
    if len(texts[0] if texts else ()) == 1:
        sides = sides_of_phrases([text for (text,) in texts])
    else:
        sides = sides_of_pairs(texts)
    counts = [sides.count(side) for side in (False, True, None)]
    if 0 in counts[:2]:
        raise ValueError(f"{path} has too few rows to keep some back; give a training file")
    out.mkdir(parents=True, exist_ok=True)
    for name, side in (("train", False), ("held_out", True)):
        kept = [line for line, of in zip(lines, sides) if of is side]
        text = "\n".join([header, *kept]) + "\n"
        # Whoever reads the file while it is made again reads all of it.
        partial = out / f"{name}.tsv.{os.getpid()}.partial"
        partial.write_bytes(text.encode("utf-8", errors="surrogateescape"))
        partial.replace(out / f"{name}.tsv")
    return counts


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=pathlib.Path, help="a training file of GLUE's")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the two files")
    args = parser.parse_args()
    try:
        trained, held_out, left = hold_out(args.file, args.out)
    except (OSError, ValueError) as error:
        sys.exit(f"glue_hold_out.py: {error}")
    print(f"{args.out}: {trained} rows to train on, {held_out} held out, {left} left out")


if __name__ == "__main__":
    main()
