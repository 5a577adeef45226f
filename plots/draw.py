"""Draws every figure of a results folder as SVG and PNG into figures/; says which it skipped."""

import functools
import sys

import chart
import curves
import plot_batch_sweep
import plot_context_sweep
import plot_curves
import plot_long_sequence
import plot_reversibility
import plot_roofline
import plot_table1
import plot_table2
import plot_table4
import plot_width_sweep
import records as rec
import table4

FIXED = {
    **{name: functools.partial(plot_table1.draw, experiment=name)
       for name in ("table1_800m", "table1_800m_bf16", "table1_17b", "table1_17b_bf16",
                    "table6_17b", "table6_17b_bf16", "table8", "table8_bf16")},
    "table2": plot_table2.draw,
    "width_sweep": plot_width_sweep.draw,
    "context_sweep": plot_context_sweep.draw,
    "batch_sweep": plot_batch_sweep.draw,
    "reversibility": plot_reversibility.draw,
    "long_sequence": plot_long_sequence.draw,
    "roofline": plot_roofline.draw,
}


def figures(records):
    """{name: function of the records}: the fixed ones, and one for every experiment with curves."""
    found = dict(FIXED)
    for name in table4.experiments(records):
        found[name] = functools.partial(plot_table4.draw, experiment=name)
        found[f"{name}_lengths"] = functools.partial(plot_table4.draw_lengths, experiment=name)
    for name in curves.experiments(records):
        found[name] = functools.partial(plot_curves.draw, experiment=name)
    return found


def draw_all(records, drawn):
    """[(name, reason)] of the figures, {name: function}, that could not be drawn."""
    folder = records.folder / "figures"
    folder.mkdir(exist_ok=True)
    skipped = []
    for name, draw in drawn.items():
        try:
            figure = draw(records)
        except chart.Missing as missing:
            for ending in ("svg", "png"):  # an old picture must not pass for these records
                (folder / f"{name}.{ending}").unlink(missing_ok=True)
            skipped.append((name, str(missing)))
            continue
        chart.save(figure, folder / name)
    return skipped


def main():
    arguments = rec.parse_arguments(__doc__, lambda parser: parser.add_argument(
        "--figures", nargs="+", metavar="NAME", help="which to draw, default all: "
        + ", ".join(FIXED) + ", and any experiment that has curves"))
    records = rec.Records(arguments.results)
    known = figures(records)
    for name in arguments.figures or ():
        if name not in known:
            sys.exit(f"--figures {name}: {records.folder} has no curves of that name; known are "
                     + ", ".join(known))
    drawn = {name: known[name] for name in arguments.figures or known}
    skipped = draw_all(records, drawn)
    for name, reason in skipped:
        print(f"skipped {name}: {reason}")
    print(f"{len(drawn) - len(skipped)} figures in {records.folder / 'figures'}")


if __name__ == "__main__":
    main()
