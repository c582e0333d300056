"""Operators that only move integers: they stay standard ONNX nodes in a quantised graph, on NHWC axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.ir import attribute, constant_of, shape_of
from engine.march import March
from engine.ops.base import FloatRule, Lowering, Tie
from engine.ops.float_nodes import given

NHWC_AXIS = (0, 3, 1, 2)
"""Position of each NCHW axis in NHWC."""


class ConcatRule(FloatRule):
    """Concat along any axis of rank-4 tensors; all inputs share the output's scale."""

    op_types = ("Concat",)
    passive = True
    int16_ties = False

    def tie(self, node: ir.Node) -> Tie:
        return Tie.INPUTS_TAKE_OUTPUT

    def activations(self, node: ir.Node) -> tuple[int, ...]:
        return tuple(range(len(node.inputs)))

    def refusal(self, node: ir.Node, march: March) -> str | None:
        if len(shape_of(node.outputs[0])) != 4:
            return "only rank-4 tensors are concatenated on the BPU"
        if any(constant_of(value) is not None for value in node.inputs):
            return "an operand is a constant"
        return None

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        result = node.outputs[0]
        output = lowering.calibration(result)
        parts = [lowering.integer(given(node, index), like=output) for index in range(len(node.inputs))]
        axis = NHWC_AXIS[attribute(node, "axis") % 4]
        inputs = [part.value for part in parts]
        attributes: dict[str, Any] = {"axis": axis}
        bits, scale = parts[0].bits, parts[0].scale
        lowering.emit("Concat", node, inputs, attributes, result, bits=bits, scale=scale, domain="")


class ReshapeRule(FloatRule):
    """Reshape of rank-4 integers, on NCHW axes (bayes and bayes-e)."""

    op_types = ("Reshape",)
    passive = True

    def tie(self, node: ir.Node) -> Tie:
        return Tie.OUTPUT_TAKES_INPUT

    def refusal(self, node: ir.Node, march: March) -> str | None:
        if not march.reshape:
            return f"{march.name} has no Reshape"
        if len(shape_of(given(node, 0))) != 4 or len(shape_of(node.outputs[0])) != 4:
            return "only rank-4 tensors are reshaped on the BPU"
        return None

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        result = node.outputs[0]
        x = lowering.integer(given(node, 0), layout="NCHW")
        shape = np.array(shape_of(result), np.int64)
        inputs = [x.value, lowering.initializer(f"{node.name}_shape", shape)]
        lowering.emit("Reshape", node, inputs, {}, result, bits=x.bits, scale=x.scale, layout="NCHW", domain="")
