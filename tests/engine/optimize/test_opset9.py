"""Opset 9 in terms of opset 10."""

from __future__ import annotations

import numpy as np

from engine.ir import to_bytes
from engine.optimize import optimize
from engine.optimize.opset9 import ConvertOpset9
from tests.engine.optimize.equivalence import applied, assert_equivalent, build, census
from tests.engine.optimize.networks import MAP, node


def test_opset_9_becomes_opset_10() -> None:
    nodes = [
        node("Slice", "x", "s", starts=[1], ends=[9], axes=[2]),
        node("Upsample", "s scales", "u", mode="linear"),
        node("TopK", "u", "y i", k=3, axis=1),
    ]
    before = build(nodes, MAP, ["y"], {"scales": np.array([1, 1, 2, 2], np.float32)}, 9)
    after = optimize(before, "bayes-e")
    assert after.opset_imports[""] == 10
    assert census(after) == {"Slice": 1, "Resize": 1, "TopK": 1}
    assert [item.name for item in after.graph if item.op_type == "Resize"] == ["Resize_1"]
    assert_equivalent(before, after)
    assert to_bytes(optimize(after, "bayes-e")) == to_bytes(after)


def test_only_opset_9_is_converted() -> None:
    for opset in (10, 13):
        assert not applied(ConvertOpset9(), build([node("Relu", "x")], MAP, ["y"], opset=opset))[0]


def test_attributes_become_inputs_in_their_order() -> None:
    proto = node("Slice", "x", name="s", starts=[1, 2], ends=[3, 4])
    modified, after = applied(ConvertOpset9(), build([proto], MAP, ["y"], opset=9))
    (made,) = after.graph
    assert (modified, after.opset_imports[""]) == (True, 10)
    assert [value.name for value in made.inputs] == ["x", "s_starts", "s_ends", "s_axes"]
    assert [value.const_value.numpy().tolist() for value in made.inputs[1:]] == [[1, 2], [3, 4], [0, 1]]
    assert not made.attributes
