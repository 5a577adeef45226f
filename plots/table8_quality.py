"""Table 8's log-perplexities: ours beside the paper's."""

import derive
import paper
from report_tables import header, line, perplexity

# Our row -> the paper's model and steps.
ROWS = {"transformer": ("baseline_transformer", "500000"),
        "sparse_transformer": ("sparse_transformer_ff_qkv_loss", "500000"),
        "terraformer": None,
        "terraformer_125k": ("terraformer", "125000"),
        "terraformer_175k": ("terraformer", "175000")}


def lines(experiment):
    """The table of one experiment; nothing if none of its rows is finished."""
    published = {(r["model"], r["train_steps"]): r for r in paper.table("table8")}
    base = float(published[ROWS["transformer"]]["log_perplexity_nats"])
    found = []
    for row, key in ROWS.items():
        value = experiment.result(row, "log_perplexity")
        if value is None:
            continue
        record = next(iter(experiment.by_seed(row, "log_perplexity").values()))
        theirs = ["–"] * 4
        if key:
            printed = float(published[key]["log_perplexity_nats"])
            theirs = [f"{int(key[1]):,}", published[key]["batch_size_reported"], f"{printed:.2f}",
                      f"{printed - base:+.2f}"]
        gap = None if row == experiment.baseline else experiment.gap(row)
        found.append(line(f"`{row}`", f"{derive.setting(record, 'steps', 0):,}",
                          str(derive.setting(record, "batch", "–")), perplexity(value),
                          perplexity(gap, "+"), *theirs))
    names = ("steps", "batch", "log-perplexity", "gap")
    return [*header("row", *names, *(f"paper: {name}" for name in names)), *found] if found else []
