"""The float functions that tables are filled with, read from nodes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.ops.core.element_functions import FUNCTIONS, STANDARD, element_function
from engine.ops.lut import lookup_table
from tests.engine.ops.operators import float_node, tensor

X = np.array([-2.0, -0.5, 0.0, 0.5, 2.0])


def constant(number: float) -> ir.Value:
    return ir.Value(name="k", const_value=ir.tensor(np.array(number, np.float32)))


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (ir.node("Relu", [ir.Value(name="x")]), [0, 0, 0, 0.5, 2]),
        (ir.node("LeakyRelu", [ir.Value(name="x")], {"alpha": 0.5}), [-1, -0.25, 0, 0.5, 2]),
        (ir.node("Clip", [ir.Value(name="x")], {"min": -1.0, "max": 1.0}), [-1, -0.5, 0, 0.5, 1]),
        (ir.node("Clip", [ir.Value(name="x"), constant(-1.0)]), [-1, -0.5, 0, 0.5, 2]),
        (ir.node("Pow", [ir.Value(name="x"), constant(2.0)]), [4, 0.25, 0, 0.25, 4]),
        (ir.node("Elu", [ir.Value(name="x")]), [np.expm1(-2), np.expm1(-0.5), 0, 0.5, 2]),
    ],
)
def test_attributes_and_constants_are_part_of_the_function(node: ir.Node, expected: list[float]) -> None:
    np.testing.assert_allclose(element_function(node)(X), expected)


def test_the_table_of_a_tanh_saturates_below_where_an_exponential_overflows() -> None:
    """All 256 entries of ``Tanh_23`` of a draw of the hunt (seed 38002): -128 up to -89.15, -127 from -87.56 on."""
    node = float_node("Tanh", [tensor("x", 1, 4)], (1, 4))
    table = lookup_table(node, np.array([1.5920392274856567], np.float32), np.array([0.007847102358937263], np.float32))
    assert (table[:73] == -128).all()
    assert (table[73:126] == -127).all()
    assert (table[131:] == 127).all()


def test_collapsed_patterns_have_functions_too() -> None:
    assert STANDARD.keys() < FUNCTIONS.keys()
    assert {"HzSwish", "HzGelu"} <= FUNCTIONS.keys() - STANDARD.keys()
