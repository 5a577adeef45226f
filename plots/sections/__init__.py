"""What summary, figures and report are made of: one section a study or a part of one."""

from sections import (
    attention,
    attention_decode,
    attention_lengths,
    attention_patterns,
    batch_sweep,
    context_sweep,
    copy_rounds,
    curves,
    decode_paths,
    entmax_package,
    factors,
    frontier,
    glue,
    layers,
    machine,
    number_tasks,
    objectives,
    peers,
    quality,
    rates,
    recall,
    scores,
    shapes,
    sparsefinder,
    stacks,
    tables,
    training_steps,
    width_sweep,
)

# In the report's order, the paper's tables by their numbers before. A new study adds its section here.
SECTIONS = (
    tables.SECTION,
    curves.SECTION,
    quality.SECTION,
    rates.SECTION,
    factors.SECTION,
    copy_rounds.SECTION,
    frontier.SECTION,
    decode_paths.SECTION,
    glue.SECTION,
    number_tasks.SECTION,
    objectives.SECTION,
    scores.SECTION,
    stacks.SECTION,
    attention.SECTION,
    attention_lengths.SECTION,
    attention_decode.SECTION,
    entmax_package.SECTION,
    recall.SECTION,
    attention_patterns.SECTION,
    sparsefinder.SECTION,
    width_sweep.SECTION,
    context_sweep.SECTION,
    batch_sweep.SECTION,
    shapes.SECTION,
    training_steps.SECTION,
    layers.SECTION,
    machine.SECTION,
    peers.SECTION,
)


def of(records):
    """[(section, [its experiments])] of a folder; every section, whether it has some or not."""
    return [(section, records.of(section.owns)) for section in SECTIONS]
