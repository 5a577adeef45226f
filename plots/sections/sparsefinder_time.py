"""What attentions take that predict their pairs, beside the teacher's full ones: times and gains."""

from report import cell, header, line
from section import Section, of
from values import measured

OWNS = of("sparsefinder_time")
CLOSING = "train_us_token"
RUNS = (("decode", "decoded"), ("forward", "forward"), ("train", "training"))
METRICS = ("sparsity", *(f"{run}_{what}" for run, _ in RUNS for what in ("us_token", "speedup")))
WORDS = (
    "Queries and keys are the teacher's own, of {sequences} held-out sequences of {length} tokens; all layers together, "
    "between the projections, µs a token. *Decoded*: one token after another from an empty cache; *training*: forward and "
    "backward. A row is a configuration that ran with predicted graphs, prediction included; the last part of its name is the "
    "stratum of sparsity. In brackets how much faster than the faster full attention of the same round; below 1 it is slower. "
    "At these lengths all of it may lie in caches."
)


def rows(records, experiment):
    """{row: its newest closing record}, in the order of their first."""
    return {r["row"]: r for r in records.history(experiment) if r["metric"] == CLOSING}


def value(records, experiment, record, metric):
    return measured(records, experiment, record["row"], record["threads"], metric)


def numbers(records, own):
    return {
        f"sparsefinder.{row}.{metric}": found
        for about in own
        for row, record in rows(records, about.name).items()
        for metric in METRICS
        if (found := value(records, about.name, record, metric))
    }


def time_cell(report, experiment, record, run):
    """12.3 (0.8× [0.7, 0.9])."""
    time = value(report.records, experiment, record, f"{run}_us_token")
    gain = value(report.records, experiment, record, f"{run}_speedup")
    shown = cell(report, time)
    return shown + " (" + cell(report, gain, "×", interval=True) + ")" if gain else shown


def together(found):
    """{(teacher, threads, sequences, positions): {row: closing record}}: what may stand in one table."""
    tables = {}
    for row, record in found.items():
        teacher = record["against"].partition(".full_")[0]
        config = record["config"]
        at = (teacher, record["threads"], config["sequences"], config["positions"])
        tables.setdefault(at, {})[row] = record
    return dict(sorted(tables.items()))


def write(report, own):
    for about in own:
        for at, of_it in together(rows(report.records, about.name)).items():
            teacher, threads, sequences, positions = at
            report.add(
                f"## Sparsefinder on the clock: teacher `{teacher}`, {positions} tokens, {threads} thread"
                + "s" * (threads > 1)
            )
            report.add(
                WORDS.format(sequences=sequences, length=positions),
                "",
                *header("attention", "pairs left out", *(words for _, words in RUNS)),
                *(
                    line(
                        f"`{row.removeprefix(teacher + '.')}`",
                        cell(report, value(report.records, about.name, record, "sparsity")),
                        *(time_cell(report, about.name, record, run) for run, _ in RUNS),
                    )
                    for row, record in of_it.items()
                ),
            )
            report.repeat(next(iter(of_it.values()))["command"])


SECTION = Section(owns=OWNS, numbers=numbers, write=write)
