"""What a study gives to summary.json, to the figures and to the report."""

from collections.abc import Callable
from dataclasses import dataclass


def _nothing(*_):
    return {}


def of(study, section=""):
    """Owns the experiments of one section of a study."""
    return lambda about: (about.study, about.section) == (study, section)


@dataclass(frozen=True)
class Section:
    """Functions of the records; `own` are the experiments [rec.About] that are the section's.

    numbers_at(records, own, threads) and numbers(records, own): {id: Value}; the former is asked
    at all threads and at one, the latter is for what has one thread count only.
    figures(records, own): {name: function of the records that draws it or raises chart.Missing}.
    verdicts(records, own): [claims.Verdict] on what the paper says of decoding and memory.
    write(report, own): adds to the report; nothing if nothing was measured.
    """

    owns: Callable
    numbers_at: Callable = _nothing
    numbers: Callable = _nothing
    figures: Callable = _nothing
    verdicts: Callable = _nothing
    write: Callable = _nothing
    place: int = 0  # of its ids in summary.json: behind those of a smaller place
