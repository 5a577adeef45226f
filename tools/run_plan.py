"""./run_all.sh [options]       tables, sweeps, perplexity curves (Figure 1, mini, one seed), plots and report of this
                             machine: under an hour on two cores, besides installing and building
  --full          also Figures 3, 5, 7 and the mixture of experts at mini size, the Terraformer (Tables 6 and 8,
                  reversibility, attentions), published shapes, bf16 kernel sets and single layers; two hours more
  --quick         under ten minutes on two cores: fewer rows, fewer repeats, no curves
  --smoke         one to three minutes: tiny shapes into a temporary folder, to see that everything runs
  --peers         also PyTorch, JAX, ggml, MKL and oneDNN on the same block, and PyTorch's training step beside ours
                  (installs them under build/peers, about 12 GB): an hour and a half more, 6 minutes with --quick
  --corpus PATH   text to train on: a file, a folder or a quoted glob; default: generated
  --results DIR   folder of records; default results/local/<machine>
  --publish KIND  one whole sitting into results/published/<machine>/sittings/: headline (Tables 1, 2, 6, 7 and 8,
                  {headline:.0f} minutes), libraries (the dense block by those that are linked; with --peers by the others
                  too) or sweeps (sweeps, kernels, stacks, attentions); only from a clean git tree
  --plan          print the plan and stop
Interrupted (Ctrl-C) or failed, the same command goes on where it stopped.
"""

import glob
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import machine
from sitting import Sitting

ROOT = Path(__file__).resolve().parents[1]
BIN = Path("build/release/experiments")
MODES = ("quick", "full", "smoke")
FLAGS = ("peers", "plan")
KINDS = ("headline", "libraries", "sweeps")  # of sittings
VALUES = {
    "corpus": "a file, folder or glob",
    "results": "a folder",
    "publish": f"a kind of sitting, {' or '.join(KINDS)}",
}
PEERS = Path("experiments/peers")
PEERS_GB = 12


@dataclass
class Options:
    mode: str = "default"
    peers: bool = False
    plan: bool = False
    corpus: str = ""
    results: str = ""
    publish: str = ""


@dataclass
class Step:
    minutes: float
    program: str
    command: str = ""
    config: str = ""
    flags: str = ""
    corpus: bool = False
    part: str = ""  # what sets it apart from others of its config

    @property
    def name(self):
        """As the plan says: parts of one experiment are steps of their own."""
        return Path(self.config or self.program).name + (f".{self.part}" if self.part else "")


class Stopped(Exception):
    """The user, or the system, wants an end."""


class NotInstalled(Exception):
    """The peers cannot be; standard error says why."""


def refuse(words, status=2):
    print(words, file=sys.stderr)
    sys.exit(status)


def read_plan():
    with open(ROOT / "experiments" / "plan.toml", "rb") as file:
        return tomllib.load(file)


def help_text():
    return __doc__.format(headline=sum(step["minutes"] for step in read_plan()["headline"]))


def parse(arguments):
    """Options with paths made absolute, which are the caller's."""
    found, rest = Options(), list(arguments)
    while rest:
        word = rest.pop(0)
        name = word.removeprefix("--") if word.startswith("--") else ""
        if word in ("--help", "-h"):
            print(help_text(), end="")
            sys.exit(0)
        elif name in MODES:
            if found.mode not in ("default", name):
                refuse(f"run_all.sh: --{found.mode} and --{name} are two plans; drop one of them")
            found.mode = name
        elif name in FLAGS:
            setattr(found, name, True)
        elif name in VALUES:
            if not rest or not rest[0]:
                refuse(f"run_all.sh: {word} needs {VALUES[name]}", 1)
            setattr(found, name, rest.pop(0))
        else:
            refuse(f"run_all.sh: unknown option '{word}'\n{help_text().rstrip()}")
    if found.results and not found.results.startswith("/"):
        found.results = os.path.realpath(found.results)
    if found.corpus not in ("", "generated"):
        found.corpus = os.path.join(os.getcwd(), found.corpus)
    return found


def check(options):
    """Refuses what cannot work before anything is installed: curves come after most of an hour."""
    if options.results:
        path = Path(options.results)
        if path == ROOT or (ROOT in path.parents and ROOT / "results" not in path.parents):
            refuse(
                f"run_all.sh: --results '{path}' lies in the checkout, whose records would then count as edits; "
                "take a folder below results/ or elsewhere"
            )
    if options.corpus not in ("", "generated"):
        if options.mode == "quick":
            refuse("run_all.sh: --quick trains no curves; drop it or --corpus")
        if not os.path.exists(options.corpus) and not glob.glob(options.corpus):
            refuse(
                f"run_all.sh: --corpus '{options.corpus}' is no file, folder or glob that matches any"
            )
    if options.peers and options.mode == "smoke":
        refuse("run_all.sh: --peers goes with --quick or alone, not with --smoke")
    if options.publish:
        if options.publish not in KINDS:
            refuse(
                f"run_all.sh: --publish '{options.publish}' is no kind of sitting; take {' or '.join(KINDS)}"
            )
        others = [f"--{options.mode}"] * (options.mode != "default")
        others += [f"--{name}" for name in ("results", "corpus") if getattr(options, name)]
        others += ["--peers"] * (options.peers and options.publish != "libraries")
        if others:
            refuse(
                f"run_all.sh: a sitting is always the same; drop {', '.join(others)} or --publish"
            )
        command = ["git", "status", "--porcelain", "--", ".", ":!results", ":!plots"]
        changed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if changed.returncode:
            refuse("error: --publish needs a git checkout", 1)
        if changed.stdout:
            refuse(
                "error: --publish needs a clean tree, so that a commit names what was measured; changed:\n"
                + changed.stdout.rstrip(),
                1,
            )


def plan_of(options):
    """[Step] of experiments/plan.toml."""
    plan = read_plan()
    name = options.publish or options.mode
    steps = plan["default"] + plan["full"] if name == "full" else plan[name]
    if options.peers:
        steps = steps + plan["peers"]["quick" if options.mode == "quick" else "default"]
    return [Step(**step) for step in steps]


def command_line(options):
    """What goes on after a stop."""
    words = ["./run_all.sh"]
    words += [
        f"--{name}"
        for name in (options.mode, *FLAGS)
        if name in MODES or (name in FLAGS and getattr(options, name))
    ]
    words += [
        part
        for name in VALUES
        if getattr(options, name)
        for part in (f"--{name}", getattr(options, name))
    ]
    return shlex.join(words)


class Runner:
    """Runs programs one after another; a signal stops the run when the program that it reached has ended."""

    def __init__(self):
        self.stop, self.child = False, None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stopped)

    def _stopped(self, number, _frame):
        self.stop = True
        if number == signal.SIGTERM and self.child:  # Ctrl-C reaches it by itself
            self.child.send_signal(number)

    def status_of(self, *command):
        """Of a program that ran; Stopped if it, or this one, was told to stop."""
        if self.stop:
            raise Stopped
        self.child = subprocess.Popen([str(word) for word in command])
        status = self.child.wait()
        self.child = None
        status = 128 - status if status < 0 else status
        if self.stop or status in (130, 143):
            raise Stopped
        return status

    def must(self, *command):
        status = self.status_of(*command)
        if status:
            sys.exit(status)


class Measuring:
    """The steps of a plan, into one folder of records, which may be a sitting's."""

    def __init__(self, runner, options, results, sitting=None):
        self.runner, self.options, self.results = runner, options, results
        self.sitting = sitting

    def status_of(self, step):
        started, status = time.monotonic(), None  # None: stopped
        try:
            status = self._status_of(step)
        finally:
            if self.sitting:
                self.sitting.note(step.name, time.monotonic() - started, status)
        return status

    def _status_of(self, step):
        try:
            command = self.words(step.command) or [BIN / step.program]
            flags = self.words(step.flags)
        except NotInstalled:
            return 1
        if step.config:
            command += ["--config", f"experiments/configs/{step.config}.cfg"]
        command += ["--results", self.results, *flags]
        if step.corpus and self.options.corpus:
            command += ["--corpus", self.options.corpus]
        return self.runner.status_of(*command)

    def words(self, text):
        """Of the plan, with what a word in braces stands for."""
        meanings = {
            "{cores}": lambda: [str(len(os.sched_getaffinity(0)))],
            "{python}": lambda: [sys.executable],
            "{peers}": lambda: [self.peers_python()],
            "{pytorches}": self.pytorches,
        }
        found = (meanings.get(word, lambda word=word: [word]) for word in shlex.split(text))
        return [word for words in found for word in words()]

    def pytorches(self):
        """Flags that name the interpreters that have PyTorch."""
        rows = ["--python", f"pytorch={self.peers_python()}"]
        # Debian 12's own, where the package python3-torch is installed.
        debian = subprocess.run(
            ["/usr/bin/python3", "-c", "import torch; print(torch.__version__)"],
            capture_output=True,
            text=True,
            check=False,
        )
        if debian.stdout.startswith("1.13"):
            rows += ["--python", "pytorch_1_13=/usr/bin/python3"]
        return rows

    def peers_python(self):
        """Of the peers' virtual environment, which is made once; libraries are compiled when they changed."""
        home = Path(os.environ.get("SCALING_PEERS") or "build/peers")
        wanted, ready = PEERS / "requirements.txt", home / "ready"
        if not ready.exists() or ready.read_bytes() != wanted.read_bytes():
            self.install_peers(home, wanted)
            shutil.copy(wanted, ready)
        if self.runner.status_of(home / "bin/python", PEERS / "build_libraries.py"):
            print("the rows of libraries that are left out are skipped", file=sys.stderr)
        return home / "bin/python"

    def install_peers(self, home, wanted):
        home.mkdir(parents=True, exist_ok=True)
        free_gb = shutil.disk_usage(home).free >> 30
        if free_gb < PEERS_GB:
            print(
                f"error: the peers need {PEERS_GB} GB of disk below {home}, {free_gb} GB are free; free some, or set "
                "SCALING_PEERS to a folder elsewhere",
                file=sys.stderr,
            )
            raise NotInstalled
        print(f"installing PyTorch, JAX, MKL and oneDNN into {home}", flush=True)
        if self.runner.status_of(sys.executable, "-m", "venv", home) or self.runner.status_of(
            home / "bin/pip", "install", "--quiet", "--requirement", wanted
        ):
            raise NotInstalled


def know_the_processor(cpuinfo="/proc/cpuinfo"):
    """Tells Debian 12's OpenBLAS, beneath Debian's PyTorch, what our own programs tell it
    (kernels/openblas/functions.h): whoever made it, what has the extensions of a Skylake-X runs the
    kernels of one.
    """
    words = set(Path(cpuinfo).read_text(encoding="utf-8").split())
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= words:
        os.environ.setdefault("OPENBLAS_CORETYPE", "SKYLAKEX")


def measure(measuring, steps):
    """Names of the steps that failed."""
    failed, started, planned = [], time.monotonic(), 0
    for number, step in enumerate(steps):
        # Estimates are for two cores and full repetition; scaled by how they have fared so far.
        spent = time.monotonic() - started
        scale = spent / 60 / planned if planned > 1 else 1
        left = sum(s.minutes for s in steps[number:]) * scale + 0.5
        print(
            f"\n== [{number + 1}/{len(steps)}] {step.name}: about {step.minutes:g} min, about {left:.0f} min left in all",
            flush=True,
        )
        status = measuring.status_of(step)
        if status:
            failed.append(step.name)
            print(
                f"{step.name} ended with status {status}; going on with the others",
                file=sys.stderr,
                flush=True,
            )
        planned += step.minutes
    return failed


def run(runner, options, steps, temporary):
    """Installs, builds, measures, reports; the exit status."""
    print("== Install", flush=True)
    runner.must("./install_dependencies.sh", *(["--peers"] if options.peers else []))
    print("== Build", flush=True)
    runner.must("./build.sh", "release", "drivers")
    results = options.results or temporary
    if not results:  # the drivers know the machine's own folder
        results = subprocess.run(
            [BIN / "decode_time", "--where"], stdout=subprocess.PIPE, text=True, check=True
        ).stdout.strip()
    results = Path(results)
    sitting = Sitting(options.publish, results.name) if options.publish else None
    if sitting:
        sitting.begin()
        results = sitting.home
        print(f"== Sitting {'goes on' if sitting.goes_on else 'begins'}: {sitting.folder}")
    results.mkdir(parents=True, exist_ok=True)
    machine.write(sitting.folder if sitting else results)
    started = time.monotonic()
    failed = measure(
        Measuring(runner, options, sitting.folder if sitting else results, sitting), steps
    )
    if sitting:
        sitting.end([step.name for step in steps])
    print("\n== Report", flush=True)
    for program in ("summarise", "draw", "make_report"):
        runner.must(sys.executable, f"plots/{program}.py", "--results", results)
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    print(
        f"measured in {minutes} min {seconds} s; report: {results}/report.md and, for a browser, report.html",
        flush=True,
    )
    if failed:
        refuse(f"not complete: {' '.join(failed)}; the same command repeats only those", 1)


def main():
    options = parse(sys.argv[1:])
    os.chdir(ROOT)
    check(options)
    steps = plan_of(options)
    print(
        f"== Plan: about {sum(s.minutes for s in steps):.0f} minutes, and up to twice that on a restless machine, after "
        "installing and building; what is recorded is not repeated"
    )
    for step in steps:
        print(f"  {step.minutes:4g} min  {step.name}")
    print("  then summary.json, figures, report.md and report.html", flush=True)
    if options.plan:
        return
    know_the_processor()
    try:
        if options.mode == "smoke" and not options.results:
            with tempfile.TemporaryDirectory() as temporary:
                run(Runner(), options, steps, temporary)
        else:
            run(Runner(), options, steps, "")
    except Stopped:
        refuse(f"\nStopped. Finished records stay; go on with:\n  {command_line(options)}", 130)


if __name__ == "__main__":
    main()
