"""What all figures share: column width, type size, and series told apart without colour."""

import functools
import itertools
import math

import records as rec

WIDTH = 3.4  # inches: one column of a two-column paper

# Hues are safe for the colour-blind; series also differ in marker, dash or hatch, and in grey.
DENSE = {"color": "#444444", "marker": "s", "linestyle": "--"}
SPARSE = {"color": "#0072b2", "marker": "o", "linestyle": "-"}
LIMIT = {"color": "#999999", "linestyle": ":"}
OTHERS = (
    {"color": "#d55e00", "marker": "^", "linestyle": "-."},
    {"color": "#009e73", "marker": "D", "linestyle": (0, (5, 1, 1, 1, 1, 1))},
    {"color": "#cc79a7", "marker": "v", "linestyle": (0, (3, 1))},
)
# Of figures with many curves.
HUES = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31")
MARKS = "so^Dv<>pXh*P"
BARS = (
    {"facecolor": "white", "hatch": "//////"},
    {"facecolor": "#0072b2"},
    {"facecolor": "#cccccc", "hatch": "\\\\\\\\"},  # not of dots, which take 250 kB of an SVG
    {"facecolor": "#eeeeee"},
)
# Around a point whose status is not `ok`; at a bar's number stands a star. Their labels begin with
# an underscore, which keeps them out of legends, and are read again for the line below the figure.
RING = {
    "marker": "o",
    "markersize": 8,
    "markerfacecolor": "none",
    "markeredgecolor": "black",
    "markeredgewidth": 0.6,
    "linestyle": "none",
    "zorder": 4,
}

STYLE = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.1,
    "lines.markersize": 4,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.handlelength": 2.6,
    "svg.hashsalt": "scaling",
    "savefig.dpi": 220,
}


class Missing(Exception):
    """The figure has no data; the text says which."""


FEWEST_SEEDS = 3  # whose interval a figure shows: Student's of two hides everything


@functools.cache
def pyplot():
    """Imported when something is drawn: summary and report need no pictures."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as made

    made.rcParams.update(STYLE)
    return made


def new(height, panels=1, **arguments):
    """(figure, list of axes): panels stacked at column width."""
    figure, axes = pyplot().subplots(
        panels, 1, figsize=(WIDTH, height), squeeze=False, constrained_layout=True, **arguments
    )
    return figure, [row[0] for row in axes]


def save(figure, path):
    """SVG and PNG, without dates, so that the same records give the same files."""
    explain_statuses(figure)
    with rec.writing(path):
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
        figure.savefig(path.with_suffix(".png"), metadata={"Software": None})
    pyplot().close(figure)


def curve(axes, points, **look):
    """A line through [(x, Value)] with error bars and a ring around what is not `ok`."""
    values = [v for _, v in points]
    axes.errorbar([x for x, _ in points], [v.value for v in values], bars(values), **look)
    ring(axes, points)


def bars(values):
    """How far the intervals of Values go down and up; nowhere where that is not known or of too few seeds."""

    def half(value, distance):
        is_shown = math.isfinite(distance) and not 0 < value.seeds < FEWEST_SEEDS
        return distance if is_shown else 0

    return [
        [half(v, v.value - v.low) for v in values],
        [half(v, v.high - v.value) for v in values],
    ]


def ring(axes, points):
    """Rings around those of [(x, Value)] that are not `ok`."""
    for x, value in points:
        if value.status != "ok":
            axes.plot(x, value.value, label=f"_ringed {value.status}", **RING)


def star(number, value):
    """A star behind the text of a Value that is not `ok`."""
    if value and value.status != "ok":
        number.set_text(number.get_text() + "*")
        number.set_label(f"_starred (*) {value.status}")


def statuses(figure):
    """What its rings and stars stand for, in words, good before bad; empty if there are none."""
    labels = {str(artist.get_label()) for axes in figure.axes for artist in axes.get_children()}
    found = {
        mark: [status.replace("_", " ") for status in rec.STATUSES if f"_{mark} {status}" in labels]
        for mark in ("ringed", "starred (*)")
    }
    return "; ".join(f"{mark}: {' or '.join(words)}" for mark, words in found.items() if words)


def explain_statuses(figure):
    """One line below the figure, if anything in it is not `ok`."""
    words = statuses(figure)
    if words:
        figure.supxlabel(f"{words}, see the report", fontsize=7)


def style_of(family, index):
    """Dense and sparse look the same in every figure; others in turn."""
    if family in ("dense", "baseline"):
        return DENSE
    if family in ("sparse", "ff_qkv_cross"):
        return SPARSE
    return OTHERS[index % len(OTHERS)]


def one_of_many(index):
    """How the index-th of up to forty series looks: hue by hue, then other marks and dashes."""
    hue, turn = index % len(HUES), index // len(HUES)
    return {
        "color": HUES[hue],
        "marker": MARKS[index % len(MARKS)],
        "linestyle": ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))[turn % 5],
    }


def pretty(row):
    """FF+QKV+cross of ff_qkv_cross: the row's name as the paper writes such things."""
    words = {
        "baseline": "dense",
        "dense": "dense",
        "ff": "FF",
        "qkv": "QKV",
        "sparse": "FF+QKV",
        "cross": "cross",
        "moe64": "MoE 64",
        "loss4": "loss",
    }
    return "+".join(words.get(w, w) for w in row.removesuffix(".bf16").split("_"))


def plain(value, _=None):
    """Tick text without exponents."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def plain_log(axis, ticks=None):
    """A log axis with plain numbers; `ticks`: exactly these."""
    from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

    axis.set_major_formatter(FuncFormatter(plain))
    axis.set_minor_formatter(NullFormatter())
    if ticks is not None:
        axis.set_ticks(ticks)
        axis.set_minor_locator(NullLocator())


def legend_above(axes, handles=None, labels=None, columns=2):
    """Legend over the axes, measured series (those with error bars) before the lines; fewer columns if they are too wide."""
    from matplotlib.container import ErrorbarContainer

    if handles is None:
        handles, labels = axes.get_legend_handles_labels()
        pairs = sorted(zip(handles, labels), key=lambda p: not isinstance(p[0], ErrorbarContainer))
        handles, labels = zip(*pairs)
    for count in range(columns, 0, -1):
        made = axes.legend(
            handles,
            labels,
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncol=count,
            borderaxespad=0.2,
            columnspacing=1.2,
        )
        if made.get_window_extent(renderer(axes)).width <= axes.figure.bbox.width:
            break


def renderer(axes):
    """That tells how large a text is."""
    return axes.figure.canvas.get_renderer()


def label_points(axes, points, size=6):
    """Names beside [(x, y, name)], each where it covers no name, point or text of an axis so far, and a thin line to it
    if that is far.

    To be called when the axes have their scales and limits.
    """
    explain_statuses(axes.figure)  # the line below the figure takes room
    axes.figure.draw_without_rendering()
    half = RING["markersize"] / 2 * axes.figure.dpi / 72
    taken = [_around(axes.transData.transform((x, y)), half) for x, y, _ in points]
    texts = (axis.get_ticklabels() + [axis.label] for axis in (axes.xaxis, axes.yaxis))
    taken += [text.get_window_extent() for text in itertools.chain(*texts) if text.get_text()]
    for x, y, name in points:
        text = axes.annotate(
            name,
            (x, y),
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=size,
            arrowprops={"arrowstyle": "-", "linewidth": 0.3, "color": "#777777", "shrinkB": 2},
        )
        text.set_in_layout(False)  # axes that make room for it would move what was measured
        box, fewest = None, math.inf
        for place in _places():
            side, down = ("left" if place[0] > 0 else "right"), ("bottom", "top")[place[1] < 0]
            text.set(position=place, horizontalalignment=side, verticalalignment=down)
            here = extent(text)
            covered = sum(here.overlaps(other) for other in taken)
            covered += 2 * (not _holds(axes.figure.bbox, here))
            if covered < fewest:
                box, fewest, best = here, covered, (place, side, down)
            if not covered:
                break
        place, side, down = best
        text.set(position=place, horizontalalignment=side, verticalalignment=down)
        text.arrow_patch.set_visible(math.hypot(*place) > 8)
        taken.append(box)


def extent(annotation):
    """Of its text alone, not of its line."""
    from matplotlib.text import Text

    of_canvas = annotation.figure.canvas.get_renderer()
    annotation.update_positions(of_canvas)
    return Text.get_window_extent(annotation, of_canvas)


def _places():
    """Offsets of a name from its point, in points, the nearest first."""
    for far in (4, 9, 14, 20, 27, 35, 45):
        for across, up in ((1, 0.7), (1, -0.7), (-1, 0.7), (-1, -0.7), (0.3, 1), (0.3, -1)):
            yield far * across, far * up


def _around(place, half):
    from matplotlib.transforms import Bbox

    return Bbox.from_extents(*(v - half for v in place), *(v + half for v in place))


def _holds(outer, inner):
    return (
        outer.x0 <= inner.x0
        and inner.x1 <= outer.x1
        and outer.y0 <= inner.y0 <= inner.y1 <= outer.y1
    )
