"""HzQuantizedAveragePool, HzQuantizedGlobalAveragePool: averages whose output keeps the input's scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import onnx_ir as ir

from engine.ir import attribute, shape_of
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator, Tie
from engine.ops.core.bounds import FLOAT_ROUNDOFF, Bound, Case
from engine.ops.core.costs import CostKind
from engine.ops.core.fixed_point import to_type, wrap_int32
from engine.ops.core.float_nodes import given, stated
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode, factor, in_nhwc, limits
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import ROW_WINDOWS, WHOLE_MAP
from engine.ops.core.schema import DATA_FORMAT, KERNEL, PADS, STRIDES, Schema
from engine.ops.core.windows import padded_planes, taps

if TYPE_CHECKING:
    from engine.chips import Chip


class AveragePool(QuantizedOperator):
    """Multiplies the window's sum by a truncated reciprocal; the gain error is the original's (-1.6 % for 3x3)."""

    op_type = "HzQuantizedAveragePool"
    float_types: ClassVar[tuple[str, ...]] = ("AveragePool", "GlobalAveragePool")
    cost = CostKind.POOL
    rows = ROW_WINDOWS
    instructions = Instructions.AVERAGE_POOL
    attributes: ClassVar[Schema] = {
        "kernel_shape": KERNEL,
        "pads": PADS,
        "strides": STRIDES,
        "ceil_mode": Attribute("int", 0, "1: round the output size up"),
        "count_include_pad": Attribute("int", 0, "a record: the divisor is always the window's size"),
        "scale": Attribute("int", 9, "fraction bits of the reciprocal, taken modulo 32"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 NHWC; zero padding (reference/arithmetic.md 1, HzQuantizedAveragePool)."""
        x = np.asarray(inputs[0])
        total = sum(tap.astype(np.int64) for tap in taps(x, attributes, 0))
        fraction_bits, factor = reciprocal(attributes)
        return (to_type(wrap_int32(total * factor) >> fraction_bits, 8),)

    def error_bound(self, case: Case) -> Bound:
        """The reciprocal of the window's size is truncated, and used where pads shrink the window too."""
        x, attributes = case.operands[0], case.attributes
        size = int(np.prod(attributes["kernel_shape"]))
        bits = int(attributes["scale"]) % 32
        gain = ((1 << bits) // size) / (1 << bits)
        error = (
            (1 - gain)
            if divides_by_less(
                attributes["pads"], attribute(case.chain[0], "count_include_pad", 0), attributes["ceil_mode"]
            )
            else (1 - size * gain)
        )
        return np.asarray(x.scale * (error * x.largest + 1 + (size + 2) * FLOAT_ROUNDOFF * x.largest))

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """The window's sum as a depthwise convolution, times a truncated reciprocal."""
        x, attributes = call.input(0), call.attributes
        channels, kernel = x.shape[3], [int(size) for size in attributes["kernel_shape"]]
        padded = padded_planes(x, attributes, 0.0, emit)
        ones = np.ones((channels, 1, *kernel), np.float32)
        strides = [int(stride) for stride in attributes["strides"]]
        total = emit.cast(
            emit.op("Conv", padded, ones, group=channels, kernel_shape=kernel, strides=strides), np.float64
        )
        fraction_bits, multiplier = reciprocal(attributes)
        product = emit.call("WrapInt32", emit.op("Mul", total, np.float64(multiplier)))
        average = emit.op("Clip", emit.call("ShiftFloor", product, factor(fraction_bits)), *limits(8))
        return (in_nhwc(average, np.dtype(np.int8), emit),)


class WholeAveragePool(QuantizedOperator):
    """The average of a map as :class:`AveragePool` has it of a window.

    It ends the average of a large map on bernoulli2, which is taken in steps. Source: reference/arithmetic.md,
    additional operators.
    """

    op_type = "HzQuantizedGlobalAveragePool"
    float_types: ClassVar[tuple[str, ...]] = ("GlobalAveragePool",)
    cost = CostKind.REDUCE
    rows = WHOLE_MAP
    instructions = Instructions.WHOLE_AVERAGE_POOL
    attributes: ClassVar[Schema] = {
        "scale": Attribute("int", 9, "fraction bits of the reciprocal, taken modulo 32"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 NHWC; output (N, 1, 1, C)."""
        x = np.asarray(inputs[0])
        total = x.astype(np.int64).sum(axis=(1, 2), keepdims=True)
        fraction_bits, multiplier = reciprocal(window_of(x.shape, attributes))
        return (to_type(wrap_int32(total * multiplier) >> fraction_bits, 8),)

    def error_bound(self, case: Case) -> Bound:
        """Every step floors once; the last truncates a reciprocal. Halves of an odd side average its end with zeros."""
        x, sizes = case.operands[0], shape_of(given(case.chain[0], 0))[2:]
        last = case.node.inputs[0]
        ends = shape_of(last)[1:3] if last is not None else sizes
        windows = list(halving_windows(sizes, ends))
        fraction_bits, multiplier = reciprocal(window_of((1, *ends), case.attributes))
        weight = multiplier / (1 << fraction_bits) / int(np.prod(windows))
        error = abs(1 - int(np.prod(sizes)) * weight)
        return np.asarray(
            x.scale * (error * x.largest + len(windows) + 1 + FLOAT_ROUNDOFF * np.prod(sizes) * x.largest)
        )

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """The map's sum times a truncated reciprocal."""
        x = call.input(0)
        total = emit.op("ReduceSum", emit.wide(x), np.array([1, 2]), keepdims=1)
        fraction_bits, multiplier = reciprocal(window_of(x.shape, call.attributes))
        product = emit.call("WrapInt32", emit.op("Mul", total, np.float64(multiplier)))
        average = emit.op("Clip", emit.call("ShiftFloor", product, factor(fraction_bits)), *limits(8))
        return (emit.cast(average, np.int8),)


def halving_windows(sizes: Sequence[int], ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Windows that halve a map of ``sizes``, rounded up, until each side is as long as that of ``ends``."""
    height, width = sizes
    while (height, width) != tuple(ends):
        window = (2 if height > ends[0] else 1, 2 if width > ends[1] else 1)
        yield window
        height, width = -(-height // window[0]), -(-width // window[1])


def half_of_sides_above(side: int, limit: int) -> int:
    """What is left of a side that is halved, rounded up, until it is no longer than ``limit``."""
    while side > limit:
        side = -(-side // 2)
    return side


def window_of(shape: Sequence[int], attributes: Attributes) -> dict[str, Any]:
    """Attributes of a window over the whole of an NHWC map, for :func:`reciprocal` and the pool's instructions."""
    window = {"kernel_shape": shape[1:3], "pads": (0, 0, 0, 0), "strides": (1, 1), "ceil_mode": 0}
    return {name: np.asarray(value, np.int64) for name, value in window.items()} | {"scale": attributes["scale"]}


def reaches_over(pool: ir.Node) -> bool:
    """Whether the float ``AveragePool`` divides by fewer values than its window has at the border of the map."""
    return divides_by_less(
        attribute(pool, "pads", ()), attribute(pool, "count_include_pad", 0), attribute(pool, "ceil_mode", 0)
    )


def divides_by_less(pads: Sequence[int], count_include_pad: int, ceil_mode: int) -> bool:
    """Whether a float average over a window at the border is that of fewer values than the window has."""
    return bool((np.any(pads) and not count_include_pad) or ceil_mode)


def reciprocal(attributes: Attributes) -> tuple[int, int]:
    """Fraction bits and the integer reciprocal of the window's size, divided as C does on int32: towards zero."""
    fraction_bits = int(attributes["scale"]) % 32
    one = int(wrap_int32(1 << fraction_bits))
    size = int(np.prod(attributes["kernel_shape"]))
    return fraction_bits, (abs(one) // size) * (1 if one > 0 else -1)


FRACTION_BITS = 9
"""Fraction bits of the reciprocal of the window's size: what the original always writes."""
FURTHEST, MOST_ABOVE = 0.00748, 0.0063
"""How far the sum's factor may be off after steps, times the values that are left, and by which part it may be larger.

They are fitted to 45 maps that the original was asked for, which leave 0.007478 to 0.007486 and 0.00607 to 0.00659; 14
of 14 maps drawn after that follow.
"""


def whole_fraction_bits(size: int, left: int, averaged: int) -> int:
    """Fraction bits of the reciprocal that ends the average of a map which was taken in steps.

    They are the fewest with which the factor that would be exact, ``averaged / size``, is near enough; the reciprocal
    is that of ``left`` all the same.

    Args:
        size: pixels of the map.
        left: pixels behind the steps.
        averaged: pixels of the map that the steps make one of.
    """
    exact, bits = averaged / size, 1
    while True:
        error = round(exact * (1 << bits)) / (1 << bits) - exact
        if abs(error) * left < FURTHEST and error / exact < MOST_ABOVE:
            return bits
        bits += 1


def lower_in_steps(node: ir.Node, lowering: Lowering) -> None:
    """The average of a whole map on bernoulli2 whose sides no windows divide: halves, then what is left at once."""
    source, result = given(node, 0), node.outputs[0]
    x = lowering.integer(source)
    batch, channels, *sizes = shape_of(source)
    size, averaged = int(np.prod(sizes)), 1
    ends = [half_of_sides_above(side, lowering.march.graph.pooling_window) for side in sizes]
    for index, window in enumerate(halving_windows(sizes, ends)):
        averaged *= int(np.prod(window))
        sizes = [-(-side // step) for side, step in zip(sizes, window, strict=True)]
        name = f"{node.name}_split_id_{index}"
        half = ir.Value(name=name, type=source.type, shape=ir.Shape([batch, channels, *sizes]))
        pool = {"kernel_shape": list(window), "strides": list(window), "pads": [0, 0, 0, 0], "ceil_mode": 1}
        attributes = {**pool, "scale": FRACTION_BITS, "data_format": "NHWC"}
        lowering.emit("HzQuantizedAveragePool", node, [x.value], attributes, half, bits=8, scale=x.scale, name=name)
        x = lowering.integer(half)
    attributes = {"scale": whole_fraction_bits(size, int(np.prod(ends)), averaged), "data_format": "NHWC"}
    lowering.emit("HzQuantizedGlobalAveragePool", node, [x.value], attributes, result, bits=8, scale=x.scale)


class AveragePoolRule(FloatRule):
    """The average pools that the optimiser leaves: padded ones that exclude their pads, and large windows.

    They leave the BPU at the end as a MaxPool does: 47 of 47 that no BPU node reads, on two marches, and none of 28
    that one reads.
    """

    op_types = ("AveragePool",)
    passive = True
    int16_inputs = False
    int16_outputs = False

    def tie(self, node: ir.Node) -> Tie:
        return Tie.OUTPUT_TAKES_INPUT

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        if len(shape_of(given(node, 0))) != 4:
            return because(Code.POOLING_2D)
        if max(attribute(node, "dilations", (1, 1))) > 1:
            return because(Code.DILATION, limit=1)
        if max(attribute(node, "kernel_shape")) > march.limits.average_pool_kernel:
            return because(Code.WINDOW, limit=march.limits.average_pool_kernel)
        return None

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        x = lowering.integer(given(node, 0))
        attributes = {
            "kernel_shape": list(attribute(node, "kernel_shape")),
            "pads": list(attribute(node, "pads", (0, 0, 0, 0))),
            "strides": list(attribute(node, "strides", (1, 1))),
            **stated(node, "ceil_mode", "count_include_pad"),
            "scale": FRACTION_BITS,
            "data_format": "NHWC",
        }
        result = node.outputs[0]
        lowering.emit("HzQuantizedAveragePool", node, [x.value], attributes, result, bits=8, scale=x.scale)
