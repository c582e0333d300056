"""How far a quantised node may be from its float node on the same input integers.

For every BPU node with real operator ``f``, input integers ``q`` of scales ``xs`` and an output of scale ``ys``::

    | y * ys - clip(f(q * xs)) | <= bound,      clip to the range of the output's integers

The bound follows from the node's own integers and needs no data. Every operator with a requantised output is an affine
map of its inputs (or of a product of them) in exact arithmetic, followed by a narrowing shift and a requantisation, so
the bound has four parts:

* coefficients: the integer coefficient times the value of an accumulator unit, less the float one, times the largest
  magnitude of the integer that it multiplies, summed;
* constants: the same for the bias, less the half output unit that a bias contains where the last shift floors;
* rounding: half an output unit for the last shift, and one unit of the narrowed accumulator for the first one;
* range: what saturation of the narrowed accumulator to 16 bits takes from the output's range.

Saturation of the output and Relu bring two numbers no further apart, so neither adds to it. Element-wise tables have
at most 65536 inputs: their bound is found by trying all of them. An accumulator that could overflow 32 bits has no
bound (infinity).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.ir import (
    MARK_MARCH,
    QMAX,
    attribute,
    before_calibration,
    calibration_nodes,
    constant_of,
    read_calibration,
    shape_of,
)
from engine.march import load_march
from engine.ops.conv_transpose import per_output_channel
from engine.ops.core.base import Attributes
from engine.ops.core.float_nodes import given
from engine.ops.lut import element_function
from engine.ops.registry import operator, read_attributes
from engine.place import mark_placement
from engine.place.chains import chains

Float64 = NDArray[np.float64]

NARROW_MAX = 32767
"""Largest narrowed accumulator."""
ACCUMULATOR_MAX = 2.0**31 - 1
FLOAT_ROUNDOFF = 2.0**-24
"""Unit roundoff of float32, in which the float node is computed."""
BITS: Mapping[ir.DataType, int] = MappingProxyType({ir.DataType.INT8: 8, ir.DataType.INT16: 16, ir.DataType.INT32: 32})


@dataclass(frozen=True)
class Operand:
    """An integer tensor that a quantised node reads.

    Attributes:
        value: the tensor of the quantised graph.
        tensor: name of the float tensor that it stands for.
        scale: value of one unit.
        largest: largest magnitude of an integer.
    """

    value: ir.Value
    tensor: str
    scale: float
    largest: float


@dataclass(frozen=True)
class NodeBound:
    """The bound of one quantised node.

    Attributes:
        node: the quantised node.
        chain: the float nodes that it stands for, of the calibrated model that was compared, in order.
        operands: its integer activations, in the order in which the chain reads them.
        scale: value of one output unit, shape (1,), or (channels,) for an int32 accumulator.
        bound: float64, shape (1,) or (channels,), in units of the float tensor.
    """

    node: ir.Node
    chain: Sequence[ir.Node]
    operands: Sequence[Operand]
    scale: Float64
    bound: Float64


def node_error_bounds(calibrated: ir.Model, quantized: ir.Model, march: str) -> list[NodeBound]:
    """Bounds of all BPU nodes of ``quantized`` whose operator has one.

    Args:
        calibrated: the calibrated model, ours or the original's.
        quantized: its quantised form.
        march: ``bernoulli2``, ``bayes`` or ``bayes-e``.

    Returns:
        One bound per quantised node in graph order; operators without an entry in :data:`RULES` are left out.
    """
    rules = load_march(march)
    source = calibrated
    if MARK_MARCH not in source.metadata_props:
        source = calibrated.clone()
        mark_placement(source, rules)
    scales = _Scales(source, quantized)
    by_name = {str(node.name).removeprefix("UNIT_CONV_FOR_"): node for node in quantized.graph}
    found = []
    for chain in chains(source, rules):
        node = by_name.get(str(chain[0].name))
        if node is None or node.op_type not in RULES:
            continue
        operands = [scales.operand(value) for value in node.inputs if value is not None and constant_of(value) is None]
        case = _Case(node, chain, operands, scales.of(node.outputs[0]))
        found.append(NodeBound(node, chain, operands, case.scale, np.atleast_1d(RULES[node.op_type](case))))
    return found


class _Scales:
    """Scale and float tensor of every integer tensor of a quantised graph."""

    def __init__(self, calibrated: ir.Model, quantized: ir.Model) -> None:
        self._calibrations = {
            str(before_calibration(node.outputs[0]).name): read_calibration(node)
            for node in calibration_nodes(calibrated)
        }
        self._dequantizers = {
            _untransposed(given(node, 0)): node for node in quantized.graph if node.op_type == "HzDequantize"
        }

    def operand(self, value: ir.Value) -> Operand:
        """``value`` as an operand; layout transposes in front of it are looked through."""
        source = _untransposed(value)
        bits = BITS[ir.DataType(value.dtype)] if value.dtype is not None else 8
        node = source.producer()
        named = _untransposed(given(node, 0)) if node is not None and node.op_type == "HzRequantize" else source
        name = str(named.name).removesuffix("_quantized").removesuffix("_calibrated")
        return Operand(value, name, float(self.of(source)[0]), float(1 << (bits - 1)))

    def of(self, value: ir.Value) -> Float64:
        """Scale of an integer tensor."""
        source = _untransposed(value)
        node = source.producer()
        if node is None:
            return np.ones(1)
        if node.op_type == "HzQuantize":
            return _float64(constant_of(node.inputs[1]))
        if source.dtype == ir.DataType.INT32:
            return _float64(constant_of(self._dequantizers[source].inputs[1]))
        if node.op_type == "HzRequantize":
            return self._requantized(node)
        calibration = self._calibrations.get(str(source.name).removesuffix("_quantized"))
        return self.of(given(node, 0)) if calibration is None else calibration.scales.astype(np.float64)

    def _requantized(self, node: ir.Node) -> Float64:
        """Scale behind an HzRequantize: the calibrated one nearest to what its multiplier and shift say."""
        attributes = read_attributes(node)
        ratio = float(attributes["output_scale"][0]) * 2.0 ** -float(attributes["output_right_shift"][0])
        estimate = float(self.of(given(node, 0))[0]) / ratio
        thresholds = np.array([float(found.thresholds[0]) for found in self._calibrations.values()], np.float32)
        candidates = np.concatenate([thresholds / np.float32(QMAX[qtype]) for qtype in ("int8", "int16")])
        return candidates[[np.argmin(np.abs(candidates - estimate))]].astype(np.float64)


def _untransposed(value: ir.Value) -> ir.Value:
    node = value.producer()
    while node is not None and node.op_type == "Transpose" and "LayoutConvert" in str(node.name):
        value = given(node, 0)
        node = value.producer()
    return value


def _float64(array: NDArray[Any] | None) -> Float64:
    return np.ones(1) if array is None else array.astype(np.float64).reshape(-1)


@dataclass(frozen=True)
class _Case:
    """What a rule sees: a quantised node, its float chain, its operands and the scale of its output."""

    node: ir.Node
    chain: Sequence[ir.Node]
    operands: Sequence[Operand]
    scale: Float64

    @property
    def attributes(self) -> Attributes:
        return read_attributes(self.node)

    @property
    def qmax(self) -> int:
        dtype = self.node.outputs[0].dtype
        if dtype is None:
            raise ModelError(f"tensor {self.node.outputs[0].name} has no type")
        return int((1 << (BITS[dtype] - 1)) - 1)


@dataclass(frozen=True)
class _Stage:
    """An output stage: ``sat(shift(sat16(acc >> accumulator_shift) * multiplier, shift))``, per channel."""

    multiplier: Float64
    accumulator_shift: Float64
    shift: Float64

    @property
    def step(self) -> Float64:
        """Output units of one unit of the narrowed accumulator."""
        return self.multiplier * np.exp2(-self.shift)

    @property
    def unit(self) -> Float64:
        """Output units of one unit of the accumulator."""
        return self.step * np.exp2(-self.accumulator_shift)

    def loss(self, qmax: int) -> Float64:
        """Rounding and range, in output units."""
        narrowed = np.where(self.accumulator_shift > 0, self.step, 0.0)
        above, below = qmax - NARROW_MAX * self.step, (qmax + 1) - (NARROW_MAX + 1) * self.step
        return np.asarray(0.5 + narrowed + np.maximum(0.0, np.maximum(above, below)))


def _stage(attributes: Attributes, multiplier: str, accumulator_shift: str, shift: str) -> _Stage:
    names = (multiplier, accumulator_shift, shift)
    return _Stage(*(np.atleast_1d(np.asarray(attributes[name], np.float64)) for name in names))


def _elementwise_stage(attributes: Attributes) -> _Stage:
    stage = _stage(attributes, "output_scale", "accu_right_shift", "output_right_shift")
    return _Stage(np.abs(stage.multiplier), stage.accumulator_shift, stage.shift)


def _coefficient(integer: Any, unit: Any, wanted: Any, largest: float) -> Float64:
    """Error of one term of the sum, and the rounding of the float node's."""
    return np.asarray(np.abs(np.asarray(integer) * unit - wanted) + np.abs(wanted) * FLOAT_ROUNDOFF) * largest


def _convolution_stage(case: _Case) -> tuple[_Stage | None, Float64]:
    """Output stage (``None`` for the accumulator itself) and bias, with its left shift, of a convolution."""
    attributes, inputs = case.attributes, case.node.inputs
    bias = _float64(constant_of(inputs[2]))
    if case.node.op_type == "HzSQuantizedConvTranspose":
        stage = _stage(attributes, "y_quant_scale", "accu_right_shift", "y_right_shift")
        return stage, bias * np.exp2(attributes["b_left_shift"])
    bias = bias * np.exp2(np.maximum(_float64(constant_of(inputs[3])), 0))
    if attributes["output_bit"] == 32 or attributes["high_precision_output"]:
        return None, bias
    return _stage(attributes, "scale", "right_shift", "out_shift"), bias


def _convolution(case: _Case) -> Float64:
    """Conv, ConvTranspose and HzPreprocess, with a fused sum or without."""
    head, x = case.chain[0], case.operands[0]
    stage, bias = _convolution_stage(case)
    unit = case.scale if stage is None else stage.unit * case.scale
    weights, integers = _weights(case)
    float_bias = _float64(constant_of(head.inputs[2])) if len(head.inputs) > 2 and head.inputs[2] else np.zeros(1)
    float_bias = np.zeros(1) if head.op_type == "Add" else float_bias
    half = 0.0 if stage is None else 0.5 * case.scale
    terms = weights.shape[1] + 2
    error = _coefficient(integers, unit[:, None] if unit.size > 1 else unit, weights * x.scale, x.largest).sum(axis=1)
    error = error + np.abs(bias * unit - half - float_bias)
    reach = np.abs(integers).sum(axis=1) * x.largest + np.abs(bias)
    magnitude = np.abs(weights).sum(axis=1) * x.scale * x.largest + np.abs(float_bias)
    if case.attributes.get("use_sumin"):
        e, attributes = case.operands[1], case.attributes
        factor = attributes["e_scale"] * np.exp2(attributes["e_shift"].astype(np.float64))
        error = error + _coefficient(factor, unit, e.scale, e.largest) + np.where(attributes["e_shift"] < 0, unit, 0)
        reach, magnitude = reach + factor * e.largest, magnitude + e.scale * e.largest
    loss = 0.0 if stage is None else stage.loss(case.qmax) * case.scale
    return np.where(reach <= ACCUMULATOR_MAX, error + loss + terms * FLOAT_ROUNDOFF * magnitude, np.inf)


def _weights(case: _Case) -> tuple[Float64, Float64]:
    """Float and integer weights, both (channels, terms) in the same order."""
    head = case.chain[0]
    quantized = constant_of(case.node.inputs[1])
    if quantized is None:
        raise ModelError(f"node {case.node.name}: its weights are not constant")
    if case.node.op_type == "HzSQuantizedConvTranspose":
        group = attribute(head, "group", 1)
        integers = per_output_channel(quantized.transpose(0, 3, 1, 2), group)
        weights = constant_of(before_calibration(given(head, 1)))
        weights = None if weights is None else per_output_channel(weights, group)
    else:
        integers = quantized.transpose(0, 3, 1, 2)
        weights = np.ones(integers.shape) if head.op_type == "Add" else constant_of(before_calibration(given(head, 1)))
    if weights is None:
        raise ModelError(f"node {head.name}: its weights are not constant")
    channels = integers.shape[0]
    return weights.reshape(channels, -1).astype(np.float64), integers.reshape(channels, -1).astype(np.float64)


def _sum(case: _Case) -> Float64:
    """Sum and difference: ``(x << x_shift) +- ((e * e_scale) << e_shift)``."""
    attributes, (x, e) = case.attributes, case.operands
    stage = _elementwise_stage(attributes)
    unit = stage.unit * case.scale
    factor = attributes["e_scale"] * np.exp2(np.asarray(attributes.get("e_shift", 0), np.float64))
    error = _coefficient(np.exp2(attributes["x_shift"].astype(np.float64)), unit, x.scale, x.largest)
    return np.asarray(error + _coefficient(factor, unit, e.scale, e.largest) + stage.loss(case.qmax) * case.scale)


def _product(case: _Case) -> Float64:
    """``x * e``; bernoulli2 adds the rounding constant to the accumulator, itself rounded."""
    attributes, (x, e) = case.attributes, case.operands
    stage = _elementwise_stage(attributes)
    unit = stage.unit * case.scale
    error = _coefficient(1.0, unit, x.scale * e.scale, x.largest * e.largest)
    return np.asarray(error + stage.loss(case.qmax) * case.scale + 0.5 * unit * attributes["add_rounding_bias"])


def _matrix_product(case: _Case) -> Float64:
    attributes, (x, e) = case.attributes, case.operands
    terms = shape_of(x.value)[-1]
    unit, loss = case.scale, np.zeros(1)
    if not (attributes["output_bit"] == 32 or attributes["high_precision_output"]):
        stage = _stage(attributes, "scale", "right_shift", "out_shift")
        unit, loss = stage.unit * case.scale, stage.loss(case.qmax) * case.scale
    wanted, largest = x.scale * e.scale, x.largest * e.largest * terms
    error = _coefficient(1.0, unit, wanted, largest) + (terms + 2) * FLOAT_ROUNDOFF * wanted * largest
    return np.where(largest <= ACCUMULATOR_MAX, error + loss, np.inf)


def _reduction(case: _Case) -> Float64:
    """Mean or sum of ``n`` integers."""
    x, attributes = case.operands[0], case.attributes
    count = int(np.prod(shape_of(x.value))) // int(np.prod(shape_of(case.node.outputs[0])))
    if case.node.op_type == "HzSQuantizedGlobalAveragePool":
        stage = _stage(attributes, "output_scale", "accu_right_shift", "output_right_shift")
    else:
        stage = _stage(attributes, "scale", "accu_right_shift", "out_shift")
    wanted = x.scale if case.node.op_type == "HzSQuantizedReduceSum" else x.scale / count
    largest = x.largest * count
    rounding = (count + 2) * FLOAT_ROUNDOFF * wanted * largest
    error = _coefficient(1.0, stage.unit * case.scale, wanted, largest)
    return np.asarray(error + stage.loss(case.qmax) * case.scale + rounding)


def _truncated_mean(case: _Case) -> Float64:
    """Padded average: the reciprocal of the window's size is truncated, and used where pads shrink the window too."""
    x, attributes = case.operands[0], case.attributes
    size = int(np.prod(attributes["kernel_shape"]))
    bits = int(attributes["scale"]) % 32
    gain = ((1 << bits) // size) / (1 << bits)
    shrinks = bool(np.any(attributes["pads"])) and not attribute(case.chain[0], "count_include_pad", 0)
    shrinks |= bool(attributes["ceil_mode"])
    error = (1 - gain) if shrinks else (1 - size * gain)
    return np.asarray(x.scale * (error * x.largest + 1 + (size + 2) * FLOAT_ROUNDOFF * x.largest))


def _table(case: _Case) -> Float64:
    """Every input of an element-wise operator is tried."""
    x = case.operands[0]
    q = np.arange(-int(x.largest), int(x.largest)).astype(np.int8 if x.largest <= 128 else np.int16)
    constants = [constant_of(value) for value in case.node.inputs[1:]]
    (y,) = operator(case.node.op_type).reference([q.reshape(1, 1, 1, -1), *constants], case.attributes)
    with np.errstate(all="ignore"):
        wanted = element_function(case.chain[0])(q.astype(np.float64) * x.scale)
    qmax, scale = case.qmax, float(case.scale[0])
    wanted = np.clip(np.nan_to_num(wanted, nan=-np.inf), -(qmax + 1) * scale, qmax * scale)
    rounding = FLOAT_ROUNDOFF * 64 * np.max(np.abs(wanted))
    return np.asarray(np.max(np.abs(np.asarray(y, np.float64).ravel() * scale - wanted)) + rounding)


def _slopes(case: _Case) -> Float64:
    """PRelu: the worse of its two sides."""
    x, attributes = case.operands[0], case.attributes
    slope = _float64(constant_of(before_calibration(given(case.chain[0], 1))))
    if case.node.op_type == "HzPRelu":
        factor = attributes["alpha_scale"] * np.exp2(-attributes["alpha_shift"].astype(np.float64))
        return np.asarray(_coefficient(factor, x.scale, slope * x.scale, x.largest) + 0.5 * x.scale)
    stage = _stage(attributes, "negative_scale", "accu_right_shift", "negative_right_shift")
    integers = _float64(constant_of(case.node.inputs[1]))
    negative = _coefficient(integers, stage.unit * case.scale, slope * x.scale, x.largest)
    gain = attributes["positive_scale"] * np.exp2(-attributes["positive_right_shift"].astype(np.float64))
    positive = _coefficient(gain, case.scale, x.scale, x.largest) + 0.5 * case.scale
    return np.maximum(negative + stage.loss(case.qmax) * case.scale, positive)


def _exact(case: _Case) -> Float64:
    """Integers are moved or compared: nothing is lost but what float32 loses of ``q * xs``."""
    x = case.operands[0]
    return np.asarray(x.scale * x.largest * FLOAT_ROUNDOFF)


RULES: Mapping[str, Callable[[_Case], Float64]] = MappingProxyType(
    {
        "HzSQuantizedPreprocess": _convolution,
        "HzSQuantizedConv": _convolution,
        "HzSQuantizedConvTranspose": _convolution,
        "HzSElementwiseAdd": _sum,
        "HzSElementwiseSub": _sum,
        "HzSElementwiseMul": _product,
        "HzSQuantizedMatmul": _matrix_product,
        "HzSQuantizedGlobalAveragePool": _reduction,
        "HzSQuantizedReduceMean": _reduction,
        "HzSQuantizedReduceSum": _reduction,
        "HzQuantizedAveragePool": _truncated_mean,
        "HzLut": _table,
        "HzLut2Layer": _table,
        "HzLeakyRelu": _table,
        "HzSPRelu": _slopes,
        "HzPRelu": _slopes,
        "HzQuantizedMaxPool": _exact,
        "HzQuantizedGlobalMaxPool": _exact,
        "HzQuantizedReduceMax": _exact,
        "HzQuantizedResizeUpsample": _exact,
        "HzDepthToSpace": _exact,
        "HzSpaceToDepth": _exact,
        "HzChannelShuffle": _exact,
    }
)
"""Bound per quantised operator. Standard nodes that move integers are exact; linear resizing has no bound here."""
