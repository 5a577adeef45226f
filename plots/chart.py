"""What all figures share: column width, type size, and series told apart without colour."""

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  (the backend is chosen first)
from matplotlib.container import ErrorbarContainer  # noqa: E402
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator  # noqa: E402

WIDTH = 3.4  # inches: one column of a two-column paper

# Hues are safe for the colour-blind; series also differ in marker, dash or hatch, and in grey.
DENSE = {"color": "#444444", "marker": "s", "linestyle": "--"}
SPARSE = {"color": "#0072b2", "marker": "o", "linestyle": "-"}
LIMIT = {"color": "#999999", "linestyle": ":"}
OTHERS = ({"color": "#d55e00", "marker": "^", "linestyle": "-."},
          {"color": "#009e73", "marker": "D", "linestyle": (0, (5, 1, 1, 1, 1, 1))},
          {"color": "#cc79a7", "marker": "v", "linestyle": (0, (3, 1))})
BARS = ({"facecolor": "white", "hatch": "//////"}, {"facecolor": "#0072b2"},
        {"facecolor": "#cccccc", "hatch": "...."}, {"facecolor": "#eeeeee"})

pyplot.rcParams.update({
    "font.size": 8, "axes.labelsize": 8, "axes.titlesize": 8, "xtick.labelsize": 7,
    "ytick.labelsize": 7, "legend.fontsize": 7, "axes.linewidth": 0.6, "lines.linewidth": 1.1,
    "lines.markersize": 4, "hatch.linewidth": 0.5, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "legend.handlelength": 2.6,
    "svg.hashsalt": "scaling", "savefig.dpi": 220,
})


class Missing(Exception):
    """The figure has no data; the text says which."""


def new(height, panels=1, **arguments):
    """(figure, list of axes): panels stacked at column width."""
    figure, axes = pyplot.subplots(panels, 1, figsize=(WIDTH, height), squeeze=False,
                                   constrained_layout=True, **arguments)
    return figure, [row[0] for row in axes]


def save(figure, path):
    """SVG and PNG, without dates, so that the same records give the same files."""
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), metadata={"Software": None})
    pyplot.close(figure)


def style_of(family, index):
    """Dense and sparse look the same in every figure; others in turn."""
    if family in ("dense", "baseline"):
        return DENSE
    if family in ("sparse", "ff_qkv_cross"):
        return SPARSE
    return OTHERS[index % len(OTHERS)]


def pretty(row):
    """FF+QKV+cross of ff_qkv_cross: the row's name as the paper writes such things."""
    words = {"baseline": "dense", "dense": "dense", "ff": "FF", "qkv": "QKV", "sparse": "FF+QKV",
             "cross": "cross", "moe64": "MoE 64", "loss4": "loss"}
    return "+".join(words.get(w, w) for w in row.removesuffix(".bf16").split("_"))


def plain(value, _=None):
    """Tick text without exponents."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def plain_log(axis, ticks=None):
    """A log axis with plain numbers; `ticks`: exactly these."""
    axis.set_major_formatter(FuncFormatter(plain))
    axis.set_minor_formatter(NullFormatter())
    if ticks is not None:
        axis.set_ticks(ticks)
        axis.set_minor_locator(NullLocator())


def error_bars(points):
    return [v.spread for _, v in points]


def legend_above(axes, handles=None, labels=None, columns=2):
    """Legend over the axes, measured series (those with error bars) before the lines."""
    if handles is None:
        handles, labels = axes.get_legend_handles_labels()
        pairs = sorted(zip(handles, labels), key=lambda p: not isinstance(p[0], ErrorbarContainer))
        handles, labels = zip(*pairs)
    axes.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=columns,
                borderaxespad=0.2, columnspacing=1.2)
