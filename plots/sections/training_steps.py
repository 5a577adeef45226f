"""Speed of training: our step beside other frameworks', and the one source of its utilisation."""

import training_curves
from report import cell, header, line, number, sizes
from section import Section, of
from values import measured as value_of
from values import ratio, scaled, setting

EXPERIMENT = "peers_training"
OF_ROWS = "step_cost"
NAMES = {"ours": "ours", "pytorch": "PyTorch", "pytorch_1_13": "PyTorch 1.13"}
METRICS = ("mfu", "tokens_per_s")


def threads_of(records, experiment=EXPERIMENT):
    """The most threads that the experiment was measured with."""
    return max((r["threads"] for r in records.history(experiment)), default=0)


def measured(records, row, metric, experiment=EXPERIMENT):
    return value_of(records, experiment, row, threads_of(records, experiment), metric)


def over_twins(records):
    """{(row, twin): Value}: a row's step over its twin's, the median of rounds."""
    prefix = "over_"
    pairs = {
        (r["row"], r["metric"].removeprefix(prefix))
        for r in records.history(OF_ROWS)
        if r["metric"].startswith(prefix)
    }
    found = {
        (row, twin): measured(records, row, prefix + twin, OF_ROWS) for row, twin in sorted(pairs)
    }
    return {pair: value for pair, value in found.items() if value}


def ratios(records):
    """{row: Value}: a framework's step over ours."""
    ours = measured(records, "ours", "step_seconds")
    found = {
        row: ratio(measured(records, row, "step_seconds"), ours)
        for row in records.rows(EXPERIMENT)
        if row != "ours"
    }
    return {row: value for row, value in found.items() if value}


def dense_curve(records):
    """The experiment whose dense curve stands for training speed: `small` before `mini`."""
    known = training_curves.experiments(records)
    for size in training_curves.SIZES:
        for experiment in known.values():
            if experiment.id.endswith(f".{size}") and experiment.result(experiment.baseline, "mfu"):
                return experiment
    return None


def own(records):
    """({metric: Value}, words) of our dense step: timed among the peers, else by its curve."""
    found = {m: value for m in METRICS if (value := measured(records, "ours", m))}
    if found:
        return found, "timed in turn with the other frameworks"
    experiment = dense_curve(records)
    if experiment is None:
        return {}, ""
    row = experiment.baseline
    found = {m: value for m in METRICS if (value := experiment.result(row, m))}
    return found, f"while training `{row}` of {experiment.id}"


def numbers(records, _own):
    experiment = None if measured(records, "ours", "mfu") else dense_curve(records)
    mini = bool(experiment) and experiment.id.endswith(".mini")
    prefix = "train.mini." if mini else "train."  # the plain ids are those of `small`
    return (
        {f"{prefix}{name}": value for name, value in own(records)[0].items()}
        | {f"train.vs_{row}": value for row, value in ratios(records).items()}
        | {f"train.{row}.over_{twin}": value for (row, twin), value in over_twins(records).items()}
    )


def table(report):
    """One line a framework: a step, its ratio to ours, and what was used."""
    records = report.records
    lines = header("training step", "ms", "theirs / ours", "tokens/s", "with")
    over = ratios(records)
    for row in sorted(records.rows(EXPERIMENT), key=lambda row: row != "ours"):
        step = measured(records, row, "step_seconds")
        if step is None:
            continue
        record = records.get(EXPERIMENT, row, threads_of(records), "step_seconds")
        tokens = setting(record, "batch", 0) * setting(record, "length", 0)
        lines.append(
            line(
                NAMES.get(row, row),
                cell(report, scaled(step, 1e3), interval=True),
                cell(report, over.get(row), "×"),
                number(tokens / step.value if tokens else None),
                record.get("note") or "–",
            )
        )
    return lines


def table_of_rows(report):
    """One line a row and its twin."""
    records = report.records
    lines = header("row", "step, ms", "twin", "its step, ms", "row / twin")
    for (row, twin), over in over_twins(records).items():
        steps = [
            cell(report, scaled(measured(records, name, "step_seconds", OF_ROWS), 1e3))
            for name in (row, twin)
        ]
        of_twin = cell(report, over, "×", interval=True)
        lines.append(line(f"`{row}`", steps[0], f"`{twin}`", steps[1], of_twin))
    return lines


def setting_words(records, experiment=EXPERIMENT):
    """blocks 3, d_model 128, ...; of rows of one experiment what they have in common."""
    record = next(
        (r for r in reversed(records.history(experiment)) if r["metric"] == "step_seconds"), {}
    )
    return sizes(
        record,
        ("blocks", "layers"),
        ("d_model", "d_model"),
        *([("d_ff", "d_ff")] if experiment == EXPERIMENT else []),
        ("heads", "n_heads"),
        ("vocabulary", "vocab_size"),
        ("batch", "batch"),
        ("positions", "length"),
    )


def write(report, _own):
    """Nothing if nothing was trained."""
    records = report.records
    found, source = own(records)
    steps = records.rows(EXPERIMENT)
    rows = over_twins(records)
    if not found and not steps and not rows:
        return
    report.add("## Training steps")
    if steps:
        report.add(
            f"A step of the dense decoder-only model ({setting_words(records)}) at "
            f"{threads_of(records)} threads. Every framework in a process of its own, in "
            "turn, in random order; medians of rounds, in brackets their 95 % interval."
        )
        report.add(*table(report))
    if "mfu" in found:
        words = (
            f"Our dense step, {source}: {found['mfu'].value:.0%} of the best linked "
            "library's large product in the same process"
        )
        rate = found.get("tokens_per_s")
        report.add(words + (f", {rate.value:,.0f} tokens/s." if rate else "."))
    if steps:
        report.repeat(
            "python3 experiments/peers/compare_training.py --results DIR "
            "--python pytorch=build/peers/bin/python "
            "--python pytorch_1_13=/usr/bin/python3"
        )
    if rows:
        report.add(
            f"A step of sparse rows beside their dense twins' ({setting_words(records, OF_ROWS)}), equal parameters, "
            f"{threads_of(records, OF_ROWS)} threads: means of steps, since calls that select hard compute chosen "
            "neurons alone and cost less than soft ones; a process of its own each, in turn, in random order; ratios "
            "are medians of rounds, in brackets their 95 % interval."
        )
        report.add(*table_of_rows(report))
        report.repeat(
            "python3 experiments/peers/compare_training.py --results DIR "
            "--config experiments/configs/training/fig1_16m.cfg "
            "--over ff_n16=dense --over ff_qkv=qkv_mult_conv --steps 60"
        )


SECTION = Section(owns=of("peers", "training"), numbers=numbers, write=write)
