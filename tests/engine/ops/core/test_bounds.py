"""Bounds that operators state of themselves."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.errors import ModelError
from engine.ops.core.bounds import Case, IntegerOperand, Stage, Unbounded, exact, stage_of
from engine.ops.registry import OPERATORS

WITHOUT = {
    "HzQuantize",
    "HzDequantize",
    "HzRequantize",
    "HzQuantizedArgMax",
    "HzQuantizedComparison",
    "HzQuantizedTopK",
    "HzQuantizedRoiResize",
}
"""Operators that have no bound."""


def tensor(name: str, dtype: ir.DataType = ir.DataType.INT8) -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape([1, 4, 4, 2]))


def case(op_type: str, head: ir.Node, **attributes: object) -> Case:
    x, y = tensor("x"), tensor("y")
    node = ir.node(op_type, [x], domain="horizon", outputs=[y], name="n")
    return Case(node, attributes, [head], [IntegerOperand(x, "x", 0.1, 128.0)], np.array([0.1]))


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_an_operator_without_a_bound_says_why(name: str) -> None:
    found = OPERATORS[name].error_bound(case(name, ir.node("Identity", [tensor("f")])))
    assert isinstance(found, Unbounded)
    assert found.reason


@pytest.mark.parametrize("value", [0.0, 0.24, 1e6])
def test_a_padded_border_is_as_far_from_its_value_as_its_integer(value: float) -> None:
    integer = int(np.clip(np.rint(value / 0.1), -128, 127))
    head = ir.node("Pad", [tensor("f")], {"value": value})
    found = OPERATORS["HzPad"].error_bound(case("HzPad", head, mode="constant", value=integer))
    assert not isinstance(found, Unbounded)
    moved = exact(case("HzPad", head))
    np.testing.assert_allclose(found, max(float(moved), abs(integer * 0.1 - min(value, 12.7))))


def test_narrowing_and_range_are_part_of_a_stages_loss() -> None:
    attributes = {"m": np.array([16384]), "a": np.array([4]), "s": np.array([14])}
    stage = stage_of(attributes, "m", "a", "s")
    assert (stage.step, stage.unit) == (1.0, 1 / 16)
    assert stage.loss(127) == 0.5 + 1.0
    assert Stage(stage.multiplier, np.zeros(1), stage.shift).loss(127) == 0.5
    assert Stage(stage.multiplier / 512, np.zeros(1), stage.shift).loss(127) == 0.5 + 128 - 32768 / 512


def test_the_largest_integer_follows_from_the_outputs_type() -> None:
    found = case("HzLut", ir.node("Relu", [tensor("f")]))
    assert found.qmax == 127
    found.node.outputs[0].type = None
    with pytest.raises(ModelError, match="tensor y has no type"):
        _ = found.qmax
