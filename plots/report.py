"""The report: its blocks, its cells and what all its tables share; a missing number is a gap with its note."""

import copy
import math

from document import Cell, Figure, Line, Note, Rule
from values import scaled, setting

MEANING = {
    "scaled_down": "Scaled down: fewer distinct decoder blocks in memory than the model has; their "
    "mean stands for all.",
    "extrapolated": "Extrapolated: a full token put together as layers × block + rest.",
    "untrusted": "Untrusted: faster than the machine's measured limit allows, or uncertain by more "
    "than 5 % in a sitting, or its sittings more than 10 % apart, or of fewer than six rounds; of records without decodes: a ratio of times between "
    "which memory's read rate differed by more than 10 %.",
}


class Report:
    """Chapters, each a list of blocks, each a list of lines; the notes that a block calls end it.

    Notes are numbered block by block. Lines are Markdown; see document.py for what they know.
    """

    def __init__(self, records):
        self.records, self.chapters, self.notes = records, [], []

    def of(self, view):
        """The same report, of records in one state."""
        same = copy.copy(self)
        same.records = view
        return same

    def add(self, *lines):
        """A block; one that begins with "## " begins a chapter."""
        if not self.chapters or lines[0].startswith("## "):
            self.chapters.append([])
        notes = [Note(i, text) for i, text in enumerate(self.notes, start=1)]
        self.notes.clear()
        self.chapters[-1].append([*lines, *([""] if notes else []), *notes])

    def note(self, text):
        """The mark of a note of the next block: "[1]"."""
        if text not in self.notes:
            self.notes.append(text)
        return f"[{self.notes.index(text) + 1}]"

    def figure(self, name):
        if (self.records.folder / "figures" / f"{name}.png").exists():
            self.add(Figure(name))

    def repeat(self, command):
        self.add(f"Repeat: `{command}`")

    def verdicts(self, verdicts):
        """A table of anything with claim, verdict and evidence."""
        if verdicts:
            self.add(
                *header("claim", "verdict", "numbers", are_numbers=False),
                *(line(v.claim, f"**{v.verdict}**", v.evidence) for v in verdicts),
            )

    def not_measured(self, commands, what):
        """One line for all that a folder lacks, by the commands that measure them, one each.

        `what`: one and several, as ("claim", "claims").
        """
        if commands:
            counted = [f"`{c}` measures {commands.count(c)}" for c in sorted(set(commands))]
            self.add(
                f"Not measured: {len(commands)} {what[len(commands) > 1]}; {', '.join(counted)}."
            )

    @property
    def lines(self):
        """All of them, an empty one behind every block."""
        return [line for chapter in self.chapters for block in chapter for line in [*block, ""]]

    def text(self):
        return "\n".join(self.lines)


def thread_counts(records):
    """[(count, words)]: all threads first, then one."""
    most = records.all_threads()
    both = [(most, f"all threads ({most})"), (1, "one thread")]
    return both if most > 1 else both[1:]


def number(value, unit="", digits=3):
    """`digits` significant digits, no exponent: 1,595  12.3  0.0456."""
    if value is None:
        return Cell("–")
    decimals = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    return Cell(f"{value:,.{max(decimals, 0)}f}{unit}", value)


def cell(report, value, unit="", interval=False):
    """A derived number with its status as a note; a gap if there is none."""
    if value is None:
        return Cell("–")
    text = Cell(number(value.value, unit) + (interval_text(value) if interval else ""), value)
    return text + status_mark(report, value)


def status_mark(report, value):
    """The mark of a note that says how far to trust what stands on a Value; empty if it is ok."""
    return report.note(MEANING[value.status]) if value.status in MEANING else ""


def bare(value, unit=""):
    """A derived number alone."""
    return Cell(number(value.value, unit), value) if value else Cell("–")


def interval_text(value):
    """[1.02, 1.09]: the ends of the 95 % interval; empty where nothing varied."""
    if value.high - value.low <= 1e-6 * abs(value.value):
        return ""
    if not math.isfinite(value.high - value.low):
        return " [–]"
    # As many digits as tell the ends from the number.
    digits = max(3, 1 + math.ceil(-math.log10((value.high - value.low) / (abs(value.value) or 1))))
    return f" [{number(value.low, digits=min(digits, 5))}, {number(value.high, digits=min(digits, 5))}]"


def count(tokens):
    """1.54 M"""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if tokens >= size:
            return f"{tokens / size:.3g} {unit}"
    return f"{tokens:,.0f}"


def nats(value, sign="+"):
    """Nats a token: four decimals and the interval; a dash if there is none."""
    if value is None:
        return Cell("–")
    return Cell(f"{value.value:{sign}.4f}" + (ends(value, sign) or " [–]"), value)


def percent(value):
    """99.9 (sd 0.1): a share in percent, with its deviation over seeds; a dash if there is none."""
    if value is None:
        return Cell("–")
    spread = f" (sd {100 * value.sd:.1f})" if value.sd else ""
    return Cell(f"{100 * value.value:.1f}{spread}", scaled(value, 100))


def points(value):
    """+4.0 [+1.0, +7.0]: a difference of shares in percentage points, and its interval; a dash if there is none."""
    if value is None:
        return Cell("–")
    shown = scaled(value, 100)
    return Cell(f"{shown.value:+.1f}" + (ends(shown, decimals=1) or " [–]"), shown)


def ends(value, sign="+", decimals=4):
    """[-0.0100, +0.0200]; empty if they are not known."""
    known = math.isfinite(value.low) and math.isfinite(value.high)
    return f" [{value.low:{sign}.{decimals}f}, {value.high:{sign}.{decimals}f}]" if known else ""


def header(*names, are_numbers=True):
    """The first two lines of a table; whether all columns but the first are of numbers."""
    return [Line(names), Rule([False, *[are_numbers] * (len(names) - 1)])]


def line(*cells):
    return Line(cells)


def sizes(record, *pairs):
    """blocks 3, d_model 128: of pairs (words, knob) those that the record knows."""
    return ", ".join(
        f"{words} {value}" for words, knob in pairs if (value := setting(record or {}, knob))
    )


def gap(report, experiment, row, threads):
    """The mark that stands for a row without numbers; its note says why."""
    reason = report.records.gaps.get(
        (experiment, row, threads), "not measured at this thread count"
    )
    return "gap " + report.note(f"{reason[0].upper()}{reason[1:]}.")


def not_begun(experiment, rows):
    """One line for all rows of which nothing is recorded yet; none without any."""
    names = ", ".join(f"`{row}`" for row in rows if row not in experiment.rows)
    return ["", f"Planned, not trained: {names}."] if names else []


def failed_seeds(report, experiment, row):
    """The mark of the seeds that a mean lacks because they failed."""
    failures = experiment.failures(row)
    return (
        report.note(
            f"`{experiment.name}`, `{row}`: "
            + "; ".join(f"seed {seed} failed: {reason}" for seed, reason in failures.items())
            + "."
        )
        if failures
        else ""
    )
