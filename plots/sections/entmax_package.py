"""A training step of 1.5-entmax attention beside the entmax package's on PyTorch."""

from report import header, line, number
from section import Section, of
from values import measured, ratio, setting

OWNS = of("attention", "package")
METRIC = "step_ms"


def both(records, experiment):
    """(threads, Value of ours, of the package's); Nones where one is missing."""
    threads = max((r["threads"] for r in records.history(experiment)), default=0)
    return threads, *(
        measured(records, experiment, row, threads, METRIC) for row in ("ours", "package")
    )


def numbers(records, own):
    found = {}
    for about in own:
        _, ours, theirs = both(records, about.name)
        if ours and theirs:
            found["attention.full_entmax15.package_over_ours"] = ratio(theirs, ours)
    return found


def write(report, own):
    for about in own:
        threads, ours, theirs = both(report.records, about.name)
        if not ours or not theirs:
            continue
        record = report.records.get(about.name, "package", threads, METRIC)
        sizes = ", ".join(f"{setting(record, knob)} {words}" for knob, words in SIZES)
        report.add(
            "## 1.5-entmax beside the entmax package",
            "",
            f"A training step of causal attention alone, {sizes}, {threads} threads; medians of {record['repeats']} "
            f"rounds that take turns. The package: {record['note']}, the fastest of its ways, a head at a time.",
        )
        over = ratio(theirs, ours)
        report.add(
            *header("", "ms a step", "over ours"),
            line("ours", number(ours.value), "1"),
            line("package", number(theirs.value), number(over.value)),
        )
        report.repeat(record["command"])


SIZES = (("length", "positions"), ("n_heads", "heads"), ("d_head", "dimensions a head"))
SECTION = Section(owns=OWNS, numbers=numbers, write=write)
