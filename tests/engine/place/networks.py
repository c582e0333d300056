"""Float networks of a few nodes to be placed and quantised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

from engine.ir import MARK_ON, calibration_nodes
from engine.ops.core.reasons import sentence_of
from engine.place import Placement, PlacementOptions, place

SHAPE = (1, 4, 8, 8)


def convolution(index: int, source: str, target: str) -> tuple[onnx.NodeProto, list[onnx.TensorProto]]:
    rng = np.random.default_rng(index)
    weight = numpy_helper.from_array(rng.normal(size=(4, 4, 1, 1)).astype(np.float32), f"w{index}")
    bias = numpy_helper.from_array(rng.normal(size=4).astype(np.float32), f"b{index}")
    return helper.make_node("Conv", [source, f"w{index}", f"b{index}"], [target], name=f"Conv_{index}"), [weight, bias]


def network(
    middle: list[onnx.NodeProto],
    before: int = 1,
    tail: bool = True,
    constants: Mapping[str, np.ndarray] | None = None,
    shapes: tuple[Sequence[int], Sequence[int]] = (SHAPE, SHAPE),
) -> ir.Model:
    """Convolutions ``c0`` ... of the input, then ``middle``, whose last result ``m`` the last convolution reads.

    ``shapes`` are those of the input and of the output.
    """
    nodes = []
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    for index in range(before):
        node, weights = convolution(index, "x", f"c{index}")
        nodes.append(node)
        initializers += weights
    nodes += middle
    if tail:
        node, weights = convolution(9, "m", "y")
        nodes.append(node)
        initializers += weights
    names = ("x", "y" if tail else "m")
    borders = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in zip(names, shapes, strict=True)
    ]
    graph = helper.make_graph(nodes, "g", borders[:1], borders[1:], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)])
    return ir.from_proto(onnx.shape_inference.infer_shapes(model))


def one(op_type: str, *inputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op_type, list(inputs), ["m"], name="Middle", **attributes)


def calibrated(placement: Placement) -> dict[str, ir.Node]:
    """Calibration nodes of activations by the tensor that they calibrate."""
    nodes = calibration_nodes(placement.model)
    return {str(node.inputs[0].name): node for node in nodes if "axis" not in node.attributes and node.inputs[0]}


def qtype(node: ir.Node) -> str:
    return node.attributes["qtype"].as_string()


def marks(placement: Placement, name: str) -> tuple[str, str]:
    node = next(node for node in placement.model.graph if node.name == name)
    return node.metadata_props[MARK_ON], sentence_of(node)


def devices(model: ir.Model, march: str = "bayes-e", options: PlacementOptions | None = None) -> dict[str, str]:
    placed = place(model, march, options or PlacementOptions()).model
    return {str(node.name): node.metadata_props[MARK_ON] for node in placed.graph if MARK_ON in node.metadata_props}
