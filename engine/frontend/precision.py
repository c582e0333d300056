"""Models of float16 or float64 as models of float32, the type that every later stage computes in."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
import onnx_ir as ir

_OTHER_FLOATS = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE)
_TYPE_ATTRIBUTES = ("to", "dtype", "stash_type")
"""Attributes of standard operators whose value is an element type."""

_WEIGHT_RANK = 2
"""Least rank of a weight: smaller constants are often those of casts and scales between layers."""

_WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "GRU", "LSTM", "RNN"})
"""Operators that have weights."""

_LARGEST = np.finfo(np.float32).max


def compute_in_float32(model: ir.Model) -> bool:
    """Change every tensor of another float type to float32, in place, subgraphs too; whether the model is of such.

    A model is where an input or a weight is; one that merely casts on its way keeps its casts. A float64 weight is one
    of an operator that has weights: the anchor points of an exported detector are float64 too, and the original
    computes its boxes from them in float64 on the CPU (``yolo11``, ``yolov8_decode``). Values beyond the range of
    float32 become the largest that it has; infinities stay.
    """
    graphs = [model.graph, *model.graph.subgraphs()]
    nodes = list(ir.traversal.RecursiveGraphIterator(model.graph))
    constants = [value for graph in graphs for value in graph.initializers.values()]
    constants += [node.outputs[0] for node in nodes if _is_tensor(node.attributes.get("value"))]
    weights = [dtype for value in constants if (dtype := _weight_type(value)) is not None]
    if not any(dtype in _OTHER_FLOATS for dtype in (*weights, *(value.dtype for value in model.graph.inputs))):
        return False
    values = [value for graph in graphs for value in (*graph.inputs, *graph.initializers.values())]
    for value in (*values, *(value for node in nodes for value in node.outputs)):
        _change_value(value)
    for node in nodes:
        _change_attributes(node)
    return True


def _weight_type(value: ir.Value) -> ir.DataType | None:
    """Type of the constant ``value`` where it is a weight."""
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None or len(tensor.shape) < _WEIGHT_RANK:
        return None
    is_read = tensor.dtype != ir.DataType.DOUBLE or any(usage.node.op_type in _WEIGHTED for usage in value.uses())
    return tensor.dtype if is_read else None


def _change_value(value: ir.Value) -> None:
    if value.const_value is not None and value.const_value.dtype in _OTHER_FLOATS:
        value.const_value = _as_float32(value.const_value)
    if value.dtype in _OTHER_FLOATS:
        value.dtype = ir.DataType.FLOAT


def _change_attributes(node: ir.Node) -> None:
    for name, attribute in tuple(node.attributes.items()):
        if _is_tensor(attribute) and attribute.value.dtype in _OTHER_FLOATS:
            node.attributes[name] = ir.AttrTensor(name, _as_float32(attribute.value))
        is_type = attribute.type is ir.AttributeType.INT and name in _TYPE_ATTRIBUTES
        if is_type and attribute.value in {int(other) for other in _OTHER_FLOATS}:
            node.attributes[name] = ir.AttrInt64(name, int(ir.DataType.FLOAT))


def _is_tensor(attribute: ir.Attr | None) -> TypeGuard[ir.Attr]:
    return attribute is not None and attribute.type is ir.AttributeType.TENSOR


def _as_float32(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    array = np.asarray(tensor.numpy())
    wide = array.astype(np.float64)
    bounded = np.where(np.isinf(wide), wide, np.clip(wide, -_LARGEST, _LARGEST))
    return ir.Tensor(np.asarray(bounded, np.float32), name=tensor.name)
