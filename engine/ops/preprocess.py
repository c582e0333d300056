"""HzSQuantizedPreprocess: colour conversion and normalisation of image inputs, as a 1x1 convolution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from engine.ir import attribute
from engine.ops.conv import Conv, convolution_bound, convolution_constants
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator
from engine.ops.core.bounds import Bound, Case
from engine.ops.core.costs import CostKind
from engine.ops.core.derive import convolution_integers, requantized_output
from engine.ops.core.exact_convolution import one_channel_per_group
from engine.ops.core.float_nodes import given, required
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode
from engine.ops.core.rows import WHOLE_MAP
from engine.ops.core.schema import ACTIVATION, DATA_FORMAT, OUTPUT_BIT, WEIGHT_THRESHOLDS, Schema


class Preprocess(QuantizedOperator):
    """A 1x1 :class:`~engine.ops.conv.Conv` with ``channel_group`` groups on ``pixel - 128``."""

    op_type = "HzSQuantizedPreprocess"
    float_types: ClassVar[tuple[str, ...]] = ("HzPreprocess",)
    cost = CostKind.CONV
    rows = WHOLE_MAP
    instructions = Instructions.PREPROCESS
    attributes: ClassVar[Schema] = {
        "input_type": Attribute("str", "", "colour format of the input, e.g. RGB_128; a record"),
        "channel_group": Attribute("int", 1, "3: per channel; 1: every output channel sees every input channel"),
        "output_bit": OUTPUT_BIT,
        "high_precision_output": Attribute("int", 0, "1: the output is the int32 accumulator"),
        "activation": ACTIVATION,
        "right_shift": Attribute("ints", (0,), "as in HzSQuantizedConv"),
        "scale": Attribute("ints", (1,), "as in HzSQuantizedConv"),
        "out_shift": Attribute("ints", (0,), "as in HzSQuantizedConv"),
        "weight_thresholds": WEIGHT_THRESHOLDS,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 NHWC, w int8 (O, 1, 1, I/g), bias int32, b_scale int8 (reference/arithmetic.md 1)."""
        return Conv().reference(inputs, as_convolution(attributes))

    def error_bound(self, case: Case) -> Bound:
        return convolution_bound(replace(case, attributes=as_convolution(case.attributes)))

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """The 1x1 convolution that it is."""
        return Conv().portable(replace(call, attributes=as_convolution(call.attributes)), emit)

    def probe(self, inputs: Sequence[Array | None], attributes: Attributes) -> list[Array | None]:
        return one_channel_per_group(inputs, attributes["channel_group"])


def as_convolution(attributes: Attributes) -> Attributes:
    """The attributes of the equal 1x1 convolution."""
    ones, zeros = np.ones(2, np.int64), np.zeros(4, np.int64)
    geometry = {"kernel_shape": ones, "pads": zeros, "strides": ones, "dilations": ones, "use_bias": 1, "use_sumin": 0}
    return {**attributes, **geometry, "group": attributes["channel_group"]}


class PreprocessRule(FloatRule):
    """HzPreprocess; always the first node behind an image input.

    Pixels stay int8 where all nodes are asked for int16 (docs/evidence/field.md, ``int16flip``).
    """

    op_types = ("HzPreprocess",)
    int32_output = True
    int16_inputs = False

    def weights(self, node: ir.Node) -> Mapping[int, int]:
        return {1: 0}

    def fixed_thresholds(self, node: ir.Node, qtype: str) -> tuple[float | None, float | None]:
        """Pixels minus 128 are int8 as they are: threshold 127, scale 1 (reference/arithmetic.md 2.8)."""
        return (127.0, None)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        result, weight = node.outputs[0], given(node, 1)
        x = lowering.integer(given(node, 0))
        thresholds = required(lowering.calibration(weight)).thresholds
        output = None if lowering.is_tail(result) else lowering.calibration(result)
        bits = 32 if output is None else output.bits
        integers = convolution_integers(
            required(lowering.constant(weight)),
            thresholds,
            lowering.constant(given(node, 2)),
            x.scale,
            None if output is None else output.scales,
            bits,
            bias_bits=lowering.march.bias_bits,
        )
        attributes = {
            "data_format": "NHWC",
            "input_type": attribute(node, "input_type", ""),
            "channel_group": attribute(node, "channel_group", 1),
            "weight_thresholds": thresholds.tolist(),
            **requantized_output(integers, bits),
        }
        inputs = [x.value, *convolution_constants(node, integers, lowering)]
        scale = integers.accumulator_scale if output is None else output.scales
        as_float = attribute(node, "data_format", "NCHW") == "NHWC"
        layout = "NCHW" if as_float else "NHWC"  # an NHWC float tensor needs no transpose to have its channels last
        lowering.emit("HzSQuantizedPreprocess", node, inputs, attributes, result, bits=bits, scale=scale, layout=layout)
