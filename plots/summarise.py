"""Writes summary.json, the headline figures of a results folder under fixed ids."""

import json

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
FURTHER = (curves.figures, training_speed.figures, reversibility.figures,
           long_sequence.figures, table4.figures)
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
            found.update({f"{prefix}.{row}.{e}": figures[e] for e in ENDINGS if e in figures})
    for (family, what), value in derive.width_exponents(records, threads).items():
        found[f"width.{family}.exponent_{what}"] = value
    for shape in ("800m", "17b"):
        for library in derive.PEERS:
            value = derive.peer(records, shape, library, threads)
            if value:
                found[f"peers.{shape}.{library}.block_ms"] = value
        ours = derive.measured(records, f"peers_{shape}", "baseline", threads, "block_ms")
        if ours:
            found[f"peers.{shape}.ours.block_ms"] = ours
        value = derive.measured(records, "peers_python", f"{shape}.jax.ff_qkv_cross", threads,
                                "block_ms")
        if value:
            found[f"peers.{shape}.jax.ff_qkv_cross.block_ms"] = value
    return found


def summary(records):
    """{id: {"value", "unit", "spread", "status", "commit"}}: all threads, then `threads1.`."""
    found = dict(figures_at(records, records.all_threads()))
    found.update({f"threads1.{name}": v for name, v in figures_at(records, 1).items()})
    for figures in FURTHER:
        found.update(figures(records))
    return {name: {"value": _rounded(v.value), "unit": v.unit, "spread": _rounded(v.spread),
                   "status": v.status, "commit": v.commit} for name, v in found.items()}


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
