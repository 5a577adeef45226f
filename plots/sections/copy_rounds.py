"""The copy task with LSH attention, trained with so many rounds and evaluated with others: the Reformer paper's table."""

import training_curves
from report import header, line, percent
from section import Section, of

OWNS = of("training", "copy_rounds")
TRAINED = "copy_rounds"  # the experiment of the weights
AS = ".as_"
COMMAND = "tools/copy_rounds.py --results DIR"
METRICS = {"accuracy": "symbols", "sequence_accuracy": "whole sequences"}


def table(trained, crossed, metric):
    """{trained: {evaluated: Value}}, in the order of the rows."""
    found = {}
    for row in trained.rows:
        own = trained.result(row, metric)
        if own:
            found.setdefault(row, {})[row] = own
    for row in crossed.rows:
        as_trained, _, as_evaluated = row.partition(AS)
        value = crossed.result(row, metric)
        if value and as_evaluated:
            found.setdefault(as_trained, {})[as_evaluated] = value
    return found


def experiments(records, own):
    """(of the weights, of what they make of other rounds), a pair each."""
    trained = training_curves.Experiment(records, TRAINED)
    return [(trained, training_curves.Experiment(records, about.name)) for about in own]


def numbers(records, own):
    return {
        f"copy_rounds.{row}.as_{other}.{metric}": value
        for trained, crossed in experiments(records, own)
        for metric in METRICS
        for row, values in table(trained, crossed, metric).items()
        for other, value in values.items()
    }


def write(report, own):
    for trained, crossed in experiments(report.records, own):
        report.add(f"## {report.records.about(crossed.name).title}")
        for metric, words in METRICS.items():
            found = table(trained, crossed, metric)
            columns = dict.fromkeys(other for values in found.values() for other in values)
            report.add(
                f"Percent of {words} told rightly, one seed; a row is what was trained, a column what it is evaluated with.",
                "",
                *header("trained", *(f"`{name}`" for name in columns)),
                *(
                    line(f"`{row}`", *(percent(values.get(name)) for name in columns))
                    for row, values in found.items()
                ),
            )
        report.repeat(COMMAND)


SECTION = Section(owns=OWNS, numbers=numbers, write=write)
