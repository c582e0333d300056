"""Every quantised node is as close to its float node as its integers promise, on any input integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.ir import before_calibration, constant_of, shape_of
from engine.ops.core.bounds import IntegerOperand
from engine.ops.registry import operator, read_attributes
from engine.quantize.error_bound import NodeBound, node_error_bounds
from engine.simulate import Session
from tests.properties.stages import MARCHES, Stages, evidence
from tests.strategies.graphs import GraphCase, graph_cases

NHWC = (0, 2, 3, 1)
ONNX_LAYOUT = {"HzSQuantizedMatmul"}
"""Operators that compute in ONNX's own layout."""


@pytest.mark.parametrize("march", MARCHES)
@given(case=graph_cases(), seed=st.integers(0, 2**16), amplitude=st.sampled_from([0.05, 0.3, 1.0]))
def test_every_node_keeps_its_bound(march: str, case: GraphCase, seed: int, amplitude: float) -> None:
    stages = Stages(case.model, case.calibration, march)
    with evidence("node_error", stages, case.blocks, "quantized"):
        bounds = node_error_bounds(stages.calibrated, stages.quantized, march)
        assert bounds
        rng = np.random.default_rng(seed)
        for bound in bounds:
            check(bound, rng, amplitude)


def check(bound: NodeBound, rng: np.random.Generator, amplitude: float) -> None:
    """Compare one node with its float chain on random integers."""
    model = chain_model(bound)
    shapes = {str(value.name): shape_of(value) for value in model.graph.inputs}
    integers = {operand.tensor: draw(rng, operand, shapes[operand.tensor], amplitude) for operand in bound.operands}
    scales = {operand.tensor: operand.scale for operand in bound.operands}
    feed = {name: (array * scales[name]).astype(np.float32) for name, array in integers.items()}
    (wanted,) = Session(model).run(feed).values()
    actual = run_integers(bound, integers)
    scale = on_channels(bound.scale, wanted.ndim)
    limits = np.iinfo(actual.dtype)
    error = np.abs(actual * scale - np.clip(wanted.astype(np.float64), limits.min * scale, limits.max * scale))
    allowed = np.broadcast_to(on_channels(bound.bound, wanted.ndim), error.shape)
    assert np.all(error <= allowed), (
        f"{bound.node.op_type} {bound.node.name}: error {(error - allowed).max():.3g} above its bound"
    )


def chain_model(bound: NodeBound) -> ir.Model:
    """The float nodes of ``bound`` without calibration, as a model that reads the operands."""
    copies: dict[str, ir.Value] = {}
    for operand in bound.operands:
        tensor = source_tensor(bound.chain, operand.tensor)
        copies[operand.tensor] = ir.Value(
            name=operand.tensor, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(shape_of(tensor))
        )
    inputs = list(copies.values())
    nodes = [copy(node, copies) for node in bound.chain]
    constants = [value for value in copies.values() if value.const_value is not None]
    opsets = dict(bound.chain[0].graph.opset_imports)
    graph = ir.Graph(inputs, nodes[-1].outputs, nodes=nodes, initializers=constants, opset_imports=opsets, name="chain")
    return ir.Model(graph, ir_version=8)


def source_tensor(chain: Sequence[ir.Node], name: str) -> ir.Value:
    tensors = [before_calibration(value) for node in chain for value in node.inputs if value is not None]
    return next(value for value in tensors if value.name == name)


def copy(node: ir.Node, copies: dict[str, ir.Value]) -> ir.Node:
    """``node`` on values of the new graph."""
    inputs: list[ir.Value | None] = []
    for value in node.inputs:
        tensor = None if value is None else before_calibration(value)
        if tensor is not None and str(tensor.name) not in copies:
            array = ir.tensor(np.asarray(constant_of(tensor)))
            copies[str(tensor.name)] = ir.Value(
                name=tensor.name, type=ir.TensorType(array.dtype), shape=array.shape, const_value=array
            )
        inputs.append(None if tensor is None else copies[str(tensor.name)])
    outputs = [ir.Value(name=value.name, type=value.type, shape=value.shape) for value in node.outputs]
    copies.update({str(value.name): value for value in outputs})
    attributes = list(node.attributes.values())
    return ir.Node(node.domain, node.op_type, inputs, attributes, outputs=outputs, name=node.name)


def draw(rng: np.random.Generator, operand: IntegerOperand, shape: Sequence[int], amplitude: float) -> NDArray:
    """Integers of the float tensor's layout; with amplitude 1 of the whole range."""
    limit = max(1, int(operand.largest * amplitude))
    return rng.integers(-limit, limit, shape).astype(np.int8 if operand.largest <= 128 else np.int16)


def run_integers(bound: NodeBound, integers: dict[str, NDArray]) -> NDArray:
    """What the operator's definition gives for these operands, in the float tensor's layout."""
    moved = bound.node.op_type not in ONNX_LAYOUT
    by_value = {operand.value: integers[operand.tensor] for operand in bound.operands}
    inputs: list[NDArray | None] = []
    for value in bound.node.inputs:
        array = by_value[value] if value in by_value else constant_of(value)
        rank4 = value in by_value and array is not None and array.ndim == 4
        inputs.append(array.transpose(NHWC) if array is not None and rank4 and moved else array)
    (result,) = operator(bound.node.op_type).reference(inputs, read_attributes(bound.node))
    return result.transpose(0, 3, 1, 2) if moved and result.ndim == 4 else result


def on_channels(values: NDArray, rank: int) -> NDArray:
    """Per-channel values along axis 1."""
    return values.reshape(-1, *[1] * (rank - 2)) if rank > 1 else values
