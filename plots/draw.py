"""Draws every figure of a results folder as SVG and PNG into figures/; says which it skipped."""

import functools

import chart
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

FIGURES = {
    **{name: functools.partial(plot_table1.draw, experiment=name)
       for name in ("table1_800m", "table1_800m_bf16", "table1_17b", "table1_17b_bf16",
                    "table6_17b", "table6_17b_bf16", "table8", "table8_bf16")},
    "table2": plot_table2.draw,
    "width_sweep": plot_width_sweep.draw,
    "context_sweep": plot_context_sweep.draw,
    "batch_sweep": plot_batch_sweep.draw,
    "reversibility": plot_reversibility.draw,
    "long_sequence": plot_long_sequence.draw,
    **{name: functools.partial(plot_table4.draw, experiment=name)
       for name in ("table4_reduced", "table4")},
    "roofline": plot_roofline.draw,
    **{name: functools.partial(plot_curves.draw, experiment=name)
       for name in ("fig1_mini", "fig1_small", "fig3_mini", "fig3_small", "fig5_mini",
                    "fig5_small", "fig7_mini", "fig7_small", "moe_mini", "moe_small", "c4_small",
                    "hour", "table8_mini", "table8_small")},
}


def draw_all(records, names):
    """[(name, reason)] of figures that could not be drawn."""
    folder = records.folder / "figures"
    folder.mkdir(exist_ok=True)
    skipped = []
    for name in names:
        try:
            figure = FIGURES[name](records)
        except chart.Missing as missing:
            for ending in ("svg", "png"):  # an old picture must not pass for these records
                (folder / f"{name}.{ending}").unlink(missing_ok=True)
            skipped.append((name, str(missing)))
            continue
        chart.save(figure, folder / name)
    return skipped


def main():
    arguments = rec.parse_arguments(__doc__, lambda parser: parser.add_argument(
        "--figures", nargs="+", choices=FIGURES, default=list(FIGURES), metavar="NAME",
        help="which to draw: " + ", ".join(FIGURES)))
    records = rec.Records(arguments.results)
    skipped = draw_all(records, arguments.figures)
    for name, reason in skipped:
        print(f"skipped {name}: {reason}")
    print(f"{len(arguments.figures) - len(skipped)} figures in {records.folder / 'figures'}")


if __name__ == "__main__":
    main()
