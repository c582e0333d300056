"""HzSElementwiseAdd: sum of two activations of different scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import onnx_ir as ir

from engine.ir import MARK_ON, before_calibration, shape_of
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator
from engine.ops.core.bounds import Bound, Case, OutputStage, coefficient, stage_of
from engine.ops.core.costs import CostKind
from engine.ops.core.fixed_point import integer_type, operand_shift, requantization_of_pair, rescale, shift_left
from engine.ops.core.float_nodes import (
    channels_of,
    given,
    is_relu,
    refused_broadcast,
    refused_constant,
    refused_number,
    required,
    scales_normalised,
)
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode, factor, floors, limits
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import SAME_ROWS
from engine.ops.core.schema import DATA_FORMAT, OUTPUT_BIT, ROUNDING, Schema
from engine.terms import Device

if TYPE_CHECKING:
    from engine.chips import Chip

ELEMENTWISE_OUTPUT = {
    "accu_right_shift": Attribute("ints", (0,), "bits dropped before saturation to 16 bits"),
    "output_scale": Attribute("ints", (1,), "requantisation multiplier"),
    "output_right_shift": Attribute("ints", (0,), "rounding shift of the product"),
    "output_bit": OUTPUT_BIT,
    "rounding_method": ROUNDING,
    "data_format": DATA_FORMAT,
}
"""Attributes that Add, Sub and Mul share; one value, or one per channel (last axis)."""


class Add(QuantizedOperator):
    """``(x << x_shift) + ((e * e_scale) << e_shift)``, requantised; operands broadcast."""

    op_type = "HzSElementwiseAdd"
    float_types: ClassVar[tuple[str, ...]] = ("Add", "ArgMin")
    cost = CostKind.ADD
    rows = SAME_ROWS
    instructions = Instructions.WEIGHTED_SUM
    attributes: ClassVar[Schema] = {
        "x_shift": Attribute("ints", (0,), "left shift of x"),
        "e_scale": Attribute("ints", (1,), "multiplier of e"),
        "e_shift": Attribute("ints", (0,), "left shift of the product with e"),
        **ELEMENTWISE_OUTPUT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x and e, int8 or int16, also mixed (reference/arithmetic.md 1, HzSElementwiseAdd)."""
        x, e = (np.asarray(value, np.int64) for value in inputs)
        shifted = shift_left(e * attributes["e_scale"], attributes["e_shift"])
        return (requantize_elementwise(shift_left(x, attributes["x_shift"]) + shifted, attributes),)

    def error_bound(self, case: Case) -> Bound:
        return elementwise_sum_bound(case)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        x, e = scaled_operands(call, emit)
        return (portable_rescaled(emit.op("Add", x, e), call.attributes, emit),)


def elementwise_stage(attributes: Attributes) -> OutputStage:
    """The output stage of Add, Sub and Mul; ``output_scale`` may be negative."""
    stage = stage_of(attributes, "output_scale", "accu_right_shift", "output_right_shift")
    return OutputStage(np.abs(stage.multiplier), stage.accumulator_shift, stage.shift)


def elementwise_sum_bound(case: Case) -> Bound:
    """Sum and difference: ``(x << x_shift) +- ((e * e_scale) << e_shift)``; rounding down loses half a unit more."""
    attributes, (x, e) = case.attributes, case.operands
    stage = elementwise_stage(attributes)
    unit = stage.unit * case.scale
    factor = attributes["e_scale"] * np.exp2(np.asarray(attributes.get("e_shift", 0), np.float64))
    error = coefficient(np.exp2(attributes["x_shift"].astype(np.float64)), unit, x.scale, x.largest)
    loss = stage.loss(case.qmax) + (0.5 if floors(attributes) else 0.0)
    return np.asarray(error + coefficient(factor, unit, e.scale, e.largest) + loss * case.scale)


def scaled_operands(call: SourceNode, emit: Emitter) -> tuple[ir.Value, ir.Value]:
    """``x << x_shift`` and ``(e * e_scale) << e_shift``."""
    attributes = call.attributes
    e_shift = attributes.get("e_shift", np.zeros(1, np.int64))
    x = emit.call("ShiftFloor", emit.wide(call.input(0)), factor(-attributes["x_shift"]))
    e = emit.call("ShiftFloor", emit.wide(call.input(1)), factor(-e_shift, attributes["e_scale"]))
    return x, e


def portable_rescaled(value: ir.Value, attributes: Attributes, emit: Emitter) -> ir.Value:
    """``sat(rnd(sat16(value >> accu_right_shift) * output_scale, output_right_shift))``."""
    bits = int(attributes["output_bit"])
    narrowing = factor(attributes["accu_right_shift"])
    factors = factor(attributes["output_right_shift"], attributes["output_scale"])
    function = "RescaleFloor" if floors(attributes) else "RescaleRound"
    return emit.cast(emit.call(function, value, narrowing, factors, *limits(bits)), integer_type(bits))


def requantize_elementwise(value: Array, attributes: Attributes) -> Array:
    """``sat(rnd(sat16(value >> accu_right_shift) * output_scale, output_right_shift))``."""
    return rescale(
        value,
        attributes["accu_right_shift"],
        attributes["output_scale"],
        attributes["output_right_shift"],
        bits=attributes["output_bit"],
        rounding=attributes["rounding_method"],
    )


class AddRule(FloatRule):
    """Sum of two activations that no convolution absorbed."""

    op_types = ("Add",)

    def activations(self, node: ir.Node) -> tuple[int, ...]:
        return (0, 1)

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        if march.sums_as_convolutions and _adds_two_maps(node):
            is_map = len(shape_of(node.outputs[0])) == 4
            return None if is_map else because(Code.RANK_4, done="added to others")
        reason = refused_broadcast(node, march) or refused_number(node, march)
        if reason is None and not march.adds_one_channel and _adds_one_map_to_all_channels(node):
            return because(Code.ONE_CHANNEL_ADDED)
        return reason

    def late_refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        return None if _adds_two_maps(node) else refused_constant(node, march)

    def absorbs(self, chain: Sequence[ir.Node], consumer: ir.Node, march: Chip) -> bool:
        """A sum that runs as a convolution takes its Relu, as convolutions do (measured on ``bin_addrelu``)."""
        return len(chain) == 1 and is_relu(consumer) and runs_as_convolution(chain[0], march)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        lower_elementwise(chain[0], lowering, "HzSElementwiseAdd", with_e_shift=True)


def runs_as_convolution(node: ir.Node, march: Chip) -> bool:
    """Whether ``node`` adds two maps of one shape on a march that computes this as a convolution.

    Not what the CPU computed: that is quantised for an ``HzSElementwiseAdd`` (8 sums in ``swin``, ``mobilevit`` and
    ``vit_sep`` on bernoulli2; 12 sums of what the BPU computed are convolutions, in 4 networks).
    """
    producers = [before_calibration(given(node, index)).producer() for index in (0, 1)]
    on_cpu = any(item is not None and item.metadata_props.get(MARK_ON) == Device.CPU for item in producers)
    return march.sums_as_convolutions and _adds_two_maps(node) and not on_cpu


def _adds_two_maps(node: ir.Node) -> bool:
    a, b = given(node, 0), given(node, 1)
    return shape_of(a) == shape_of(b) and before_calibration(a) is not before_calibration(b)


def _adds_one_map_to_all_channels(node: ir.Node) -> bool:
    """Whether ``node`` adds a map of one channel and more than one pixel to one of more channels.

    What shifts a normalisation is no reason (``Add_321`` of swin_b, ``Add_92`` of vit_sep_b).
    """
    channels = shape_of(node.outputs[0])[1:2]
    rank = len(shape_of(node.outputs[0]))
    shapes = [shape_of(given(node, index)) for index in (0, 1)]
    shapes = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return not scales_normalised(node) and any(
        shape[1:2] == (1,) != channels and np.prod(shape[2:]) > 1 for shape in shapes
    )


_ACCUMULATOR_BITS = 31
"""Bits of a shifted operand without its sign: an int16 map is shifted by 15 at most (a sum of a YOLO11 in int16), an
int8 one by 23 (``elementwise_shift`` of bayes and bayes-e)."""


def lower_elementwise(node: ir.Node, lowering: Lowering, op_type: str, *, with_e_shift: bool) -> None:
    """Sum or difference; the operand with the larger scale comes first (reference/arithmetic.md 2.6)."""
    result = node.outputs[0]
    output = required(lowering.calibration(result))
    values = [given(node, index) for index in (0, 1)]
    first, second = (_largest_scale(value, lowering) for value in values)
    swapped = second > first
    x, e = (lowering.integer(value, index=index) for index, value in enumerate(reversed(values) if swapped else values))
    channels = channels_of(result) if with_e_shift else 1
    smaller = np.float64(e.scale[0]) / np.float64(x.scale[0])
    limit = min(lowering.march.elementwise_shift, _ACCUMULATOR_BITS - x.bits)
    x_shift = min(operand_shift(float(smaller)), limit)
    e_scale = np.rint(smaller * 2.0**x_shift)
    ratio = np.float64(x.scale[0]) / np.float64(output.scales[0]) * 2.0**-x_shift
    split = requantization_of_pair(ratio, output.bits)
    sign = -1 if swapped and not with_e_shift else 1
    attributes = {
        "x_shift": [x_shift] * channels,
        "e_scale": [int(e_scale)] * channels,
        **({"e_shift": [0] * channels} if with_e_shift else {}),
        "accu_right_shift": split.right_shift.tolist() * channels,
        "output_scale": (sign * split.scale).tolist() * channels,
        "output_right_shift": split.out_shift.tolist() * channels,
        "rounding_method": "FLOOR" if lowering.march.floor_in_sum else "ROUND",
        "output_bit": output.bits,
        "data_format": "NHWC",
    }
    lowering.emit(op_type, node, [x.value, e.value], attributes, result, bits=output.bits, scale=output.scales)


def _largest_scale(value: ir.Value, lowering: Lowering) -> float:
    """Largest scale of the integers that ``value`` becomes; parts of an operator need no calibration of their own."""
    calibration = lowering.calibration(value)
    return float((lowering.integer(value).scale if calibration is None else calibration.scales).max())
