"""Of how many parts a trained model's attention matrices are, beside what Linformer pays at a rank."""

import functools

import chart
import training_curves
from report import cell, header, line, nats
from section import Section, of
from values import of_record

SHARE = "singular_share_"
RANK = "rank_90"
CURVES = "linformer_rank"  # whose rows project keys and values to a rank
WORDS = (
    "Linformer rests on attention matrices of low rank. Of the {kind} matrices of each self-attention of a trained model "
    "({sizes}; median over heads, means over {sequences} held-out sequences) the share of the largest singular values in "
    "the sum of all, by their number, and how many make up nine tenths. What a matrix can be cut to is one question, what a "
    "layer can be trained with another: {beside}"
)


def history(records, experiment):
    """{row: {metric: its newest record}}, rows in the order of their first."""
    found = {}
    for record in records.history(experiment):
        found.setdefault(record["row"], {})[record["metric"]] = record
    return {row: metrics for row, metrics in found.items() if RANK in metrics}


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
        found = history(report.records, about.name)
        if not found:
            continue
        config = next(iter(found.values()))[RANK]["config"]
        paid = gaps(report.records)
        kind = "causal" if config["causal"] in (True, "true") else "two-sided"
        sizes = (
            f"{config['positions']} positions, {config['d_model']} wide, {config['n_heads']} heads"
        )
        beside = (
            f"below is what the rows of `{CURVES}` pay for a rank, nats above full attention."
            if paid
            else f"`{CURVES}.cfg` asks the latter."
        )
        report.add(
            "## Spectrum of trained attention",
            "",
            WORDS.format(kind=kind, sizes=sizes, sequences=config["sequences"], beside=beside),
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
            lines.append(
                line("Linformer of this rank", *(nats(paid.get(rank)) for rank in ranks), "")
            )
        report.add(*lines)
        report.figure(about.name)
        report.repeat(
            "./build/release/experiments/attention_spectrum --checkpoint FILE --sequences "
            f"{config['sequences']}"
        )


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
