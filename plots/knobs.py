"""Knobs of models and training as records have them: which ones a choice reads, and what older records lack."""

import re

_SELECTION = ("selection_noise", "hard_probability", "selection_balance", "selection_entropy")
_MODULES = ("modules", "kernel_size", "tap_scaling")
_SPARSEFINDER = (
    "normaliser",
    "entmax_alpha",
    "sparsefinder_rank",
    "sparsefinder_window",
    "sparsefinder_global",
)
_DIGITS = ("digits_min", "digits_max", "eval_digits_min", "eval_digits_max")
# Knobs that some choices of another knob alone read: records hold every knob that there was.
READS = {
    "feed_forward": {
        "sparse": ("sparsity", "d_lowrank", "feed_forward_bias", "selector", "kernel_scaling")
        + _SELECTION,
        "moe_block": ("experts", *_SELECTION),
        "moe_switch": ("experts", *_SELECTION),
    },
    "projection": {
        "local": ("modules",),
        "conv": _MODULES,
        "multiplicative": ("modules",),
        "mult_modular": ("modules",),
        "mult_conv": _MODULES,
        "mult_conv_shared_qk": _MODULES,
        "low_rank": ("projection_rank",),
    },
    "cross_projection": {"mult_conv": _MODULES, "mult_conv_output": _MODULES},
    "attention": {
        "full": ("normaliser", "entmax_alpha"),
        "lsh": (
            "lsh_chunk",
            "lsh_rounds",
            "lsh_buckets",
            "lsh_chunks_before",
            "lsh_chunks_after",
            "lsh_graph",
            "lsh_count",
        ),
        "window": ("normaliser", "entmax_alpha", "window_width"),
        "banded": ("normaliser", "entmax_alpha", "band_width"),
        "strided": ("normaliser", "entmax_alpha", "attention_stride"),
        "fixed": (
            "normaliser",
            "entmax_alpha",
            "attention_stride",
            "fixed_summary",
            "fixed_subblocks",
        ),
        "bigbird": (
            "normaliser",
            "entmax_alpha",
            "bigbird_block",
            "bigbird_random",
            "bigbird_blocks",
        ),
        "longformer": (
            "normaliser",
            "entmax_alpha",
            "window_width",
            "longformer_dilation",
            "longformer_global",
            "longformer_projections",
        ),
        "linformer": ("linformer_rank", "linformer_length", "linformer_sharing"),
        "paragraph": ("normaliser", "entmax_alpha", "paragraph_length"),
        "inter_paragraph": ("paragraph_length",),
        "performer": ("performer_features", "performer_directions", "performer_redraw"),
        "routing": (
            "routing_clusters",
            "routing_window",
            "routing_decay",
            "routing_commitment",
        ),
        "sparsefinder_distance": (*_SPARSEFINDER, "sparsefinder_density"),
        "sparsefinder_quantization": (*_SPARSEFINDER, "sparsefinder_bins"),
        "sparsefinder_kmeans": (
            *_SPARSEFINDER,
            "sparsefinder_clusters",
            "sparsefinder_nearest",
        ),
    },
    "loss": {"multiplicative": ("loss_modules",), "low_rank": ("loss_rank",)},
    "recurrence": {"sru": ("recurrence_width",)},
    "residual_stack": {"reversible": ("recompute_decisions",)},
    "task": {
        **dict.fromkeys(("copy", "addition", "copy_pairs", "addition_pairs"), _DIGITS),
        "span_corruption": ("noise_density",),
        "denoising": (
            "sentence_permutation",
            "text_infilling",
            "infilling_mean",
            "token_masking",
            "token_deletion",
            "document_rotation",
        ),
        "gap_sentences": (
            "gap_strategy",
            "gap_share_min",
            "gap_share_max",
            "gap_noise",
            "gap_unmasked",
        ),
        "pairs": ("target_side", "join_pairs", "paragraph_tokens"),
    },
}
READS["encoder_attention"] = READS["attention"]
READS["cross_attention"] = {"linformer": READS["attention"]["linformer"]}
READ_BY_SOME = {knob for choices in READS.values() for knobs in choices.values() for knob in knobs}
# Knobs that published curves lack, and what all models had before there was a choice.
LATER = {
    "normaliser": "softmax",
    "entmax_alpha": 1.5,
    "window_width": 257,
    "band_width": 256,
    "attention_stride": 128,
    "fixed_summary": 32,
    "fixed_subblocks": 1,
    "bigbird_block": 64,
    "bigbird_random": 3,
    "bigbird_blocks": "uniform",
    "longformer_dilation": 1,
    "longformer_global": 1,
    "longformer_projections": "shared",
    "performer_features": 256,
    "performer_directions": "orthogonal",
    "performer_redraw": "each_step",
    "linformer_rank": 128,
    "linformer_length": 0,
    "linformer_sharing": "headwise",
    "paragraph_length": 128,
    "routing_clusters": 8,
    "routing_window": 0,
    "routing_decay": 0.999,
    "routing_commitment": 1e-4,
    "sparsefinder_rank": 4,
    "sparsefinder_window": 1,
    "sparsefinder_global": 0,
    "sparsefinder_density": 0.1,
    "sparsefinder_clusters": 8,
    "sparsefinder_nearest": 1,
    "sparsefinder_bins": 8,
    "adam_epsilon": 1e-5,
    "decay_steps": 0,
    "encoder_attention": "",
    "cross_attention": "full",
    "position_encoding": "table",
    "lsh_graph": "chunks",
    "lsh_count": "every_time",
    "future_tokens": 1,
    "language_weight": 0,
    "future_weight": 1,
    "selector_rate": 1,
    "selected_rate": 1,
    "dense_steps": 0,
    "hard_steps": 0,
    "init_from": "",
    "noise_density": 0.15,
    "sentence_permutation": 1,
    "text_infilling": 0.3,
    "infilling_mean": 3,
    "token_masking": 0,
    "token_deletion": 0,
    "document_rotation": 0,
    "gap_strategy": "ind_orig",
    "gap_share_min": 0.3,
    "gap_share_max": 0.3,
    "gap_noise": 0,
    "gap_unmasked": 0,
    "target_side": "",
    "join_pairs": 0,
    "paragraph_tokens": 0,
    "selection_balance": 0,
    "selection_entropy": 0,
    "tap_scaling": False,
    "matmul_precision": "f32",
}
OFF = (0, "", "none", None)  # False is 0


def chosen(text):
    """Names in the text of a chooser: one, or those that blocks take in turn and heads share."""
    return {part.split(":")[0] for part in re.split("[,+]", str(text or ""))}


def settings(record):
    """The knobs that a measurement depends on.

    Left out is what the chosen components do not read, what is off, and what was so before the knob
    came: so that a knob that came later sets a newer record apart from no older one.
    """
    config = record.get("config") or {}
    read = {
        knob
        for chooser, choices in READS.items()
        for name in chosen(config.get(chooser, ""))
        for knob in choices.get(name, ())
    }
    return {
        knob: value
        for knob, value in config.items()
        if (value != LATER[knob] if knob in LATER else value not in OFF)
        and (knob in read or knob not in READ_BY_SOME)
    }
