"""What narrow types hold, where the answer is known."""

import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import narrow  # noqa: E402


def drawn(rows=8, cols=64):
    return np.random.default_rng(4).standard_normal((rows, cols), np.float32)


class NarrowTest(unittest.TestCase):
    def test_bf16_rounds_to_nearest_and_ties_to_even(self):
        value = np.array([1, 1 + 2**-9, 1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-7], np.float32)
        held = [1, 1, 1, 1 + 2**-6, -1 - 2**-7]
        np.testing.assert_array_equal(narrow.bf16(value), np.array(held, np.float32))

    def test_whole_multiples_of_a_scale_are_held_exactly(self):
        eight = np.arange(-31, 33, 2, dtype=np.float32)[None] / 4
        eight[0, 0] = 127 / 4
        np.testing.assert_array_equal(narrow.q8_0(eight), eight)
        four = np.resize(np.arange(-8, 8, dtype=np.float32), (1, 32)) / 2
        np.testing.assert_array_equal(narrow.q4_0(four), four)

    def test_errors_are_half_a_step_and_the_largest_of_either_sign_stays(self):
        value = drawn()
        groups = np.abs(value.reshape(-1, narrow.GROUP))
        for held, steps in ((narrow.q8_0(value), 127), (narrow.q4_0(value), 8)):
            error = np.abs(held - value).reshape(groups.shape)
            step = groups.max(1, keepdims=True) / steps
            # Q4_0 has no +8: a value as large as the largest, of the other sign, loses a whole step. Scales are
            # held in f16, which 127 steps make up to 0.06 of a step.
            self.assertTrue((error <= step * (0.57 if steps == 127 else 1.01)).all())
            largest = np.take_along_axis(error, groups.argmax(1)[:, None], 1)
            self.assertTrue((largest <= step * steps * 2.0**-11 * 1.01).all())  # the scale in f16

    def test_zeros_stay(self):
        for held in narrow.HELD.values():
            np.testing.assert_array_equal(held(np.zeros((1, 32), np.float32)), np.zeros((1, 32)))

    def test_vectors_stay_and_matrices_are_narrowed(self):
        weights = {"w1": drawn(), "w1_bias": drawn()[0]}
        for dtype in narrow.BYTES:
            held = narrow.rounded(weights, dtype)
            np.testing.assert_array_equal(held["w1_bias"], weights["w1_bias"])
            self.assertEqual((held["w1"] == weights["w1"]).all(), dtype == "f32")

    def test_bytes_of_a_weight(self):
        self.assertEqual([narrow.BYTES[t] * 32 for t in ("q8_0", "q4_0")], [34, 18])


if __name__ == "__main__":
    unittest.main()
