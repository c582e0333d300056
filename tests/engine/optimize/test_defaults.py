"""Attributes that are always written."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from engine.optimize.defaults import CompleteAttributes, ReshapeWithoutZeros
from tests.engine.optimize.equivalence import applied, build, optimized
from tests.engine.optimize.networks import MAP, node, normal


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("op_type", ["Conv", "MaxPool"])
def test_automatic_pads_are_written_out(op_type: str, mode: str) -> None:
    inputs, constants = ("x w", {"w": normal(4, 4, 2, 3)}) if op_type == "Conv" else ("x", {})
    before = build([node(op_type, inputs, kernel_shape=[2, 3], strides=[2, 1], auto_pad=mode)], MAP, ["y"], constants)
    (after,) = optimized(before).graph
    assert "auto_pad" not in after.attributes
    assert len(after.attributes["pads"].value) == 4


@pytest.mark.parametrize(
    ("proto", "expected"),
    [
        (node("Conv", "x w"), {"kernel_shape": (2, 3), "strides": (1, 1), "group": 1, "pads": (0, 0, 0, 0)}),
        (node("ConvTranspose", "x w"), {"kernel_shape": (2, 3), "strides": (1, 1), "group": 1, "pads": (0, 0, 0, 0)}),
        (node("MaxPool", "x", kernel_shape=[3, 3]), {"kernel_shape": (3, 3), "strides": (1, 1), "pads": (0, 0, 0, 0)}),
        (node("DepthToSpace", "x", blocksize=2), {"blocksize": 2, "mode": "DCR"}),
        (
            node("MaxPool", "x", kernel_shape=[2, 3], strides=[3, 2], auto_pad="SAME_UPPER"),
            {"kernel_shape": (2, 3), "strides": (3, 2), "pads": (0, 0, 1, 1)},
        ),
        (
            node("MaxPool", "x", kernel_shape=[2, 3], strides=[3, 2], auto_pad="SAME_LOWER"),
            {"kernel_shape": (2, 3), "strides": (3, 2), "pads": (1, 1, 0, 0)},
        ),
        (
            node("MaxPool", "x", kernel_shape=[2, 2], auto_pad="VALID"),
            {"kernel_shape": (2, 2), "strides": (1, 1), "pads": (0, 0, 0, 0)},
        ),
        (
            node("Conv", "x w", auto_pad="SAME_UPPER", dilations=[2, 2]),
            {"kernel_shape": (2, 3), "strides": (1, 1), "group": 1, "dilations": (2, 2), "pads": (1, 2, 1, 2)},
        ),
    ],
)
def test_attributes_are_complete(proto: onnx.NodeProto, expected: dict[str, Any]) -> None:
    """Of a map of 7 x 8: strides of 3 and 2 give 3 x 4 results, which reach over 8 and 9."""
    constants = {"w": normal(4, 4, 2, 3)} if proto.op_type.startswith("Conv") else {}
    before = build([proto], {"x": (1, 4, 7, 8)}, ["y"], constants)
    # ONNX Runtime has no automatic pads with dilations.
    _, after = applied(CompleteAttributes(), before, exact="dilations" not in expected)
    (done,) = after.graph
    found = {name: attr.value for name, attr in done.attributes.items()}
    assert {key: tuple(value) if isinstance(value, list | tuple) else value for key, value in found.items()} == expected
    assert not applied(CompleteAttributes(), after)[0], "nothing is left to write"


@pytest.mark.parametrize(
    ("proto", "expected"),
    [
        (node("ReduceMean", "x", axes=[-1, 1]), {"axes": (3, 1), "keepdims": 1}),
        (node("ReduceMax", "x", keepdims=0), {"axes": (0, 1, 2, 3), "keepdims": 0}),
        (node("ReduceMin", "x", keepdims=0), {"keepdims": 0}),
        (node("ReduceProd", "x", axes=[-2]), {"axes": (2,), "keepdims": 1}),
        (node("Concat", "x x", axis=-2), {"axis": 2}),
    ],
)
def test_axes_are_counted_from_the_front(proto: onnx.NodeProto, expected: dict[str, Any]) -> None:
    """As the means of ``swin`` and its ``Concat_1290``."""
    before = build([proto], {"x": (1, 4, 7, 8)}, ["y"], {})
    assert CompleteAttributes().remains(before.graph[0]) == (proto.op_type != "ReduceMin")
    _, after = applied(CompleteAttributes(), before)
    (done,) = after.graph
    found = {name: attr.value for name, attr in done.attributes.items()}
    assert {key: tuple(value) if isinstance(value, list | tuple) else value for key, value in found.items()} == expected
    assert not CompleteAttributes().remains(done)
    assert not applied(CompleteAttributes(), after)[0], "nothing is left to write"


@pytest.mark.parametrize(
    ("given", "pads", "more"),
    [
        ({"output_shape": [9, 9]}, (0, 0, 0, 0), None),
        ({"output_shape": [8, 8]}, (1, 1, 0, 0), None),
        ({"output_shape": [7, 8]}, (1, 1, 1, 0), None),
        ({"output_shape": [8, 8], "auto_pad": "SAME_UPPER"}, (0, 0, 1, 1), None),
        ({"output_shape": [10, 10]}, (0, 0, 0, 0), (1, 1)),
        ({"auto_pad": "SAME_UPPER"}, (0, 0, 1, 1), None),
        ({"auto_pad": "SAME_LOWER"}, (1, 1, 0, 0), None),
        ({"auto_pad": "VALID"}, (0, 0, 0, 0), None),
        ({"auto_pad": "NOTSET", "pads": [1, 0, 1, 0]}, (1, 0, 1, 0), None),
    ],
)
def test_sizes_of_a_transposed_convolution_become_pads(
    given: dict[str, Any], pads: tuple[int, ...], more: tuple[int, ...] | None
) -> None:
    """The original writes 1, 0, 1, 1 for 15 x 16 of 8 x 8, and 0, 0, 1, 1 for SAME_UPPER (docs/evidence/field.md)."""
    proto = node("ConvTranspose", "x w", strides=[2, 2], **given)
    _, after = applied(CompleteAttributes(), build([proto], {"x": (1, 4, 4, 4)}, ["y"], {"w": normal(4, 4, 3, 3)}))
    found = {name: attr.value for name, attr in after.graph[0].attributes.items()}
    assert tuple(found["pads"]) == pads
    assert found.get("output_padding") == more
    assert not {"output_shape", "auto_pad"} & set(found)


def test_a_reshape_names_the_sizes_that_it_keeps() -> None:
    """As in front of the means of a GroupNorm (``fpn_retina_gn``)."""
    before = build([node("Reshape", "x to")], {"x": (2, 4, 3, 5)}, ["y"], {"to": np.array([0, 2, -1])})
    _, after = applied(ReshapeWithoutZeros(), before)
    (reshape,) = after.graph
    target = reshape.inputs[1]
    assert target is not None
    assert target.name == f"{reshape.name}_to_target_shape"
    assert target.const_value is not None
    assert target.const_value.numpy().tolist() == [2, 2, -1]
