"""Writes the headline table of README.md, between its markers, from results/published/summary.json.

With --check nothing is written; the exit status says whether the table is the one it would write.
"""

import argparse
import json
import sys

import paper
import records as rec

BEGIN, END = "<!-- headline:begin -->", "<!-- headline:end -->"
# Experiment, the `id` of its config, with which its ids in summary.json begin, row, words.
ROWS = [
    ("table1_800m", "table1.800m", "baseline", "800M, dense"),
    ("table1_800m", "table1.800m", "ff", "800M, sparse FF"),
    ("table1_800m", "table1.800m", "ff_qkv", "800M, sparse FF+QKV"),
    ("table1_17b_bf16", "table1.17b", "baseline.bf16", "17B, dense, bf16 weights"),
    ("table1_17b_bf16", "table1.17b", "ff_qkv_cross.bf16", "17B, sparse FF+QKV, bf16 weights"),
    (
        "table1_17b_bf16",
        "table1.17b",
        "ff_qkv_cross_dot.bf16",
        "17B, sparse FF+QKV, bf16 weights, activations rounded",
    ),
    ("table8", "table8", "terraformer", "800M Terraformer, FF+QKV+loss, SRU"),
    ("table6_17b_bf16", "table6", "dense.bf16", "17B Terraformer, dense, bf16 weights"),
    (
        "table6_17b_bf16",
        "table6",
        "ff_qkv_loss4.bf16",
        "17B Terraformer, FF+QKV+loss, bf16 weights",
    ),
    (
        "table6_17b_bf16",
        "table6",
        "ff_qkv_loss4_dot.bf16",
        "17B Terraformer, FF+QKV+loss, bf16 weights, activations rounded",
    ),
]


def number(entry, unit=""):
    if not entry:
        return "-"
    text = f"{entry['value']:.3g}{unit}"
    return text if entry["status"] == "ok" else f"{text} ({entry['status'].replace('_', ' ')})"


def factor(value):
    return "-" if value is None else f"{value:.3g}×"


def table(summary):
    lines = [
        "| model | token, ms | block, ms | token speed-up | paper's | block speed-up | paper's | "
        "block roofline limit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    commits = set()
    for experiment, prefix, row, words in ROWS:
        found = {
            e: summary.get(f"{prefix}.{row}.{e}")
            for e in ("token_ms", "block_ms", "token_speedup", "block_speedup", "roofline_limit")
        }
        commits |= {c for entry in found.values() if entry for c in entry["commit"].split("+")}
        if not any(found.values()):
            continue
        theirs = paper.published(experiment, row)
        sparse = row.removesuffix(".bf16") not in ("baseline", "dense")

        ours = {e: number(entry, "×") if sparse else "" for e, entry in found.items()}
        cells = [
            words,
            number(found["token_ms"]),
            number(found["block_ms"]),
            ours["token_speedup"],
            factor(theirs.token_speedup) if sparse and theirs else "",
            ours["block_speedup"],
            factor(theirs.block_speedup) if sparse and theirs else "",
            ours["roofline_limit"],
        ]
        lines.append("| " + " | ".join(cells) + " |")
    if commits:
        lines += [
            "",
            f"Measured at commit {', '.join(sorted(commits))}, all threads; the tables are in "
            "[the report](results/published/report.md).",
        ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only compare")
    arguments = parser.parse_args()
    source = rec.ROOT / "results" / "published" / "summary.json"
    if not source.exists():
        sys.exit(f"{source.relative_to(rec.ROOT)} does not exist; ./run_all.sh --publish makes it")
    readme = rec.ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"README.md must hold {BEGIN} and {END} once each")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    new = (
        before
        + BEGIN
        + "\n"
        + table(json.loads(source.read_text(encoding="utf-8")))
        + "\n"
        + END
        + after
    )
    if new == text:
        return
    if arguments.check:
        sys.exit(
            "the headline table of README.md is not that of results/published/summary.json; "
            "run python3 plots/readme_table.py"
        )
    readme.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
