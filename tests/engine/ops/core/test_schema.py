"""What operators share of their attributes, and padding."""

from __future__ import annotations

import numpy as np

from engine.ops.core.schema import DILATIONS, GROUP, OUTPUT_BIT, PADS, ROUNDING, STRIDES, USE_BIAS, pad_spatial


def test_what_a_file_leaves_out() -> None:
    attributes = (PADS, STRIDES, DILATIONS, GROUP, OUTPUT_BIT, ROUNDING, USE_BIAS)
    assert [attribute.default for attribute in attributes] == [(0, 0, 0, 0), (1, 1), (1, 1), 1, 8, "ROUND", 1]


def test_pads_are_top_left_bottom_right() -> None:
    x = np.ones((1, 1, 1, 2), np.int8)
    padded = pad_spatial(x, np.array([1, 0, 2, 3]), -7)
    assert padded.shape == (1, 4, 4, 2)
    assert padded.dtype == np.int8
    assert padded[0, :, :, 0].tolist() == [[-7] * 4, [1, -7, -7, -7], [-7] * 4, [-7] * 4]
