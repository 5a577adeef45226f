"""The block in JAX: a whole token through all blocks is one jitted function, weights are arguments, caches donated."""

import jax
import jax.numpy as jnp
import numpy as np

from block import MODULE_TAPS, TAPS

NAME = f"jax {jax.__version__}"


def _sum_of_products(w, x):
    return jnp.sum(w.astype(jnp.float32) * x, axis=-1)


def _in_groups(w, x):
    """Dot products in two stages, so that the first stage's inner loop keeps independent sums."""
    rows, cols = w.shape
    if cols % 128:
        return _sum_of_products(w, x)
    products = w.astype(jnp.float32).reshape(rows, -1, 128) * x.reshape(-1, 128)
    return jnp.sum(jnp.sum(products, axis=1), axis=-1)


def _dot(w, x):
    return jax.lax.dot_general(
        w, x.astype(w.dtype), (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32
    )


def _transposed(w, x):
    return jax.lax.dot_general(
        x[None].astype(w.dtype), w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32
    )[0]


# Ways to write a dense product; the second says whether the weights are stored (in, out). run_peers tries them all.
WAYS = {
    "dot_out_in": (_dot, False),
    "dot_in_out": (_transposed, True),
    "sum_of_products": (_sum_of_products, False),
    "sum_in_groups": (_in_groups, False),
}
DENSE_MATRICES = ("qkv", "out", "cross_q", "cross_out")


def _layer_norm(x, scale, bias):
    centred = x - jnp.mean(x)
    return centred * jax.lax.rsqrt(jnp.mean(centred * centred) + 1e-6) * scale + bias


def _attend(q, keys, values):
    scores = jnp.einsum("hd,hld->hl", q, keys) / np.sqrt(q.shape[-1])
    return jnp.einsum("hl,hld->hd", jax.nn.softmax(scores), values).reshape(-1)


def _matmul(a, w):
    return jnp.matmul(a.astype(w.dtype), w, preferred_element_type=jnp.float32)


def _convolution(frames, weights, bias, module_taps):
    """All taps of a module side by side, then one product."""
    modules, half = frames.shape[1], (module_taps - 1) // 2
    padded = jnp.pad(frames, ((0, 0), (half, half), (0, 0)))
    taps = [padded[a, c : c + modules] for a in range(TAPS) for c in range(module_taps)]
    return _matmul(jnp.concatenate(taps, axis=-1), weights) + bias


def _block(shape, variant, dense, w, state, x, slot):
    heads = (shape.n_heads, shape.d_head)
    state = dict(state)

    def modules(name, n):
        frame = _matmul(w[name + "_d"] * n, w[name + "_e"]).reshape(-1) + w[name + "_bias"]
        frames = jnp.concatenate([state[name + "_frames"], frame.reshape(1, shape.modules, -1)])
        state[name + "_frames"] = frames[1:]
        return frames, _convolution(frames, w[name + "_conv"], w[name + "_conv_bias"], MODULE_TAPS)

    n = _layer_norm(x, w["norm1_scale"], w["norm1_bias"])
    if variant == "dense":
        q, k, v = jnp.split(dense(w["qkv"], n) + w["qkv_bias"], 3)
    else:
        frames, qk = modules("self", n)
        q, k = jnp.split(qk, 2, axis=-1)
        v = _convolution(frames, w["v_conv"], w["v_conv_bias"], 1)
    state["k"] = jax.lax.dynamic_update_index_in_dim(state["k"], k.reshape(heads), slot, 1)
    state["v"] = jax.lax.dynamic_update_index_in_dim(state["v"], v.reshape(heads), slot, 1)
    o = _attend(q.reshape(heads), state["k"], state["v"])
    x = x + (dense(w["out"], o) + w["out_bias"] if variant == "dense" else o)

    n = _layer_norm(x, w["norm2_scale"], w["norm2_bias"])
    q = dense(w["cross_q"], n) + w["cross_q_bias"] if variant == "dense" else modules("cross", n)[1]
    o = _attend(q.reshape(heads), state["cross_k"], state["cross_v"])
    x = x + (dense(w["cross_out"], o) + w["cross_out_bias"] if variant == "dense" else o)

    n = _layer_norm(x, w["norm3_scale"], w["norm3_bias"])
    if variant == "dense":
        hidden = jax.nn.relu(dense(w["w1"], n) + w["w1_bias"])
        return x + dense(w["w2"], hidden) + w["w2_bias"], state
    logits = dense(w["c2"], dense(w["c1"], n)) + w["c2_bias"]
    chosen = jnp.argmax(logits.reshape(-1, shape.sparsity), axis=-1)
    rows = jnp.arange(chosen.shape[0]) * shape.sparsity + chosen
    hidden = jax.nn.relu(dense_rows(w["w1"], rows, n))
    return x + _matmul(hidden[None], w["w2"].at[rows].get(mode="promise_in_bounds"))[0] + w[
        "w2_bias"
    ], state


def dense_rows(w, rows, x):
    """The chosen rows times x."""
    return _sum_of_products(w.at[rows].get(mode="promise_in_bounds"), x)


class Peer:
    """step(x, t) -> y for all blocks in a row."""

    def __init__(self, shape, variant, way, dtype):
        dense, self.stored_transposed = WAYS[way]
        self.shape, self.variant = shape, variant
        self.dtype = jnp.bfloat16 if dtype == "bf16" else jnp.float32

        def token(weights, states, x, slot):
            new_states = []
            for w, state in zip(weights, states):
                x, state = _block(shape, variant, dense, w, state, x, slot)
                new_states.append(state)
            return x, new_states

        self.token = jax.jit(token, donate_argnums=1)
        self.weights, self.states = [], []

    def add_block(self, weights, state):
        """Takes the block's weights, emptying the given dictionary so that nothing is held twice."""
        block = {}
        matrices = DENSE_MATRICES + ("w1", "w2") if self.variant == "dense" else ("c1", "c2")
        for name in list(weights):
            value = weights.pop(name)
            if self.stored_transposed and name in matrices:
                value = np.ascontiguousarray(value.T)
            block[name] = jnp.array(value, self.dtype if value.ndim > 1 else jnp.float32)
            block[name].block_until_ready()
        self.weights.append(block)
        self.states.append({name: jnp.array(value) for name, value in state.items()})

    def step(self, x, t):
        y, self.states = self.token(
            self.weights, self.states, jnp.asarray(x), t % self.shape.length
        )
        return np.asarray(y)
