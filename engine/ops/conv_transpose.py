"""HzSQuantizedConvTranspose: transposed 2-D convolution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import QMAX, attribute, before_calibration, constant_of, shape_of
from engine.ops.conv import by_terms, float_bias, shifted_bias, summed_operand
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator
from engine.ops.core.bounds import Bound, Case, float64, stage_of, weighted_sum
from engine.ops.core.costs import CostKind
from engine.ops.core.derive import convolution_integers, fused_sum
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
from engine.ops.core.float_nodes import given, is_relu, required, stated
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import TO_NCHW, Emitter, SourceNode
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import WHOLE_MAP
from engine.ops.core.schema import (
    ACTIVATION,
    DATA_FORMAT,
    DILATIONS,
    GROUP,
    KERNEL,
    PADS,
    STRIDES,
    USE_BIAS,
    WEIGHT_THRESHOLDS,
    Schema,
)

if TYPE_CHECKING:
    from engine.chips import Chip

INT8_BITS = 8


class ConvTranspose(QuantizedOperator):
    """Transposed convolution; the weights are not flipped; output int8."""

    op_type = "HzSQuantizedConvTranspose"
    float_types: ClassVar[tuple[str, ...]] = ("ConvTranspose",)
    cost = CostKind.TRANSPOSED
    rows = WHOLE_MAP
    instructions = Instructions.TRANSPOSED_CONVOLUTION
    attributes: ClassVar[Schema] = {
        "kernel_shape": KERNEL,
        "pads": PADS,
        "strides": STRIDES,
        "dilations": DILATIONS,
        "output_padding": Attribute("ints", (0, 0), "rows and columns added at the bottom and right"),
        "group": GROUP,
        "activation": ACTIVATION,
        "use_bias": USE_BIAS,
        "use_sumin": Attribute("int", 0, "1: the last input is added to the accumulator"),
        "e_quant_scale": Attribute("ints", (), "multiplier of the added input, per channel"),
        "e_left_shift": Attribute("ints", (), "left shift of that product, per channel"),
        "b_left_shift": Attribute("ints", (0,), "left shift of the 16-bit bias, per channel"),
        "accu_right_shift": Attribute("ints", doc="accumulator bits dropped before saturation to 16 bits, per channel"),
        "y_quant_scale": Attribute("ints", doc="requantisation multiplier, per channel"),
        "y_right_shift": Attribute("ints", doc="bits dropped from the product, per channel"),
        "weight_thresholds": WEIGHT_THRESHOLDS,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 NHWC, w int8 (I, kh, kw, O/g), bias int32 where ``use_bias`` is 1, and the sum input if fused.

        Source: reference/arithmetic.md 1, HzSQuantizedConvTranspose; dilations follow
        ONNX, all files seen have 1.
        """
        x, w = (np.asarray(value) for value in inputs[:2])
        bias, e = transposed_bias_and_sum(inputs, attributes)
        accumulator = transposed_convolve(x, w, attributes) + shifted_bias(*bias)
        if e is not None:
            product = np.asarray(inputs[e], np.int64) * attributes["e_quant_scale"]
            accumulator = accumulator + shift_left(product, attributes["e_left_shift"])
        narrowed = saturate(shift_right(wrap_int32(accumulator), attributes["accu_right_shift"]), 16)
        y = shift_right(narrowed * attributes["y_quant_scale"], attributes["y_right_shift"])
        return (to_type(np.maximum(y, 0) if attributes["activation"] == "relu" else y, 8),)

    def error_bound(self, case: Case) -> Bound:
        head, inputs, attributes = case.chain[0], case.node.inputs, case.attributes
        group = attribute(head, "group", 1)
        integers = required(constant_of(inputs[1])).transpose(0, 3, 1, 2)
        weights = required(constant_of(before_calibration(given(head, 1))))
        stage = stage_of(attributes, "y_quant_scale", "accu_right_shift", "y_right_shift")
        bias = float64(shifted_bias(*_constant_bias(inputs, attributes)))
        terms = tuple(by_terms(per_output_channel(array, group)) for array in (weights, integers))
        return weighted_sum(case, stage, (terms[0], terms[1]), (float_bias(head), bias))

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        attributes, weights = call.attributes, call.constant(1)
        group = int(attributes["group"])
        grouped = weights.reshape(group, -1, *weights.shape[1:]).swapaxes(1, 4)
        as_conv = grouped.reshape(-1, *weights.shape[1:3], weights.shape[0] // group)
        # output_padding appends zeros: less is cut off at the end, or, where nothing is, the cut is a Pad of its own.
        cut = np.asarray(attributes["pads"]) - np.pad(attributes["output_padding"], (2, 0))
        fits = bool((cut >= 0).all())
        geometry = {"kernel_shape": weights.shape[1:3], "pads": cut if fits else 0 * cut}
        geometry |= {name: attributes[name] for name in ("strides", "dilations")}
        channel_sums = input_channel_sums(as_conv)
        sums = convolved(
            "ConvTranspose", call, weights.transpose(TO_NCHW), channel_sums, {**geometry, "group": group}, emit
        )
        if not fits:
            widths = np.array([0, 0, *-cut[:2], 0, 0, *-cut[2:]], np.int64)
            sums = replace(sums, value=emit.op("Pad", sums.value, widths))
        e = len(call.inputs) - 1 if attributes["use_sumin"] else None
        constants = [None, None, *(call.constant(index) for index in range(2, len(call.inputs)) if index != e)]
        bias, _ = transposed_bias_and_sum(constants, {**attributes, "use_sumin": 0})
        terms = [sums, bias_summand(shifted_bias(*bias))]
        if e is not None:
            terms.append(residual_summand(call.input(e), as_sum_of_convolution(attributes), emit))
        accumulator = accumulated(terms, emit)
        requantization = {
            "activation": attributes["activation"],
            "right_shift": attributes["accu_right_shift"],
            "scale": attributes["y_quant_scale"],
            "out_shift": attributes["y_right_shift"],
            "output_bit": 8,
            "high_precision_output": 0,
        }
        return (requantized(accumulator, requantization, emit),)

    def probe(self, inputs: Sequence[Array | None], attributes: Attributes) -> list[Array | None]:
        return one_channel_per_group(inputs, attributes["group"], transposed=True)


def transposed_bias_and_sum(inputs: Sequence[Any], attributes: Attributes) -> tuple[tuple[Any, ...], int | None]:
    """Bias and its left shift, or nothing, and the position of the summed operand, if there is one.

    Raises:
        ValueError: ``use_bias`` or ``use_sumin`` says otherwise than the number of inputs.
    """
    rest = [index for index, value in enumerate(inputs) if index > 1 and value is not None]
    e = rest.pop() if attributes["use_sumin"] and rest else None
    if len(rest) != attributes["use_bias"] or (e is None) == bool(attributes["use_sumin"]):
        raise ValueError(
            f"{len(inputs)} inputs; use_bias {attributes['use_bias']} and use_sumin {attributes['use_sumin']} need"
            f" {2 + attributes['use_bias'] + attributes['use_sumin']}"
        )
    return tuple(inputs[index] for index in rest) + (attributes["b_left_shift"],) * len(rest), e


def as_sum_of_convolution(attributes: Attributes) -> dict[str, Any]:
    """The attributes of the added input, called as those of HzSQuantizedConv."""
    return {
        "use_sumin": attributes["use_sumin"],
        "e_scale": attributes["e_quant_scale"],
        "e_shift": attributes["e_left_shift"],
    }


def _constant_bias(inputs: Sequence[ir.Value | None], attributes: Attributes) -> tuple[Any, ...]:
    end = len(inputs) - int(attributes["use_sumin"])
    constants = [None if value is None else constant_of(value) for value in inputs[:end]]
    return transposed_bias_and_sum(constants, {**attributes, "use_sumin": 0})[0]


def transposed_convolve(x: Array, w: Array, attributes: Attributes) -> NDArray[np.int64]:
    """Scatter ``x[i, j] * w[:, ky, kx]`` to ``[i*s + ky*d, j*s + kx*d]``, then crop by the pads.

    Args:
        x: integers, NHWC.
        w: integers, shape (input channels, kernel height, kernel width, output channels per group).
        attributes: ``pads`` (top, left, bottom, right), ``output_padding``, ``strides``, ``dilations``, ``group``.

    Returns:
        Exact sums, NHWC.
    """
    batch, height, width, channels = x.shape
    group, (stride_h, stride_w) = attributes["group"], attributes["strides"]
    _, kernel_h, kernel_w, group_out = w.shape
    top, left, bottom, right = (int(p) for p in attributes["pads"])
    extra_h, extra_w = (int(p) for p in attributes["output_padding"])
    dilation_h, dilation_w = attributes["dilations"]
    full_h = (height - 1) * stride_h + dilation_h * (kernel_h - 1) + 1 + extra_h
    full_w = (width - 1) * stride_w + dilation_w * (kernel_w - 1) + 1 + extra_w
    full = np.zeros((batch, full_h, full_w, group, group_out), np.int64)
    grouped_x = x.reshape(batch, height, width, group, channels // group).astype(np.int64)
    grouped_w = w.reshape(group, channels // group, kernel_h, kernel_w, group_out).astype(np.int64)
    for ky in range(kernel_h):
        for kx in range(kernel_w):
            top_row, left_column = ky * dilation_h, kx * dilation_w
            rows = slice(top_row, top_row + (height - 1) * stride_h + 1, stride_h)
            columns = slice(left_column, left_column + (width - 1) * stride_w + 1, stride_w)
            full[:, rows, columns] += np.einsum("bhwgi,gio->bhwgo", grouped_x, grouped_w[:, :, ky, kx])
    return full[:, top : full_h - bottom, left : full_w - right].reshape(
        batch, full_h - top - bottom, full_w - left - right, group * group_out
    )


class ConvTransposeRule(FloatRule):
    """ConvTranspose; int8 only, its bias is 16 bit on every march (reference/arithmetic.md 2.9).

    One of 1 x 1, and one whose kernel is smaller than its stride on a side, runs on the CPU (9 of 9 kinds asked on
    three marches); on bernoulli2 also one of stride 1 or 3 on a side (14 of 14 kinds; 2, 4 and mixed ones do not).
    """

    op_types = ("ConvTranspose",)
    int16_inputs = False
    int16_outputs = False
    requantized_to_int16 = True
    """For the Sigmoid at the end of ``db_text`` and the Concats of ``unet_t3_argmax_c``."""

    def weights(self, node: ir.Node) -> Mapping[int, int]:
        return {1: 1}

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        weight = given(node, 1)
        if len(shape_of(given(node, 0))) != 4:
            return because(Code.DECONVOLUTION_2D)
        if before_calibration(weight).const_value is None:
            return because(Code.NOT_CONSTANT, input="weight")
        if max(attribute(node, "dilations", (1, 1))) > 1:
            return because(Code.DILATION, limit=1)
        if max(shape_of(weight)[2:]) > march.limits.deconv_kernel:
            return because(Code.KERNEL, limit=march.limits.deconv_kernel)
        kernel, strides = shape_of(weight)[2:], attribute(node, "strides", (1, 1))
        if max(kernel) == 1:
            return because(Code.DECONVOLUTION_PIXEL)
        if march.limits.deconv_even_strides and any(stride % 2 for stride in strides):
            return because(Code.DECONVOLUTION_STRIDE)
        if max(strides) > march.limits.deconv_stride:
            return because(Code.STRIDE, limit=march.limits.deconv_stride)
        if any(side < stride for side, stride in zip(kernel, strides, strict=True)):
            return because(Code.DECONVOLUTION_GAPS)
        if max(attribute(node, "pads", (0,))) > march.limits.deconv_padding:
            return because(Code.PADDING, limit=march.limits.deconv_padding)
        if max(attribute(node, "output_padding", (0,))) > march.limits.deconv_output_padding:
            return because(Code.OUTPUT_PADDING, limit=march.limits.deconv_output_padding)
        return None

    def absorbs(self, chain: Sequence[ir.Node], consumer: ir.Node, march: Chip) -> bool:
        """A Relu, and a sum before it, as a convolution (13 of 13 sums asked on three marches)."""
        if any(is_relu(node) for node in chain):
            return False
        if consumer.op_type == "Add" and len(chain) == 1:
            shapes = {tuple(shape_of(value)) for value in (*consumer.inputs, consumer.outputs[0]) if value is not None}
            return len(shapes) == 1 and consumer.inputs[0] is not consumer.inputs[1]
        return is_relu(consumer)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        result, weight = chain[-1].outputs[0], given(node, 1)
        group = attribute(node, "group", 1)
        x = lowering.integer(given(node, 0))
        output = required(lowering.calibration(result))
        output_scales = output.thresholds / np.float32(QMAX["int8"])
        thresholds = required(lowering.calibration(weight)).thresholds
        by_output = per_output_channel(required(lowering.constant(weight)), group)
        operand = summed_operand(chain)
        e = None if operand is None else lowering.integer(operand, per_channel=True)
        integers = convolution_integers(
            by_output,
            thresholds,
            lowering.constant(node.inputs[2] if len(node.inputs) > 2 else None),
            x.scale,
            output_scales,
            8,
            bias_bits=16,
            summand_scale=None if e is None else e.scale,
        )
        split = required(integers.requantization)
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        names = (before_calibration(weight).name, "rounding_bias" if bias is None else bias.name)
        quantized = per_input_channel(integers.weights, group).transpose(0, 2, 3, 1)
        attributes = {
            "kernel_shape": list(shape_of(weight)[2:]),
            "pads": list(attribute(node, "pads", (0, 0, 0, 0))),
            "strides": list(attribute(node, "strides", (1, 1))),
            **stated(node, "dilations", "output_padding"),
            "group": group,
            "use_bias": 1,
            **({"activation": "relu"} if any(map(is_relu, chain)) else {}),
            "weight_thresholds": thresholds.tolist(),
            "accu_right_shift": split.right_shift.tolist(),
            "y_quant_scale": split.scale.tolist(),
            "y_right_shift": split.out_shift.tolist(),
            "b_left_shift": integers.bias_shift.tolist(),
            "data_format": "NHWC",
        }
        if e is not None:
            added = fused_sum(e.scale, integers.accumulator_scale, lowering.march, shifts_left=True)
            attributes |= {"use_sumin": 1, "e_quant_scale": added["e_scale"], "e_left_shift": added["e_shift"]}
        inputs = [
            x.value,
            lowering.initializer(f"{node.name}_{names[0]}_quantized", quantized),
            lowering.initializer(f"{node.name}_{names[1]}_quantized", integers.bias),
            *([] if e is None else [e.value]),
        ]
        lowering.emit("HzSQuantizedConvTranspose", node, inputs, attributes, result, bits=8, scale=output_scales)
        if output.bits > INT8_BITS:
            lowering.alias(result, lowering.integer(result, like=output))


def per_output_channel(weights: Array, group: int) -> Array:
    """(I, O/g, kh, kw) to (O, I/g, kh, kw)."""
    grouped = weights.reshape(group, weights.shape[0] // group, *weights.shape[1:])
    return grouped.swapaxes(1, 2).reshape(group * weights.shape[1], -1, *weights.shape[2:])


def per_input_channel(weights: Array, group: int) -> Array:
    """(O, I/g, kh, kw) to (I, O/g, kh, kw)."""
    return per_output_channel(weights, group)
