"""The paper's numbers (results/paper/*.csv), and which of them stand beside our rows (rows.csv)."""

import csv
import functools
from typing import NamedTuple

import records as rec

FOLDER = rec.ROOT / "results" / "paper"
# What a number found in the running text is to a row, by its unit: field and factor.
TEXT_UNITS = {"s_per_token": ("token_ms", 1e3), "x": ("token_speedup", 1)}


class Published(NamedTuple):
    """One row as printed; speed-ups as printed where they are, else from the printed times."""

    token_ms: float | None = None
    block_ms: float | None = None
    token_speedup: float | None = None
    block_speedup: float | None = None
    note: str = ""


@functools.cache
def table(name):
    with open(FOLDER / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def log_perplexity(model, train_steps=None):
    """Table 8's, nats a token, of a model as it names it, after so many steps or its only number."""
    return next(
        float(r["log_perplexity_nats"])
        for r in table("table8")
        if r["model"] == model and train_steps in (None, int(r["train_steps"]))
    )


def note(experiment):
    """What rows.csv says of a whole experiment; empty if nothing."""
    return next(
        (r["note"] for r in table("rows") if (r["experiment"], r["row"]) == (experiment, "")), ""
    )


def lines(experiment, row=None):
    """[(table, its line)] of a row of ours, or of all rows of an experiment, in order."""
    return [
        (r["table"], _line(r["table"], r["paper_row"]))
        for r in table("rows")
        if r["experiment"] == experiment and r["table"] and row in (None, r["row"])
    ]


def published(experiment, row):
    """The paper's figures for one of our rows, or None; weights in bf16 have those in f32 beside."""
    experiment = experiment.removesuffix("_bf16")
    row = row.removesuffix(".bf16").removesuffix("_dot")
    found = lines(experiment, row)
    if not found:
        return None
    base = Published(**_times(*lines(experiment)[0]))
    fields = {
        "note": next(
            r["note"] for r in table("rows") if (r["experiment"], r["row"]) == (experiment, row)
        )
    }
    for name, line in found:
        fields |= _times(name, line)
    for kind in ("token", "block"):
        above, below = getattr(base, f"{kind}_ms"), fields.get(f"{kind}_ms")
        if above and below:
            fields.setdefault(f"{kind}_speedup", above / below)
    return Published(**fields)


def _line(name, columns):
    wanted = dict(column.split("=") for column in columns.split())
    return next(r for r in table(name) if wanted.items() <= r.items())


def _times(name, line):
    """The fields that a line has as printed."""
    if name == "text_numbers":
        field, factor = TEXT_UNITS[line["unit"]]
        return {field: factor * float(line["value"])}
    printed = {
        "token_ms": (1e3, "dec_time_s_per_token"),
        "block_ms": (1, "dec_time_ms_per_block"),
        "token_speedup": (1, "reported_speedup_total_x", "reported_speedup_x"),
        "block_speedup": (1, "reported_speedup_per_block_x"),
    }
    return {
        field: factor * float(line[column])
        for field, (factor, *columns) in printed.items()
        for column in columns
        if line.get(column)
    }
