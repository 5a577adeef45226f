"""Writes report.md beside the records: every table, ours beside the paper's and the limits."""

import claims
import goals
import records as rec
import sections
from report import Report, write_head


def write_known(report):
    """What was found out about these records since they were made: notes.md beside them, if any."""
    notes = report.records.folder / "notes.md"
    if notes.exists():
        report.add(notes.read_text(encoding="utf-8").rstrip())


def verdicts(records):
    """[claims.Verdict] at all threads, in the paper's order."""
    found = [
        verdict
        for section, own in sections.of(records)
        for verdict in section.verdicts(records, own)
    ]
    return sorted(found, key=lambda verdict: verdict.place)


def write_claims(report):
    report.add(
        "## What the paper says, and what was found",
        "",
        f"*Reproduced*: at least {claims.CLOSE:.0%} of the paper's factor, or the "
        "stated order; *partly*: a gain, but a smaller one. "
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
    write_known(report)
    write_claims(report)
    goals.write(report)
    for section, own in sections.of(records):
        section.write(report, own)
    if report.notes:
        report.add("## Notes", "", *(f"{i}. {n}" for i, n in enumerate(report.notes, start=1)))
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
