"""Of how many parts a trained model's attention matrices are, beside what Linformer pays at a rank."""

import functools
import re

import chart
import training_curves
from report import cell, header, line, nats
from section import Section, of
from values import of_record

SHARE = "singular_share_"
RANK = "rank_90"
SAME = ("positions", "d_model", "n_heads", "causal", "sequences")  # of the rows of a table
CURVES = "linformer_rank"  # whose rows project keys and values to a rank
ONE_LAYER = re.compile(r" --rows \S+")
WORDS = (
    "Linformer rests on attention matrices of low rank. Of the matrices of each self-attention of a trained model "
    "(median over heads, means over held-out sequences) the share of the largest singular values in the sum of all, by "
    "their number, and how many make up nine tenths. What a matrix can be cut to is one question, what a layer can be "
    "trained with another: {beside}"
)


def history(records, experiment):
    """{row: {metric: record}} of each row's newest measurement that was finished, rows in the order of their first."""
    found = {}
    for record in records.history(experiment):
        if record["value"] is None:
            continue
        of_key = found.setdefault(record["row"], {}).setdefault(record.get("key"), {})
        of_key[record["metric"]] = record
    whole = {row: [each for each in keys.values() if RANK in each] for row, keys in found.items()}
    return {row: each[-1] for row, each in whole.items() if each}


def alike(found):
    """[{row: metrics}] of what may stand in one table."""
    tables = {}
    for row, metrics in found.items():
        config = metrics[RANK]["config"]
        tables.setdefault(tuple(config.get(name) for name in SAME), {})[row] = metrics
    return list(tables.values())


def shares(metrics):
    """[(number of singular values, Value)] ascending."""
    return sorted(
        (int(name.removeprefix(SHARE)), of_record(record))
        for name, record in metrics.items()
        if name.startswith(SHARE)
    )


def numbers(records, own):
    found = {}
    for about in own:
        for row, metrics in history(records, about.name).items():
            wanted = metrics[RANK]["config"]["positions"] // 4
            found[f"spectrum.{row}.{RANK}"] = of_record(metrics[RANK])
            found[f"spectrum.{row}.share_{wanted}"] = dict(shares(metrics)).get(wanted)
    return {name: value for name, value in found.items() if value}


def gaps(records):
    """{rank: Value}: nats of Linformer's rows above full attention's."""
    curves = training_curves.experiments(records).get(CURVES)
    if curves is None:
        return {}
    found = {
        curves.setting(row, "linformer_rank"): curves.gap(row)
        for row in curves.rows
        if curves.setting(row, "attention") == "linformer"
    }
    return {int(rank): gap for rank, gap in found.items() if gap}


def write(report, own):
    for about in own:
        each = alike(history(report.records, about.name))
        paid = gaps(report.records)
        beside = (
            f"below is what the rows of `{CURVES}` pay for a rank, nats above full attention."
            if paid
            else f"`{CURVES}.cfg` asks the latter."
        )
        if each:
            report.add("## Spectrum of trained attention", "", WORDS.format(beside=beside))
        for found in each:
            write_table(report, found, paid)
        if each:
            report.figure(about.name)


def write_table(report, found, paid):
    """found: rows of one setting; paid: nats by rank."""
    config = next(iter(found.values()))[RANK]["config"]
    kind = "causal" if config["causal"] in (True, "true") else "two-sided"
    report.add(
        f"**{config['positions']} positions, {kind}, {config['d_model']} wide, {config['n_heads']} heads, "
        f"{config['sequences']} sequences**",
        "",
    )
    ranks = sorted({rank for metrics in found.values() for rank, _ in shares(metrics)})
    lines = header("attention", *(f"{rank}" for rank in ranks), "nine tenths in")
    for row, metrics in found.items():
        of_rank = dict(shares(metrics))
        lines.append(
            line(
                f"`{row}`",
                *(cell(report, of_rank.get(rank)) for rank in ranks),
                f"{metrics[RANK]['value']:.0f}",
            )
        )
    if paid:
        lines.append(line("Linformer of this rank", *(nats(paid.get(rank)) for rank in ranks), ""))
    report.add(*lines)
    commands = (ONE_LAYER.sub("", metrics[RANK]["command"]) for metrics in found.values())
    for command in dict.fromkeys(commands):
        report.repeat(command)


def draw(records, experiment):
    """Shares over the number of singular values, a curve an attention."""
    found = history(records, experiment)
    if not found:
        raise chart.Missing(f"no spectra in {experiment}")
    figure, (axes,) = chart.new(2.8)
    for index, (row, metrics) in enumerate(found.items()):
        chart.curve(axes, shares(metrics), label=row, **chart.one_of_many(index))
    axes.set_xscale("log", base=2)
    chart.plain_log(axes.xaxis, sorted({n for m in found.values() for n, _ in shares(m)}))
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("largest singular values")
    axes.set_ylabel("share of the sum of all")
    chart.legend_above(axes, columns=2)
    return figure


def figures(_records, own):
    return {about.name: functools.partial(draw, experiment=about.name) for about in own}


SECTION = Section(
    owns=of("attention_spectrum"), numbers=numbers, figures=figures, write=write, place=2
)
