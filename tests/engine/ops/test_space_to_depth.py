"""Pixels that become channels."""

from __future__ import annotations

import numpy as np

from engine.ops.space_to_depth import SpaceToDepthRule
from tests.engine.ops.operators import evaluate, float_node, int8, lowered, scaled, tensor


def test_a_block_becomes_a_pixel_row_by_row() -> None:
    x = int8(*range(12), shape=(1, 2, 3, 2))
    tall = evaluate("HzSpaceToDepth", [x], block_height=2, block_width=1)
    assert tall[0, 0].tolist() == [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]
    wide = evaluate("HzSpaceToDepth", [x], block_height=1, block_width=3)
    assert wide[0, :, 0].tolist() == [list(range(6)), list(range(6, 12))]


def test_depth_to_space_undoes_it() -> None:
    x = np.arange(2 * 3 * 8, dtype=np.int8).reshape(1, 2, 3, 8)
    deep = evaluate("HzDepthToSpace", [x], blocksize=2, mode="DCR")
    assert deep.shape == (1, 4, 6, 2)
    np.testing.assert_array_equal(evaluate("HzSpaceToDepth", [deep], block_height=2, block_width=2), x)


def test_blocks_of_a_network_are_square() -> None:
    node = float_node("SpaceToDepth", [tensor("x", 1, 4, 6, 6)], (1, 36, 2, 2), blocksize=3)
    made = lowered(SpaceToDepthRule(), node, x=scaled(0.5))
    assert made.attributes == {"block_height": 3, "block_width": 3, "data_format": "NHWC"}
