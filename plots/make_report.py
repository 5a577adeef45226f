"""Writes report.md and report.html beside the records: every table, ours beside the paper's and the limits."""

import collections
import re

import claims
import first_screen
import goals
import page
import records as rec
import sections
import states
from report import Report

TABLE = re.compile(r"## Table (\d+)")


HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


def known(folder):
    """{heading: lines of text} of notes.md, which says what was found out about records since they were made."""
    notes = folder / "notes.md"
    if not notes.exists():
        return {}
    _, *parts = HEADING.split(notes.read_text(encoding="utf-8"))
    return {title: text.strip() for title, text in zip(parts[::2], parts[1::2])}


def set_in_place(report, notes):
    """Each below the heading of the report that its own repeats; the others become a chapter each, before the tables."""
    notes = dict(notes)
    for chapter in report.chapters:
        for block in chapter[:]:
            title = block[0].lstrip("#").strip() if block[0].startswith("#") else None
            if title in notes:
                chapter.insert(chapter.index(block) + 1, [notes.pop(title)])
    return notes


def verdicts(records):
    """[claims.Verdict] at all threads, in the paper's order; of two states what holds in the slow one stands beside."""
    each = [
        sorted(_verdicts(view), key=lambda verdict: verdict.place)
        for view, _ in states.views(records, records.all_threads())
    ]
    slow = {verdict.claim: verdict for verdict in each[-1]}
    return [beside(verdict, slow[verdict.claim]) for verdict in each[0]]


def _verdicts(view):
    return [
        verdict for section, own in sections.of(view) for verdict in section.verdicts(view, own)
    ]


def beside(fast, slow):
    """Two verdicts on one claim in one: of one state, and of what knows none, its own."""
    if slow.verdict == claims.NOT_MEASURED or slow == fast:
        return fast
    if fast.verdict == claims.NOT_MEASURED:
        return slow._replace(
            verdict=f"{slow.verdict} (slow)", evidence=f"slow memory alone: {slow.evidence}"
        )
    return fast._replace(
        verdict=f"{fast.verdict} (fast), {slow.verdict} (slow)",
        evidence=f"fast memory: {fast.evidence}. Slow memory: {slow.evidence}",
    )


def counted(judged):
    """5 reproduced, 2 undecided; then, of what differs with memory's state, fast: 3 reproduced; slow: ..."""
    counts = {"": collections.Counter()}
    for verdict in judged:
        for word in verdict.verdict.split(", "):
            state = next((name for name in ("fast", "slow") if word.endswith(f" ({name})")), "")
            count = counts.setdefault(state, collections.Counter())
            count[word.removesuffix(f" ({state})")] += 1
    return "; ".join(
        f"{state}: " * bool(state) + ", ".join(f"{n} {word}" for word, n in count.most_common())
        for state, count in counts.items()
        if count
    )


def write_claims(report):
    found = verdicts(report.records)
    judged = [v for v in found if v.verdict != claims.NOT_MEASURED]
    report.add(
        "## What the paper says, and what was found",
        "",
        f"{len(judged)} claim{'s' * (len(judged) != 1)} at {report.records.all_threads()} threads: "
        + (counted(judged) or "none judged")
        + f". *Reproduced*: the lower end of the interval reaches {claims.CLOSE:.0%} of the paper's "
        f"factor, or the order is the stated one; *exceeded*: it is above {claims.FAR:g} × the factor; "
        "*partly*: the lower end is above 1.",
    )
    report.verdicts(judged)
    report.not_measured(
        [v.command for v in found if v.verdict == claims.NOT_MEASURED], ("claim", "claims")
    )


def place(chapter):
    """Sorts chapters: the paper's tables by their numbers, then what is no table of the paper's."""
    table = TABLE.match(chapter[0][0])
    return (0, int(table[1])) if table else (1, 0)


def written(records):
    """The Report of a folder; the project's own goals are in that of a published one alone."""
    report = Report(records)
    first_screen.write(report)
    write_claims(report)
    before = len(report.chapters)
    for section, own in sections.of(records):
        section.write(report, own)
    report.chapters[before:] = sorted(report.chapters[before:], key=place)
    if records.is_published:
        goals.write(report)
    first_screen.write_build(report)
    elsewhere = set_in_place(report, known(records.folder))
    report.chapters[before:before] = [
        [[f"## {title}", "", text]] for title, text in elsewhere.items()
    ]
    if records.damaged:
        report.add("## Unreadable records, left out", "", *(f"- {d}" for d in records.damaged))
    return report


def make(records):
    """Its Markdown."""
    return written(records).text()


def main():
    arguments = rec.parse_arguments(__doc__)
    records = rec.Records(arguments.results)
    report = written(records)
    for name, text in (("report.md", report.text()), ("report.html", page.render(report))):
        rec.write(arguments.results / name, text)
    for message in records.damaged:
        print(f"damaged record left out: {message}")
    print(f"{arguments.results / 'report.md'} and report.html")


if __name__ == "__main__":
    main()
