"""The one reader of record files: the latest record of every measurement in a results folder."""

import argparse
import functools
import json
import math
import pathlib
import re
import statistics
from typing import NamedTuple

import legacy

STATUSES = ("ok", "scaled_down", "extrapolated", "untrusted", "skipped", "failed")  # best to worst
ROOT = pathlib.Path(__file__).resolve().parent.parent


_SELECTION = ("selection_noise", "hard_probability", "selection_balance", "selection_entropy")
_MODULES = ("modules", "kernel_size", "tap_scaling")
_SPARSEFINDER = (
    "normaliser",
    "entmax_alpha",
    "sparsefinder_rank",
    "sparsefinder_window",
    "sparsefinder_global",
)
_DIGITS = ("digits_min", "digits_max", "eval_digits_min", "eval_digits_max")
# Knobs that some choices of another knob alone read: records hold every knob that there was.
READS = {
    "feed_forward": {
        "sparse": ("sparsity", "d_lowrank", "feed_forward_bias", "selector", "kernel_scaling")
        + _SELECTION,
        "moe_block": ("experts", *_SELECTION),
        "moe_switch": ("experts", *_SELECTION),
    },
    "projection": {
        "local": ("modules",),
        "conv": _MODULES,
        "multiplicative": ("modules",),
        "mult_modular": ("modules",),
        "mult_conv": _MODULES,
        "mult_conv_shared_qk": _MODULES,
        "low_rank": ("projection_rank",),
    },
    "cross_projection": {"mult_conv": _MODULES, "mult_conv_output": _MODULES},
    "attention": {
        "full": ("normaliser", "entmax_alpha"),
        "lsh": ("lsh_chunk", "lsh_rounds", "lsh_buckets", "lsh_chunks_before", "lsh_chunks_after"),
        "window": ("normaliser", "entmax_alpha", "window_width"),
        "banded": ("normaliser", "entmax_alpha", "band_width"),
        "strided": ("normaliser", "entmax_alpha", "attention_stride"),
        "fixed": (
            "normaliser",
            "entmax_alpha",
            "attention_stride",
            "fixed_summary",
            "fixed_subblocks",
        ),
        "bigbird": (
            "normaliser",
            "entmax_alpha",
            "bigbird_block",
            "bigbird_random",
            "bigbird_blocks",
        ),
        "longformer": (
            "normaliser",
            "entmax_alpha",
            "window_width",
            "longformer_dilation",
            "longformer_global",
            "longformer_projections",
        ),
        "linformer": ("linformer_rank", "linformer_length", "linformer_sharing"),
        "paragraph": ("normaliser", "entmax_alpha", "paragraph_length"),
        "inter_paragraph": ("paragraph_length",),
        "performer": ("performer_features", "performer_directions", "performer_redraw"),
        "routing": (
            "routing_clusters",
            "routing_window",
            "routing_decay",
            "routing_commitment",
        ),
        "sparsefinder_distance": (*_SPARSEFINDER, "sparsefinder_density"),
        "sparsefinder_quantization": (*_SPARSEFINDER, "sparsefinder_bins"),
        "sparsefinder_kmeans": (
            *_SPARSEFINDER,
            "sparsefinder_clusters",
            "sparsefinder_nearest",
        ),
    },
    "loss": {"multiplicative": ("loss_modules",), "low_rank": ("loss_rank",)},
    "recurrence": {"sru": ("recurrence_width",)},
    "residual_stack": {"reversible": ("recompute_decisions",)},
    "task": {
        **dict.fromkeys(("copy", "addition", "copy_pairs", "addition_pairs"), _DIGITS),
        "span_corruption": ("noise_density",),
        "denoising": (
            "sentence_permutation",
            "text_infilling",
            "infilling_mean",
            "token_masking",
            "token_deletion",
            "document_rotation",
        ),
        "gap_sentences": (
            "gap_strategy",
            "gap_share_min",
            "gap_share_max",
            "gap_noise",
            "gap_unmasked",
        ),
        "pairs": ("target_side", "join_pairs", "paragraph_tokens"),
    },
}
READS["encoder_attention"] = READS["attention"]
READ_BY_SOME = {knob for choices in READS.values() for knobs in choices.values() for knob in knobs}
# Knobs that published curves lack, and what all models had before there was a choice.
LATER = {
    "normaliser": "softmax",
    "entmax_alpha": 1.5,
    "window_width": 257,
    "band_width": 256,
    "attention_stride": 128,
    "fixed_summary": 32,
    "fixed_subblocks": 1,
    "bigbird_block": 64,
    "bigbird_random": 3,
    "bigbird_blocks": "uniform",
    "longformer_dilation": 1,
    "longformer_global": 1,
    "longformer_projections": "shared",
    "performer_features": 256,
    "performer_directions": "orthogonal",
    "performer_redraw": "each_step",
    "linformer_rank": 128,
    "linformer_length": 0,
    "linformer_sharing": "headwise",
    "paragraph_length": 128,
    "routing_clusters": 8,
    "routing_window": 0,
    "routing_decay": 0.999,
    "routing_commitment": 1e-4,
    "sparsefinder_rank": 4,
    "sparsefinder_window": 1,
    "sparsefinder_global": 0,
    "sparsefinder_density": 0.1,
    "sparsefinder_clusters": 8,
    "sparsefinder_nearest": 1,
    "sparsefinder_bins": 8,
    "adam_epsilon": 1e-5,
    "decay_steps": 0,
    "encoder_attention": "",
    "future_tokens": 1,
    "language_weight": 0,
    "future_weight": 1,
    "selector_rate": 1,
    "selected_rate": 1,
    "dense_steps": 0,
    "hard_steps": 0,
    "init_from": "",
    "noise_density": 0.15,
    "sentence_permutation": 1,
    "text_infilling": 0.3,
    "infilling_mean": 3,
    "token_masking": 0,
    "token_deletion": 0,
    "document_rotation": 0,
    "gap_strategy": "ind_orig",
    "gap_share_min": 0.3,
    "gap_share_max": 0.3,
    "gap_noise": 0,
    "gap_unmasked": 0,
    "target_side": "",
    "join_pairs": 0,
    "paragraph_tokens": 0,
    "selection_balance": 0,
    "selection_entropy": 0,
    "tap_scaling": False,
}
NOTCH = 1.57
WHISKER = 1.5
OFF = (0, "", "none", None)  # False is 0


class About(NamedTuple):
    """An experiment: which study and section it belongs to, its title, the prefix of its ids."""

    name: str
    study: str
    section: str
    title: str
    id: str


class Sitting(NamedTuple):
    """What one run of `run_all.sh --publish` measured, as its sitting.json has it."""

    name: str  # of its folder, the time that it began
    kind: str  # headline, libraries or sweeps
    commit: str
    machine: str
    minutes: float


class Records:
    """Records of one folder by (experiment, row, threads, metric).

    A --quick measurement does not replace a full one of the same commit. Nothing vanishes:
    unreadable lines are in `damaged` as "file:line: reason", rows whose latest attempt has no
    value are in `gaps` with their note.

    Below sittings/ the folder may hold whole sittings, a folder each. What several have measured is
    the median of theirs, from the lowest lower to the highest upper end. One that is incomplete is
    left out and named in `damaged`.
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.damaged = []
        self.gaps = {}
        self.sittings = []
        self._latest = {}  # (experiment, row, threads): {metric: record}
        self._sittings = {}  # the same: {metric: [record of each sitting]}
        self._history = {}
        self._order = {}
        for folder, sitting in [(self.folder, ""), *self._complete_sittings()]:
            before, self._latest = self._latest, {}
            for record in sorted(self._read(folder, sitting), key=lambda r: r.get("date") or ""):
                self._add(record)
            measured, self._latest = self._latest, before
            for at, metrics in measured.items():
                each = self._sittings.setdefault(at, {})
                for metric, record in metrics.items():
                    each.setdefault(metric, []).append(record)
        self._latest = {
            at: {metric: pooled(each) for metric, each in metrics.items()}
            for at, metrics in self._sittings.items()
        }

    def _complete_sittings(self):
        """[(folder, name)], the oldest first; those of another machine or commit are `damaged`."""
        found = []
        for path in sorted(self.folder.glob("sittings/*/sitting.json")):
            name = path.parent.name
            try:
                about = json.loads(path.read_text(encoding="utf-8"))
                complete = about["complete"]
                sitting = Sitting(
                    name, about["kind"], about["commit"], about["machine"], about["minutes"]
                )
            except (ValueError, KeyError, TypeError) as error:
                self.damaged.append(f"{name}/sitting.json: {error!r}")
                continue
            others = [s for s in self.sittings if s.kind == sitting.kind]
            if not complete:
                self.damaged.append(f"sitting {name}: incomplete")
            elif self.sittings and sitting.machine != self.sittings[0].machine:
                self.damaged.append(f"sitting {name}: of another machine, {sitting.machine}")
            elif others and sitting.commit != others[0].commit:
                self.damaged.append(f"sitting {name}: of another commit, {sitting.commit}")
            else:
                self.sittings.append(sitting)
                found.append((path.parent, name))
        return found

    def _read(self, folder, sitting):
        found = []
        for path in sorted(folder.glob("*.jsonl")):
            name = f"{sitting}/{path.name}" if sitting else path.name
            text = path.read_text(encoding="utf-8", errors="replace")
            for number, line in enumerate(text.split("\n"), start=1):
                if not line.strip():
                    continue
                try:
                    found.append(_checked(json.loads(line)) | {"sitting": sitting})
                except ValueError as error:
                    self.damaged.append(f"{name}:{number}: {error}")
        legacy.fill_reads_before(found)
        return found

    def _add(self, record):
        experiment, row, threads = record["experiment"], record["row"], record["threads"]
        at = (experiment, row, threads)
        self._order.setdefault(experiment, {}).setdefault(row)
        self._history.setdefault(experiment, []).append(record)
        if record["value"] is not None:
            older = self._latest.get(at, {}).get(record["metric"])
            poorer = older and is_quick(record) and not is_quick(older)
            if not (poorer and same_code(record, older)):
                self._latest.setdefault(at, {})[record["metric"]] = record
            self.gaps.pop(at, None)
            return
        note = f"{record['status']}: {record.get('note') or 'no reason given'}"
        if record["status"] == "failed":  # an older success must not hide that it fails now
            self._latest.pop(at, None)
        if at not in self._latest:
            self.gaps[at] = note

    def experiments(self):
        return list(self._order)

    @functools.cache  # noqa: B019  (as long-lived as the program)
    def about(self, experiment):
        """As its newest record that says so has it; what it does not say is as legacy.py knows it."""
        history = self.history(experiment)
        said = next((r for r in reversed(history) if r.get("study")), {})
        metrics = {r["metric"] for r in history}
        known = About(experiment, *legacy.about(experiment, metrics))
        return known._replace(**{f: said[f] for f in About._fields[1:] if said.get(f)})

    def of(self, owns):
        """[About] of the experiments that `owns` says yes to, in the report's order."""
        return [
            about
            for name in sorted(self._order, key=legacy.place)
            if owns(about := self.about(name))
        ]

    def history(self, experiment):
        """Every record of an experiment, the oldest first: curves have many of one metric."""
        return self._history.get(experiment, [])

    def rows(self, experiment):
        """Row names, the baseline first, then from many to few weights read."""
        reads = {
            row: found["token_weights_read"]["value"]
            for (name, row, _), found in self._latest.items()
            if name == experiment and "token_weights_read" in found
        }
        return sorted(
            self._order.get(experiment, ()),
            key=lambda row: (not row.startswith("baseline"), -reads.get(row, 0)),
        )

    def threads(self):
        """Every thread count in the folder, ascending."""
        return sorted({k[2] for k in self._latest} | {k[2] for k in self.gaps})

    def all_threads(self):
        """The largest count that does not exceed the machine's cores: more would share them."""
        counts = self.threads()
        cores = max((r["cores"] for r in self.all() if r.get("cores")), default=0)
        return max((n for n in counts if n <= cores), default=max(counts, default=1))

    def get(self, experiment, row, threads, metric):
        """The latest record, or None."""
        return self.of_row(experiment, row, threads).get(metric)

    def of_row(self, experiment, row, threads):
        """{metric: record} of one row."""
        return self._latest.get((experiment, row, threads), {})

    @functools.cached_property
    def machine(self):
        """What machine.json says of the machine; of sittings the first's, since they are of one; {} without one."""
        folders = [self.folder / "sittings" / s.name for s in self.sittings] or [self.folder]
        try:
            return json.loads((folders[0] / "machine.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}

    @property
    def is_published(self):
        return bool(self.sittings) or self.folder.name.startswith("published")

    def places(self):
        """Every (experiment, row, threads) that has a number."""
        return list(self._latest)

    def sittings_of(self, experiment, row, threads, metric):
        """[record] of each sitting that measured it; of a folder without sittings one at most."""
        return self._sittings.get((experiment, row, threads), {}).get(metric, [])

    def paired(self, *_):
        """Value of a ratio over rounds, which only records of one state know: see states.py."""

    def all(self):
        return [record for found in self._latest.values() for record in found.values()]

    def of_all_sittings(self):
        """As all(), but every sitting's own instead of what they come to together."""
        return [
            record
            for metrics in self._sittings.values()
            for records in metrics.values()
            for record in records
        ]

    def benchmark(self, name):
        """Google Benchmark's output, or None; an unreadable one is `damaged`.

        Made of records of the file's name where there are any; folders of before they were written
        have the file itself.
        """
        path = self.folder / name
        if self.rows(path.stem):
            return self._as_benchmark(path.stem)
        if not path.exists():
            return None
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            message = f"{path.name}: {error}"
            if message not in self.damaged:
                self.damaged.append(message)
            return None

    def _as_benchmark(self, experiment):
        runs, context = {}, {}
        for record in self.history(experiment):
            run = runs.setdefault(record["row"], {"name": record["row"]})
            if record["status"] == "failed":
                run.update(error_occurred=True, error_message=record["note"])
                continue
            run.pop("error_occurred", None)
            run["real_time" if record["metric"] == "us" else record["metric"]] = record["value"]
            context = {
                **record["config"],
                "team_threads": record["threads"],
                "commit": record["commit"],
            }
        return {"context": context, "benchmarks": list(runs.values())}


def is_quick(record):
    return bool((record.get("config") or {}).get("quick"))


def is_one_window(record):
    """Whether it is of a peer that noted no samples: tokens of one short while, their quartiles alone."""
    config = record.get("config") or {}
    return "peer" in config and "batches" not in config


def chosen(text):
    """Names in the text of a chooser: one, or those that blocks take in turn and heads share."""
    return {part.split(":")[0] for part in re.split("[,+]", str(text or ""))}


def settings(record):
    """The knobs that a measurement depends on.

    Left out is what the chosen components do not read, what is off, and what was so before the knob
    came: so that a knob that came later sets a newer record apart from no older one.
    """
    config = record.get("config") or {}
    read = {
        knob
        for chooser, choices in READS.items()
        for name in chosen(config.get(chooser, ""))
        for knob in choices.get(name, ())
    }
    return {
        knob: value
        for knob, value in config.items()
        if (value != LATER[knob] if knob in LATER else value not in OFF)
        and (knob in read or knob not in READ_BY_SOME)
    }


def same_code(one, other):
    return all(one.get(f) == other.get(f) for f in ("commit", "dirty"))


def _checked(record):
    """The record with `value` finite or None; ValueError says what is wrong with it."""
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    missing = [f for f in ("experiment", "row", "threads", "metric", "status") if f not in record]
    if missing:
        raise ValueError("not a record, lacks " + ", ".join(missing))
    if record["status"] not in STATUSES:
        raise ValueError(f"unknown status {record['status']!r}")
    value = record.get("value")
    if isinstance(value, bool) or not isinstance(value, (int, float, type(None))):
        raise ValueError(f"value {value!r} is not a number")
    usable = value is not None and math.isfinite(value)
    record["value"] = value if usable and record["status"] not in ("failed", "skipped") else None
    return record


def pooled(each):
    """The newest of one number's records, with the median of their values and all their range."""
    if len(each) == 1:
        return each[0]
    ends = [interval(r) for r in each]
    return each[-1] | {
        "value": statistics.median(r["value"] for r in each),
        "interval": (min(low for low, _ in ends), max(high for _, high in ends)),
        "status": worst(r["status"] for r in each),
        "sittings": len(each),
    }


def interval(record):
    """(low, high): the 95 % interval of a record's median.

    Unless it was made from the measurements themselves, by their quartiles, as the notches of a box
    plot are: the median and 1.57 interquartile ranges over the root of their number. Of one window,
    whose samples share a mood and so are no many, to where its whiskers may reach: the range of all
    but outliers.
    """
    if "interval" in record:
        return record["interval"]
    ends = record.get("low"), record.get("high")
    if is_one_window(record) and None not in ends:
        reach = WHISKER * (ends[1] - ends[0])
        return ends[0] - reach, ends[1] + reach
    value, repeats = record["value"], record.get("repeats") or 0
    half = NOTCH * 2 * (record.get("spread") or 0.0) / math.sqrt(repeats) if repeats > 1 else 0.0
    return value - half, value + half


def worst(statuses):
    return max(statuses, key=STATUSES.index, default="ok")


def newest_local():
    """The folder under results/local with the most recently written record file, or None."""
    files = list((ROOT / "results" / "local").glob("*/*.jsonl"))
    return max(files, key=lambda f: f.stat().st_mtime).parent if files else None


def parse_arguments(description, extend=None):
    """Command line common to all programs here; `results` is a folder that exists."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--results",
        metavar="DIR",
        type=pathlib.Path,
        help="folder of record files; default: the newest under results/local",
    )
    if extend:
        extend(parser)
    arguments = parser.parse_args()
    if arguments.results is None:
        arguments.results = newest_local()
    if arguments.results is None:
        parser.error(
            "no records under results/local: run ./run_all.sh first, or name a folder "
            "with --results"
        )
    if not arguments.results.is_dir():
        parser.error(f"--results {arguments.results} is not a folder")
    return arguments
