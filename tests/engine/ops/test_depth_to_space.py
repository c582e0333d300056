"""Channels that become pixels, in either order."""

from __future__ import annotations

import pytest

from engine.ops.depth_to_space import DepthToSpaceRule
from tests.engine.ops.operators import evaluate, float_node, int8, lowered, scaled, tensor


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("DCR", [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]), ("CRD", [[[0, 4], [1, 5]], [[2, 6], [3, 7]]])],
)
def test_a_pixel_becomes_a_block(mode: str, expected: list[list[list[int]]]) -> None:
    x = int8(*range(8), shape=(1, 1, 1, 8))
    assert evaluate("HzDepthToSpace", [x], blocksize=2, mode=mode)[0].tolist() == expected


def test_blocks_stay_in_their_place() -> None:
    x = int8(*range(16), shape=(1, 2, 2, 4))
    found = evaluate("HzDepthToSpace", [x], blocksize=2)[0, :, :, 0]
    assert found.tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]


def test_the_mode_is_that_of_the_network() -> None:
    x = tensor("x", 1, 8, 4, 4)
    plain = lowered(DepthToSpaceRule(), float_node("DepthToSpace", [x], (1, 2, 8, 8), blocksize=2), x=scaled(0.5))
    assert plain.attributes == {"blocksize": 2, "mode": "DCR", "data_format": "NHWC"}
    node = float_node("DepthToSpace", [x], (1, 2, 8, 8), blocksize=2, mode="CRD")
    assert lowered(DepthToSpaceRule(), node, x=scaled(0.5)).attributes["mode"] == "CRD"
