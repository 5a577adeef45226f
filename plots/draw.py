"""Draws every figure of a results folder as SVG and PNG into figures/; says which it skipped."""

import sys

import chart
import records as rec
import sections
import states


def figures(records):
    """{name: function of the records} of all sections."""
    return {
        name: draw
        for section, own in sections.of(records)
        for name, draw in section.figures(records, own).items()
    }


def draw_all(records, drawn):
    """[(name, reason)] of the figures, {name: function}, that could not be drawn.

    Of two states of memory the fast one is drawn, as in the ids without a state.
    """
    records, _ = states.views(records, records.all_threads())[0]
    folder = records.folder / "figures"
    skipped = []
    for name, draw in drawn.items():
        try:
            figure = draw(records)
        except chart.Missing as missing:
            with rec.writing(folder):
                for ending in ("svg", "png"):  # an old picture must not pass for these records
                    (folder / f"{name}.{ending}").unlink(missing_ok=True)
            skipped.append((name, str(missing)))
            continue
        chart.save(figure, folder / name)
    return skipped


def main():
    arguments = rec.parse_arguments(
        __doc__,
        lambda parser: parser.add_argument(
            "--figures",
            nargs="+",
            metavar="NAME",
            help="which to draw, named as the experiments are; default: all",
        ),
    )
    records = rec.Records(arguments.results)
    known = figures(records)
    for name in arguments.figures or ():
        if name not in known:
            sys.exit(
                f"--figures {name}: {records.folder} has no figure of that name; known are "
                + ", ".join(known)
            )
    drawn = {name: known[name] for name in arguments.figures or known}
    skipped = draw_all(records, drawn)
    for name, reason in skipped:
        print(f"skipped {name}: {reason}")
    print(f"{len(drawn) - len(skipped)} figures in {records.folder / 'figures'}")


if __name__ == "__main__":
    main()
