"""One decoder block as plain numpy: its sizes, its weights, and the step every peer must reproduce.

Pre-norm, batch 1. A step writes the token's key and value into slot `t mod length` of the cache, attends
over all `length` slots, then over `length` encoder positions whose keys and values are given, then
the feed-forward. `dense` has dense layers throughout; `ff_qkv_cross` has the sparse
feed-forward (paper 1.2), mult_conv instead of the self-attention's projections and its query-only
form in cross-attention (paper 2.8), neither with an output projection.
"""

from dataclasses import dataclass

import numpy as np

TAPS = 3  # tokens that a convolution sees
MODULE_TAPS = 3  # neighbouring modules that it sees


@dataclass(frozen=True)
class Shape:
    """Sizes of a block; the sparse one has its own feed-forward width."""

    d_model: int
    n_heads: int
    d_ff_dense: int
    d_ff_sparse: int
    sparsity: int
    rank: int
    modules: int
    length: int = 16

    @property
    def d_head(self):
        return self.d_model // self.n_heads

    @property
    def width(self):
        return self.d_model // self.modules


SHAPES = {
    "800m": Shape(1024, 16, 4096, 6144, 64, 96, 16),
    "17b": Shape(9216, 96, 40960, 65536, 256, 32, 64),
    "tiny": Shape(64, 4, 128, 128, 8, 8, 8),
}
LAYERS = {"800m": 24, "17b": 6, "tiny": 3}


def weight_shapes(shape, variant):
    """name -> shape; matrices are (out, in) except where an axis order is spelled out."""
    d, m, f = shape.d_model, shape.width, shape.d_ff_dense
    shapes = {
        f"{norm}_{part}": (d,) for norm in ("norm1", "norm2", "norm3") for part in ("scale", "bias")
    }
    if variant == "dense":
        matrices = {
            "qkv": (3 * d, d),
            "out": (d, d),
            "cross_q": (d, d),
            "cross_out": (d, d),
            "w1": (f, d),
            "w2": (d, f),
        }
        for name, (rows, cols) in matrices.items():
            shapes[name] = (rows, cols)
            shapes[name + "_bias"] = (rows,)
        return shapes
    f = shape.d_ff_sparse
    for name, outputs in (("self", 2), ("cross", 1)):
        shapes[name + "_d"] = (shape.modules, d)  # (S, in)
        shapes[name + "_e"] = (d, m)  # (in, M)
        shapes[name + "_bias"] = (d,)
        # Query (and key) convolutions side by side: (taps * module taps * M, outputs * M).
        shapes[name + "_conv"] = (TAPS * MODULE_TAPS * m, outputs * m)
        shapes[name + "_conv_bias"] = (outputs * m,)
    shapes["v_conv"] = (TAPS * m, m)
    shapes["v_conv_bias"] = (m,)
    shapes["c1"] = (shape.rank, d)
    shapes["c2"] = (f, shape.rank)  # per neuron
    shapes["c2_bias"] = (f,)
    shapes["w1"] = (f, d)  # a row per neuron, in both matrices
    shapes["w2"] = (f, d)
    shapes["w2_bias"] = (d,)
    return shapes


def weight_bytes(shape, variant, bytes_per_weight):
    """Of a block; a quantised weight is a fraction of bytes, and vectors count as weights do."""
    weights = sum(int(np.prod(s)) for s in weight_shapes(shape, variant).values())
    return int(weights * bytes_per_weight)


def make_weights(shape, variant, rng):
    """Uniform draws whose size keeps activations near one."""
    weights = {}
    for name, dims in weight_shapes(shape, variant).items():
        if name.endswith("_scale"):
            weights[name] = np.ones(dims, np.float32)
        elif len(dims) == 1:
            weights[name] = (rng.random(dims, np.float32) - np.float32(0.5)) * np.float32(0.02)
        else:
            fan_in = (
                dims[0]
                if name.endswith(("_e", "_conv")) or (name == "w2" and variant != "dense")
                else dims[1]
            )
            if name == "w2" and variant != "dense":
                fan_in //= shape.sparsity
            half = np.float32(1.0 if name.endswith("_d") else np.sqrt(3.0 / fan_in))
            draw = rng.random(dims, np.float32)
            draw -= np.float32(0.5)
            draw *= 2 * half
            weights[name] = draw
    return weights


def make_state(shape, variant, rng):
    """Caches of one block: keys and values (heads, length, d_head), and the remembered frames."""
    cache = (shape.n_heads, shape.length, shape.d_head)
    state = {
        name: rng.standard_normal(cache, np.float32) for name in ("k", "v", "cross_k", "cross_v")
    }
    if variant != "dense":
        frames = (TAPS - 1, shape.modules, shape.width)
        state["self_frames"] = rng.standard_normal(frames, np.float32)
        state["cross_frames"] = rng.standard_normal(frames, np.float32)
    return state


def layer_norm(x, scale, bias):
    centred = x - x.mean()
    return centred / np.sqrt((centred * centred).mean() + 1e-6) * scale + bias


def attend(q, keys, values):
    scores = np.einsum("hd,hld->hl", q, keys) / np.sqrt(q.shape[-1])
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    scores /= scores.sum(-1, keepdims=True)
    return np.einsum("hl,hld->hd", scores, values).reshape(-1)


def convolution(frames, weights, bias, module_taps):
    """frames (taps, S, M), weights (taps * module_taps * M, out) -> (S, out); zero beyond the modules' ends."""
    taps, modules, width = frames.shape
    half = (module_taps - 1) // 2
    padded = np.zeros((taps, modules + 2 * half, width), np.float32)
    padded[:, half : half + modules] = frames
    kernel = weights.reshape(taps, module_taps, width, -1)
    out = np.tile(bias, (modules, 1))
    for a in range(taps):
        for c in range(module_taps):
            out += padded[a, c : c + modules] @ kernel[a, c]
    return out


def multiplicative(x, d, e, bias):
    return ((d * x) @ e).reshape(-1) + bias


def reference_step(shape, variant, w, state, x, t):
    """x (d_model,) -> y (d_model,); changes `state`."""
    heads = (shape.n_heads, shape.d_head)
    n = layer_norm(x, w["norm1_scale"], w["norm1_bias"])
    if variant == "dense":
        q, k, v = np.split(w["qkv"] @ n + w["qkv_bias"], 3)
    else:
        frame = multiplicative(n, w["self_d"], w["self_e"], w["self_bias"]).reshape(
            1, shape.modules, -1
        )
        frames = np.concatenate([state["self_frames"], frame])
        state["self_frames"] = frames[1:]
        qk = convolution(frames, w["self_conv"], w["self_conv_bias"], MODULE_TAPS)
        q, k = qk[:, : shape.width], qk[:, shape.width :]
        v = convolution(frames, w["v_conv"], w["v_conv_bias"], 1)
    state["k"][:, t % shape.length] = k.reshape(heads)
    state["v"][:, t % shape.length] = v.reshape(heads)
    o = attend(q.reshape(heads), state["k"], state["v"])
    x = x + (w["out"] @ o + w["out_bias"] if variant == "dense" else o)

    n = layer_norm(x, w["norm2_scale"], w["norm2_bias"])
    if variant == "dense":
        q = w["cross_q"] @ n + w["cross_q_bias"]
    else:
        frame = multiplicative(n, w["cross_d"], w["cross_e"], w["cross_bias"]).reshape(
            1, shape.modules, -1
        )
        frames = np.concatenate([state["cross_frames"], frame])
        state["cross_frames"] = frames[1:]
        q = convolution(frames, w["cross_conv"], w["cross_conv_bias"], MODULE_TAPS)
    o = attend(q.reshape(heads), state["cross_k"], state["cross_v"])
    x = x + (w["cross_out"] @ o + w["cross_out_bias"] if variant == "dense" else o)

    n = layer_norm(x, w["norm3_scale"], w["norm3_bias"])
    if variant == "dense":
        return x + w["w2"] @ np.maximum(w["w1"] @ n + w["w1_bias"], 0) + w["w2_bias"]
    logits = (w["c2"] @ (w["c1"] @ n) + w["c2_bias"]).reshape(-1, shape.sparsity)
    rows = np.arange(len(logits)) * shape.sparsity + logits.argmax(-1)
    hidden = np.maximum(w["w1"][rows] @ n, 0)
    return x + hidden @ w["w2"][rows] + w["w2_bias"]
