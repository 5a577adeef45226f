"""Weights as narrower types hold them, in f32 again: what a peer's products are checked with.

Q8_0 and Q4_0 are ggml's: 32 neighbours of a row share a scale in f16, whole numbers of 8 or 4 bits follow.
"""

import numpy as np

GROUP = 32
BYTES = {"f32": 4, "bf16": 2, "q8_0": (2 + GROUP) / GROUP, "q4_0": (2 + GROUP / 2) / GROUP}
QUANTISED = ("q8_0", "q4_0")


def bf16(value):
    """Rounded to nearest, ties to even."""
    bits = value.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def _scaled(groups, scale, low, high):
    """groups (n, 32) as whole multiples, low to high, of their scales (n, 1), which are held in f16."""
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
    whole = np.clip(np.floor(groups * inverse + np.float32(0.5)), low, high)
    return whole * scale.astype(np.float16).astype(np.float32)


def q8_0(value):
    groups = value.reshape(-1, GROUP)
    scale = np.abs(groups).max(1, keepdims=True) / np.float32(127)
    return _scaled(groups, scale, -127, 127).reshape(value.shape)


def q4_0(value):
    """The largest value, whatever its sign, is -8 scales."""
    groups = value.reshape(-1, GROUP)
    largest = np.take_along_axis(groups, np.abs(groups).argmax(1)[:, None], 1)
    return _scaled(groups, largest / np.float32(-8), -8, 7).reshape(value.shape)


HELD = {"f32": np.copy, "bf16": bf16, "q8_0": q8_0, "q4_0": q4_0}


def rounded(weights, dtype):
    """Weights as the peer will hold them, in f32; vectors stay as they are."""
    held = HELD[dtype]
    return {
        name: held(value) if value.ndim > 1 else value.copy() for name, value in weights.items()
    }
