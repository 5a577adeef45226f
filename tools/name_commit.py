#!/usr/bin/env python3
"""Names the commit of records that a program made outside its checkout: name_commit.py RESULTS [--build build/release]

A program that is copied to a machine without the checkout writes its own fingerprint into `sources` and "unknown" as
commit. Run in the checkout that it was built in, this compares that fingerprint with the build's program of that name, and
the sources which that one was linked from with those that HEAD has; where all agree, the records get HEAD's commit. What
disagrees is named, its file stays as it was, and the status is 1. No program may be writing there meanwhile.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNNAMED = '"commit":"unknown","dirty":true'
CODE = ("--", ".", ":(exclude)results", ":(exclude)plots")  # what a record's `dirty` is about


def fingerprint(data):
    """FNV-1a of 64 bits, as of experiments/study/provenance.cpp."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def told(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def commit_of_checkout():
    """Twelve digits; ValueError where files differ from HEAD's."""
    changed = told("git", "status", "--porcelain", *CODE)
    if changed:
        raise ValueError(f"the checkout has changes, so that no commit is its own:\n{changed}")
    return told("git", "rev-parse", "--short=12", "HEAD").strip()


class Build:
    """Programs of a build folder, each with its fingerprint if it was linked from the checkout's sources."""

    def __init__(self, folder):
        self.folder = folder
        self.sources = told("sh", "cmake/sources.sh")
        self.known = {}

    def fingerprint(self, program):
        """ValueError says why the build has none."""
        if program not in self.known:
            path = self.folder / "experiments" / program
            if not path.is_file():
                raise ValueError(f"{self.folder} has no program {program}; build it here first")
            note = path.with_name(f"{program}.built_from")
            if not note.is_file() or note.read_text(encoding="utf-8") != self.sources:
                raise ValueError(f"{path} was built from other sources than the checkout has")
            self.known[program] = fingerprint(path.read_bytes())
        return self.known[program]


def named(line, build, commit):
    """The record with its commit, or as it is where it names one; ValueError: not of this build."""
    record = json.loads(line)
    if record["commit"] != "unknown":
        return line
    own = build.fingerprint(record["command"].split()[0])
    if record["sources"] != own:
        raise ValueError(
            f"{record['row']} comes from a program of fingerprint {record['sources']}, this build's has {own}"
        )
    if line.count(UNNAMED) != 1:
        raise ValueError(f"{record['row']} does not have {UNNAMED} as programs write it")
    return line.replace(UNNAMED, f'"commit":"{commit}","dirty":false')


def name_file(path, build, commit):
    """How many records got a commit."""
    old = path.read_text(encoding="utf-8").split("\n")
    new = [named(line, build, commit) if line else line for line in old]
    changed = sum(a != b for a, b in zip(old, new))
    if changed:
        beside = path.with_name(path.name + ".named")
        beside.write_text("\n".join(new), encoding="utf-8")
        os.replace(beside, path)
    return changed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("results", type=pathlib.Path, help="folder of records")
    parser.add_argument(
        "--build", type=pathlib.Path, default=ROOT / "build/release", help="default build/release"
    )
    options = parser.parse_args()
    paths = sorted(options.results.glob("*.jsonl"))
    if not paths:
        return f"name_commit.py: {options.results} holds no records"
    try:
        commit, build = commit_of_checkout(), Build(options.build)
    except (ValueError, subprocess.CalledProcessError) as error:
        return f"name_commit.py: {error}"
    failed = 0
    for path in paths:
        try:
            print(f"{path}: {name_file(path, build, commit)} records are of {commit}")
        except (ValueError, KeyError, IndexError) as error:
            print(f"name_commit.py: {path}: {error}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
