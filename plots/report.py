"""The report: Markdown, its cells and what all its tables share; a missing number is a gap with its note."""

import copy
import math

import records as rec
from values import of_record, setting

MEANING = {
    "scaled_down": "Scaled down: fewer distinct decoder blocks in memory than the model has; their "
    "mean stands for all.",
    "extrapolated": "Extrapolated: a full token put together as layers × block + rest.",
    "untrusted": "Untrusted: faster than the machine's measured limit allows, or uncertain by more "
    "than 5 %, or of fewer than six rounds; of records without decodes: a ratio of times between "
    "which memory's read rate differed by more than 10 %.",
}
OPTIONAL = ("as the system tells it", "sittings")
NATIVE = {True: "for this machine's instruction set", False: "portable, chosen at run time"}


class Report:
    """Markdown; notes stand at the end of the section that calls them, numbered in that order."""

    def __init__(self, records):
        self.records, self.lines, self.notes = records, [], []

    def of(self, view):
        """The same report, of records in one state."""
        same = copy.copy(self)
        same.records = view
        return same

    def add(self, *lines):
        if lines and lines[0].startswith("## "):
            self.end_section()
        self.lines += [*lines, ""]

    def end_section(self):
        """The notes called since the last section ended, in place."""
        notes, self.notes = self.notes, []
        if notes:
            self.add("Notes:", "", *(f"{i}. {n}" for i, n in enumerate(notes, start=1)))

    def note(self, text):
        """The mark of a note of this section: "[1]"."""
        if text not in self.notes:
            self.notes.append(text)
        return f"[{self.notes.index(text) + 1}]"

    def figure(self, name):
        if (self.records.folder / "figures" / f"{name}.png").exists():
            self.add(f"[![{name}](figures/{name}.png)](figures/{name}.svg)")

    def repeat(self, command):
        self.add(f"Repeat: `{command}`")

    def verdicts(self, verdicts):
        """A table of anything with claim, verdict and evidence."""
        if verdicts:
            self.add(
                "| claim | verdict | numbers |",
                "|---|---|---|",
                *(f"| {v.claim} | **{v.verdict}** | {v.evidence} |" for v in verdicts),
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
        return "–"
    decimals = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(decimals, 0)}f}{unit}"


def cell(report, value, unit="", interval=False):
    """A derived number with its status as a note; a gap if there is none."""
    if value is None:
        return "–"
    text = number(value.value, unit) + (interval_text(value) if interval else "")
    return text + (report.note(MEANING[value.status]) if value.status in MEANING else "")


def interval_text(value):
    """[1.02, 1.09]: the ends of the 95 % interval; empty where nothing varied."""
    if value.high - value.low <= 1e-6 * abs(value.value):
        return ""
    if not math.isfinite(value.high - value.low):
        return " [–]"
    # As many digits as tell the ends from the number.
    digits = max(3, 1 + math.ceil(-math.log10((value.high - value.low) / abs(value.value))))
    return f" [{number(value.low, digits=min(digits, 5))}, {number(value.high, digits=min(digits, 5))}]"


def header(*names):
    return ["| " + " | ".join(names) + " |", "|---" + "|---:" * (len(names) - 1) + "|"]


def line(*cells):
    return "| " + " | ".join(cells) + " |"


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
    return "gap " + report.note(f"`{experiment}`, `{row}`, {threads} threads: {reason}.")


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


def described(machine):
    """machine.json in words; empty if there is none."""
    if not machine:
        return ""
    caches = ", ".join(machine["l3_shared_by"])
    return (
        f"{machine['cpu']} (family-model-stepping {machine['family_model_stepping']}), "
        f"{'virtual' if machine['virtual'] else 'no virtual machine'}, processors "
        f"{', '.join(map(str, machine['processors']))}, last-level cache {machine['l3_bytes'] / 2**20:g} MiB "
        f"(said to be shared by {caches}), {machine['memory_bytes'] / 2**30:.0f} GiB of memory, huge pages "
        f"{machine['huge_pages'] or 'not told'}, Linux {machine['kernel']}"
    )


def write_head(report):
    records = report.records
    everything = records.all()
    report.add(
        "# Decode time and perplexity: the paper's tables and curves on this machine",
        "",
        "Generated by `plots/make_report.py` from the records beside it; do not edit.",
    )

    study = {name: records.about(name).study for name in records.experiments()}
    learned = [r for r in everything if study[r["experiment"]] == "training"]
    timed = [r for r in everything if study[r["experiment"]] != "training"]

    def distinct(field, among=tuple(everything)):
        return sorted({str(r[field]) for r in among if r.get(field) not in (None, "")})

    def machines(among):
        return "; ".join(
            f"{c}, {n} cores" for c in distinct("cpu", among) for n in distinct("cores", among)
        )

    ours = [r for r in everything if study[r["experiment"]] != "peers"]
    builds = sorted(
        {
            f"{r.get('compiler')}, {r.get('flags')}, {NATIVE[bool(r.get('native'))]}"
            for r in ours
            if r.get("compiler")
        }
    )

    commits = sorted({of_record(r).commit for r in everything})
    protocols = sorted({p for r in everything if (p := setting(r, "protocol"))})
    dates = distinct("date")
    if any(map(rec.is_quick, everything)):
        protocols.append("partly --quick, with few samples")
    facts = [
        ("machine", machines(timed or everything)),
        ("as the system tells it", described(records.machine)),
        (
            "sittings",
            ", ".join(f"{s.name} ({s.kind}, {s.minutes:g} min)" for s in records.sittings),
        ),
        ("build", "; ".join(builds)),
        ("commit", ", ".join(commits)),
        ("measured", f"{dates[0]} to {dates[-1]}" if dates else ""),
        ("protocol", "; ".join(protocols)),
    ]
    if timed and len(distinct("cpu")) > len(distinct("cpu", timed)):
        facts.insert(1, ("curves trained on", machines(learned)))
    report.add(
        "| | |",
        "|---|---|",
        *(
            f"| {name} | {text or 'not recorded'} |"
            for name, text in facts
            if text or name not in OPTIONAL
        ),
    )
    if len(commits) > 1:
        report.add("Not all records come from one commit.")
    if len(distinct("cpu", timed)) > 1:
        report.add("**Records of several machines lie in one folder: do not compare them.**")
