"""Draws the curves of a training experiment, again and again while the run goes on."""

import argparse
import contextlib
import pathlib
import time

import chart
import records as rec
from sections.curves import draw


def newest(records):
    """The experiment with curves that was written to last, or None."""
    dated = [
        (r.get("date") or "", name)
        for name in records.experiments()
        if records.about(name).study == "training"
        for r in records.history(name)
    ]
    return max(dated)[1] if dated else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--results",
        type=pathlib.Path,
        metavar="DIR",
        help="folder of records; default: the newest under results/local",
    )
    parser.add_argument(
        "--experiment", metavar="NAME", help="which; default: the one written to last"
    )
    parser.add_argument("--every", type=float, metavar="SECONDS", help="redraw until interrupted")
    arguments = parser.parse_args()
    folder = arguments.results or rec.newest_local()
    if folder is None or not folder.is_dir():
        parser.error("no folder of records; name one with --results")
    while True:
        records = rec.Records(folder)
        name = arguments.experiment or newest(records)
        try:
            if name is None:
                raise chart.Missing("no curves yet")
            figure = draw(records, name)
            chart.save(figure, folder / "figures" / name)
            print(folder / "figures" / f"{name}.png", flush=True)
        except chart.Missing as missing:
            print(missing, flush=True)
        if not arguments.every:
            return
        time.sleep(arguments.every)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
