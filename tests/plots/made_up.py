"""Made-up records that several tests share: rows of tables, sweeps, stacks."""

# What every made-up record says that a test does not care about.
MEASURED = {
    "threads": 2,
    "unit": "ms",
    "spread": 0.0,
    "status": "ok",
    "note": "",
    "commit": "c1",
    "dirty": False,
    "cpu": "a processor",
    "cores": 2,
    "date": "2026-01-01T00:00:00Z",
}


def record(experiment, row, metric, value, threads=2, status="ok", against="baseline", **more):
    config = {"shape": "800m", "weight_type": "f32", **more.pop("config", {})}
    return {
        **MEASURED,
        "experiment": experiment,
        "row": row,
        "against": against,
        "threads": threads,
        "metric": metric,
        "value": value,
        "status": status,
        "config": config,
        **more,
    }


def row(experiment, name, token, block, weights, floor, **more):
    """The records of one row; tokens read and cost at least ten times a block."""
    numbers = {
        "token_ms": token,
        "block_ms": block,
        "block_weights_read": weights,
        "token_weights_read": 10 * weights,
        "block_floor_ms": floor,
        "token_floor_ms": 10 * floor,
    }
    return [record(experiment, name, metric, value, **more) for metric, value in numbers.items()]


TABLE1 = row("table1_800m", "baseline", 40.0, 4.0, 100, 3.6) + row(
    "table1_800m", "ff_qkv", 10.0, 0.8, 20, 0.6, config={"feed_forward": "sparse"}
)


def ceilings(read, fma=300.0):
    return {"ceilings": {"read_gbps": read, "fma_gflops": fma}}


def swept(experiment, family, letter, knob, points, **more):
    """Records of a sweep's rows, points = {setting: {metric: value}}."""
    return [
        record(
            experiment,
            f"{family}_{letter}{x}",
            metric,
            value,
            against=f"dense_{letter}{x}",
            config={knob: x, **more.get("config", {})},
            **{k: v for k, v in more.items() if k != "config"},
        )
        for x, metrics in points.items()
        for metric, value in metrics.items()
    ]


def marked(items, status, **which):
    """The same records, those of `which` fields with another status."""
    return [
        dict(r, status=status) if all(r[k] == v for k, v in which.items()) else r for r in items
    ]


TERRAFORMER = {"shape": "17b", "residual_stack": "reversible", "attention_layers": 2}


TABLE6 = (
    row("table6_17b", "dense", 400.0, 60.0, 1000, 54.0, against="dense", config=TERRAFORMER)
    + row("table6_17b", "ff_qkv", 40.0, 2.0, 20, 1.8, against="dense", config=TERRAFORMER)
    + row("table6_17b", "ff_qkv_loss4", 20.0, 2.0, 10, 1.8, against="dense", config=TERRAFORMER)
)


def stack(family, depth, batch, **metrics):
    """Records of one point of the reversibility experiment."""
    return [
        record(
            "reversibility",
            f"{family}_d{depth}_b{batch}",
            metric,
            value,
            config={"decoder_layers": depth, "batch": batch},
        )
        for metric, value in metrics.items()
    ]


STACKS = (
    [
        r
        for depth, kept in ((2, 40.0), (8, 160.0), (24, 480.0))
        for r in stack("dense_plain", depth, 4, stack_bytes=kept, step_ms=10.0 * depth)
        + stack("dense_reversible", depth, 4, stack_bytes=30.0 + depth / 24, step_ms=13.0 * depth)
    ]
    + stack("dense_plain", 6, 1, stack_bytes=30.0, step_ms=15.0)
    + stack("dense_plain", 6, 4, stack_bytes=120.0, step_ms=60.0)
    + stack("replay_ff", 2, 4, gradient_error=1e-6, reconstruction_error=1e-5)
    + stack("recompute_ff", 2, 4, gradient_error=1e-2, reconstruction_error=1e-5)
)

TABLE2 = (
    [dict(r, experiment="table2") for r in TABLE1 if r["row"] == "baseline"]
    + row("table2", "n64", 20.0, 2.0, 50, 1.8, config={"feed_forward": "sparse", "sparsity": 64})
    + row(
        "table2", "dense_relu_skip", 4.0, 0.4, 75, 2.7, config={"feed_forward": "dense_relu_skip"}
    )
    + [
        record("table2", name, metric, value)
        for name, values in (
            ("baseline", (772050176, 4e9, 4e8, 4096)),
            ("n64", (787778816, 2e9, 2e8, 64)),
            ("dense_relu_skip", (772050176, 3e9, 3e8, 4000)),
        )
        for metric, value in zip(
            ("parameters", "token_bytes", "block_bytes", "rows_touched"), values
        )
    ]
)
