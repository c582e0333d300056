"""What no later stage can hold is refused, by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from engine.errors import UnsupportedError
from engine.frontend.limits import ELEMENT_TYPES, refuse_unsupported

HELD = ["bool", "double", "float", "float16", "int16", "int32", "int64", "int8", "uint16", "uint32", "uint64", "uint8"]


def model(*nodes: ir.Node, outputs: list[ir.Value] | None = None, kind: ir.TypeProtocol | None = None) -> ir.Model:
    x = ir.Value(name="x", type=kind or ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape((1, 2)))
    for node in nodes:
        node.replace_input_with(0, x)
    made = list(nodes) or [ir.node("Relu", [x], name="r", outputs=[ir.val("y", ir.DataType.FLOAT, (1, 2))])]
    ends = [made[-1].outputs[0]] if outputs is None else outputs
    return ir.Model(ir.Graph([x], ends, nodes=made, opset_imports={"": 13}), ir_version=8)


def refused(given: ir.Model) -> str:
    with pytest.raises(UnsupportedError) as caught:
        refuse_unsupported(given, Path("m.onnx"))
    message = str(caught.value)
    assert message.startswith("m.onnx: ")
    return message


def node(op_type: str, kind: ir.DataType = ir.DataType.FLOAT, **attributes: object) -> ir.Node:
    return ir.node(op_type, [None], attributes, name="n", outputs=[ir.val("y", kind, (1, 2))])


def test_types_that_a_bin_holds() -> None:
    assert sorted(kind.name.lower() for kind in ELEMENT_TYPES) == HELD
    for kind in ir.DataType:
        if kind is not ir.DataType.UNDEFINED:
            given = model(node("Cast", kind, to=int(kind)))
            if kind in ELEMENT_TYPES:
                refuse_unsupported(given, Path("m.onnx"))
            else:
                assert f"tensor 'y' is of type {kind.name.lower()}; supported are {', '.join(HELD)}" in refused(given)


def test_inputs_and_constants_are_looked_at_too() -> None:
    assert "tensor 'x' is of type complex64" in refused(model(kind=ir.TensorType(ir.DataType.COMPLEX64)))
    assert "'x' is of type Sequence" in refused(model(kind=ir.SequenceType(ir.TensorType(ir.DataType.FLOAT))))


@pytest.mark.parametrize(
    ("ratio", "training", "is_refused"), [(0.5, True, True), (0.0, True, False), (0.5, False, False)]
)
def test_a_dropout_that_drops(ratio: float, training: bool, is_refused: bool) -> None:
    dropout = node("Dropout")
    dropout.resize_inputs(3)
    for index, value in ((1, np.float32(ratio)), (2, np.array(training))):
        tensor = ir.tensor(value)
        dropout.replace_input_with(
            index, ir.Value(name=f"c{index}", const_value=tensor, type=ir.TensorType(tensor.dtype))
        )
    if is_refused:
        assert "node 'n' (Dropout) is in training mode" in refused(model(dropout))
    else:
        refuse_unsupported(model(dropout), Path("m.onnx"))


def test_outputs_are_listed_once_and_computed() -> None:
    relu = node("Relu")
    assert "output 'y' is listed twice" in refused(model(relu, outputs=[relu.outputs[0]] * 2))
    given = model()
    given.graph.outputs.append(given.graph.inputs[0])
    assert "output 'x' is an input of the model as it is" in refused(given)


@pytest.mark.parametrize(
    ("op_type", "attributes", "text"),
    [
        ("BatchNormalization", {"training_mode": 1}, "node 'n' (BatchNormalization) is in training mode"),
        ("LSTM", {"layout": 1}, "node 'n' (LSTM) has layout 1"),
        ("GRU", {"layout": 1}, "node 'n' (GRU) has layout 1"),
        ("RNN", {"layout": 1}, "node 'n' (RNN) has layout 1"),
    ],
)
def test_modes_that_nothing_computes(op_type: str, attributes: dict[str, int], text: str) -> None:
    assert text in refused(model(node(op_type, **attributes)))
    refuse_unsupported(model(node(op_type, **dict.fromkeys(attributes, 0))), Path("m.onnx"))
