"""LSTM and GRU: ONNX Runtime's bits, and which nodes stay with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from engine.floats.multiply_add import FUSES
from engine.floats.recurrent import AT_ONCE, GATES, MOST_STEPS, Floats, cell_of, recurred

SIZES = [(1, 1, 3, 2), (6, 2, 33, 17), (4, 1, AT_ONCE + 44, 20), (3, 2, 20, AT_ONCE + 14)]
"""Steps, rows, inputs and width of the state: sums of one block and of two, with the input and with the state."""
FORMS = [("LSTM", {}), ("GRU", {"linear_before_reset": 0}), ("GRU", {"linear_before_reset": 1})]


def parts(op_type: str, ways: int, size: tuple[int, int, int, int], scale: float = 1) -> list[Floats | None]:
    """Inputs of a node, states among them."""
    steps, rows, inputs, hidden = size
    rng, gates = np.random.default_rng(inputs), GATES[op_type] * hidden
    shapes = [(steps, rows, inputs), (ways, gates, inputs), (ways, gates, hidden), (ways, 2 * gates)]
    states = [(ways, rows, hidden)] * (2 if op_type == "LSTM" else 1)
    factors = [scale, 0.3, 0.3, 0.1, *[1.0] * len(states)]
    found = [
        (rng.standard_normal(shape) * factor).astype(np.float32)
        for shape, factor in zip(shapes + states, factors, strict=True)
    ]
    return [*found[:4], None, *found[4:]]


def cell_node(op_type: str, direction: str, hidden: int, attributes: Mapping[str, Any]) -> ir.Node:
    return ir.node(op_type, [], {"direction": direction, "hidden_size": hidden} | attributes, name="n")


def of_runtime(node: ir.Node, inputs: list[Floats | None]) -> list[Floats]:
    proto = ir.serde.serialize_node(node)
    del proto.output[:]
    names = ["" if array is None else f"i{index}" for index, array in enumerate(inputs)]
    proto.input.extend(names)
    proto.output.extend(["y", "h", "c"][: 3 if node.op_type == "LSTM" else 2])
    constants = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in zip(names[1:], inputs[1:], strict=True)
        if array is not None
    ]
    x = onnx.helper.make_tensor_value_info("i0", onnx.TensorProto.FLOAT, [None] * 3)
    outputs = [onnx.ValueInfoProto(name=name) for name in proto.output]
    graph = onnx.helper.make_graph([proto], "g", [x], outputs, constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options)
    return list(session.run(None, {"i0": inputs[0]}))


@pytest.mark.skipif(not FUSES, reason="measured on CPUs with fused multiply-add")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op_type", "attributes"), FORMS)
@pytest.mark.parametrize("scale", [1, 20])
def test_the_runtime_has_the_same_bits(
    op_type: str, attributes: dict[str, int], direction: str, size: tuple[int, int, int, int], scale: float
) -> None:
    """Also where gates are saturated."""
    node = cell_node(op_type, direction, size[-1], attributes)
    inputs = parts(op_type, 2 if direction == "bidirectional" else 1, size, scale)
    cell = cell_of(node, inputs)
    assert cell is not None
    assert inputs[0] is not None
    found, expected = recurred(inputs[0], cell), of_runtime(node, inputs)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("op_type", GATES)
def test_what_is_left_out_is_zero(op_type: str) -> None:
    inputs = parts(op_type, 1, (3, 2, 4, 5))
    zeros = [*inputs[:3], *(None if array is None else np.zeros_like(array) for array in inputs[3:])]
    node = cell_node(op_type, "forward", 5, {"activations": ["sigmoid", "Tanh", "Tanh"][: GATES[op_type] - 1]})
    for given in (inputs[:3], zeros):
        cell = cell_of(node, given)
        assert cell is not None
        assert inputs[0] is not None
        np.testing.assert_array_equal(recurred(inputs[0], cell)[0], of_runtime(node, [*given])[0])


@pytest.mark.parametrize(
    ("changed", "attributes"),
    [
        ({}, {"clip": 1.0}),
        ({}, {"activations": ["Relu", "Tanh", "Tanh"]}),
        ({}, {"layout": 1}),
        ({}, {"input_forget": 1}),
        ({}, {"direction": "sideways"}),
        ({}, {"hidden_size": 6}),
        ({4: np.array([2], np.int32)}, {}),
        ({7: np.zeros((1, 15), np.float32)}, {}),
        ({0: np.zeros((3, 1, 4))}, {}),
        ({0: np.zeros((0, 1, 4), np.float32)}, {}),
        ({0: np.zeros((MOST_STEPS // 5 + 1, 1, 4), np.float32)}, {}),
        ({1: np.zeros((1, 20, 3), np.float32)}, {}),
        ({1: ir.Value(name="w")}, {}),
        ({1: None}, {}),
        ({2: np.zeros((1, 20, 4), np.float32)}, {}),
        ({3: np.zeros((1, 20), np.float32)}, {}),
        ({5: np.zeros((1, 2, 5), np.float32)}, {}),
    ],
)
def test_others_stay_with_the_runtime(changed: dict[int, Any], attributes: dict[str, Any]) -> None:
    inputs: list[Any] = [*parts("LSTM", 1, (3, 1, 4, 5)), None]
    assert cell_of(cell_node("LSTM", "forward", 5, {}), inputs) is not None
    for place, value in changed.items():
        inputs[place] = value
    assert cell_of(cell_node("LSTM", "forward", 5, attributes), inputs) is None


def test_a_plain_recurrent_cell_is_none_of_them() -> None:
    assert cell_of(cell_node("RNN", "forward", 5, {}), parts("GRU", 1, (3, 1, 4, 5))) is None
