"""Writes summary.json, the headline figures of a results folder under fixed ids."""

import json

import curve_judge
import curves
import derive
import long_sequence
import records as rec
import reversibility
import table4
import training_speed

TABLES = {"table1_800m": "table1.800m", "table1_800m_bf16": "table1.800m",
          "table1_17b": "table1.17b", "table1_17b_bf16": "table1.17b",
          "table2": "table2", "table6_17b": "table6", "table6_17b_bf16": "table6",
          "table7": "table7", "table8": "table8", "table8_bf16": "table8"}
# What is measured at one thread count only: functions of the records that return {id: Value}.
FURTHER = (curves.figures, curve_judge.figures, training_speed.figures, reversibility.figures,
           long_sequence.figures, table4.figures)
# Other names of the same rows: Table 2's dense model is its N = 1.
ALIASES = {"table2.baseline": "table2.n1"}
EQUAL_BANDWIDTH = "_at_equal_bandwidth"
ENDINGS = ("token_ms", "block_ms", "token_speedup", "block_speedup", "reads_limit",
           "block_reads_limit", "roofline_limit", "token_roofline_limit", "block_efficiency",
           "token_efficiency", "share_of_roofline", "token_share_of_roofline")


def figures_at(records, threads):
    """{id: Value} at one thread count, without prefix."""
    found = {f"ceilings.{name}": value
             for name, (value, _) in derive.ceilings(records, threads).items()}
    for experiment, prefix in TABLES.items():
        for row in records.rows(experiment):
            figures = derive.row_figures(records, experiment, row, threads)
            names = (f"{prefix}.{row}", ALIASES.get(f"{prefix}.{row}"))
            found.update({f"{name}.{e}": figures[e] for name in names if name
                          for e in ENDINGS if e in figures})
    for (family, what), value in derive.width_exponents(records, threads).items():
        found[f"width.{family}.exponent_{what}"] = value
    return found | peer_figures(records, threads)


def peer_figures(records, threads):
    """{id: Value} of other libraries' blocks and of ours beside them."""
    found = {}
    for shape in ("800m", "17b"):
        ours = derive.peers_dense(records, shape, threads)
        for library in derive.PEERS:
            found.update(_beside(f"peers.{shape}.{library}",
                                 derive.peer(records, shape, library, threads), ours))
        found.update(_beside(f"peers.{shape}.jax.ff_qkv_cross",
                             *derive.sparse_peer(records, shape, threads)))
        own = derive.measured(records, f"peers_{shape}", "baseline", threads, "block_ms")
        if own:
            found[f"peers.{shape}.ours.block_ms"] = own
    return found


def _beside(name, theirs, ours):
    """Time of a peer's record, and its ratios to ours, which may be None."""
    if theirs is None:
        return {}
    time = derive.of_record(theirs)
    found = {"block_ms": time, "over_ours": derive.ratio_of_times(theirs, ours),
             f"over_ours{EQUAL_BANDWIDTH}": derive.at_equal_bandwidth(theirs, ours)}
    return {f"{name}.{ending}": value for ending, value in found.items() if value}


def figures(records):
    """{id: Value}: all threads, then `threads1.`, then what has one thread count only."""
    found = dict(figures_at(records, records.all_threads()))
    found.update({f"threads1.{name}": v for name, v in figures_at(records, 1).items()})
    for further in FURTHER:
        found.update(further(records))
    return found


def place(records, name):
    """(experiment, row, ending) of an id of a decode table's row; None of others."""
    for experiment, prefix in TABLES.items():
        for row in records.rows(experiment):
            ending = name.removeprefix(f"{prefix}.{row}.")
            if ending != name and ending in ENDINGS:
                return experiment, row, ending
    return None


def summary(records):
    """{id: {"value", "unit", "spread", "status", "commit"}}."""
    return {name: {"value": _rounded(v.value), "unit": v.unit, "spread": _rounded(v.spread),
                   "status": v.status, "commit": v.commit}
            for name, v in figures(records).items()}


def _rounded(number):
    return float(f"{number:.6g}")


def main():
    arguments = rec.parse_arguments(__doc__)
    records = rec.Records(arguments.results)
    found = summary(records)
    lines = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in found.items()]
    path = arguments.results / "summary.json"
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    for message in records.damaged:
        print(f"damaged record left out: {message}")
    print(f"{len(found)} figures in {path}")


if __name__ == "__main__":
    main()
