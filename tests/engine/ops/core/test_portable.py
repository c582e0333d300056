"""Writing standard nodes: names, constants, exact factors, and what must be constant."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.errors import UnsupportedError
from engine.ops.core.portable import (
    FUNCTION_DOMAIN,
    TO_NCHW,
    TO_NHWC,
    Emitter,
    SourceNode,
    SourceTensor,
    factor,
    floors,
    in_nhwc,
    limits,
)


def tensor(name: str, constant: np.ndarray | None = None) -> SourceTensor:
    return SourceTensor(ir.Value(name=name), (1, 2), np.dtype(np.int8), constant)


def test_nodes_and_constants_are_named_after_the_node_they_stand_for() -> None:
    emit = Emitter("y/standard")
    total = emit.op("Add", emit.wide(tensor("x")), np.float64(3))
    emit.call("ShiftFloor", total, factor(2))
    assert [(node.op_type, node.domain) for node in emit.nodes] == [
        ("Cast", ""),
        ("Add", ""),
        ("ShiftFloor", FUNCTION_DOMAIN),
    ]
    assert [node.name for node in emit.nodes] == [
        "y/standard/Cast_0",
        "y/standard/Add_1",
        "y/standard/ShiftFloor_2",
    ]
    assert [value.name for value in emit.initializers] == ["y/standard/constant_0", "y/standard/constant_1"]


def test_factors_are_exact_and_one_value_is_a_scalar() -> None:
    assert factor([3], [5]).shape == ()
    assert factor([3, -2], [5, 7]).tolist() == [5 / 8, 28.0]


def test_ranges_and_rounding() -> None:
    assert [float(bound) for bound in limits(8)] == [-128, 127]
    assert [float(bound) for bound in limits(16, 0)] == [0, 32767]
    assert floors({"rounding_method": "FLOOR"})
    assert not floors({})


def test_the_magnitude_of_a_constant_is_its_own() -> None:
    assert tensor("x").magnitude == 128
    assert tensor("x", np.array([-3, 2], np.int8)).magnitude == 3


def test_inputs_that_are_missing_or_computed_are_named() -> None:
    node = ir.node("HzLut", [ir.Value(name="x")], domain="horizon", name="n")
    call = SourceNode(node, {}, (tensor("x"), None))
    with pytest.raises(UnsupportedError, match=r"node n \(HzLut\): input 1 is missing"):
        call.input(1)
    with pytest.raises(UnsupportedError, match=r"input 0 \(x\) must be a constant to be exported"):
        call.constant(0)


def test_planes_and_pixels_change_places() -> None:
    """(0, 1, 2, 3) of NHWC is (0, 3, 1, 2) of NCHW, and back."""
    assert [TO_NCHW[axis] for axis in TO_NHWC] == [0, 1, 2, 3]
    shape = np.empty((1, 2, 3, 4))
    assert shape.transpose(TO_NCHW).shape == (1, 4, 2, 3)
    emit = Emitter("y")
    in_nhwc(emit.cast(ir.Value(name="p"), np.float32), np.dtype(np.int8), emit)
    assert [node.op_type for node in emit.nodes] == ["Cast", "Cast", "Transpose"]
    assert tuple(emit.nodes[-1].attributes["perm"].as_ints()) == (0, 2, 3, 1)
