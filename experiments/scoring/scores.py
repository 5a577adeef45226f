"""What the scorers share: the texts of files, intervals, and records beside the other experiments'.

A score is known by both texts' content, the settings and the programs and packages of this folder. The
packages have an environment of their own, apart from the peers', which are known by theirs:

    python3 -m venv build/scoring
    build/scoring/bin/pip install --requirement experiments/scoring/requirements.txt
"""

import argparse
import gzip
import json
import random
import re
import statistics
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "peers"))
sys.path.append(str(HERE.parents[1] / "plots"))
from record import RecordFile, fingerprint  # noqa: E402
from values import student  # noqa: E402

OBJECTS = (".jsonl", ".ndjson", ".json")  # endings of JSON lines, .gz behind them or not
SENTENCE_END = re.compile(r"""([.!?]["')\]}]*)\s+|\n\s*""")


class Score(NamedTuple):
    metric: str
    unit: str
    value: float
    low: float | None  # ends of the interval; None: nothing is known of it
    high: float | None
    note: str
    config: dict


def read_texts(path, key):
    """Texts of a file: its lines, or what the objects of JSON lines have under a key; exits with a sentence."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        sys.exit(f"cannot read {path}: {error}")
    lines = data.decode("utf-8", errors="replace").removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    if Path(path.name.removesuffix(".gz")).suffix not in OBJECTS:
        return lines
    return [
        text_of(line, f"{path}:{number}", key)
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]


def text_of(line, where, key):
    try:
        text = json.loads(line).get(key)
    except (ValueError, AttributeError):
        sys.exit(f"{where}: no JSON object; take the line out or make the file anew")
    if not isinstance(text, str):
        sys.exit(f"{where}: no text under '{key}'; take the line out, or name another with --key")
    return text


def read_both(hypotheses, references, key):
    """([hypothesis], [reference]), the n-th of one for the n-th of the other; exits with a sentence."""
    ours, theirs = read_texts(hypotheses, key), read_texts(references, key)
    if len(ours) != len(theirs):
        sys.exit(
            f"{hypotheses} has {len(ours)} texts and {references} {len(theirs)}; repeat the command "
            "that wrote the hypotheses, which goes on, or name the references of its sources"
        )
    if not theirs:
        sys.exit(f"{references} has no texts")
    for number, text in enumerate(theirs, start=1):
        if not text.strip():
            sys.exit(f"{references}: text {number} is empty; take it out, and its source with it")
    return ours, theirs


def sentences(text):
    """Of a text; they end at a line end, or behind . ! ? (and closing quotes) and white space, as in
    models/text/boundaries.h."""
    lines = SENTENCE_END.sub(lambda end: (end[1] or "") + "\n", text).split("\n")
    return [line.strip() for line in lines if line.strip()]


def interval(values, draws, seed):
    """Ends of a 95 % interval of the mean of values, a list a seed of a number a text.

    The middle 95 % of the means of so many resamples: of seeds, and of texts, the same ones in every seed. A few seeds
    resampled vary too little: where Student's interval over the means of seeds reaches farther, it counts. The same `seed`
    takes the same places of others.
    """
    rng = random.Random(seed)
    places = range(len(values[0]))
    means = []
    for _ in range(draws):
        texts = rng.choices(places, k=len(places))
        seeds = rng.choices(values, k=len(values)) if len(values) > 1 else values
        means.append(statistics.fmean(of_seed[i] for of_seed in seeds for i in texts))
    means.sort()
    beyond = draws // 40
    low, high = means[beyond], means[draws - 1 - beyond]
    if len(values) > 1:
        of_seeds = [statistics.fmean(of_seed) for of_seed in values]
        middle = statistics.fmean(of_seeds)
        half = student(len(values) - 1, 0.05) * statistics.stdev(of_seeds) / len(values) ** 0.5
        low, high = min(low, middle - half), max(high, middle + half)
    return low, high


def decoding_rate(paths):
    """Score of the tokens a second at which `generate` wrote these files; None if it did not note what one has cost."""
    costs = []
    for path in paths:
        try:
            cost = json.loads(path.with_name(path.name + ".cost.json").read_text(encoding="utf-8"))
            costs.append((cost["tokens"], cost["seconds"], cost["threads"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
    tokens, seconds, threads = map(sum, zip(*costs))
    if not seconds or threads != len(costs) * costs[0][2]:
        return None
    rates = [each / taken for each, taken, _ in costs if taken]
    note = f"of the decoder's steps on {costs[0][2]} threads; from {min(rates):.4g} to {max(rates):.4g} a file"
    return Score("tokens_per_s", "tokens/s", tokens / seconds, None, None, note, {})


def package(name):
    """Exits with a sentence about a package that is not installed."""
    sys.exit(
        f"the package {name} is not installed here; run `python3 -m venv build/scoring && "
        "build/scoring/bin/pip install --requirement experiments/scoring/requirements.txt`, then "
        "this command with build/scoring/bin/python"
    )


def parse(description, experiment, takes_several=False):
    """takes_several: hypotheses of several seeds."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--hypotheses",
        type=Path,
        nargs="+" if takes_several else 1,
        required=True,
        help="what generate wrote" + (", a file a seed" if takes_several else ""),
    )
    parser.add_argument(
        "--references", type=Path, required=True, help="a text a line, or JSON lines; .gz or not"
    )
    parser.add_argument("--key", default="text", help="of references in JSON lines (text)")
    parser.add_argument(
        "--against",
        type=Path,
        nargs="+" if takes_several else 1,
        default=[],
        help="hypotheses to be compared with"
        + (", a file a seed or one for all" if takes_several else ""),
    )
    parser.add_argument("--results", type=Path, required=True, help="folder of the records")
    parser.add_argument("--experiment", default=experiment, help=f"of the records ({experiment})")
    parser.add_argument("--row", required=True, help="whose hypotheses they are, such as ff_qkv.1")
    parser.add_argument("--draws", type=int, default=1000, help="of the bootstrap (1000)")
    parser.add_argument("--seed", type=int, default=1, help="of these (1)")
    parser.add_argument("--force", action="store_true", help="score again what is recorded")
    args = parser.parse_args()
    if args.draws < 40:
        parser.error(f"--draws {args.draws}: give 40 at least, for an interval of 95 %")
    if len(args.against) not in (0, 1, len(args.hypotheses)):
        parser.error(
            f"--against names {len(args.against)} files and --hypotheses {len(args.hypotheses)}; give one for "
            "each, in the same order, or one for all"
        )
    return args


def names(paths):
    return " ".join(path.name for path in paths)


def run(args, program, score):
    """Records what score([hypotheses of a file], references, args) says, [Score], unless that is recorded."""
    ours = []
    for path in args.hypotheses:
        texts, theirs = read_both(path, args.references, args.key)
        ours.append(texts)
    for path in args.against:
        read_both(path, args.references, args.key)  # or a sentence
    file = RecordFile(args.results, args.experiment, programs=HERE)
    key = file.key(
        program=program,
        row=args.row,
        hypotheses=fingerprint("\n\n".join("\n".join(texts) for texts in ours).encode()),
        references=fingerprint("\n".join(theirs).encode()),
        against=fingerprint(b"".join(path.read_bytes() for path in args.against)),
        draws=args.draws,
        seed=args.seed,
    )
    if key in file.finished and not args.force:
        print("already recorded")
        return
    rate = decoding_rate(args.hypotheses)
    scored = [*score(ours, theirs, args), *([rate] if rate else [])]
    file.append(
        {
            "study": "scores",
            "row": args.row,
            "against": "",
            "threads": 1,
            "metric": one.metric,
            "unit": one.unit,
            "value": one.value,
            "low": one.low,
            "high": one.high,
            "spread": 0.0 if one.low is None else (one.high - one.low) / 2,
            "repeats": len(theirs),
            "status": "ok",
            "note": one.note,
            "config": {
                "texts": len(theirs),
                "seeds": len(ours),
                "draws": args.draws,
                **one.config,
            },
            "command": f"experiments/scoring/{program} --hypotheses {names(args.hypotheses)} "
            f"--references {args.references.name} --key {args.key} --row {args.row} "
            + (f"--against {names(args.against)} " if args.against else "")
            + f"--draws {args.draws} --seed {args.seed} --results DIR",
            "seed": args.seed,
            "key": key,
        }
        for one in scored
    )
    for one in scored:
        ends = "" if one.low is None else f" ({one.low:.4g} to {one.high:.4g})"
        print(f"{one.metric}: {one.value:.4g}{ends} {one.unit}")
