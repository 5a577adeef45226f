"""Log-perplexity against steps: mean and range over seeds, floor of generated text, parameters.

Beside draw.py's use, a program: it redraws an experiment's picture while the run goes on.
"""

import argparse
import itertools
import pathlib
import time

import chart
import curves
import records as rec

# Told apart in grey too: shade, dash and marker all differ.
SHADES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555", "#8c510a",
          "#5e3c99")
DASHES = ("-", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)), (0, (1, 1)))
MARKERS = "o^Dv<>Pxh*"
WIDEST = 24  # letters of a label of which two fit beside each other
FIRST_SHARE = 0.15  # the first steps' fall would flatten everything after it


def millions(count):
    return f"{count / 1e6:.2f} M" if count < 1e8 else f"{count / 1e6:.0f} M"


def draw(records, experiment):
    found = curves.Experiment(records, experiment)
    if not found.rows:
        raise chart.Missing(f"no curves in {experiment}")
    return draw_experiment(found)


def draw_experiment(found):
    looks = zip(SHADES * 9, itertools.cycle(DASHES), itertools.cycle(MARKERS))
    figure, (axes,) = chart.new(3.2 + 0.11 * len(found.rows))
    drawn = {}
    last = 0
    for row in found.rows:
        if row == found.baseline:
            look = chart.DENSE
        else:
            colour, dash, marker = next(looks)
            look = {"color": colour, "linestyle": dash, "marker": marker}
        points = found.points(row)
        if not points:
            continue
        steps = [p[0] for p in points]
        last = max(last, steps[-1])
        drawn[row] = points
        axes.plot(steps, [p[1] for p in points], label=label(found, row),
                  markevery=max(1, len(steps) // 6), markersize=3, **look)
        if len(found.seeds(row)) > 1:
            axes.fill_between(steps, [p[2] for p in points], [p[3] for p in points],
                              color=look["color"], alpha=0.2, linewidth=0)
    if not drawn:
        raise chart.Missing(f"no evaluations yet in {found.name}")
    shown = [v for points in drawn.values() for step, *values in points
             for v in values if step >= FIRST_SHARE * last]
    low, high = min(shown), max(shown)
    floor = found.floor()
    if floor is not None:
        axes.axhline(floor, label="floor of the text", **chart.LIMIT)
        low = min(low, floor)
    margin = 0.05 * max(high - low, 1e-3)
    axes.set_ylim(low - margin, high + margin)
    axes.set_xlim(FIRST_SHARE * last if last > 1 else 0, last * 1.02)
    axes.set_xlabel("training steps")
    axes.set_ylabel("log-perplexity, nats per token")
    handles, labels = axes.get_legend_handles_labels()
    beside = max(map(len, labels)) <= WIDEST
    chart.legend_above(axes, handles, labels, columns=2 if beside else 1)
    return figure


def label(found, row):
    count = found.result(row, "params")
    words = row if row != found.baseline else f"{row} (baseline)"
    if count:
        words += f", {millions(count.value)}"
    seeds = len(found.seeds(row))
    if seeds > 1:
        words += f", {seeds} seeds"
    if not count and found.failures(row):
        return f"{words}, failed"
    return words + (" …" if found.unfinished(row) else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=pathlib.Path, metavar="DIR",
                        help="folder of records; default: the newest under results/local")
    parser.add_argument("--experiment", metavar="NAME",
                        help="which; default: the one written to last")
    parser.add_argument("--every", type=float, metavar="SECONDS",
                        help="redraw until interrupted")
    arguments = parser.parse_args()
    folder = arguments.results or rec.newest_local()
    if folder is None or not folder.is_dir():
        parser.error("no folder of records; name one with --results")
    while True:
        records = rec.Records(folder)
        name = arguments.experiment or curves.newest(records)
        try:
            if name is None:
                raise chart.Missing("no curves yet")
            figure = draw(records, name)
            (folder / "figures").mkdir(exist_ok=True)
            chart.save(figure, folder / "figures" / name)
            print(folder / "figures" / f"{name}.png", flush=True)
        except chart.Missing as missing:
            print(missing, flush=True)
        if not arguments.every:
            return
        time.sleep(arguments.every)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
