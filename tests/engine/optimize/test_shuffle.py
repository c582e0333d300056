"""Channel shuffle and space-to-depth, as exporters write them."""

from __future__ import annotations

import numpy as np
import pytest

from engine.optimize.shuffle import CollapseShuffle
from tests.engine.optimize.equivalence import applied, build, operators, optimized
from tests.engine.optimize.networks import MAP, node


def test_channel_shuffle_and_space_to_depth_collapse() -> None:
    constants = {"s5": np.array([1, 2, 2, 8, 8]), "s4": np.array([1, 4, 8, 8]), "s6": np.array([1, 4, 4, 2, 4, 2])}
    shuffle = [
        node("Reshape", "x s5", "a"),
        node("Transpose", "a", "b", perm=[0, 2, 1, 3, 4]),
        node("Reshape", "b s4", name="last"),
    ]
    (collapsed,) = optimized(build(shuffle, MAP, ["y"], constants)).graph
    assert (collapsed.op_type, collapsed.name, collapsed.attributes["group"].value) == ("HzChannelShuffle", "last", 2)
    constants["s4"] = np.array([1, 16, 4, 4])
    depth = [
        node("Reshape", "x s6", "a"),
        node("Transpose", "a", "b", perm=[0, 3, 5, 1, 2, 4]),
        node("Reshape", "b s4", name="last"),
    ]
    (collapsed,) = optimized(build(depth, MAP, ["y"], constants)).graph
    assert (collapsed.op_type, collapsed.name, collapsed.attributes["blocksize"].value) == ("SpaceToDepth", "last", 2)


@pytest.mark.parametrize(
    ("inner", "perm", "result", "expected"),
    [
        ([1, 2, 4, 4, 6], [0, 2, 1, 3, 4], [1, 8, 4, 6], "HzChannelShuffle"),
        ([1, 4, 2, 4, 6], [0, 2, 1, 3, 4], [1, 8, 4, 6], "HzChannelShuffle"),
        ([1, 2, 4, 4, 6], [0, 2, 1, 4, 3], [1, 8, 4, 6], None),
        ([1, 2, 4, 4, 6], [0, 2, 1, 3, 4], [1, 8, 6, 4], None),
        ([1, 2, 4, 6, 4], [0, 2, 1, 3, 4], [1, 8, 4, 6], None),
        ([1, 8, 2, 2, 3, 2], [0, 3, 5, 1, 2, 4], [1, 32, 2, 3], "SpaceToDepth"),
        ([1, 8, 2, 2, 3, 2], [0, 5, 3, 1, 2, 4], [1, 32, 2, 3], None),
        ([1, 8, 2, 2, 2, 3], [0, 3, 5, 1, 2, 4], [1, 48, 2, 2], None),
        ([1, 2, 2, 2, 4, 6], [0, 1, 4, 2, 5, 3], [1, 2, 8, 12], "DepthToSpace"),
        ([1, 2, 2, 2, 4, 6], [0, 1, 4, 3, 5, 2], [1, 2, 8, 12], None),
        ([1, 2, 4, 1, 4, 6], [0, 1, 4, 2, 5, 3], [1, 2, 16, 6], None),
    ],
)
def test_what_collapses(inner: list[int], perm: list[int], result: list[int], expected: str | None) -> None:
    nodes = [node("Reshape", "x a", "s"), node("Transpose", "s", "t", perm=perm), node("Reshape", "t b", name="last")]
    before = build(nodes, {"x": (1, 8, 4, 6)}, ["y"], {"a": np.asarray(inner), "b": np.asarray(result)})
    modified, after = applied(CollapseShuffle(), before)
    assert modified == (expected is not None)
    last = list(after.graph)[-1]
    assert (last.op_type, last.name) == (expected or "Reshape", "last")
    if expected == "HzChannelShuffle":
        assert last.attributes["group"].value == inner[1]


def test_what_others_read_too_stays() -> None:
    nodes = [
        node("Reshape", "x a", "s"),
        node("Transpose", "s", "t", perm=[0, 2, 1, 3, 4]),
        node("Reshape", "t b", "y"),
    ]
    before = build(
        nodes, {"x": (1, 8, 4, 6)}, ["y", "t"], {"a": np.asarray([1, 2, 4, 4, 6]), "b": np.asarray([1, 8, 4, 6])}
    )
    assert operators(applied(CollapseShuffle(), before)[1]) == ["Reshape", "Transpose", "Reshape"]
