"""The numpy block that peers are checked against, checked itself where it has a simple answer."""

import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import block  # noqa: E402


class BlockTest(unittest.TestCase):
    def test_weights_read_match_the_reference(self):
        """Dense matrices of the paper's blocks, as in its table of weights read (800M: 14,691,328)."""
        shapes = block.weight_shapes(block.SHAPES["800m"], "dense")
        read = sum(int(np.prod(s)) for name, s in shapes.items() if not name.startswith("norm"))
        self.assertEqual(read, 14_691_328)

    def test_multiplicative_layer_makes_any_permutation(self):
        rng = np.random.default_rng(0)
        modules, width = 6, 8
        size = modules * width
        target = rng.permutation(size)
        d, e = np.zeros((modules, size)), np.zeros((size, width))
        for i, to in enumerate(target):
            d[to // width, i] = 1
            e[i, to % width] = 1
        x = rng.standard_normal(size)
        y = block.multiplicative(x, d, e, 0.0)
        np.testing.assert_allclose(y[target], x)

    def test_convolution_keeps_its_last_centre_tap(self):
        frames = np.random.default_rng(0).standard_normal((3, 6, 8)).astype(np.float32)
        kernel = np.zeros((3, 3, 8, 8), np.float32)
        kernel[2, 1] = np.eye(8)
        y = block.convolution(frames, kernel.reshape(-1, 8), np.zeros(8, np.float32), 3)
        np.testing.assert_allclose(y, frames[2])

    def test_step_is_finite_and_remembers(self):
        shape = block.SHAPES["tiny"]
        for variant in ("dense", "ff_qkv_cross"):
            rng = np.random.default_rng(5)
            weights = block.make_weights(shape, variant, rng)
            state = block.make_state(shape, variant, rng)
            x = rng.standard_normal(shape.d_model, np.float32)
            first = block.reference_step(shape, variant, weights, state, x, 0)
            second = block.reference_step(shape, variant, weights, state, x, 1)
            self.assertTrue(np.isfinite(first).all())
            self.assertGreater(np.abs(first - second).max(), 1e-6)


if __name__ == "__main__":
    unittest.main()
