"""The one writer of records in Python: who measured, whether it must be repeated, and the lines themselves.

A measurement is known by its settings, the contents of the files of a folder, here if it names no other, and the
machine; the commit is recorded, not compared.
"""

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "tools"))
import machine  # noqa: E402
import record_lines  # noqa: E402


def fingerprint(data):
    """16 hexadecimal digits of the 64-bit FNV-1a hash of bytes, as the C++ programs make them."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def sources(folder=HERE):
    """Of everything here that may change a measurement: the programs and the packages they need."""
    files = [*folder.glob("*.py"), folder / "requirements.txt", *folder.glob("libraries/*")]
    files = sorted(f for f in files if f.exists() and not f.name.startswith("test_"))
    return fingerprint(b"\0".join(f.name.encode() + b"\0" + f.read_bytes() for f in files))


def git(*words):
    done = subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


class RecordFile:
    """Records of one experiment of a results folder; exits with a sentence if it cannot be one."""

    def __init__(self, folder, experiment, section="", programs=HERE):
        """programs: the folder whose programs and packages a measurement is known by; None if its settings say that."""
        self.path = folder / f"{experiment}.jsonl"
        self.programs = programs
        changed = git("status", "--porcelain", "--", ".", ":(exclude)results", ":(exclude)plots")
        self.about = {
            "experiment": experiment,
            "study": "peers",
            "section": section,
            "native": True,
            "flags": "",
            "commit": git("rev-parse", "--short=12", "HEAD"),
            "dirty": bool(changed),
            "cpu": machine.cpu(),
            "cores": len(os.sched_getaffinity(0)),
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.finished = self._finished()
        except OSError as error:
            sys.exit(
                f"cannot write records into {folder}: {error.strerror}; choose another with --results"
            )

    def _finished(self):
        """Keys of what need not be repeated; what a kill left of a last line is cut off."""
        keys = set()
        beginning = json.dumps({"experiment": self.about["experiment"]}).removesuffix("}").encode()
        with record_lines.locked(self.path) as file:
            file.seek(0)
            text = file.read()
            lines, rest = record_lines.whole_lines(text, beginning)
            for number, line in enumerate(lines, 1):
                try:
                    record = json.loads(line)
                    if record["experiment"] != self.about["experiment"]:
                        raise ValueError
                    failed = record["status"] in ("failed", "skipped")
                except (ValueError, KeyError, TypeError):
                    sys.exit(
                        f"{self.path}:{number} is not a record of {self.about['experiment']}; "
                        "move the file away and start again"
                    )
                if not failed and record.get("value") is not None:
                    keys.add(record.get("key"))
            if rest:
                file.truncate(len(text) - len(rest))
                record_lines.say_cut(self.path, "dropped")
        return keys

    def key(self, **settings):
        """Of a measurement with these settings, by these files, on this machine."""
        identity = [
            self.about["experiment"],
            settings,
            sources(self.programs) if self.programs else "",
            self.about["cpu"],
            self.about["cores"],
        ]
        return fingerprint(json.dumps(identity, sort_keys=True).encode())

    def append(self, records):
        """Adds lines at once; each may override what the file says of all."""
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        text = "".join(
            json.dumps({**self.about, **record, "date": now}) + "\n" for record in records
        )
        with record_lines.locked(self.path) as file:
            record_lines.append(file, file.seek(0, os.SEEK_END), text.encode())
