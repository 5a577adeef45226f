"""Study, section, title and id of experiments whose records do not say them, by name.

Records carry these fields since their study writes them; those made before do not. The order here is
the report's.
"""

EXPERIMENTS = {
    "table1_800m": ("decode", "", "Table 1, 800M", "table1.800m"),
    "table1_800m_bf16": ("decode", "", "Table 1, 800M, bf16 weights", "table1.800m"),
    "table1_17b": ("decode", "", "Table 1, 17B", "table1.17b"),
    "table1_17b_bf16": ("decode", "", "Table 1, 17B, bf16 weights", "table1.17b"),
    "table2": ("decode", "", "Table 2: feed-forward sparsity", "table2"),
    "table6_17b": ("decode", "", "Table 6, Terraformer 17B", "table6"),
    "table6_17b_bf16": ("decode", "", "Table 6, Terraformer 17B, bf16 weights", "table6"),
    "table7": ("decode", "", "Table 7: sparse loss", "table7"),
    "table8": ("decode", "", "Table 8: decode times, 800M", "table8"),
    "table8_bf16": ("decode", "", "Table 8: decode times, 800M, bf16 weights", "table8"),
    "width_sweep": ("decode", "width", "Width sweep", "width"),
    "context_sweep": ("decode", "context", "Context sweep", "context"),
    "batch_sweep": ("decode", "batch", "Batch sweep", "batch"),
    "peers_800m": ("decode", "peers", "", "peers.800m"),
    "peers_17b": ("decode", "peers", "", "peers.17b"),
    "kernel_sets": ("decode", "unshown", "", ""),
    "shapes": ("decode", "unshown", "", ""),
    "tiny_smoke": ("decode", "unshown", "", ""),
    "reversibility": ("stacks", "", "Reversible stacks: memory and step time", "reversible"),
    "long_sequence": ("attention", "", "Long sequences: full and LSH attention", "lsh"),
    "ceilings": ("ceilings", "", "", "ceilings"),
    "peers_python": ("peers", "", "", "peers"),
    "peers_training": ("peers", "training", "", "train"),
    "step_cost": ("peers", "training", "", "train"),
}
# The first word of a training experiment's name; a second word is its size.
CURVES = {
    "fig1": "Figure 1",
    "fig3": "Figure 3: N of the sparse feed-forward",
    "fig5": "Figure 5: projections",
    "fig7": "Figure 7: sparse loss",
    "moe": "Section 3.1: mixture of experts",
    "c4": "Figure 1 on the C4 sample alone",
    "hour": "An hour a curve",
    "table8": "Table 8: log-perplexity",
}


def about(name, metrics):
    """(study, section, title, id); of a name that is not known, the study by what was measured."""
    if not metrics & {"evaluation", "log_perplexity"}:
        study = "decode" if "token_ms" in metrics else ""
        return EXPERIMENTS.get(name, (study, "", name, name))
    figure, _, size = name.partition("_")
    if figure == "table4":
        return "training", "numbers", f"`{name}`", name
    title = CURVES.get(figure, figure) + (f", {size}" if size else "")
    return "training", "", title, name.replace("_", ".", 1)


def place(name):
    """Sorts experiments as the report has them; others behind, by name."""
    known, figure = [*EXPERIMENTS], name.split("_")[0]
    if name in known:
        return known.index(name), name
    curves = [*CURVES, figure]
    return len(known) + curves.index(figure), name


def fill_reads_before(records):
    """Of records that lack the read right before a decode (until f8663b2): it is the one after the decode before it.

    records: of one sitting. The first decode of rows that took turns has none.
    """
    turns = {}
    for record in records:
        held = record.get("samples") or {}
        columns = held.get("columns", [])
        if "state_read_gbps" in columns and "read_before_gbps" not in columns:
            at, after = columns.index("at_s"), columns.index("state_read_gbps")
            turn = turns.setdefault((record["experiment"], held.get("group", "")), [])
            turn += [(row[at], row[after], row) for row in held["rows"]]
            columns.append("read_before_gbps")
    for turn in turns.values():
        before = None
        for _, after, row in sorted(turn, key=lambda line: line[0]):
            row.append(before)
            before = after
