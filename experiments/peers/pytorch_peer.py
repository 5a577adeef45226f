"""The dense block in eager PyTorch, as a user would write it, with the query, key and value weights in one matrix."""

import numpy as np
import torch
import torch.nn.functional as F

NAME = f"pytorch {torch.__version__}"

# Ways to write a dense product; the second says whether the weights are stored (in, out).
WAYS = {
    "linear": (lambda w, b, x: F.linear(x[None], w, b)[0], False),
    "addmv": (lambda w, b, x: torch.addmv(b, w, x), False),
    "addmm_in_out": (lambda w, b, x: torch.addmm(b, x[None], w)[0], True),
}


class Peer:
    """step(x, t) -> y for all blocks in a row."""

    def __init__(self, shape, variant, way, dtype):
        if variant != "dense":
            raise SystemExit(f"the PyTorch peer has no {variant}; use jax")
        self.dense, self.stored_transposed = WAYS[way]
        self.shape = shape
        self.dtype = torch.bfloat16 if dtype == "bf16" else torch.float32
        self.weights, self.states = [], []

    def add_block(self, weights, state):
        """Takes the block's weights, emptying the given dictionary so that nothing is held twice."""
        block = {}
        for name in list(weights):
            value = torch.from_numpy(weights.pop(name)).to(self.dtype)
            block[name] = (
                value.T.contiguous() if self.stored_transposed and value.ndim > 1 else value
            )
        self.weights.append(block)
        self.states.append(
            {name: torch.from_numpy(value).to(self.dtype).clone() for name, value in state.items()}
        )

    def _attend(self, q, keys, values):
        heads = q.view(self.shape.n_heads, 1, self.shape.d_head)
        return F.scaled_dot_product_attention(heads, keys, values).reshape(-1)

    def _block(self, w, state, x, slot):
        d = self.shape.d_model
        heads = (self.shape.n_heads, self.shape.d_head)
        n = F.layer_norm(x, (d,), w["norm1_scale"], w["norm1_bias"], 1e-6)
        q, k, v = self.dense(w["qkv"], w["qkv_bias"], n).split(d)
        state["k"][:, slot] = k.view(heads)
        state["v"][:, slot] = v.view(heads)
        x = x + self.dense(w["out"], w["out_bias"], self._attend(q, state["k"], state["v"]))
        n = F.layer_norm(x, (d,), w["norm2_scale"], w["norm2_bias"], 1e-6)
        q = self.dense(w["cross_q"], w["cross_q_bias"], n)
        o = self._attend(q, state["cross_k"], state["cross_v"])
        x = x + self.dense(w["cross_out"], w["cross_out_bias"], o)
        n = F.layer_norm(x, (d,), w["norm3_scale"], w["norm3_bias"], 1e-6)
        hidden = F.relu(self.dense(w["w1"], w["w1_bias"], n))
        return x + self.dense(w["w2"], w["w2_bias"], hidden)

    @torch.inference_mode()
    def step(self, x, t):
        x = torch.from_numpy(np.asarray(x)).to(self.dtype)
        for w, state in zip(self.weights, self.states):
            x = self._block(w, state, x, t % self.shape.length)
        return x.float().numpy()
