"""Memory against depth and batch and step time against depth, plain and reversible stacks.

"stored" is the reversible function with its activations kept.
"""

import chart
import reversibility
from report_tables import scaled

# Seats by shade, stacks by marker and dash.
SHADES = {"dense": "#444444", "sparse": "#0072b2"}
LOOKS = {"plain": {"marker": "s", "linestyle": "--"},
         "stored": {"marker": "x", "linestyle": ":"},
         "reversible": {"marker": "o", "linestyle": "-"}}
PANELS = (("stack_bytes", "decoder_layers", 1e-6, "kept by the stack, MB"),
          ("stack_bytes", "batch", 1e-6, "kept by the stack, MB"),
          ("peak_memory_bytes", "decoder_layers", 1e-6, "peak resident, MB"),
          ("step_ms", "decoder_layers", 1, "training step, ms"))
WORDS = {"decoder_layers": "decoder blocks", "batch": "sequences"}


def draw(records):
    if not reversibility.depths(records):
        raise chart.Missing("no steps in reversibility")
    figure, panels = chart.new(8.6, panels=len(PANELS))
    for axes, (metric, over, factor, words) in zip(panels, PANELS):
        ticks = set()
        for seats, shade in SHADES.items():
            for stack, look in LOOKS.items():
                points = [(x, scaled(v, factor)) for x, v in reversibility.curve(
                    records, f"{seats}_{stack}", metric, over)]
                if not points:
                    continue
                ticks |= {x for x, _ in points}
                chart.curve(axes, points, label=f"{seats}, {stack}", color=shade, **look)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        chart.plain_log(axes.xaxis, sorted(ticks))
        chart.plain_log(axes.yaxis)
        axes.set_ylabel(words)
        axes.set_xlabel(WORDS[over])
    weights = [(x, scaled(v, 1e-6)) for x, v in reversibility.curve(
        records, "dense_plain", "model_bytes", "decoder_layers")]
    panels[2].plot([x for x, _ in weights], [v.value for _, v in weights],
                   label="weights and gradients, dense", **chart.LIMIT)
    panels[2].legend(*panel_legend(panels[2]), loc="upper left")
    panels[3].set_xlabel(f"decoder blocks ({reversibility.threads(records)} threads)")
    chart.legend_above(panels[0])
    return figure


def panel_legend(axes):
    """Only what the panel has beside the shared series."""
    pairs = [(h, label) for h, label in zip(*axes.get_legend_handles_labels())
             if label.startswith("weights")]
    return [h for h, _ in pairs], [label for _, label in pairs]
