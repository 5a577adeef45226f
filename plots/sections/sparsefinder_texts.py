"""Texts that a teacher of translation writes with predicted graphs: BLEU above that of its own, over the graphs' sparsity."""

from report import header, line
from section import of
from sections import scores

METRIC = f"bleu{scores.ABOVE}"
GOLD = "gold"
FROM = 0.8  # strata below, in which all are alike, are in the records alone
WORDS = (
    "The teacher translates by a method's graphs alone in its decoder's self-attention: BLEU of {texts} texts above those that it "
    "writes with full attention, by the stratum of sparsity that a graph was run in. Intervals: resamples of the texts, one teacher; "
    "they hold 0 where BLEU cannot tell. Methods that end in `_random` and `_pca` learnt nothing: what they keep, BLEU does not tell."
)


def of_teacher(records, teacher):
    """{method: {stratum: Value of BLEU above the teacher's own}}."""
    found = {}
    for about in records.of(of("scores")):
        for row in records.rows(about.name):
            point = scores.POINT.fullmatch(row)
            if not point or point["teacher"] != teacher:
                continue
            value = scores.value(records, about.name, row, f"{METRIC}{teacher}.full")
            if value:
                found.setdefault(point["method"], {})[point["stratum"]] = value
    return found


def texts_of(records, teacher):
    """How many texts were scored."""
    for about in records.of(of("scores")):
        record = records.get(about.name, f"{teacher}.full", 1, "bleu")
        if record:
            return record["repeats"]
    return 0


def lines(report, teacher):
    """A line a method, first what keeps most over the strata that all have; nothing of a teacher without texts."""
    found = of_teacher(report.records, teacher)
    strata = sorted(
        {s for of_it in found.values() for s in of_it if s != GOLD and float(s) >= FROM}
    )
    if not strata:
        return []
    shared = [s for s in strata if all(s in of_it for of_it in found.values())]
    order = sorted(found, key=lambda m: -sum(found[m][s].value for s in shared))
    columns = [*strata, *([GOLD] if any(GOLD in of_it for of_it in found.values()) else [])]
    return [
        WORDS.format(texts=texts_of(report.records, teacher)),
        "",
        *header("method, BLEU above full attention", *map(heading, columns)),
        *(line(f"`{m}`", *(cell(found[m].get(column)) for column in columns)) for m in order),
    ]


def heading(stratum):
    return "at gold" if stratum == GOLD else f"at {100 * float(stratum):g} %"


def cell(value):
    return f"{value.value:+.2f} [{value.low:+.2f}, {value.high:+.2f}]" if value else "–"


def draw(axes, records, teacher, points, looks):
    """BLEU above the teacher's own over the sparsity of each point that was run; points: {method: [Online]}."""
    found = of_teacher(records, teacher)
    for method, look in looks.items():
        own = found.get(method, {})
        # Of two points in a stratum the second is the one at the gold sparsity, which has a column of its own.
        places = {point.stratum: point.sparsity for point in reversed(points.get(method, ()))}
        at = sorted(
            (places[float(s)], v.value) for s, v in own.items() if s != GOLD and float(s) in places
        )
        if at:
            axes.plot(*zip(*at), label=method, marker=".", markersize=4, **look)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_ylabel("BLEU above the teacher")
