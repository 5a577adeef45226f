#!/usr/bin/env python3
"""Joins texts into a training and a held-out text, document by document: tools/pool_text.py --out OUT SET ...

A set is FILE[:FIELD[+FIELD]][=train|=valid]:

  tools/pool_text.py --out pooled wiki.train.tokens=train wiki.valid.tokens=valid web.jsonl papers.jsonl.gz:article
  build/release/experiments/perplexity --corpus pooled/train.jsonl --validation pooled/valid.jsonl ...

FILE is plain text (.txt, .tokens), JSON lines (.jsonl) or a table (.tsv), compressed (.gz behind that) or not. A plain text is one
document, but one of WikiText's is cut at its titles (` = Title = ` between blank lines). Of JSON lines a line is a document,
its text what stands under FIELD (default: text); of several fields one behind the other, with nothing between. Of a table,
whose columns tabs separate, a row is a document: its fields' lines; its first line names the columns, unless all FIELDs
are numbers of columns, from 1:

  tools/pool_text.py --out pooled QQP/train.tsv:question1+question2=train CoLA/train.tsv:4=train

A set that is for neither file is divided by the SHA-256 of a document's text, one in ten held out: where a document goes
depends on nothing but itself. With --tune another one in ten goes to OUT/tune.jsonl, which is neither trained on nor
reported: held-out text to choose learning rates on. Control characters but tab and line feed are dropped, as are
documents without text, and those whose text came before, so that nothing held out is trained on. The order is that of the
arguments.
"""

import argparse
import contextlib
import gzip
import hashlib
import json
import pathlib
import re
import sys
import zlib
from typing import NamedTuple

SET = re.compile(r"(?P<file>.+?)(?::(?P<fields>[^:=/]+))?(?:=(?P<part>train|valid))?")
DROPPED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # lone surrogates are no UTF-8
TITLE = re.compile(r" = [^=].* = ")
PLAIN, LINES, TABLE = (".txt", ".tokens"), ".jsonl", ".tsv"
ONE_IN = 10
HELD_OUT_WORDS = 300_000  # at most as many as tokens, whatever the tokenizer


class Set(NamedTuple):
    path: pathlib.Path
    fields: tuple
    part: str | None  # train, valid, or either


def parse_set(argument):
    """The Set of an argument; ValueError says what is wrong with it."""
    found = SET.fullmatch(argument)
    path = pathlib.Path(found["file"])
    if kind_of(path) not in (*PLAIN, LINES, TABLE):
        known = ", ".join((*PLAIN, LINES, TABLE))
        raise ValueError(f"{path} is none of {known} (nor one of them with .gz behind it)")
    if found["fields"] and kind_of(path) in PLAIN:
        raise ValueError(f"{path} is plain text, which has no field {found['fields']}")
    if not path.is_file():
        raise ValueError(f"{path} is no file")
    return Set(path, tuple((found["fields"] or "text").split("+")), found["part"])


def kind_of(path):
    """.txt of a.txt.gz."""
    return pathlib.Path(path.name.removesuffix(".gz")).suffix


def documents(source):
    """The text of every document of a Set; ValueError names the file, or the line that has none."""
    open_file = gzip.open if source.path.suffix == ".gz" else open
    try:
        with open_file(source.path, "rt", encoding="utf-8-sig", newline="\n") as file:
            if kind_of(source.path) in PLAIN:
                yield from articles(file.read())
                return
            if kind_of(source.path) == TABLE:
                yield from rows(file, source)
                return
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield text_of(line, source, number)
    except (UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{source.path}: {error}") from error


def text_of(line, source, number):
    """What a line of JSON has under the fields of its Set."""
    where = f"{source.path}:{number}"
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: no JSON: {error}") from error
    for field in source.fields:
        if not isinstance(found, dict) or not isinstance(found.get(field), str):
            known = ", ".join(found) if isinstance(found, dict) else "none"
            raise ValueError(f"{where}: no text under {field}; its fields: {known}")
    return "".join(found[field] for field in source.fields)


def rows(file, source):
    """What the rows of a table have under the fields of its Set, a line each."""
    names, places = [], []
    if all(field.isdecimal() for field in source.fields):
        places = [int(field) - 1 for field in source.fields]
    for number, line in enumerate(file, start=1):
        fields = line.rstrip("\r\n").split("\t")
        if fields == [""]:
            continue
        where = f"{source.path}:{number}"
        if not places:
            names = fields
            missing = [field for field in source.fields if field not in names]
            if missing:
                raise ValueError(
                    f"{where}: no column {missing[0]}; its columns: {', '.join(names)}"
                )
            places = [names.index(field) for field in source.fields]
            continue
        if names and len(fields) != len(names):
            raise ValueError(f"{where}: {len(fields)} fields, {len(names)} columns")
        if not all(0 <= place < len(fields) for place in places):
            raise ValueError(f"{where}: {len(fields)} fields; no column {max(places) + 1}")
        yield "\n".join(fields[place] for place in places)


def articles(text):
    """A plain text, cut where a title of WikiText's begins an article."""
    lines = text.replace("\r\n", "\n").split("\n")
    cuts = [
        at
        for at in range(1, len(lines) - 1)
        if TITLE.fullmatch(lines[at]) and not lines[at - 1].strip() and not lines[at + 1].strip()
    ]
    for begin, end in zip([0, *cuts], [*cuts, len(lines)]):
        yield "\n".join(lines[begin:end])


class Part:
    """One of the files: JSON lines, under another name until all of it is there."""

    def __init__(self, out, name):
        self.path = out / f"{name}.jsonl"
        self.unfinished = out / f"{name}.jsonl.unfinished"
        self.hash = hashlib.sha256()
        self.documents = self.bytes = self.words = 0

    def add(self, text):
        line = json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n"
        self.file.write(line)
        self.hash.update(line)
        self.documents += 1
        self.bytes += len(line)
        self.words += len(text.split())

    def __enter__(self):
        self.file = open(self.unfinished, "wb")
        return self

    def __exit__(self, error, *_):
        self.file.close()
        if error:
            self.unfinished.unlink()
        else:
            self.unfinished.replace(self.path)


def pool(sets, out, tune=False):
    """({name: Part}, documents without text, repeated ones) of all sets, written into a folder."""
    written = {(out / f"{name}.jsonl").resolve() for name in ("train", "valid", "tune")}
    for source in sets:
        if source.path.resolve() in written:
            raise ValueError(f"--out {out} holds {source.path}, which is read; name another folder")
    out.mkdir(parents=True, exist_ok=True)
    seen, empty, repeated = set(), 0, 0
    names = ("train", "valid", *(["tune"] if tune else []))
    of = {0: "valid", 1: "tune" if tune else "train"}  # by the hash; the others are trained on
    with contextlib.ExitStack() as stack:
        parts = {name: stack.enter_context(Part(out, name)) for name in names}
        for raw, part in ((raw, source.part) for source in sets for raw in documents(source)):
            text = DROPPED.sub("", raw).strip("\n")
            if not text.strip():
                empty += 1
                continue
            digest = hashlib.sha256(text.encode()).digest()
            if digest in seen:
                repeated += 1
                continue
            seen.add(digest)
            share = int.from_bytes(digest[:8], "big") % ONE_IN
            parts[part or of.get(share, "train")].add(text)
        if not seen:
            raise ValueError("no document of these files has text; nothing is written")
    return parts, empty, repeated


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="OUT", help="a folder")
    parser.add_argument(
        "--tune", action="store_true", help="hold out OUT/tune.jsonl, too: one in ten documents"
    )
    parser.add_argument(
        "sets", nargs="+", metavar="SET", help="FILE[:FIELD[+FIELD]][=train|=valid]"
    )
    arguments = parser.parse_args()
    try:
        parts, empty, repeated = pool(
            [parse_set(one) for one in arguments.sets], arguments.out, arguments.tune
        )
    except (ValueError, OSError) as error:
        sys.exit(f"pool_text.py: {error}")
    for part in parts.values():
        print(
            f"{part.path}: {part.documents:,} documents, {part.bytes:,} bytes, {part.words:,} words, "
            f"sha256 {part.hash.hexdigest()}"
        )
    print(f"left out: {empty:,} documents without text, {repeated:,} that came before")
    if parts["valid"].words < HELD_OUT_WORDS:
        print(
            f"warning: {parts['valid'].path} may be less than {HELD_OUT_WORDS:,} tokens: give more "
            "sets, or one of them whole as =valid",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
