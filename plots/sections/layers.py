"""Single layers: what one decode step of each costs, from Google Benchmark's output of bench_layers.

Names are component:layer/weight type/t<threads>; times are in microseconds.
"""

from typing import NamedTuple

from report import header, line, number
from section import Section, of

TYPES = ("f32", "bf16")


class Step(NamedTuple):
    """One decode step; `share` is its floor over its time, None for a layer without weights."""

    microseconds: float
    weights: float
    share: float | None


def read(document):
    """{(component, layer, threads, weight type): Step} of the parsed JSON, and [what failed]."""
    found, failed = {}, []
    for entry in (document or {}).get("benchmarks", ()):
        if entry.get("run_type") == "aggregate" and entry.get("aggregate_name") != "median":
            continue
        name = (entry.get("run_name") or entry["name"]).removesuffix("/real_time")
        if entry.get("error_occurred"):
            failed.append(f"`{name}`: {entry.get('error_message') or 'failed'}")
            continue
        place, weight_type, threads = name.split("/")
        component, layer = place.split(":")
        percent = entry.get("percent_of_ceiling")
        found[component, layer, int(threads.removeprefix("t")), weight_type] = Step(
            entry["real_time"],
            entry.get("weights", 0.0),
            None if percent is None else percent / 100,
        )
    return found, failed


def table(steps, threads):
    """One line a layer, components in the order of the file, many weights before few."""
    components = list(dict.fromkeys(component for component, *_ in steps))
    names = {
        (component, layer): step.weights
        for (component, layer, n, _), step in steps.items()
        if n == threads
    }
    lines = header(
        "component and layer",
        "weights read, thousands",
        *(f"{t}, {what}" for t in TYPES for what in ("µs", "share of limit")),
    )
    for component, layer in sorted(names, key=lambda at: (components.index(at[0]), -names[at])):
        cells = []
        for weight_type in TYPES:
            step = steps.get((component, layer, threads, weight_type))
            cells += [number(step and step.microseconds), number(step and step.share)]
        lines.append(
            line(f"{component} `{layer}`", number(names[component, layer] / 1e3 or None), *cells)
        )
    return lines


def write(report, _own):
    """Nothing if single layers were not measured."""
    document = report.records.benchmark("layers.json")
    steps, failed = read(document)
    if not steps and not failed:
        return
    context = document.get("context") or {}
    shape = f" of the {context['shape'].upper()} shape" if "shape" in context else ""
    report.add(
        "## Single layers",
        "",
        f"One decode step of every layer{shape} with 16 positions cached, called alone, "
        "on weights that no cache holds; a call starts and joins the threads, a few "
        "microseconds that a layer inside a model does not pay. The limit is the sum over "
        "phases of bytes or FLOPs over the rates measured beside it. Commit "
        f"{context.get('commit', 'unknown')}.",
    )
    for threads in sorted({n for _, _, n, _ in steps}, reverse=True):
        report.add(f"**{threads} thread{'s' if threads > 1 else ''}**", "", *table(steps, threads))
    if failed:
        report.add("Layers that did not run:", "", *(f"- {words}" for words in failed))
    report.repeat("./build/release/experiments/bench_layers")


SECTION = Section(owns=of("layers"), write=write)
