"""HzSQuantizedConv: 2-D convolution with fused bias, residual sum, requantisation and ReLU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import QMAX, Calibration, attribute, before_calibration, constant_of, shape_of
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator
from engine.ops.core.bounds import Bound, Case, float64, stage_of, weighted_sum
from engine.ops.core.costs import CostKind
from engine.ops.core.derive import (
    Integers,
    convolution_integers,
    fold_input_scales,
    fused_sum,
    requantized_output,
    with_offsets,
)
from engine.ops.core.exact_convolution import (
    accumulated,
    bias_summand,
    convolved,
    input_channel_sums,
    one_channel_per_group,
    requantized,
    residual_summand,
)
from engine.ops.core.fixed_point import saturate, shift_left, shift_right, to_type, wrap_int32
from engine.ops.core.float_nodes import given, is_relu, required
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import TO_NCHW, Emitter, SourceNode
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import ROW_WINDOWS
from engine.ops.core.schema import (
    ACTIVATION,
    DATA_FORMAT,
    DILATIONS,
    GROUP,
    INPUT_SCALES,
    KERNEL,
    OUTPUT_BIT,
    PADS,
    STRIDES,
    USE_BIAS,
    WEIGHT_THRESHOLDS,
    Schema,
    pad_spatial,
)

if TYPE_CHECKING:
    from engine.chips import Chip


class Conv(QuantizedOperator):
    """Dense, grouped, depthwise and dilated convolutions; output int8, int16, or the int32 accumulator."""

    op_type = "HzSQuantizedConv"
    float_types: ClassVar[tuple[str, ...]] = ("Conv",)
    cost = CostKind.CONV
    rows = ROW_WINDOWS
    instructions = Instructions.CONVOLUTION
    attributes: ClassVar[Schema] = {
        "kernel_shape": KERNEL,
        "pads": PADS,
        "strides": STRIDES,
        "dilations": DILATIONS,
        "group": GROUP,
        "activation": ACTIVATION,
        "use_bias": USE_BIAS,
        "use_sumin": Attribute("int", 0, "1: the last input is added to the accumulator"),
        "e_scale": Attribute("ints", (), "multiplier of the added input, per channel"),
        "e_shift": Attribute("ints", (), "left shift of that product, per channel; negative: right shift with floor"),
        "output_bit": OUTPUT_BIT,
        "high_precision_output": Attribute("int", 0, "1: the output is the int32 accumulator"),
        "right_shift": Attribute("ints", (0,), "accumulator bits dropped before saturation to 16 bits, per channel"),
        "scale": Attribute("ints", (1,), "requantisation multiplier, per channel"),
        "out_shift": Attribute("ints", (0,), "bits dropped from the product, per channel"),
        "weight_thresholds": WEIGHT_THRESHOLDS,
        "input_scales": INPUT_SCALES,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8/int16 NHWC, w int8 (O, kh, kw, I/g), bias int32, b_scale int8, and the sum input if fused.

        Bias and b_scale are left out where ``use_bias`` is 0 (reference/arithmetic.md 1, HzSQuantizedConv).
        """
        x, w = (np.asarray(value) for value in inputs[:2])
        bias, e = bias_and_sum(inputs, attributes)
        accumulator = convolve(x, w, attributes) + shifted_bias(*(inputs[index] for index in bias))
        if e is not None:
            product = np.asarray(inputs[e], np.int64) * attributes["e_scale"]
            accumulator = accumulator + shift_left(product, attributes["e_shift"])
        return (requantize_accumulator(wrap_int32(accumulator), attributes),)

    def error_bound(self, case: Case) -> Bound:
        return convolution_bound(case)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        attributes, weights = call.attributes, call.constant(1)
        sums = convolved("Conv", call, weights.transpose(TO_NCHW), input_channel_sums(weights), attributes, emit)
        bias, e = bias_and_sum(call.inputs, attributes)
        terms = [sums, bias_summand(shifted_bias(*map(call.constant, bias)))]
        if e is not None:
            terms.append(residual_summand(call.input(e), attributes, emit))
        return (requantized(accumulated(terms, emit), attributes, emit),)

    def probe(self, inputs: Sequence[Array | None], attributes: Attributes) -> list[Array | None]:
        return one_channel_per_group(inputs, attributes["group"])


def convolve(x: Array, w: Array, attributes: Attributes) -> NDArray[np.int64]:
    """Integer convolution, one kernel tap after the other.

    Args:
        x: integers, NHWC.
        w: integers, shape (output channels, kernel height, kernel width, input channels per group).
        attributes: ``pads`` (top, left, bottom, right; filled with 0), ``strides``, ``dilations``, ``group``.

    Returns:
        Exact sums, NHWC.
    """
    x = pad_spatial(x, attributes["pads"], 0)
    out_channels, kernel_h, kernel_w, _ = w.shape
    group = attributes["group"]
    (stride_h, stride_w), (dilation_h, dilation_w) = attributes["strides"], attributes["dilations"]
    height = (x.shape[1] - dilation_h * (kernel_h - 1) - 1) // stride_h + 1
    width = (x.shape[2] - dilation_w * (kernel_w - 1) - 1) // stride_w + 1
    grouped_x = x.reshape(*x.shape[:3], group, -1).astype(np.int64)
    grouped_w = w.reshape(group, out_channels // group, kernel_h, kernel_w, -1).astype(np.int64)
    accumulator = np.zeros((x.shape[0], height, width, group, out_channels // group), np.int64)
    for ky in range(kernel_h):
        for kx in range(kernel_w):
            rows = slice(ky * dilation_h, ky * dilation_h + (height - 1) * stride_h + 1, stride_h)
            columns = slice(kx * dilation_w, kx * dilation_w + (width - 1) * stride_w + 1, stride_w)
            accumulator += np.einsum("bhwgi,goi->bhwgo", grouped_x[:, rows, columns], grouped_w[:, :, ky, kx])
    return accumulator.reshape(x.shape[0], height, width, out_channels)


def bias_and_sum(inputs: Sequence[object], attributes: Attributes) -> tuple[list[int], int | None]:
    """Positions of the bias and its shift, none where there is no bias, and of the summed operand of a convolution.

    Raises:
        ValueError: ``use_bias`` or ``use_sumin`` says otherwise than the number of inputs.
    """
    rest = [index for index, value in enumerate(inputs) if index > 1 and value is not None]
    e = rest.pop() if attributes["use_sumin"] and rest else None
    wanted = 2 if attributes["use_bias"] else 0
    if len(rest) != wanted or (e is None) == bool(attributes["use_sumin"]):
        raise ValueError(
            f"{len(inputs)} inputs; use_bias {attributes['use_bias']} and use_sumin {attributes['use_sumin']} need"
            f" {2 + wanted + bool(attributes['use_sumin'])}"
        )
    return rest, e


def shifted_bias(bias: Any = 0, b_scale: Any = 0) -> NDArray[np.int64]:
    """``bias << b_scale`` per channel; a negative shift is ignored; 0 where there is no bias."""
    return shift_left(bias, np.maximum(np.asarray(b_scale, np.int64), 0))


def requantize_accumulator(accumulator: NDArray[np.int64], attributes: Attributes) -> Array:
    """From the int32 accumulator to the output: floors only, the rounding constant is part of the bias."""
    relu = attributes["activation"] == "relu"
    if attributes["high_precision_output"] or attributes["output_bit"] == 32:
        return (np.maximum(accumulator, 0) if relu else accumulator).astype(np.int32)
    narrowed = saturate(shift_right(accumulator, attributes["right_shift"]), 16)
    y = shift_right(narrowed * attributes["scale"], attributes["out_shift"])
    return to_type(np.maximum(y, 0) if relu else y, attributes["output_bit"])


def convolution_bound(case: Case) -> Bound:
    """The error bound of Conv and HzPreprocess, with a fused sum or without."""
    head, inputs, attributes = case.chain[0], case.node.inputs, case.attributes
    bias = float64(shifted_bias(*(constant_of(inputs[index]) for index in bias_and_sum(inputs, attributes)[0])))
    wide = attributes["output_bit"] == 32 or attributes["high_precision_output"]
    stage = None if wide else stage_of(attributes, "scale", "right_shift", "out_shift")
    integers = required(constant_of(inputs[1])).transpose(0, 3, 1, 2)
    weights = required(constant_of(before_calibration(given(head, 1))))
    return weighted_sum(case, stage, (by_terms(weights), by_terms(integers)), (float_bias(head), bias))


def by_terms(weights: Array) -> NDArray[np.float64]:
    """Weights (channels, ...) as float64 (channels, terms)."""
    return weights.reshape(weights.shape[0], -1).astype(np.float64)


def float_bias(head: ir.Node) -> NDArray[np.float64]:
    """The bias of a float convolution; 0 where it has none."""
    return float64(constant_of(head.inputs[2])) if len(head.inputs) > 2 and head.inputs[2] else np.zeros(1)


class ConvRule(FloatRule):
    """Conv with its Relu, Clip(0, 6) or residual Add."""

    op_types = ("Conv",)
    int32_output = True

    def weights(self, node: ir.Node) -> Mapping[int, int]:
        return {1: 0}

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        weight = node.inputs[1]
        if len(shape_of(given(node, 0))) != 4:
            return because(Code.CONVOLUTION_2D)
        if weight is None or before_calibration(weight).const_value is None:
            return because(Code.NOT_CONSTANT, input="weight")
        in_channels, *kernel = shape_of(weight)[1:]
        limits = march.limits
        if max(attribute(node, "dilations", (1, 1))) > limits.conv_dilation:
            return because(Code.DILATION, limit=limits.conv_dilation)
        if not march.odd_dilations and any(size & (size - 1) for size in attribute(node, "dilations", (1, 1))):
            return because(Code.DILATION_POWER)
        rows, columns = attribute(node, "dilations", (1, 1))
        # 45 of 45 asked, of eight kernels by three numbers of groups; the other 88 are not
        if not march.tall_dilations and rows > columns:
            return because(Code.DILATION_ROWS, rows=rows, columns=columns)
        if limits.conv_kernel is not None and max(kernel) > limits.conv_kernel:
            return because(Code.KERNEL_SIDES, height=kernel[0], width=kernel[1], limit=limits.conv_kernel)
        if kernel == [1, 1] and in_channels > limits.conv_1x1_channels:
            return because(Code.INPUT_CHANNELS, channels=in_channels, limit=limits.conv_1x1_channels)
        if kernel[0] * kernel[1] * in_channels > limits.conv_kernel_volume:
            return because(Code.KERNEL_VOLUME, limit=limits.conv_kernel_volume)
        return None

    def stays_int32(self, node: ir.Node) -> bool:
        """A dilated convolution is requantised to int8 everywhere (measured on ``dilx4``: stored bytes, fused Relu)."""
        return not _is_dilated(node)

    def has_one_scale(self, node: ir.Node) -> bool:
        """A convolution to one channel (four conversions of ``yolo11`` and ``yolov8_decode``)."""
        return self.stays_int32(node) and shape_of(node.outputs[0])[1] == 1

    def absorbs(self, chain: Sequence[ir.Node], consumer: ir.Node, march: Chip) -> bool:
        types = [node.op_type for node in chain]
        if "Relu" in types or "Clip" in types:
            return False
        if consumer.op_type == "Add":
            shapes = {tuple(shape_of(value)) for value in (*consumer.inputs, consumer.outputs[0]) if value is not None}
            return "Add" not in types and len(shapes) == 1 and consumer.inputs[0] is not consumer.inputs[1]
        return is_relu(consumer)

    def declines(self, chain: Sequence[ir.Node], consumer: ir.Node, march: Chip) -> bool:
        """A sum behind steps above 2, where the BPU adds no map to them (13 of 13 on bernoulli2; 10 of smaller)."""
        steps = attribute(chain[0], "strides", (1, 1))
        return consumer.op_type == "Add" and not march.sums_behind_steps and max(steps) > 2

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node, last = chain[0], chain[-1]
        result = last.outputs[0]
        tail = lowering.is_tail(result)
        output = None if tail else lowering.calibration(result)
        narrow = _narrowed(node, lowering, in_int32=output is None)
        x = lowering.integer(given(node, 0), like=narrow, per_channel=True, unsigned=True)
        # int32 has the scale of the int8 threshold (1,007 of 1,007 channels), whatever that of what is requantised.
        read_scale = x.scale if narrow is None or output is not None else narrow.thresholds / np.float32(QMAX["int8"])
        weight = given(node, 1)
        if output is not None and output.qtype == "int16" and _is_dilated(node):
            output = output.narrowed
        bits = 32 if output is None else output.bits
        weights, thresholds, input_scale = fold_input_scales(
            required(lowering.constant(weight)),
            required(lowering.calibration(weight)).thresholds,
            read_scale,
            attribute(node, "group", 1),
        )
        operand = summed_operand(chain)
        e = None if operand is None else lowering.integer(operand, per_channel=True, unsigned=True)
        integers = convolution_integers(
            weights,
            thresholds,
            lowering.constant(node.inputs[2] if len(node.inputs) > 2 else None),
            input_scale,
            None if output is None else output.scales,
            bits,
            bias_bits=lowering.march.bias_bits,
            input_bits=x.bits,
            summand_scale=None if e is None else e.scale,
            output_threshold=None if output is None or output.offset else output.thresholds,
        )
        attributes, offset = convolution_geometry(node), 0 if output is None else output.offset
        if x.offset and any(attributes["pads"]):
            x = lowering.padded(given(node, 0), x, attributes["pads"])
            attributes["pads"] = [0] * len(attributes["pads"])
        if e is not None:
            attributes |= {"use_sumin": 1, **fused_sum(e.scale, integers.accumulator_scale, lowering.march)}
        integers = with_offsets(integers, attributes, x.offset, offset, 0 if e is None else e.offset)
        constants = convolution_constants(node, integers, lowering)
        attributes["use_bias"] = int(len(constants) > 1)
        inputs = [x.value, *constants, *([] if e is None else [e.value])]
        if any(is_relu(member) for member in chain[1:]) and not offset:
            attributes["activation"] = "relu"
        if narrow is not None:
            attributes["input_scales"] = x.scale.tolist()
        attributes["weight_thresholds"] = thresholds.tolist()
        attributes |= requantized_output(integers, bits)
        scale = integers.accumulator_scale if output is None else output.scales
        lowering.emit("HzSQuantizedConv", node, inputs, attributes, result, bits=bits, scale=scale)


def _is_dilated(node: ir.Node) -> bool:
    """Whether ``node`` skips pixels: such a convolution reads and gives int8 (``sknet``, public operator list)."""
    return bool(max(attribute(node, "dilations", (1, 1))) > 1)


MOST_WIDE_WEIGHTS = 256
"""Weights of an output channel up to which a convolution of int16 gives int32 (58 asked from 8 to 600, two marches)."""


def _narrowed(node: ir.Node, lowering: Lowering, *, in_int32: bool) -> Calibration | None:
    """The input's calibration as int8 where it is int16 and the BPU has no such convolution; ``None`` elsewhere.

    It has none that is dilated (``sknet``), that reads one channel per group at an even stride (45 asked of strides 1
    to 8 on two marches; others, of 1, 2 and more channels, read int16), or that gives int32 of more weights than
    :data:`MOST_WIDE_WEIGHTS`.

    Args:
        node: the convolution.
        lowering: of the network.
        in_int32: whether its result is int32.
    """
    found = lowering.calibration(given(node, 0))
    if found is None or found.qtype != "int16":
        return None
    _, channels, *kernel = shape_of(given(node, 1))
    is_even = channels == 1 and any(stride % 2 == 0 for stride in attribute(node, "strides", (1, 1)))
    is_long = in_int32 and channels * int(np.prod(kernel)) > MOST_WIDE_WEIGHTS
    return found.narrowed if _is_dilated(node) or is_even or is_long else None


def summed_operand(chain: Sequence[ir.Node]) -> ir.Value | None:
    """The operand of the absorbed Add that does not come from the convolution."""
    for index, node in enumerate(chain[1:], start=1):
        if node.op_type == "Add":
            own = chain[index - 1].outputs[0]
            return next(value for value in node.inputs if value is not own)
    return None


def convolution_geometry(node: ir.Node) -> dict[str, Any]:
    """Geometry attributes of a float convolution, explicit."""
    kernel = shape_of(given(node, 1))[2:]
    defaults = {"dilations": [1, 1], "group": 1, "kernel_shape": list(kernel), "pads": [0] * 4, "strides": [1, 1]}
    given_attributes = {name: attribute(node, name) for name in node.attributes if name in defaults}
    return {**{k: v for k, v in defaults.items() if k != "dilations"}, **given_attributes}


def convolution_constants(node: ir.Node, integers: Integers, lowering: Lowering) -> list[ir.Value]:
    """Initializers of weight (O, kh, kw, I/g), bias and bias shift, named like the original's.

    An int32 result of a convolution without bias needs none, not even a rounding constant (``squeezenet_b``,
    ``activations_a_b``, ``min_hardsigmoid``).
    """
    weight_name = before_calibration(given(node, 1)).name
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    bias_name = "rounding_bias" if bias is None else bias.name
    weight = lowering.initializer(f"{node.name}_{weight_name}_quantized", integers.weights.transpose(0, 2, 3, 1))
    if bias is None and integers.requantization is None and not integers.exact_bias.any():
        return [weight]
    return [
        weight,
        lowering.initializer(f"{node.name}_{bias_name}_quantized", integers.bias),
        lowering.initializer(f"{node.name}_{bias_name}_b_scale", integers.bias_shift),
    ]
