"""LSTM and GRU: the products of ONNX Runtime, and which nodes stay with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from engine.floats.multiply_add import FUSES
from engine.floats.recurrent import GATES, MOST_STEPS, Floats, cell_of, products_added, recurred
from engine.floats.runtime import open_session
from tests.cpu import needs_cpu

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


@needs_cpu(FUSES, "products of several rows are asked of CPUs with fused multiply-add")
@pytest.mark.parametrize("results", [1, 2, 3, 4, 7, 18])
@pytest.mark.parametrize(("rows", "count"), [(1, 3), (1, 19), (1, 300), (2, 19), (3, 300)])
def test_products_are_the_runtimes(rows: int, count: int, results: int) -> None:
    """Of one row, and of several: a Gemm whose weights are not packed beforehand has the same bits."""
    rng = np.random.default_rng(count)
    x, weights = (rng.standard_normal((number, count)).astype(np.float32) for number in (rows, results))
    inputs = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("x", "w")]
    node = onnx.helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)
    graph = onnx.helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=8)
    session = open_session(model.SerializeToString(), threads=1, blocked_layouts=False)
    (expected,) = session.run(None, {"x": x, "w": weights})
    np.testing.assert_array_equal(products_added(None, x, weights), expected)


@pytest.mark.parametrize("op_type", GATES)
def test_what_is_left_out_is_zero(op_type: str) -> None:
    inputs = parts(op_type, 1, (3, 2, 4, 5))
    zeros = [*inputs[:3], *(None if array is None else np.zeros_like(array) for array in inputs[3:])]
    node = cell_node(op_type, "forward", 5, {"activations": ["sigmoid", "Tanh", "Tanh"][: GATES[op_type] - 1]})
    found = []
    for given in (inputs[:3], zeros):
        cell = cell_of(node, given)
        assert cell is not None
        assert inputs[0] is not None
        found.append(recurred(inputs[0], cell)[0])
    np.testing.assert_array_equal(*found)


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
