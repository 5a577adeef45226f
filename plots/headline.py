"""The headline: a table of the rows that are quoted, states side by side, and what it comes to in words.

Made from summary.json alone, for README.md and for the first screen of the report.
"""

from typing import NamedTuple

import paper
from report import number

SLOW = "@slow"


class Row(NamedTuple):
    experiment: str
    prefix: str  # the `id` of its config, with which its ids in summary.json begin
    row: str
    words: str

    @property
    def is_dense(self):
        return self.row.removesuffix(".bf16") in ("baseline", "dense")

    @property
    def is_dot(self):
        return self.row.endswith("_dot.bf16")


ROWS = (
    Row("table1_800m", "table1.800m", "baseline", "800M, dense"),
    Row("table1_800m", "table1.800m", "ff", "800M, sparse FF"),
    Row("table1_800m", "table1.800m", "ff_qkv", "800M, sparse FF+QKV"),
    Row("table1_800m", "table1.800m", "ff_qkv_cross", "800M, sparse FF+QKV, cross too"),
    Row("table1_17b", "table1.17b", "baseline", "17B, dense"),
    Row("table1_17b", "table1.17b", "ff_qkv_cross", "17B, sparse FF+QKV"),
    Row("table1_17b_bf16", "table1.17b", "baseline.bf16", "17B, dense, bf16"),
    Row("table1_17b_bf16", "table1.17b", "ff_qkv_cross.bf16", "17B, sparse FF+QKV, bf16"),
    Row(
        "table1_17b_bf16",
        "table1.17b",
        "ff_qkv_cross_dot.bf16",
        "17B, sparse FF+QKV, bf16, activations rounded",
    ),
    Row("table8", "table8", "terraformer", "800M Terraformer, FF+QKV+loss, SRU"),
    Row("table6_17b_bf16", "table6", "dense.bf16", "17B Terraformer, dense, bf16"),
    Row("table6_17b_bf16", "table6", "ff_qkv_loss4.bf16", "17B Terraformer, FF+QKV+loss, bf16"),
    Row(
        "table6_17b_bf16",
        "table6",
        "ff_qkv_loss4_dot.bf16",
        "17B Terraformer, FF+QKV+loss, bf16, activations rounded",
    ),
)


def states_of(summary):
    """{suffix of ids: name} of the states that the figures are of; {"": ""} where none is known."""
    if "memory.read_gbps" not in summary:
        return {"": ""}
    names = {"": summary["memory.read_gbps"]["state"]}
    return names | ({SLOW: "slow"} if "memory.read_gbps" + SLOW in summary else {})


def cell(entry, unit="", interval=False):
    if not entry:
        return "–"
    text = f"{entry['value']:.3g}{unit}"
    low, high = entry.get("low"), entry.get("high")
    if interval and None not in (low, high) and high - low > 1e-6 * abs(entry["value"]):
        text += f" [{low:.3g}–{high:.3g}]"
    return text if entry["status"] == "ok" else f"{text} ({entry['status'].replace('_', ' ')})"


def factor(value):
    return "" if value is None else f"{value:.3g}×"


def table(summary, is_brief=False):
    """Lines of Markdown. Brief: without shares, and without rows of the kernel set bf16_dot."""
    states = states_of(summary)
    several = len(states) > 1

    def named(words, state):
        return f"{words}, {state}" if several else words

    names = ["model"]
    for words in ("token, ms", "token speed-up", "block speed-up"):
        names += [named(words, state) for state in states.values()]
        if words != "token, ms":
            names.append("paper's")
    if not is_brief:
        names += [named("share of roofline", state) for state in states.values()]
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for row in ROWS:

        def get(ending, suffix, row=row):
            return summary.get(f"{row.prefix}.{row.row}.{ending}{suffix}")

        if not any(get("token_ms", suffix) for suffix in states) or (is_brief and row.is_dot):
            continue
        theirs = paper.published(row.experiment, row.row) or paper.Published()
        cells = [row.words, *(cell(get("token_ms", suffix)) for suffix in states)]
        for kind in ("token", "block"):
            ending = f"{kind}_speedup"
            cells += [
                "" if row.is_dense else cell(get(ending, suffix), "×", interval=True)
                for suffix in states
            ]
            cells.append("" if row.is_dense else factor(getattr(theirs, ending)))
        if not is_brief:
            cells += [
                "" if row.is_dense else cell(get("share_of_roofline", suffix)) for suffix in states
            ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines if len(lines) > 2 else []


def sentences(summary):
    """What a reader should know before quoting the table, each of one figure or two."""
    found = []
    states = states_of(summary)
    if "memory.read_gbps" in summary:
        found.append(_of_memory(summary, states))
    for prefix, row, words in (
        ("table1.800m", "ff_qkv_cross", "At 800M, all sparse but the loss"),
        ("table1.17b", "ff_qkv_cross.bf16", "At 17B in bf16"),
    ):
        factors = [
            (summary.get(f"{prefix}.{row}.block_speedup{s}"), name) for s, name in states.items()
        ]
        limit = summary.get(f"{prefix}.{row}.roofline_limit")
        shares = [(e, name) for e, name in factors if e]
        if shares and limit:
            found.append(
                f"{words}, a block is "
                + " and ".join(
                    cell(e, "×", interval=True) + (f" ({name})" if len(states) > 1 else "")
                    for e, name in shares
                )
                + f" as fast as the fastest dense one; the machine's limits would allow "
                f"{number(limit['value'], '×')}."
            )
    doubtful = sum(
        e["status"] == "untrusted" for name, e in summary.items() if name.endswith("_speedup")
    )
    if doubtful:
        found.append(f"{doubtful} speed-ups are marked untrusted: do not quote them.")
    return found


def _of_memory(summary, states):
    words = []
    for suffix, name in states.items():
        rate, barrier, share = (
            summary[f"memory.{what}{suffix}"]["value"]
            for what in ("read_gbps", "barrier_us", "share")
        )
        words.append(
            f"{number(rate)} GB/s and a barrier of {number(barrier, digits=2)} µs"
            + (f" ({name}, {share:.0%} of the decodes)" if len(states) > 1 else "")
        )
    text = f"Memory gave {' or '.join(words)}."
    if len(states) > 1:
        barriers = [summary[f"memory.barrier_us{s}"]["value"] for s in ("", SLOW)]
        if max(barriers) > 2 * min(barriers):
            text += (
                " The threads met the sooner where memory was slower: there they share a core complex "
                "and its one way to memory."
                if barriers[1] < barriers[0]
                else " The threads met the sooner where memory was faster."
            )
    return text
