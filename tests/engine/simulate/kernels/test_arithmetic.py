"""Kernels of float arithmetic and changes of type, on their own."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import onnx_ir as ir
import pytest

from engine.simulate.kernels.arithmetic import as_singles
from engine.simulate.lowering.floats import CAST_UNIT, FLOAT_LOWERINGS
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import fed, run

OPERATIONS = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("shapes", [((2, 3, 5), (2, 3, 5)), ((2, 3, 5), (1, 1, 1)), ((1, 3, 1), (2, 3, 5))])
def test_operations_that_broadcast(name: str, kind: type, shapes: tuple[tuple[int, ...], ...]) -> None:
    program, rng = Assembler(), np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(kind) for shape in shapes]
    feeds = fed(program, *arrays)
    result = FLOAT_LOWERINGS[name](ir.node(name, [], name="n"), 13, [tensor for tensor, _ in feeds], program)
    np.testing.assert_array_equal(run(program, feeds, result), OPERATIONS[name](*arrays))


def test_a_cast_of_more_than_one_unit() -> None:
    x, program = np.arange(CAST_UNIT + 3, dtype=np.float32), Assembler()
    feeds = fed(program, x)
    node = ir.node("Cast", [], {"to": ir.DataType.DOUBLE.value}, name="n")
    found = run(program, feeds, FLOAT_LOWERINGS["Cast"](node, 13, [feeds[0][0]], program))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, x)


@numba.njit
def rounded(x: Any, y: Any) -> None:
    as_singles(x, y)


def test_a_double_is_rounded_to_even() -> None:
    y = np.zeros(2, np.float32)
    rounded(np.array([1 + 2.0**-24, 1 + 3 * 2.0**-24]), y)
    assert y.tolist() == [1, 1 + 2.0**-22]


def test_what_is_less_is_raised_and_what_is_undefined_stays() -> None:
    x, program = np.array([-1, 2, np.nan, -np.inf, 1e-40], np.float32), Assembler()
    feeds = fed(program, x)
    result = FLOAT_LOWERINGS["Relu"](ir.node("Relu", [ir.Value(name="x")], name="n"), 13, [feeds[0][0]], program)
    np.testing.assert_array_equal(run(program, feeds, result), np.array([0, 2, np.nan, 0, 1e-40], np.float32))
