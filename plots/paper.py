"""The paper's numbers (results/paper/*.csv) under our row names."""

import csv
from typing import NamedTuple, Optional

import records as rec

FOLDER = rec.ROOT / "results" / "paper"

# Our row -> the paper's. Its 800M rows fit dense cross-attention, its 17B rows sparse.
TABLE1 = {"table1_800m": ("transformer_800M", {"baseline": "baseline", "ff": "sparse_ff",
                                               "qkv": "sparse_qkv", "ff_qkv": "sparse_ff_qkv"}),
          "table1_17b": ("transformer_17B", {"baseline": "baseline", "ff": "sparse_ff",
                                             "qkv_cross": "sparse_qkv",
                                             "ff_qkv_cross": "sparse_ff_qkv"})}
TABLE6 = {"dense": "dense", "ff": "sparse_ff", "ff_qkv": "sparse_ff_qkv",
          "ff_qkv_loss4": "sparse_ff_qkv_loss"}
TABLE8 = {"transformer": "baseline_transformer",
          "sparse_transformer": "sparse_transformer_ff_qkv_loss", "terraformer": "terraformer"}
NOTES = {("table6_17b", "ff"): "To the last digit Table 1's Transformer; it fits a Transformer's "
                               "reads, not a Terraformer's with its two attentions, so it may be "
                               "a measurement of the Transformer.",
         ("table6_17b", "ff_qkv"): "To the last digit Table 1's Transformer.",
         ("table8", "sparse_transformer"): "Table 8 says that the loss is sparse too (S=4), but "
                                           "the time is Table 1's FF+QKV row, whose loss is dense.",
         ("table8", "terraformer"): "1.92× as printed; the printed times make 1.86×."}


class Published(NamedTuple):
    """One row as printed; speed-ups as printed where they are, else from the printed times."""
    token_ms: Optional[float] = None
    block_ms: Optional[float] = None
    token_speedup: Optional[float] = None
    block_speedup: Optional[float] = None
    note: str = ""


def table(name):
    with open(FOLDER / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def text_number(quantity):
    return next(float(r["value"]) for r in table("text_numbers") if r["quantity"] == quantity)


def log_perplexity(model, train_steps=None):
    """Table 8's, nats a token, of a model as it names it, after so many steps or its only number."""
    return next(float(r["log_perplexity_nats"]) for r in table("table8") if r["model"] == model
                and train_steps in (None, int(r["train_steps"])))


def published(experiment, row):
    """The paper's figures for one of our rows, or None where it has none."""
    row = row.removesuffix(".bf16").removesuffix("_dot")
    experiment = experiment.removesuffix("_bf16")
    if experiment in TABLE1:
        return _table1(experiment, row)
    if experiment == "table2":
        return _table2(row)
    if experiment == "table6_17b":
        return _table6(row)
    if experiment == "table7":
        return _table7(row)
    if experiment == "table8":
        return _table8(row)
    return None


def _number(text):
    return float(text) if text else None


def _table1(experiment, row):
    model, names = TABLE1[experiment]
    if row not in names:
        return None
    lines = {r["variant"]: r for r in table("table1") if r["model"] == model}
    base, line = lines["baseline"], lines[names[row]]
    token, block = 1e3 * float(line["dec_time_s_per_token"]), float(line["dec_time_ms_per_block"])
    return Published(
        token, block,
        _number(line["reported_speedup_total_x"])
        or 1e3 * float(base["dec_time_s_per_token"]) / token,
        _number(line["reported_speedup_per_block_x"])
        or float(base["dec_time_ms_per_block"]) / block)


def _table2(row):
    lines = {int(r["ff_sparsity_n"]): 1e3 * float(r["dec_time_s_per_token"])
             for r in table("table2")}
    lines[1] = lines.pop(0)
    if row.startswith("moe"):
        moe = 1e3 * text_number("moe_dec_time")
        return Published(moe, None, lines[1] / moe, None,
                         "The paper gives 0.11 s in its text (§3.1), not how many experts.")
    n = 1 if row == "baseline" else _trailing_number(row)
    return Published(lines[n], None, lines[1] / lines[n]) if n in lines else None


def _table6(row):
    if row not in TABLE6:
        return None
    line = next(r for r in table("table6") if r["variant"] == TABLE6[row])
    return Published(1e3 * float(line["dec_time_s_per_token"]), None,
                     float(line["reported_speedup_x"]), None, NOTES.get(("table6_17b", row), ""))


def _table7(row):
    lines = {int(r["loss_sparsity_s"]): 1e3 * float(r["dec_time_s_per_token"])
             for r in table("table7")}
    s = 0 if row in ("baseline", "dense") else _trailing_number(row)
    return Published(lines[s], None, lines[0] / lines[s]) if s in lines else None


def _table8(row):
    if row not in TABLE8:
        return None
    times = {r["model"]: 1e3 * float(r["dec_time_s_per_token"]) for r in table("table8")}
    token = times[TABLE8[row]]
    speedup = text_number("terraformer_800M_speedup_vs_baseline") if row == "terraformer" \
        else times["baseline_transformer"] / token
    return Published(token, None, speedup, None, NOTES.get(("table8", row), ""))


def _trailing_number(row):
    """64 of "n64"; None if the name is not letters and a number."""
    digits = row.lstrip("abcdefghijklmnopqrstuvwxyz_")
    return int(digits) if digits.isdigit() else None
