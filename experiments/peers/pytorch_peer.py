"""The block in eager PyTorch, as a user would write it: query, key and value weights in one matrix, rows of the sparse
feed-forward gathered."""

import numpy as np
import torch
import torch.nn.functional as F

from block import MODULE_TAPS, TAPS

NAME = f"pytorch {torch.__version__}"


def _linear(w, b, x):
    return F.linear(x[None], w, b)[0]


def _packed(w):
    """In the layout that PyTorch's oneDNN chooses for one token."""
    return torch.ops.mkldnn._reorder_linear_weight(w, 1)


def _times_packed(w, b, x):
    return torch.ops.mkldnn._linear_pointwise(x[None], w, b, "none", [], "")[0]


# Ways to write a dense product; the second says how weights (out, in) are held.
WAYS = {
    "linear": (_linear, None),
    "addmv": (lambda w, b, x: torch.addmv(b, w, x), None),
    "addmm_in_out": (lambda w, b, x: torch.addmm(b, x[None], w)[0], lambda w: w.T.contiguous()),
    "onednn_prepacked": (_times_packed, _packed),
}
DENSE_MATRICES = ("qkv", "out", "cross_q", "cross_out", "w1", "w2")


def _attend(heads, q, keys, values):
    return F.scaled_dot_product_attention(q.view(heads[0], 1, heads[1]), keys, values).reshape(-1)


def _remember(cache, slot, token):
    cache.index_copy_(1, slot, token.reshape(cache.shape[0], 1, cache.shape[2]))


def dense_block(shape, dense, w, state, x, slot):
    """slot: a tensor (1)."""
    d, heads = shape.d_model, (shape.n_heads, shape.d_head)
    n = F.layer_norm(x, (d,), w["norm1_scale"], w["norm1_bias"], 1e-6)
    q, k, v = dense(w["qkv"], w["qkv_bias"], n).split(d)
    _remember(state["k"], slot, k)
    _remember(state["v"], slot, v)
    x = x + dense(w["out"], w["out_bias"], _attend(heads, q, state["k"], state["v"]))
    n = F.layer_norm(x, (d,), w["norm2_scale"], w["norm2_bias"], 1e-6)
    q = dense(w["cross_q"], w["cross_q_bias"], n)
    o = _attend(heads, q, state["cross_k"], state["cross_v"])
    x = x + dense(w["cross_out"], w["cross_out_bias"], o)
    n = F.layer_norm(x, (d,), w["norm3_scale"], w["norm3_bias"], 1e-6)
    hidden = F.relu(dense(w["w1"], w["w1_bias"], n))
    return x + dense(w["w2"], w["w2_bias"], hidden)


def _convolution(frames, weights, bias, module_taps):
    """All taps of a module side by side, then one product."""
    modules, half = frames.shape[1], (module_taps - 1) // 2
    padded = F.pad(frames, (0, 0, half, half))
    taps = [padded[a, c : c + modules] for a in range(TAPS) for c in range(module_taps)]
    return torch.addmm(bias, torch.cat(taps, dim=1), weights)


def sparse_block(shape, _dense, w, state, x, slot):
    """Sparse feed-forward, mult_conv; slot: a tensor (1)."""
    d, heads = shape.d_model, (shape.n_heads, shape.d_head)

    def modules(name, n):
        frame = ((w[name + "_d"] * n) @ w[name + "_e"]).reshape(-1) + w[name + "_bias"]
        held = state[name + "_frames"]
        frames = torch.cat([held, frame.view(1, shape.modules, -1)])
        held.copy_(frames[1:])
        return frames, _convolution(frames, w[name + "_conv"], w[name + "_conv_bias"], MODULE_TAPS)

    n = F.layer_norm(x, (d,), w["norm1_scale"], w["norm1_bias"], 1e-6)
    frames, qk = modules("self", n)
    q, k = qk.split(shape.width, dim=1)
    _remember(state["k"], slot, k)
    _remember(state["v"], slot, _convolution(frames, w["v_conv"], w["v_conv_bias"], 1))
    x = x + _attend(heads, q.reshape(-1), state["k"], state["v"])
    n = F.layer_norm(x, (d,), w["norm2_scale"], w["norm2_bias"], 1e-6)
    q = modules("cross", n)[1].reshape(-1)
    x = x + _attend(heads, q, state["cross_k"], state["cross_v"])
    n = F.layer_norm(x, (d,), w["norm3_scale"], w["norm3_bias"], 1e-6)
    logits = torch.addmv(w["c2_bias"], w["c2"], w["c1"] @ n).view(-1, shape.sparsity)
    rows = torch.arange(len(logits)) * shape.sparsity + logits.argmax(dim=1)
    hidden = F.relu(w["w1"].index_select(0, rows) @ n)
    return x + torch.addmv(w["w2_bias"], w["w2"].index_select(0, rows).T, hidden)


class Peer:
    """step(x, t) -> y for all blocks in a row."""

    def __init__(self, shape, variant, way, dtype):
        self.dense, self.held_as = WAYS[way]
        if variant != "dense" and way != "linear":
            raise RuntimeError("a way of dense products alone")
        self.block = dense_block if variant == "dense" else sparse_block
        self.shape = shape
        self.dtype = torch.bfloat16 if dtype == "bf16" else torch.float32
        self.weights, self.states = [], []

    @torch.inference_mode()
    def add_block(self, weights, state):
        """Takes the block's weights, emptying the given dictionary so that nothing is held twice."""
        block = {}
        for name in list(weights):
            value = torch.from_numpy(weights.pop(name)).to(self.dtype)
            block[name] = self.held_as(value) if self.held_as and name in DENSE_MATRICES else value
        self.weights.append(block)
        self.states.append(
            {name: torch.from_numpy(value).to(self.dtype).clone() for name, value in state.items()}
        )

    @torch.inference_mode()
    def step(self, x, t):
        x = torch.from_numpy(np.asarray(x)).to(self.dtype)
        slot = torch.tensor([t % self.shape.length])
        for w, state in zip(self.weights, self.states):
            x = self.block(self.shape, self.dense, w, state, x, slot)
        return x.float().numpy()
