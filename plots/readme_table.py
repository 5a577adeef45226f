"""Writes the headline table of README.md, between its markers, from the published summary.json.

That is of the machine below results/published/ of whose headline the greatest share may be quoted, since nothing is
wrong with it, whatever it says; of equals, of the one with the newest headline sitting; while there is none, of
results/published/. States stand side by side, of a machine with one all threads and one.

With --check nothing is written; the exit status says whether the table is the one it would write.
"""

import argparse
import json
import sys

import headline
import records as rec
from values import of_entry

BEGIN, END = "<!-- headline:begin -->", "<!-- headline:end -->"


def table(summary, link):
    """The headline of a summary, where its report is, and which library's dense block is the fastest."""
    found = {name: of_entry(entry) for name, entry in summary.items()}
    # What stands here is quoted without its marks.
    shown, columns = headline.with_one_thread(headline.without_untrusted(found))
    quoted = headline.quoted("ms") | headline.quoted("speedup")
    commits = sorted(
        {
            commit
            for name, value in shown.items()
            if name.partition("@")[0] in quoted
            for commit in value.commit.split("+")
        }
    )
    lines = headline.table(shown, is_brief=True, columns=columns)
    threads = "threads: all, one" if headline.ONE_THREAD in columns else "all threads"
    said = [headline.of_fewer(shown), headline.whose_dense(found)]
    marks = headline.meaning([*lines, *said])
    said = [
        "Share of roofline: of the speed-up that limits allow; a mark alone: not to be quoted."
        + (f" {marks}." if marks else ""),
        *said,
    ]
    return "\n".join(
        [
            *lines,
            "",
            f"Commit {', '.join(commits)}, {threads}; [all tables]({link}). "
            + " ".join(filter(None, said)),
        ]
    )


def quotable(folder):
    """The share of a folder's headline that nothing is wrong with."""
    path = folder / "summary.json"
    if not path.exists():
        return 0
    summary = json.loads(path.read_text(encoding="utf-8"))
    return headline.share_quotable({name: of_entry(entry) for name, entry in summary.items()})


def published(home=rec.ROOT / "results" / "published"):
    """The folder that the headline is of."""
    newest = {}
    for path in sorted(home.glob("*/sittings/*/sitting.json")):
        if json.loads(path.read_text(encoding="utf-8"))["kind"] == "headline":
            newest[path.parents[2]] = path.parent.name
    return max(newest, key=lambda folder: (quotable(folder), newest[folder]), default=home)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only compare")
    arguments = parser.parse_args()
    source = published() / "summary.json"
    if not source.exists():
        sys.exit(f"{source.relative_to(rec.ROOT)} does not exist; ./run_all.sh --publish makes it")
    readme = rec.ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"README.md must hold {BEGIN} and {END} once each")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    new = (
        before
        + BEGIN
        + "\n"
        + table(
            json.loads(source.read_text(encoding="utf-8")),
            str(published().relative_to(rec.ROOT) / "report.md"),
        )
        + "\n"
        + END
        + after
    )
    if new == text:
        return
    if arguments.check:
        sys.exit(
            f"the headline table of README.md is not that of {source.relative_to(rec.ROOT)}; "
            "run python3 plots/readme_table.py"
        )
    readme.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
