"""What ``HzCalibration`` nodes compute, in numpy and as standard ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import RemoveUnusedNodesPass, RemoveUnusedOpsetsPass

from engine.errors import ModelError
from engine.ir import (
    QMAX,
    Calibration,
    attribute,
    before_calibration,
    calibration_nodes,
    calibration_of,
    constant_of,
    read_calibration,
    shape_of,
)
from engine.ops.foreign.composite import CompositeExpansion, expand_composites

Array = NDArray[Any]

_ROUND_SINCE_OPSET = 11
_CLIP_BY_INPUTS_SINCE_OPSET = 11
_QUANTIZE_LINEAR_SINCE_OPSET = 10
_QUANTIZE_LINEAR_TYPES = {"int8": ir.DataType.INT8, "uint8": ir.DataType.UINT8}
_ROUNDING_CONSTANT = 1.5 * 2**23
"""Adding and subtracting it rounds a float32 of magnitude up to 2^22 half to even."""


def lower_calibration(
    model: ir.Model, *, quantize_linear: bool = False, keep: Callable[[ir.Node], bool] | None = None
) -> ir.Model:
    """A copy of a float-stage model that holds standard ONNX operators only, and composites that ``keep`` names.

    Other composites are expanded. An ``HzCalibration`` becomes what it stands for: nothing where its switch is ``OFF``,
    so that the graph is that of the optimised model again; else what :func:`fake_quantize` does, in standard nodes.
    Constant inputs are quantised here and now. A second input of an ``HzCalibration`` is a scale in the place of its
    own, float32 of shape (1,). A convolution whose input has a scale per channel computes with one
    scale and a weight that has the others folded into it, as its integers do. Every tensor that is left keeps its name.

    Args:
        model: float-stage model; not changed.
        quantize_linear: 8 bits with one scale as ``QuantizeLinear`` and ``DequantizeLinear``: the same numbers in half
            the time, but only in a runtime that is told not to compute in integers around them.
        keep: whether a composite stays as it is; None for none of them.

    Raises:
        ModelError: an ``HzCalibration`` that is ``ON`` has no thresholds yet.
    """
    model = expand_composites(model, keep)
    opset = model.opset_imports.get("", 0)
    for node in model.graph:
        _fold_input_scales(model.graph, node, opset)
    for node in tuple(calibration_nodes(model)):
        _replace_calibration(model.graph, node, opset, quantize_linear)
    RemoveUnusedNodesPass()(model)
    RemoveUnusedOpsetsPass()(model)
    return model


def fake_quantize(array: Array, calibration: Calibration) -> NDArray[np.float32]:
    """What an ``HzCalibration`` that is ``ON`` makes of ``array``.

    Args:
        array: float32.
        calibration: one scale, or one per channel.

    Returns:
        float32, same shape: ``clip(rint(x / scale), qmin, qmax) * scale``, each step rounded to float32, half to even,
        over the whole range of the integer type. It reproduces the original's similarity figures
        (reference/calibration.md 2).
    """
    low, high = integer_range(calibration.qtype)
    scales = spread(calibration.scales, array.shape, calibration)
    with np.errstate(over="ignore", invalid="ignore"):  # next to the largest float32 the product is infinite
        integers = np.clip(np.rint(np.asarray(array, np.float32) / scales), low, high)
        return np.asarray(integers * scales, np.float32)


def _fold_input_scales(graph: ir.Graph, node: ir.Node, opset: int) -> None:
    """Let the convolution ``node`` compute as its integers do if its input has a scale per channel.

    The input's integers count steps of the largest scale, and the weight is quantised with the ratios of the scales
    folded into it. The original's printed similarities are those of this order of operations.
    """
    if node.op_type != "Conv" or attribute(node, "group", 1) != 1:
        return
    data, source = node.inputs[:2]
    activation, calibration = calibration_of(data), calibration_of(source)
    if data is None or source is None or activation is None or calibration is None:
        return
    if "OFF" in (activation.switch, calibration.switch):
        return
    weight = constant_of(before_calibration(source))
    if weight is None or not activation.scales.size or np.ptp(activation.scales) == 0:
        return
    step = activation.scales.max()
    folded = np.asarray(weight, np.float32) * (activation.scales / step).reshape(1, -1, *(1,) * (weight.ndim - 2))
    largest = np.abs(folded).max(axis=tuple(range(1, folded.ndim)))
    scales = np.maximum(largest, np.finfo(np.float32).tiny) / np.float32(QMAX["int8"])
    expansion = CompositeExpansion(node)
    quantized = fake_quantize(folded, replace(calibration, thresholds=largest, scales=scales))
    node.replace_input_with(1, _constant(expansion, quantized))
    data = before_calibration(data)
    scale, step = _scale(expansion, data, activation), _constant(expansion, step)
    node.replace_input_with(0, _quantize_in_steps(expansion, data, activation.qtype, opset, scale, step))
    graph.insert_before(node, expansion.nodes)


def integer_range(qtype: str) -> tuple[float, float]:
    """Least and greatest integer of a quantised type."""
    return (0.0, 255.0) if qtype == "uint8" else (-QMAX[qtype] - 1.0, float(QMAX[qtype]))


def spread(values: Array, shape: Sequence[int], calibration: Calibration) -> Array:
    """Values per channel, shaped to broadcast over the tensor that they belong to; one value becomes a scalar.

    The weight of a grouped ``ConvTranspose`` (axis 1, shape (I, O / group, ...)) has O values, group after group.

    Args:
        values: shape (1,) or (channels,).
        shape: of the tensor.
        calibration: whose ``axis`` and ``group`` hold.
    """
    if values.size == 1:
        return values.reshape(())
    axis, group = calibration.axis, calibration.group
    if axis == 1 and group > 1:
        rows = np.repeat(values.reshape(group, shape[1]), shape[0] // group, axis=0)
        return rows.reshape(*rows.shape, *(1 for _ in shape[2:]))
    return values.reshape([-1 if index == axis else 1 for index in range(len(shape))])


def _replace_calibration(graph: ir.Graph, node: ir.Node, opset: int, quantize_linear: bool) -> None:
    """Put standard nodes in the place of the ``HzCalibration`` ``node``."""
    source, result, calibration = node.inputs[0], node.outputs[0], read_calibration(node)
    if source is None:
        raise ModelError(f"node {node.name!r}: HzCalibration has no input")
    if calibration.switch == "OFF" and not result.is_graph_output():
        result.replace_all_uses_with(source)
        graph.remove(node, safe=True)
        return
    nodes = _standard_nodes(node, source, calibration, opset, quantize_linear)
    ir.convenience.replace_nodes_and_values(graph, node, [node], nodes, [result], [nodes[-1].outputs[0]])


def _standard_nodes(
    node: ir.Node, source: ir.Value, calibration: Calibration, opset: int, quantize_linear: bool
) -> Sequence[ir.Node]:
    expansion = CompositeExpansion(node)
    if calibration.switch == "OFF":
        expansion.add("Identity", source)
        return expansion.nodes
    if not calibration.scales.size:
        raise ModelError(f"node {node.name!r}: HzCalibration has no thresholds; calibrate the model first")
    given = node.inputs[1] if len(node.inputs) > 1 else None
    constant = constant_of(source)
    if constant is not None and given is None:
        _constant(expansion, fake_quantize(constant, calibration))
        return expansion.nodes
    scale = _scale(expansion, source, calibration) if given is None else given
    is_linear = quantize_linear and calibration.qtype in _QUANTIZE_LINEAR_TYPES and calibration.scales.size == 1
    if is_linear and opset >= _QUANTIZE_LINEAR_SINCE_OPSET and not _is_transposed(source):
        _quantize_linear(expansion, source, calibration.qtype, scale)
    else:
        _quantize_in_steps(expansion, source, calibration.qtype, opset, scale, scale)
    return expansion.nodes


_KEEPS_ORDER = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators behind a ``Transpose`` across which ONNX Runtime still puts a ``QuantizeLinear`` in front of it."""


def _is_transposed(value: ir.Value) -> bool:
    """Whether a ``Transpose`` gives ``value``, or what is reshaped to it.

    ONNX Runtime 1.32 puts a ``QuantizeLinear`` behind such in front of it, and gives quantised numbers for the tensor
    before where that is fetched.
    """
    node = value.producer()
    while node is not None and node.op_type in _KEEPS_ORDER and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    return node is not None and node.op_type == "Transpose"


def _scale(expansion: CompositeExpansion, source: ir.Value, calibration: Calibration) -> ir.Value:
    """A constant that broadcasts over ``source``."""
    scales = calibration.scales
    return _constant(
        expansion, scales.reshape(()) if scales.size == 1 else spread(scales, shape_of(source), calibration)
    )


def _quantize_linear(expansion: CompositeExpansion, source: ir.Value, qtype: str, scale: ir.Value) -> None:
    kind = _QUANTIZE_LINEAR_TYPES[qtype]
    zero = expansion.constant(np.zeros((), kind.numpy()))
    integers = expansion.add("QuantizeLinear", source, scale, zero)
    integers.type = ir.TensorType(kind)
    expansion.add("DequantizeLinear", integers, scale, zero)
    _give_shape(expansion, source.shape)


def _quantize_in_steps(
    expansion: CompositeExpansion, source: ir.Value, qtype: str, opset: int, scale: ir.Value, step: ir.Value
) -> ir.Value:
    """The integers of ``source`` by ``scale``, times ``step``; both broadcast over it."""
    low, high = integer_range(qtype)
    ratio = expansion.add("Div", source, scale)
    # The bounds are integers, so clipping first is the same, and keeps large values out of the rounding by addition.
    if opset >= _CLIP_BY_INPUTS_SINCE_OPSET:
        clipped = expansion.add("Clip", ratio, expansion.scalar(low), expansion.scalar(high))
    else:
        clipped = expansion.add("Clip", ratio, min=low, max=high)
    result = expansion.add("Mul", _rounded(expansion, clipped, opset), step)
    _give_shape(expansion, source.shape)
    return result


def _give_shape(expansion: CompositeExpansion, shape: ir.Shape | None) -> None:
    for node in expansion.nodes:
        if node.op_type != "Constant":
            node.outputs[0].shape = shape


def _constant(expansion: CompositeExpansion, array: Array) -> ir.Value:
    return expansion.constant(np.asarray(array, np.float32))


def _rounded(expansion: CompositeExpansion, value: ir.Value, opset: int) -> ir.Value:
    if opset >= _ROUND_SINCE_OPSET:
        return expansion.add("Round", value)
    constant = expansion.scalar(_ROUNDING_CONSTANT)
    return expansion.add("Sub", expansion.add("Add", value, constant), constant)
