"""Tensors that are no maps: which operators move them on the BPU, and what their quantised operators state."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate import apply_thresholds
from engine.optimize import optimize
from engine.place import PlacementOptions, place
from engine.quantize import quantize
from tests.engine.optimize.equivalence import build
from tests.engine.optimize.networks import node, normal

MAP = {"x": (1, 6, 4, 4)}


def quantized(nodes: list[onnx.NodeProto], march: str = "bayes-e", **constants: np.ndarray) -> ir.Model:
    """A convolution to ``c``, ``nodes`` from there to ``m``, and a product of ``m`` with a matrix."""
    placed = place(optimize(network([*nodes, node("MatMul", "m last")], ["y"], **constants), march), march).model
    return quantize(apply_thresholds(placed, None), march)


def network(nodes: list[onnx.NodeProto], outputs: list[str], **constants: np.ndarray) -> ir.Model:
    first = helper.make_node("Conv", ["x", "cw"], ["c"], name="first")
    return build([first, *nodes], MAP, outputs, {"cw": normal(6, 6, 1, 1), "last": normal(6, 3), **constants})


def borders(model: ir.Model) -> int:
    """How often integers become floats."""
    return sum(item.op_type == "HzDequantize" for item in model.graph)


@pytest.mark.parametrize("shape", [(6, 16), (1, 6, 16), (1, 6, 4, 2, 2), (1, 2, 3, 4, 2, 2)])
def test_movements_of_every_rank_run_on_the_bpu(shape: tuple[int, ...]) -> None:
    nodes = [
        node("Reshape", "c k", "r"),
        node("Transpose", "r", "t", perm=list(range(len(shape)))[::-1]),
        node("Reshape", "t back", "m"),
    ]
    constants = {"k": np.array(shape), "back": np.array([1, 16, 6])}
    assert borders(quantized(nodes, **constants)) == 1


def test_parts_and_a_constant_are_joined_in_three_dimensions() -> None:
    nodes = [
        node("Reshape", "c k", "r"),
        node("Transpose", "r", "t", perm=[0, 2, 1]),
        helper.make_node("Split", ["t"], ["a", "b"], name="split", axis=1, split=[4, 12]),
        node("Concat", "token b a", "m", axis=1),
    ]
    model = quantized(nodes, k=np.array([1, 6, 16]), token=normal(1, 1, 6))
    assert borders(model) == 1
    axes = {
        item.op_type: item.attributes["axis"].as_int() for item in model.graph if item.op_type in ("Split", "Concat")
    }
    assert axes == {"Split": 1, "Concat": 1}


@pytest.mark.parametrize(("shape", "integers"), [((1, 16, 6), True), ((1, 4, 1, 4, 6), False)])
def test_positions_of_rank_3_are_gathered_on_the_bpu(shape: tuple[int, ...], integers: bool) -> None:
    nodes = [
        node("Transpose", "c", "t", perm=[0, 2, 3, 1]),
        node("Reshape", "t k", "r"),
        node("Gather", "r i", "m", axis=1),
    ]
    model = quantized(nodes, k=np.array(shape), i=np.array([0]))
    gather = next(item for item in model.graph if item.op_type == "Gather")
    assert gather.inputs[0] is not None
    assert (gather.inputs[0].dtype == ir.DataType.INT8) is integers
    assert next(item for item in model.graph if item.op_type == "Reshape").outputs[0].dtype == ir.DataType.INT8


def test_operators_on_rows_state_no_layout_and_a_value_per_feature() -> None:
    nodes = [
        node("Reshape", "c k", "r"),
        node("Transpose", "r", "t", perm=[0, 2, 1]),
        node("Softmax", "t", "s", axis=1),
        node("Add", "s b", "a"),
        node("ReduceMean", "a", "mean", axes=[2], keepdims=1),
        node("Sub", "a mean", "m"),
    ]
    model = quantized(nodes, k=np.array([1, 6, 16]), b=normal(16, 6))
    rows = [
        item
        for item in model.graph
        if item.op_type in ("HzSElementwiseAdd", "HzSQuantizedReduceMean", "HzSElementwiseSub")
    ]
    assert len(rows) == 3
    assert all("data_format" not in item.attributes for item in rows)
    lengths = [len(item.attributes[name].as_ints()) for item, name in zip(rows[:2], ("e_scale", "scale"), strict=True)]
    assert lengths == [6, 6]


def test_sums_of_what_the_cpu_computed_are_no_convolutions() -> None:
    """On bernoulli2, where sums of what the BPU computed are."""
    nodes = [node("Softmax", "c", "s", axis=1), node("Softmax", "c", "u", axis=2), node("Add", "s u", "a")]
    nodes += [node("Transpose", "a", "t", perm=[0, 2, 3, 1]), node("Sub", "a s", "d"), node("MatMul", "t w", "m")]
    types = [item.op_type for item in quantized(nodes, "bernoulli2", w=normal(6, 6)).graph]
    assert "HzSElementwiseAdd" in types
    assert "Add" not in types


@pytest.mark.parametrize("output_type", [None, "int16"])
def test_a_reshape_at_the_end_stays_where_a_type_is_asked_for(output_type: str | None) -> None:
    model = optimize(network([node("Reshape", "c k")], ["y"], k=np.array([1, 6, 16])), "bayes-e")
    placed = place(model, "bayes-e", PlacementOptions(output_type=output_type)).model
    types = [item.op_type for item in quantize(apply_thresholds(placed, None), "bayes-e").graph]
    assert (types.index("Reshape") < types.index("HzDequantize")) is (output_type is not None)


def test_what_is_joined_before_an_int16_sigmoid_has_its_range() -> None:
    nodes = [
        node("Reshape", "c k", "r"),
        node("Softmax", "c", "s", axis=1),
        node("Reshape", "s k", "t"),
        node("Concat", "r t", "j", axis=2),
        node("Sigmoid", "j", "y"),
    ]
    placed = place(optimize(network(nodes, ["y"], k=np.array([1, 6, 16])), "bayes-e"), "bayes-e").model
    types = [item.op_type for item in quantize(apply_thresholds(placed, None), "bayes-e").graph]
    assert "HzLut2Layer" in types
    assert "HzRequantize" not in types
