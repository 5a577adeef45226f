"""What tables from texts to records share: steps of commands one after another, curves, and abstracts with their scores."""

import argparse
import contextlib
import gzip
import itertools
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONFIGS = ROOT / "experiments" / "configs" / "training"
SCORING = ROOT / "experiments" / "scoring"
# Below GLUE, to train on and to evaluate on; where copies differ, the first that is there, with what is in its folder:
# another copy's training file may hold its rows.
GLUE = {
    "sst2": ("SST-2/train.tsv", "SST-2/dev.tsv"),
    "qqp": ("QQP*/train.tsv", "QQP*/dev.tsv"),
    "qnli": ("QNLI/*train.tsv", "QNLI/split_dev.tsv", "QNLI/dev.tsv"),
    "mnli": ("MNLI/*.tsv", "MNLI/dev_matched.tsv"),
    "mrpc": ("MRPC/train.tsv", "MRPC/dev.tsv"),
    "rte": ("RTE/train.tsv", "RTE/dev.tsv"),
    "cola": ("CoLA/train.tsv", "CoLA/dev.tsv"),
    "stsb": ("STS-B/train.tsv", "STS-B/dev.tsv"),
}
# As names begin of files that are not trained on: other files to evaluate on, and those whose labels are secret.
NOT_TRAINED_ON = ("dev", "test", "diagnostic")
# Sentences of a baseline: about as many words as the set's abstracts have (medians of lead: 283 of 296, and 86 of 97).
SENTENCES = {"sumpubmed": 12, "scisummnet": 4}
BEAM = ("--beam", "4", "--length_penalty", "gnmt", "--alpha", "0.8", "--block_trigrams")
# --quick: what makes a curve, and texts, a look at whether they run.
QUICK_CURVE = {
    "batch": 2,
    "accumulate": 1,
    "steps": 4,
    "decay_steps": 4,
    "warmup_steps": 1,
    "evaluate_every": 4,
    "evaluate_batches": 1,
    "checkpoint_every": 4,
}
QUICK_TEXT = ("--tokens", "16")
QUICK_ARTICLES = 4


def plain_python():
    """The distribution's Python, for which install_dependencies.sh brings numpy; this one where there is none."""
    found = pathlib.Path("/usr/bin/python3")
    return found if found.is_file() else pathlib.Path(sys.executable)


def run(plan, steps, dry_run):
    """Exit status: 1 if a command of a step failed; the step goes on, those behind it do not begin."""
    for step in steps:
        failed = 0
        try:
            for command in getattr(plan, step)():
                words = [str(word) for word in command]
                print(shlex.join(words), flush=True)
                if not dry_run:
                    failed += subprocess.run(words, check=False).returncode != 0
        except ValueError as error:
            if not dry_run:
                raise
            print(f"# {step}: {error}")
        if failed:
            return 1
    return 0


def main(program, plan, args, steps):
    """Runs --step, or all of them, and exits with their status; what is missing is told in a sentence."""
    try:
        sys.exit(run(plan(args), [args.step] if args.step else steps, args.dry_run))
    except (OSError, ValueError) as error:
        sys.exit(f"{program}: {error}")


def parser_of(description, steps, pretrains=True):
    """With the flags that every table has; pretrains: and those of one whose models are pre-trained."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if pretrains:
        parser.add_argument("--text", help="to pre-train on (of step pretrain)")
        parser.add_argument("--validation", help="text to evaluate pre-training on")
    parser.add_argument("--results", type=pathlib.Path, required=True, help="folder of records")
    parser.add_argument("--step", choices=steps, help="one step (all)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument(
        "--accept",
        help="commits, a,b, whose curves count as if this build had trained them",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a look at all steps in ten minutes: four steps a curve, one seed, four articles; into a --results of its own",
    )
    return parser


def add_python(parser):
    parser.add_argument(
        "--python",
        type=pathlib.Path,
        default=ROOT / "build" / "scoring" / "bin" / "python",
        help="with the scorers (build/scoring/bin/python)",
    )


def require_texts(parser, args, wanted_by=("pretrain",)):
    if args.step in (None, *wanted_by) and not (args.text and args.validation):
        parser.error(
            f"step {args.step or wanted_by[0]} wants --text and --validation (tools/pool_text.py makes both)"
        )


def rows_of(config):
    """Names of a config's rows, in its order."""
    return re.findall(r"^row = ([^:\s]+)", config.read_text(encoding="utf-8"), re.MULTILINE)


def seeds_of(config):
    """As a config has them, 1 if it names none; ValueError says what is wrong with its line."""
    text = config.read_text(encoding="utf-8")
    found = re.search(r"^seeds *= *(\d+(?: *, *\d+)*) *(?:#.*)?$", text, re.MULTILINE)
    if found:
        return re.findall(r"\d+", found[1])
    if re.search(r"^seeds\b", text, re.MULTILINE):
        raise ValueError(f"{config}: its line of seeds has no whole numbers with commas between")
    return ["1"]


def number_of(config, name):
    """What a config sets for all rows, a whole number."""
    (number,) = re.findall(rf"^{name} = (\d+)$", config.read_text(encoding="utf-8"), re.MULTILINE)
    return int(number)


def files_of(glue, task):
    """(files to train on, file to evaluate on); ValueError names what is missing."""
    train, *evaluated = GLUE[task]
    for found in (path for name in evaluated for path in sorted(glue.glob(name))):
        trained = [
            path
            for path in sorted(found.parent.glob(pathlib.PurePath(train).name))
            if path != found and not path.name.startswith(NOT_TRAINED_ON)
        ]
        if trained:
            return trained, found
    raise ValueError(
        f"{glue} lacks files of {task}: {train} to train on, {evaluated[0]} to evaluate on"
    )


def linked(paths, folder):
    """Links to files in a folder of their own, so that a glob names them all; links that are right stay for who reads."""
    folder.mkdir(parents=True, exist_ok=True)
    links = {folder / f"{number}.tsv": path.resolve() for number, path in enumerate(paths, 1)}
    for older in folder.glob("*.tsv"):
        if links.get(older) != older.resolve():
            older.unlink(missing_ok=True)
    for link, path in links.items():
        with contextlib.suppress(FileExistsError):
            link.symlink_to(path)


def part(folder, name):
    """A file of a set of articles; ValueError names what is missing."""
    for ending in (".jsonl.gz", ".jsonl"):
        path = folder / f"{name}{ending}"
        if path.is_file():
            return path
    raise ValueError(f"{folder} has no {name}.jsonl.gz, nor {name}.jsonl")


def first_lines(path, count, out):
    """Writes them as they are."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as lines:
        found = list(itertools.islice(lines, count))
    if len(found) < count:
        raise ValueError(f"{path} has {len(found)} articles, fewer than {count}")
    out.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join(found)
    if not out.is_file() or out.read_bytes() != data:
        out.write_bytes(data)


def texts(corpus, validation):
    return ("--corpus", corpus, "--validation", validation)


class Curves:
    """Commands that train; args as parser_of has them."""

    def __init__(self, args):
        self.args = args
        self.results = args.results.resolve()

    def seeds(self, config):
        """Of a config's curves."""
        seeds = seeds_of(config)
        return seeds[:1] if self.args.quick else seeds

    def curve(self, config, *flags):
        command = [
            *(self.args.build / "experiments" / "perplexity", "--config", CONFIGS / config),
            *("--results", self.results, "--scratch", self.results),
            *("--threads", str(self.args.threads), *flags),
        ]
        if self.args.accept:
            command += ["--accept", self.args.accept]
        if self.args.quick:
            schedule = re.search(
                r"^schedule = (\w+)", (CONFIGS / config).read_text(encoding="utf-8"), re.MULTILINE
            )
            for knob, value in QUICK_CURVE.items():
                if knob != "decay_steps" or (schedule and schedule[1] in ("linear", "cosine")):
                    command += [f"--{knob}", str(value)]
            if "--seeds" not in flags:
                command += ["--seeds", self.seeds(CONFIGS / config)[0]]
        return command

    def checkpoint(self, experiment, row, seed):
        return self.results / "checkpoints" / experiment / f"{row}.{seed}" / "best.ckpt"

    def weights(self, experiment, row, step="pretrain"):
        """Of a row's first seed; ValueError if the step that makes them has not run, but of a dry run."""
        path = self.checkpoint(experiment, row, 1)
        if not self.args.dry_run and not path.is_file():
            raise ValueError(f"{path} is missing: {row} is not trained; run --step {step}")
        return path

    def glue_texts(self, task):
        """Of --glue."""
        trained, evaluated = files_of(self.args.glue, task)
        if len(trained) == 1:
            return texts(trained[0], evaluated)
        folder = self.results / "texts" / task
        if not self.args.dry_run:
            linked(trained, folder)
        return texts(folder / "*.tsv", evaluated)


class Abstracts(Curves):
    """Commands that write abstracts of --articles and score them, by a --python that has the scorers.

    A plan says in written() what is written: {row: [(seed, experiment, its row, file)]}.
    """

    scored_as = ""  # experiment of the scores
    search = BEAM  # by which texts are written, as flags of `generate`

    def __init__(self, args, set_name, folder=None):
        """set_name: one of SENTENCES; folder: of what is written, if not the set's."""
        super().__init__(args)
        self.articles = args.articles  # folder of the set, as models read it
        self.extracted = args.articles  # as baselines take sentences of it
        self.sentences = SENTENCES[set_name]
        self.texts = self.results / "abstracts" / (folder or set_name)

    def written(self):
        raise NotImplementedError

    def files(self, config, experiment, ending=""):
        """{row + ending: what written() says of it} of a config's rows and seeds."""
        return {
            row + ending: [
                (seed, experiment, row, self.texts / f"{row}{ending}.{seed}.txt")
                for seed in self.seeds(config)
            ]
            for row in rows_of(config)
        }

    def test(self, folder=None):
        """The articles whose abstracts are written, of the folder that models read if of no other."""
        path = part(folder or self.articles, "test")
        if not self.args.quick:
            return path
        few = self.texts / f"{path.parent.name}_test_{QUICK_ARTICLES}.jsonl"
        if not self.args.dry_run:
            first_lines(path, QUICK_ARTICLES, few)
        return few

    def text(self, checkpoint, out, search):
        """A text of each test article."""
        if not self.args.dry_run:
            self.texts.mkdir(parents=True, exist_ok=True)
        quick = QUICK_TEXT if self.args.quick and "--tokens" not in search else ()
        return [
            *(self.args.build / "apps" / "generate", "--threads", str(self.args.threads)),
            *("--checkpoint", checkpoint, "--sources", self.test()),
            *("--text_key", "article", "--out", out, *search, *quick),
        ]

    def generate(self):
        for files in self.written().values():
            for seed, experiment, row, out in files:
                yield self.text(self.checkpoint(experiment, row, seed), out, self.search)

    def scorer(self, program, *flags):
        return [self.args.python, SCORING / program, *flags]

    def another(self, path):
        return path.with_name(f"another.{path.name}")

    def baselines(self):
        test = self.test(self.extracted)
        for kind in ("lead", "random", "oracle"):
            yield self.scorer(
                "baseline_summaries.py",
                *(kind, "--sentences", str(self.sentences), "--out", self.texts / f"{kind}.txt"),
                *("--articles", test, "--key", "article"),
                *(("--references_key", "abstract") if kind == "oracle" else ()),
            )
        for files in self.written().values():
            for _, _, _, path in files:
                yield self.scorer(
                    "baseline_summaries.py",
                    *("another", "--hypotheses", path, "--out", self.another(path)),
                )

    def scored(self, row, files, *flags):
        return self.scorer(
            "score_summaries.py",
            *("--results", self.results, "--experiment", self.scored_as),
            *("--references", self.test(), "--key", "abstract"),
            *("--row", row, "--hypotheses", *files, *flags),
        )

    def score(self):
        for kind in ("lead", "random", "oracle"):
            yield self.scored(kind, [self.texts / f"{kind}.txt"])
        for row, files in self.written().items():
            paths = [path for *_, path in files]
            yield self.scored(row, paths, "--against", *map(self.another, paths))

    def compared(self, baseline):
        """Scores of every row again, and how far they are above the baseline's of the same ending, seed by seed."""
        each = {row: [path for *_, path in files] for row, files in self.written().items()}
        for row, paths in each.items():
            model, dot, ending = row.partition(".")
            if model != baseline:
                yield self.scored(row, paths, "--against", *each[baseline + dot + ending])
