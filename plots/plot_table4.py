"""Table 4: accuracy of every seed on longer numbers, one model beside the other, and by length."""

import chart
import table4
from report_tables import scaled

LABELS = {"transformer": "Trans-\nformer", "terraformer": "Terra-\nformer",
          "no_reversible": "without\nreversible", "no_second_attention": "without 2nd\nattention",
          "no_sru": "without\nSRU"}
LOOKS = {"copy": {"color": "#0072b2", "marker": "o"},
         "addition": {"color": "#d55e00", "marker": "^"}}
APART = 0.18  # of a model's two tasks, in models
LINES = {"transformer": chart.DENSE, "terraformer": chart.SPARSE,
         **dict(zip(table4.PARTS, chart.OTHERS))}


def draw(records, experiment="table4_reduced"):
    found = table4.experiments(records).get(experiment)
    models = [m for m in LABELS if found and any(
        table4.seeds(found, f"{m}.{task}", "token_accuracy") for task in LOOKS)]
    if not models:
        raise chart.Missing(f"no finished curves in {experiment}")
    figure, panels = chart.new(3.6, panels=len(table4.METRICS), sharex=True)
    for axes, ending in zip(panels, table4.METRICS):
        for side, (task, look) in zip((-1, 1), LOOKS.items()):
            for place, model in enumerate(models):
                row, x = f"{model}.{task}", place + side * APART
                values = [100 * r["value"] for r in table4.seeds(found, row, ending)]
                if not values:
                    continue
                axes.plot([x] * len(values), values, linestyle="", markersize=4,
                          markerfacecolor="none", **look)
                middle = 100 * table4.median(found, row, ending).value
                axes.plot([x - 0.8 * APART, x + 0.8 * APART], [middle] * 2, color=look["color"])
        axes.set_ylim(-4, 104)
        axes.set_ylabel(f"{ending.split('_')[0]}s right, %")
    for task, look in LOOKS.items():
        panels[0].plot([], [], linestyle="", markerfacecolor="none", label=task, **look)
    chart.legend_above(panels[0], *panels[0].get_legend_handles_labels())
    panels[-1].set_xticks(range(len(models)), [LABELS[m] for m in models])
    panels[-1].set_xlim(-0.5, len(models) - 0.5)
    return figure


def draw_lengths(records, experiment="table4_reduced"):
    """Tokens right over the length of the numbers, a panel a task; trained lengths are shaded."""
    found = table4.experiments(records).get(experiment)
    points = {(task, model): table4.by_digits(found, f"{model}.{task}", "token_accuracy")
              for task in table4.TASKS for model in LINES} if found else {}
    tasks = [task for task in table4.TASKS if any(points.get((task, m)) for m in LINES)]
    if not tasks:
        raise chart.Missing(f"no accuracies by length in {experiment}")
    figure, panels = chart.new(1.9 * len(tasks) + 0.6, panels=len(tasks), sharex=True)
    for axes, task in zip(panels, tasks):
        for model, look in LINES.items():
            if points[task, model]:
                chart.curve(axes, [(x, scaled(v, 100)) for x, v in points[task, model]],
                            label=LABELS[model].replace("-\n", "").replace("\n", " "), **look)
        axes.set_ylim(-4, 104)
        axes.set_ylabel(f"{task}, tokens right, %")
        trained = next(digits for model in LINES
                       if (digits := found.setting(f"{model}.{task}", "digits_max")))
        if trained:
            axes.axvspan(0, trained, color="#eeeeee", zorder=0)
            axes.text(trained / 2, 2, "trained", ha="center", va="bottom", fontsize=7)
    axes.set_xlim(0)
    axes.set_xlabel("digits of an example, at most")
    chart.legend_above(panels[0])
    return figure
