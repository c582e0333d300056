"""Operator sets 9 and 10 in terms of 11."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import UnsupportedError
from engine.ir import MARK_OLD_RESIZE, to_bytes
from engine.optimize import optimize
from engine.optimize.old_opsets import ConvertOldOpsets
from engine.terms import Compatibility
from tests.engine.optimize.equivalence import applied, assert_equivalent, build, census, run
from tests.engine.optimize.networks import MAP, node

SCALES = {"scales": np.array([1, 1, 2, 2], np.float32)}


def test_opset_9_becomes_opset_11() -> None:
    nodes = [
        node("Slice", "x", "s", starts=[1], ends=[9], axes=[2]),
        node("Upsample", "s scales", "u", mode="linear"),
        node("TopK", "u", "y i", k=3, axis=1),
    ]
    before = build(nodes, MAP, ["y"], SCALES, 9)
    after = optimize(before, "bayes-e", Compatibility.CLEAN)
    assert after.opset_imports[""] == 11
    assert census(after) == {"Slice": 1, "Resize": 1, "TopK": 1}
    assert_equivalent(before, after)
    assert to_bytes(optimize(after, "bayes-e")) == to_bytes(after)


def test_newer_opsets_are_not_converted() -> None:
    for opset in (11, 13):
        assert not applied(ConvertOldOpsets(), build([node("Relu", "x")], MAP, ["y"], opset=opset))[0]


def test_attributes_become_inputs_in_their_order() -> None:
    proto = node("Slice", "x", name="s", starts=[1, 2], ends=[3, 4])
    modified, after = applied(ConvertOldOpsets(), build([proto], MAP, ["y"], opset=9))
    *constants, made = after.graph
    assert (modified, after.opset_imports[""]) == (True, 11)
    assert [value.name for value in made.inputs] == ["x", "4", "5", "6"]
    assert [each.attributes["value"].as_tensor().numpy().tolist() for each in constants] == [[1, 2], [3, 4], [0, 1]]
    assert not made.attributes


@pytest.mark.parametrize("limits", [{"min": 0.0, "max": 6.0}, {"min": -1.0}, {"max": 2.0}, {}])
def test_a_clip_computes_what_it_did(limits: dict[str, float]) -> None:
    before = build([node("Clip", "x", **limits)], MAP, ["y"], opset=10)
    assert_equivalent(before, optimize(before, "bayes-e"))


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_a_pad_computes_what_it_did(mode: str) -> None:
    before = build([node("Pad", "x", mode=mode, pads=[0, 0, 1, 0, 0, 0, 1, 2], value=0.5)], MAP, ["y"], opset=10)
    assert_equivalent(before, optimize(before, "bayes-e", Compatibility.CLEAN))


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("attributes", [{}, {"value": 0.5}])
def test_a_value_of_another_mode_is_refused_as_by_the_original(mode: str, attributes: dict[str, float]) -> None:
    pad = node("Pad", "x", mode=mode, pads=[0, 0, 1, 0, 0, 0, 1, 2], **attributes)
    before = build([pad], MAP, ["y"], opset=10)
    if attributes and mode != "constant":
        with pytest.raises(UnsupportedError, match="remove the attribute value"):
            optimize(before, "bayes-e")
    else:
        assert_equivalent(before, optimize(before, "bayes-e"))


@pytest.mark.parametrize(
    ("mode", "factor", "moves"),
    [("nearest", 2.0, False), ("nearest", 1.51, True), ("linear", 2.0, True)],
)
def test_a_resize_keeps_its_coordinates_where_the_original_does_not(mode: str, factor: float, moves: bool) -> None:
    scales = {"scales": np.array([1, 1, factor, factor], np.float32)}
    before = build([node("Resize", "x scales", mode=mode)], MAP, ["y"], scales, 10)
    exact, imitated = (optimize(before, "bayes-e", each) for each in (Compatibility.CLEAN, Compatibility.ORIGINAL))
    assert_equivalent(before, exact)
    (resize,) = imitated.graph
    assert [value.name for value in resize.inputs] == ["x", "5", "scales"]
    assert (MARK_OLD_RESIZE in resize.metadata_props) is moves
    assert not resize.attributes.keys() - {"mode"}
    same = all(np.array_equal(a, b) for a, b in zip(run(imitated), run(before), strict=True))
    assert same is not moves
