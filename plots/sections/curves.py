"""Training curves on text: log-perplexities, gaps to dense, verdicts and pictures."""

import functools
import itertools
import shlex
import statistics

import chart
import contrasts
import paper
import section
import training_curves
from document import Cell
from report import cell, failed_seeds, header, line
from sections import curve_verdicts
from values import scaled, setting

ENDINGS = ("log_perplexity", "gap", "bits_per_byte", "params")
TRAIN = "./build/release/experiments/perplexity --config experiments/configs/training/{}.cfg"
# What the verdicts on curves mean.
WORDS = (
    "Every claim is one contrast of rows, fixed whatever the results, taken seed by seed, with Student's 95 % interval over "
    "seeds (on one held-out text; *over text*: over stretches of that, with these seeds). *Reproduced*: the interval "
    "lies on the claim's side of 0; *not reproduced*: on the other; *undecided*: neither; *so far*: of fewer than "
    f"{contrasts.FEW} seeds; one seed decides nothing. Nor do rows that were all trained at one learning rate, "
    "which suits some better than others: contrasts of rows at rates of their own are under *Is sparse enough? Contrasts "
    f"by budget*. All claims of a figure count, {contrasts.STRICTER}. "
    "*Close*, *similar*, *slightly* is a loss of at most a quarter of what `iso_read_ff` "
    "loses, the dense feed-forward of as few reads (of Figure 1 where a figure has none, on the same terms); "
    "*grows* is the slope, nats a doubling of N or S; all other contrasts are in nats a token."
)
# Told apart in grey too: shade, dash and marker all differ.
SHADES = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#e69f00",
    "#555555",
    "#8c510a",
    "#5e3c99",
)
DASHES = ("-", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)), (0, (1, 1)))
MARKERS = "o^Dv<>Pxh*"
MOST_PLATEAU = 0.1  # of a row's steps, before it is said
MOST_CURVES = 12  # that a figure can show
FAR_BEHIND = (
    3  # times the span of the middle half of rows, behind which one row would flatten the others
)
WIDEST = 24  # letters of a label of which two fit beside each other
FIRST_SHARE = 0.15  # the first steps' fall would flatten everything after it


def numbers(records, _own):
    """Results and gaps; experts under Figure 1 too, where it has their baseline."""
    known = training_curves.experiments(records)
    found = {}
    for experiment in known.values():
        if not experiment.id.startswith("tiny."):
            found.update(_row_figures(experiment, experiment.rows, experiment.id))
    for size in training_curves.SIZES:
        figure1, experts = (
            training_curves.known_as(known, f"{figure}.{size}") for figure in ("fig1", "moe")
        )
        if figure1 and experts and training_curves.alike(figure1, experts):
            found = {**_row_figures(experts, training_curves.EXPERTS, figure1.id), **found}
    return found


def _row_figures(experiment, rows, prefix):
    found = {}
    for row in rows:
        for ending in ENDINGS:
            value = experiment.gap(row) if ending == "gap" else experiment.result(row, ending)
            if value and not (ending == "gap" and row == experiment.baseline):
                found[f"{prefix}.{row}.{ending}"] = value
    return found


def curve_table(report, experiment):
    """Curves of one training experiment: sizes, log-perplexity, gap, selections, memory, seeds."""
    lines = header(
        "curve",
        "parameters",
        "d_ff, N",
        "log-perplexity, nats/token",
        f"gap to {experiment.baseline}",
        "bits per byte",
        "hard − soft",
        "selection entropy, nats",
        "peak memory, MB",
        "seeds",
    )
    for row in experiment.rows:
        value = experiment.result(row, "log_perplexity")
        if value is None:
            lines.append(line(f"`{row}`", *["–"] * 2, experiment.state(row), *["–"] * 6))
            continue
        record = next(iter(experiment.by_seed(row, "log_perplexity").values()))
        params = experiment.result(row, "params")
        sparsity = (
            f", N {setting(record, 'sparsity')}"
            if setting(record, "feed_forward") == "sparse"
            else ""
        )
        gap_value = None if row == experiment.baseline else experiment.gap(row)
        note = report.note(f"`{row}`: {record['note']}.") if record.get("note") else ""
        note += other_length(report, experiment, row)
        lines.append(
            line(
                f"`{row}`" + note + failed_seeds(report, experiment, row),
                f"{params.value:,.0f}" if params else "–",
                f"{setting(record, 'd_ff', '–')}{sparsity}",
                perplexity(value),
                "–" if gap_value is None else perplexity(gap_value, "+"),
                perplexity(experiment.result(row, "bits_per_byte")),
                perplexity(experiment.result(row, "hard_soft_gap"), "+"),
                cell(report, experiment.result(row, "selection_entropy")),
                cell(report, scaled(experiment.result(row, "peak_memory_bytes"), 1e-6)),
                str(len(experiment.by_seed(row, "log_perplexity"))),
            )
        )
    return lines


def other_length(report, experiment, row):
    """The mark of a row that was not trained as long as the baseline."""
    ours, theirs = (experiment.setting(r, "steps") for r in (row, experiment.baseline))
    return (
        report.note(
            f"`{experiment.name}`, `{row}`: {ours:,} steps, where "
            f"`{experiment.baseline}` has {theirs:,}."
        )
        if ours and theirs and ours != theirs
        else ""
    )


def perplexity(value, sign=""):
    """Four decimals, and the spread over seeds where there are several."""
    if value is None:
        return Cell("–")
    spread = f" (sd {value.sd:.4f})" if value.sd else ""
    return Cell(f"{value.value:{sign}.4f}{spread}", value)


def paper_table(experiment):
    """Log-perplexities beside those that the paper prints for the rows; nothing if it has none."""
    printed = {
        row: found[0][1] for row in experiment.rows if (found := paper.lines(experiment.name, row))
    }
    base = printed.get(experiment.baseline)
    found = []
    for row in experiment.rows:
        value = experiment.result(row, "log_perplexity")
        if value is None or base is None:
            continue
        record = next(iter(experiment.by_seed(row, "log_perplexity").values()))
        theirs = ["–"] * 4
        if row in printed:
            final, dense = (float(r["log_perplexity_nats"]) for r in (printed[row], base))
            theirs = [
                f"{int(printed[row]['train_steps']):,}",
                printed[row]["batch_size_reported"],
                f"{final:.2f}",
                f"{final - dense:+.2f}",
            ]
        gap = None if row == experiment.baseline else experiment.gap(row)
        found.append(
            line(
                f"`{row}`",
                f"{setting(record, 'steps', 0):,}",
                str(setting(record, "batch", "–")),
                perplexity(value),
                perplexity(gap, "+"),
                *theirs,
            )
        )
    names = ("steps", "batch", "log-perplexity", "gap")
    theirs = ("steps", "batch, a device (of 8)", "log-perplexity", "gap")
    return [*header("row", *names, *(f"paper: {name}" for name in theirs)), *found] if found else []


def write(report, own):
    """Verdicts, then a table and a figure an experiment."""
    known = training_curves.experiments(report.records)
    if not known:
        return
    report.add(
        "## Perplexity: is sparse enough?",
        "",
        "Every curve has as many parameters as `dense` within 0.5 %, but `iso_read_ff` and "
        "`iso_read_model`, which read as few weights a token as the sparse model, and rows "
        "whose d_ff was given (`solve=none`). Gaps are in nats per token over "
        "`dense`, seed by seed; sd is the standard deviation over seeds. Sizes are far below "
        "the paper's, so that only orderings compare.",
    )
    lines = curve_verdicts.judged(report.records)
    if lines:
        report.add(WORDS)
        report.verdicts(lines)
    for name, title in ((about.name, about.title) for about in own if about.name in known):
        experiment = known[name]
        report.add(f"### {title}")
        report.add(*curve_table(report, experiment))
        beside = paper_table(experiment)
        if beside:
            report.add(*beside)
        late = late_rows(experiment)
        if late:
            report.add(late)
        report.figure(name)
        report.repeat(command(experiment))


def late_rows(experiment):
    """A sentence about rows whose steps were spent on the plateau more than they should; empty if none were."""
    shares = {row: experiment.result(row, "plateau_share") for row in experiment.rows}
    late = [
        f"`{row}` {value.value:.0%}"
        for row, value in shares.items()
        if value and value.value > MOST_PLATEAU
    ]
    words = "More than a tenth of the steps above the unigram entropy, where a model knows no more than how often tokens come: "
    return words + ", ".join(late) + "." if late else ""


def command(experiment):
    """What trains it, on the text that it was trained on, from the weights that it began with."""
    texts = (corpus_of(experiment, row) for row in experiment.rows)
    starts = dict.fromkeys(
        filter(None, (experiment.setting(row, "init_from") for row in experiment.rows))
    )
    # Every row has weights of its own, which one command for all does not name.
    began = " --init_from CHECKPOINT --rows ROW" if starts else ""
    return TRAIN.format(experiment.name) + next(filter(None, texts), "") + began


def corpus_of(experiment, row):
    """The flags that name the text, if it was not the generated one."""
    for record in experiment.by_seed(row, "log_perplexity").values():
        flags = ""
        for knob, default in (("corpus", "generated"), ("text_key", "text"), ("validation", "")):
            value = setting(record, knob, default)
            if value != default:
                flags += f" --{knob} {shlex.quote(str(value))}"
        if flags:
            return flags
    return ""


def millions(count):
    return f"{count / 1e6:.2f} M" if count < 1e8 else f"{count / 1e6:.0f} M"


def draw(records, experiment):
    found = training_curves.Experiment(records, experiment)
    if not found.rows:
        raise chart.Missing(f"no curves in {experiment}")
    ended = {row: value for row in found.rows if (value := found.result(row, "log_perplexity"))}
    return draw_ends(found, ended) if len(ended) > MOST_CURVES else draw_experiment(found)


def draw_ends(found, ended):
    """Where so many curves end that curves tell nothing: a line a row, the best at the top.

    ended: {row: Value}. Small marks are seeds. A row far behind all others stands at the right edge, with its number.
    """
    rows = sorted(ended, key=lambda row: -ended[row].value)
    figure, (axes,) = chart.new(0.6 + 0.17 * len(rows))
    quarters = statistics.quantiles([value.value for value in ended.values()], n=4)
    farthest = quarters[2] + FAR_BEHIND * (quarters[2] - quarters[0])
    inside = [row for row in rows if ended[row].value <= farthest]
    for place, row in enumerate(rows):
        value, look = ended[row], chart.DENSE if row == found.baseline else chart.SPARSE
        if row not in inside:
            axes.annotate(
                f"{value.value:.2f} →",
                (1, place),
                xycoords=("axes fraction", "data"),
                ha="right",
                va="center",
            )
            continue
        seeds = [r["value"] for r in found.by_seed(row, "log_perplexity").values()]
        axes.plot(seeds, [place] * len(seeds), "|", color=look["color"], markersize=5)
        axes.errorbar(
            value.value,
            place,
            xerr=chart.bars([value]),
            color=look["color"],
            marker=look["marker"],
            markersize=3.5,
        )
    if found.baseline in ended:
        axes.axvline(ended[found.baseline].value, **chart.LIMIT)
    axes.set_yticks(range(len(rows)), [label(found, row) for row in rows])
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_xlabel("log-perplexity, nats per token")
    return figure


def looks():
    """How rows that are no baseline look, one after another."""
    for colour, dash, marker in zip(SHADES * 9, itertools.cycle(DASHES), itertools.cycle(MARKERS)):
        yield {"color": colour, "linestyle": dash, "marker": marker}


def draw_experiment(found):
    other_looks = looks()
    figure, (axes,) = chart.new(3.2 + 0.11 * len(found.rows))
    drawn = {}
    last = 0
    for row in found.rows:
        look = chart.DENSE if row == found.baseline else next(other_looks)
        points = found.points(row)
        if not points:
            continue
        steps = [p[0] for p in points]
        last = max(last, steps[-1])
        drawn[row] = points
        axes.plot(
            steps,
            [p[1] for p in points],
            label=label(found, row),
            markevery=max(1, len(steps) // 6),
            markersize=3,
            **look,
        )
        if len(found.seeds(row)) > 1:
            axes.fill_between(
                steps,
                [p[2] for p in points],
                [p[3] for p in points],
                color=look["color"],
                alpha=0.2,
                linewidth=0,
            )
    if not drawn:
        raise chart.Missing(f"no evaluations yet in {found.name}")
    shown = [
        v
        for points in drawn.values()
        for step, *values in points
        for v in values
        if step >= FIRST_SHARE * last
    ]
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


def figures(_records, own):
    return {about.name: functools.partial(draw, experiment=about.name) for about in own}


SECTION = section.Section(
    owns=section.of("training"), numbers=numbers, figures=figures, write=write
)
