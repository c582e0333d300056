"""Bounds that operators state of themselves."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.errors import ModelError
from engine.ops.core.bounds import (
    Case,
    IntegerOperand,
    OutputStage,
    Unbounded,
    exact,
    stage_of,
    tabulated,
    weighted_sum,
)
from engine.ops.registry import OPERATORS

WITHOUT = {
    "HzQuantize",
    "HzDequantize",
    "HzRequantize",
    "HzQuantizedArgMax",
    "HzQuantizedComparison",
    "HzQuantizedTopK",
    "HzQuantizedRoiResize",
    "HzQuantizedSoftmax",
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
    assert OutputStage(stage.multiplier, np.zeros(1), stage.shift).loss(127) == 0.5
    assert OutputStage(stage.multiplier / 512, np.zeros(1), stage.shift).loss(127) == 0.5 + 128 - 32768 / 512


def test_the_largest_integer_follows_from_the_outputs_type() -> None:
    found = case("HzLut", ir.node("Relu", [tensor("f")]))
    assert found.qmax == 127
    found.node.outputs[0].type = None
    with pytest.raises(ModelError, match="tensor y has no type"):
        _ = found.qmax


def test_every_integer_of_a_table_is_tried() -> None:
    """``max(2x, 0)`` where ``max(x, 0)`` is wanted: 127 units too much at most; what saturates counts as saturated."""
    found = case("HzLut", ir.node("Relu", [tensor("f")]))
    doubled = tabulated(
        found, lambda inputs: (np.maximum(2 * inputs[0].astype(np.int64), 0),), lambda x: np.maximum(x, 0)
    )
    np.testing.assert_allclose(doubled, 12.7, rtol=1e-4)
    saturated = tabulated(found, lambda inputs: (np.clip(inputs[0], -128, 127),), lambda x: np.where(x > 12.65, 1e9, x))
    np.testing.assert_allclose(saturated, 12.8 * 64 * 2.0**-24, rtol=1e-2)
    undefined = tabulated(found, lambda inputs: (np.full(inputs[0].shape, -128),), lambda x: np.log(-np.abs(x) - 1))
    np.testing.assert_allclose(undefined, 12.8 * 64 * 2.0**-24, rtol=1e-6)


def test_a_sum_of_products_is_as_exact_as_its_weights() -> None:
    """Three weights of 1, exact: nothing but five roundings of float32; a bias that is off by one is off by a unit."""
    summed = case("HzSQuantizedConv", ir.node("Conv", [tensor("f")]))
    ones = np.ones((1, 3))
    found = weighted_sum(summed, None, (ones, ones), (np.zeros(1), np.zeros(1)))
    terms = 3 * 0.1 * 128.0
    np.testing.assert_allclose(found, terms * 2.0**-24 + 5 * 2.0**-24 * terms, rtol=1e-6)
    off = weighted_sum(summed, None, (ones, ones), (np.zeros(1), np.ones(1)))
    np.testing.assert_allclose(off - found, 0.1, rtol=1e-12)
    wrong = weighted_sum(summed, None, (ones, 2 * ones), (np.zeros(1), np.zeros(1)))
    np.testing.assert_allclose(wrong - found, terms, rtol=1e-12)
    overflowing = weighted_sum(summed, None, (ones, ones * 2.0**24), (np.zeros(1), np.zeros(1)))
    assert overflowing == np.inf
