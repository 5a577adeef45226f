"""Decodes as llama-bench writes its results, so that llama.cpp's compare-llama-bench.py reads them (JSON lines).

A line is one row of a table at one number of threads in one sitting, as a test "tg1": a token generated after n_depth
cached ones. samples_ns are its decodes, each the median of its timed tokens; where a record holds no decodes, avg_ns is
their median and stddev_ns what their quartiles would be of a normal distribution. avg_ts counts the tokens of all sequences
(n_batch) that are decoded at once. What this project has no notion of holds llama-bench's value of a run on the processor.
"""

import statistics

import evidence
import states
from values import setting

QUARTILE = 0.6745  # standard deviations from the middle of a normal distribution
BYTES = {"f32": 4, "bf16": 2}


def rows(records):
    """[{field: value}] of every record of a token's time."""
    found = []
    for experiment, row, threads in records.places():
        parameters = records.get(experiment, row, threads, "parameters")
        for record in records.sittings_of(experiment, row, threads, states.CLOSING):
            found.append(_entry(record, int(parameters["value"]) if parameters else 0))
    return found


def _entry(record, parameters):
    batch = int(setting(record, "batch", 1))
    times = [
        1e6 * decode.values[states.CLOSING]
        for decode in evidence.decodes_of(record)
        if decode.values["kept"]
    ]
    if len(times) > 1:
        rates = [1e9 * batch / time for time in times]
        time, time_sd = statistics.fmean(times), statistics.stdev(times)
        rate, rate_sd = statistics.fmean(rates), statistics.stdev(rates)
    else:
        time, time_sd = 1e6 * record["value"], 1e6 * (record.get("spread") or 0) / QUARTILE
        rate, rate_sd = 1e9 * batch / time, 1e9 * batch / time * time_sd / time
        rates = [1e9 * batch / time for time in times]
    name = f"{record['experiment']} {record['row']}"
    pinned = bool(setting(record, "pin", False))
    return {
        "build_commit": record.get("commit") or "unknown",
        "build_number": 0,
        "cpu_info": record.get("cpu") or "unknown",
        "gpu_info": "",
        "backends": setting(record, "kernels", "CPU"),
        "model_filename": name.replace(" ", "/"),
        "model_type": name,
        "model_size": parameters * BYTES.get(setting(record, "weight_type", "f32"), 4),
        "model_n_params": parameters,
        "n_batch": batch,
        "n_ubatch": batch,
        "n_threads": record["threads"],
        "cpu_mask": "0x0",
        "cpu_strict": pinned,
        "poll": 0,
        "type_k": "f32",
        "type_v": "f32",
        "n_gpu_layers": 0,
        "n_cpu_moe": 0,
        "split_mode": "none",
        "main_gpu": 0,
        "no_kv_offload": False,
        "flash_attn": 0,
        "devices": "none",
        "tensor_split": "0.00",
        "tensor_buft_overrides": "none",
        "use_mmap": False,
        "load_mode": "none",
        "embeddings": False,
        "no_op_offload": 0,
        "no_host": False,
        "fit_target": 0,
        "fit_min_ctx": 0,
        "n_prompt": 0,
        "n_gen": 1,
        "n_depth": int(setting(record, "context", 0)),
        "test_time": record.get("date") or "",
        "avg_ns": round(time),
        "stddev_ns": round(time_sd),
        "avg_ts": rate,
        "stddev_ts": rate_sd,
        "samples_ns": [round(time) for time in times],
        "samples_ts": rates,
        "status": record["status"],  # ours: that script leaves it out
    }
