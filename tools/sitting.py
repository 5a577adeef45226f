"""A sitting: what one run of `run_all.sh --publish` measures, at one commit, in a folder of its own.

The folder is results/published/<machine>/sittings/<UTC time it began>/. Beside the records its sitting.json says what
measured them: kind, commit, machine, times, and how every step ended. What was begun goes on only at the same commit,
on the same machine and before that is restarted; else a new sitting begins, and the old one stays incomplete, which
whoever reads the records leaves out.
"""

import datetime
import json
import subprocess
from pathlib import Path

import machine as describe_machine

PUBLISHED = Path("results/published")


def _output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def _boot():
    """Changes when the machine is restarted; empty if the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


class Sitting:
    def __init__(self, kind, machine, now=None):
        """machine: the last part of what a driver prints for --where."""
        now = now or datetime.datetime.now(datetime.UTC)
        self.home = PUBLISHED / machine
        self.about = {
            "kind": kind,
            "commit": _output("git", "rev-parse", "--short=12", "HEAD"),
            "machine": machine,
            "cpu": describe_machine.cpu(),
            "boot": _boot(),
        }
        self.folder = self.home / "sittings" / now.strftime("%Y-%m-%dT%H%M%SZ")
        self.goes_on = False
        for path in sorted(self.home.glob("sittings/*/sitting.json"), reverse=True):
            older = json.loads(path.read_text(encoding="utf-8"))
            if not older["complete"] and all(older.get(k) == v for k, v in self.about.items()):
                self.folder, self.about, self.goes_on = path.parent, older, True
                return
        self.about |= {"began": _time(now), "ended": "", "minutes": 0.0, "complete": False}
        self.about["steps"] = []

    def begin(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write()

    def note(self, step, seconds, status):
        """A step that has ended, with status 0 if it measured all of its own, None if it was stopped. Its time before an interruption counts, too."""
        others = [s for s in self.about["steps"] if s["name"] != step]
        earlier = sum(s["seconds"] for s in self.about["steps"] if s["name"] == step)
        own = {"name": step, "seconds": round(earlier + seconds, 1), "status": status}
        self.about["steps"] = [*others, own]
        self.about["minutes"] = round(sum(s["seconds"] for s in self.about["steps"]) / 60, 1)
        self._write()

    def end(self, wanted):
        """wanted: names of the steps of a whole sitting."""
        done = {s["name"] for s in self.about["steps"] if s["status"] == 0}
        self.about["complete"] = done >= set(wanted)
        self.about["ended"] = _time(datetime.datetime.now(datetime.UTC))
        self._write()

    def _write(self):
        path = self.folder / "sitting.json"
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(self.about, indent=1) + "\n", encoding="utf-8")
        partial.replace(path)


def _time(when):
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
