"""Writes report.md beside the records: every table, ours beside the paper's and the limits."""

import claims
import goals
import headline
import records as rec
import sections
import states
import summarise
from report import Report, write_head


def write_known(report):
    """What was found out about these records since they were made: notes.md beside them, if any."""
    notes = report.records.folder / "notes.md"
    if notes.exists():
        report.add(notes.read_text(encoding="utf-8").rstrip())


def write_headline(report):
    """The first screen: what was measured where is above it, what it comes to below."""
    found = summarise.summary(report.records)
    lines = headline.table(found)
    if lines:
        report.add("## Headline", "", *lines)
        said = headline.sentences(found)
        if said:
            report.add(*(f"- {sentence}" for sentence in said))


def verdicts(records):
    """[claims.Verdict] at all threads, in the paper's order."""
    view, _ = states.views(records, records.all_threads())[0]
    found = [
        verdict for section, own in sections.of(records) for verdict in section.verdicts(view, own)
    ]
    return sorted(found, key=lambda verdict: verdict.place)


def write_claims(report):
    report.add(
        "## What the paper says, and what was found",
        "",
        f"*Reproduced*: the lower end of the interval reaches {claims.CLOSE:.0%} of the paper's "
        f"factor, or the order is the stated one; *exceeded*: it is above {claims.FAR:g} × the factor; "
        "*partly*: the lower end is above 1. "
        f"At {report.records.all_threads()} threads.",
    )
    found = verdicts(report.records)
    report.verdicts([v for v in found if v.verdict != claims.NOT_MEASURED])
    report.not_measured(
        [v.command for v in found if v.verdict == claims.NOT_MEASURED], ("claim", "claims")
    )


def make(records):
    report = Report(records)
    write_head(report)
    write_headline(report)
    write_known(report)
    write_claims(report)
    if records.is_published:
        goals.write(report)
    for section, own in sections.of(records):
        section.write(report, own)
    report.end_section()
    if records.damaged:
        report.add("## Unreadable records, left out", "", *(f"- {d}" for d in records.damaged))
    return report.text()


def main():
    arguments = rec.parse_arguments(__doc__)
    records = rec.Records(arguments.results)
    path = arguments.results / "report.md"
    path.write_text(make(records), encoding="utf-8")
    for message in records.damaged:
        print(f"damaged record left out: {message}")
    print(path)


if __name__ == "__main__":
    main()
