"""Operators that are a function of one integer."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.errors import UnsupportedError
from engine.ops.core.bounds import Case, IntegerOperand, Unbounded
from engine.ops.core.portable import Emitter, SourceNode, SourceTensor
from engine.ops.core.tables import looked_up, table_bound
from engine.ops.registry import OPERATORS

REVERSED = np.arange(-128, 128)[::-1].astype(np.int8)


def source(dtype: type) -> SourceNode:
    node = ir.node("HzLut", [ir.Value(name="x")], domain="horizon", name="n")
    table = SourceTensor(ir.Value(name="t"), (256,), np.dtype(np.int8), REVERSED)
    return SourceNode(node, {"lut_type": ""}, (SourceTensor(ir.Value(name="x"), (1, 3), np.dtype(dtype), None), table))


def test_every_integer_is_looked_up_in_what_the_definition_gives() -> None:
    emit = Emitter("y")
    looked_up(OPERATORS["HzLut"], source(np.int8), emit)
    assert [node.op_type for node in emit.nodes] == ["Cast", "Add", "Gather"]
    entries = next(value for value in emit.initializers if value.shape == (256,))
    assert entries.const_value is not None
    np.testing.assert_array_equal(entries.const_value.numpy(), REVERSED)


def test_only_small_integers_are_looked_up() -> None:
    with pytest.raises(UnsupportedError, match=r"node n \(HzLut\): input has type int32; allowed: int8, int16"):
        looked_up(OPERATORS["HzLut"], source(np.int32), Emitter("y"))


@pytest.mark.parametrize(("wrong", "units"), [(0, 0), (5, 5)])
def test_the_bound_is_the_error_of_the_worst_entry(wrong: int, units: int) -> None:
    table = np.maximum(np.arange(-128, 128), 0)
    table[200] += wrong
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.INT8), shape=ir.Shape([1, 3]))
    y = ir.Value(name="y", type=ir.TensorType(ir.DataType.INT8), shape=ir.Shape([1, 3]))
    constant = ir.Value(name="t", const_value=ir.tensor(table.astype(np.int8)))
    node = ir.node("HzLut", [x, constant], domain="horizon", outputs=[y])
    head = ir.node("Relu", [ir.Value(name="f")])
    case = Case(node, {}, [head], [IntegerOperand(x, "x", 0.5, 128.0)], np.array([0.5]))
    found = table_bound(OPERATORS["HzLut"], case)
    assert not isinstance(found, Unbounded)
    np.testing.assert_allclose(found, units * 0.5, atol=1e-3)
