"""Standard nodes that choose among small integers are computed in float32."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.ops.core.portable import Emitter
from engine.simulate.portable.onnx_nodes import SELECTING, in_float32, needs_carrier


@pytest.mark.parametrize(
    ("op_type", "kind", "expected"),
    [
        ("Max", np.int8, True),
        ("Max", np.int16, True),
        ("Max", np.int32, False),
        ("Max", np.float32, False),
        ("Add", np.int8, False),
    ],
)
def test_who_needs_a_carrier(op_type: str, kind: type, expected: bool) -> None:
    node = ir.node(op_type, [ir.Value(name="a"), None])
    assert needs_carrier(node, [np.zeros(2, kind), None]) is expected


def test_only_operators_that_choose_are_carried() -> None:
    assert SELECTING.isdisjoint({"Add", "Mul", "Conv", "Sum", "Clip", "AveragePool"})
    assert {"Max", "Min", "TopK", "MaxPool"} <= SELECTING


def test_small_integers_are_cast_to_and_fro_and_others_stay() -> None:
    node = ir.node("TopK", [ir.Value(name="x"), ir.Value(name="k")], {"axis": 1}, num_outputs=2)
    emit = Emitter("y")
    arrays = [np.zeros((1, 4), np.int8), np.array([2])]
    values, positions = in_float32(node, arrays, [np.zeros((1, 2), np.int8), np.zeros((1, 2), np.int64)], emit)
    assert [made.op_type for made in emit.nodes] == ["Cast", "TopK", "Cast"]
    first, chosen, last = emit.nodes
    assert (first.attributes["to"].as_int(), last.attributes["to"].as_int()) == (ir.DataType.FLOAT, ir.DataType.INT8)
    assert chosen.inputs[1] is node.inputs[1]
    assert chosen.attributes["axis"].as_int() == 1
    assert values is last.outputs[0]
    assert positions is chosen.outputs[1]
