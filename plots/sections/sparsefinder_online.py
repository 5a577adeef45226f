"""What a teacher loses that runs with predicted graphs: nats a token above its own, over the graphs' sparsity."""

import functools
from typing import NamedTuple

import numpy

import chart
from report import header, line, nats
from values import of_record

PERCENTS = (80, 90, 95)
DRAWS, SEED = 1000, 1  # of the bootstrap over sequences
METRIC = "online_log_perplexity"
WORDS = (
    "The teacher runs with a method's graphs alone, so that every layer meets what the graphs of those before have left. "
    "Nats a token above its own loss on {sequences} sequences, of the least sparse point run that leaves out as much: of a "
    "method twelve at most, the best offline recall in each stratum of sparsity; a dash: none leaves out as much. "
    "Intervals: {draws} resamples of the sequences, one teacher."
)


class Online(NamedTuple):
    """A model with one configuration's graphs: what is known offline, and each sequence's loss."""

    stratum: float
    sparsity: float
    recall: float
    loss: numpy.ndarray
    weight: numpy.ndarray
    record: dict

    def nats(self, weights):
        return weights @ self.loss / (weights @ self.weight)


def shares(rng, draws, sequences):
    """(1 + draws, sequences): of each resample, how much of it is each sequence; the first is all of them alike."""
    counts = rng.multinomial(sequences, [1 / sequences] * sequences, size=draws)
    return numpy.vstack([numpy.full(sequences, 1 / sequences), counts / sequences])


@functools.cache
def resamples(sequences):
    return shares(numpy.random.default_rng(SEED), DRAWS, sequences)


def runs(records, experiment, closing):
    """[Online] of a method's newest run."""
    found = {}
    for record in records.history(experiment):
        of_run = all(record.get(field) == closing.get(field) for field in ("row", "key"))
        if not of_run or record["metric"] != METRIC:
            continue
        config, columns = record["config"], record["samples"]["columns"]
        rows = numpy.array(record["samples"]["rows"])
        place = tuple(config.get(name) for name in ("parameter", "value", "nearest", "width"))
        found[place] = Online(
            config.get("stratum", 0.0),
            config.get("offline_sparsity", 0.0),
            config.get("offline_recall", 1.0),
            *(rows[:, columns.index(name)] for name in ("loss", "weight")),
            record,
        )
    return list(found.values())


def of_teacher(records, experiment, methods):
    """{method: [Online]} and the teacher's own Online; methods: {method: closing record}. None: it did not run.

    Left out is what ran on other sequences than the teacher did.
    """
    own = runs(records, experiment, methods["gold"]) if "gold" in methods else []
    if not own:
        return {}, None
    each = {m: runs(records, experiment, closing) for m, closing in methods.items() if m != "gold"}
    each = {m: [p for p in points if len(p.loss) == len(own[0].loss)] for m, points in each.items()}
    return {method: points for method, points in each.items() if points}, own[0]


def above(point, own):
    """Value: how far a point's loss is above the teacher's own, sequence by sequence."""
    weights = resamples(len(own.loss))
    lost = point.nats(weights) - own.nats(weights)
    low, high = numpy.quantile(lost[1:], [0.025, 0.975])
    value = of_record(point.record)
    return value._replace(value=float(lost[0]), low=float(low), high=float(high))


def at(points, own, sparsity):
    """Value of the least sparse point that leaves out so much; None if there is none. Nothing is chosen by its loss."""
    there = [point for point in points if point.sparsity >= sparsity]
    return above(min(there, key=lambda point: point.sparsity), own) if there else None


def places(methods):
    """[(ending of ids, heading, sparsity)] at which losses are told."""
    gold = methods["gold"]["config"]["mean_gold_sparsity"]
    return [*((str(p), f"{p} %", p / 100) for p in PERCENTS), ("gold", "gold", gold)]


def numbers(records, experiment, teacher, methods):
    found, own = of_teacher(records, experiment, methods)
    return {
        f"sparsefinder.{teacher}.{method}.quality_at_{ending}": value
        for method, points in found.items()
        for ending, _, sparsity in places(methods)
        if (value := at(points, own, sparsity))
    }


def lines(report, experiment, methods):
    """A line a method, the best at the gold sparsity first; nothing of a teacher that did not run so."""
    found, own = of_teacher(report.records, experiment, methods)
    if not found:
        return []
    sparsities = places(methods)
    made = []
    for method, points in found.items():
        values = [at(points, own, sparsity) for _, _, sparsity in sparsities]
        last = [value.value if value else float("inf") for value in values[::-1]]
        made.append((last, line(f"`{method}`", *(nats(value) for value in values))))
    names = (f"at {words}" for _, words, _ in sparsities)
    return [
        WORDS.format(sequences=len(own.loss), draws=DRAWS),
        "",
        *header("method, nats above the teacher", *names),
        *(text for _, text in sorted(made, key=lambda one: one[0])),
    ]


def draw(axes, records, experiment, methods, looks):
    """Nats above the teacher over sparsity: steps, each holding from the point before, which is less sparse."""
    found, own = of_teacher(records, experiment, methods)
    for method, look in looks.items():
        points = sorted(found.get(method, ()), key=lambda point: point.sparsity)
        if points:
            lost = [above(point, own).value for point in points]
            xs, ys = [0, *(point.sparsity for point in points)], [lost[0], *lost]
            axes.step(xs, ys, where="pre", label=method, **look)
    axes.set_ylabel("nats a token above the teacher")
    axes.set_ylim(bottom=0)


def draw_heads(records, experiment, teacher, closing):
    """Layers over heads of a teacher: how sparse each is, and how much of its probability lies near."""
    del records, experiment
    columns, rows = closing["samples"]["columns"], closing["samples"]["rows"]
    layers = closing["config"]["layers"]
    shown = [("gold_sparsity", "sparsity"), ("local", "probability within 5 positions")]
    figure, panels = chart.new(1.2 + 0.55 * layers, panels=len(shown))
    for axes, (name, title) in zip(panels, shown):
        values = numpy.array([row[columns.index(name)] for row in rows]).reshape(layers, -1)
        axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for (layer, head), value in numpy.ndenumerate(values):
            color = "white" if value > 0.6 else "black"
            axes.text(head, layer, f"{value:.2f}", ha="center", va="center", size=6, color=color)
        axes.set_title(f"{teacher}: {title}", loc="left")
        axes.set_ylabel("layer")
        axes.set_yticks(range(layers))
        axes.set_xticks(range(values.shape[1]))
        axes.grid(False)
    panels[-1].set_xlabel("head")
    return figure
