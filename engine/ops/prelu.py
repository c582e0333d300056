"""HzPRelu (bernoulli2): PReLU with a slope alpha_scale / 2**alpha_shift per channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from engine.ir import before_calibration, constant_of
from engine.ops.core.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.core.bounds import Bound, Case, coefficient, float64
from engine.ops.core.costs import CostKind
from engine.ops.core.fixed_point import round_shift, to_type
from engine.ops.core.float_nodes import given
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode, by_sign, factor, limits
from engine.ops.core.rows import SAME_ROWS
from engine.ops.core.schema import DATA_FORMAT, Schema


class PRelu(QuantizedOperator):
    """``x`` where it is not negative, else ``sat8(rnd(x * alpha_scale, alpha_shift))``; alpha >= 0."""

    op_type = "HzPRelu"
    float_types: ClassVar[tuple[str, ...]] = ("PRelu",)
    cost = CostKind.SLOPE
    rows = SAME_ROWS
    instructions = Instructions.TABLE
    attributes: ClassVar[Schema] = {
        "alpha_scale": Attribute("ints", doc="multiplier of negative values, per channel or for all"),
        "alpha_shift": Attribute("ints", doc="rounding shift of the product, as many"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 NHWC (reference/arithmetic.md 1, HzLeakyRelu / HzPRelu)."""
        x = np.asarray(inputs[0])
        product = x.astype(np.int64) * attributes["alpha_scale"]
        return (np.where(x >= 0, x, to_type(round_shift(product, attributes["alpha_shift"]), 8)),)

    def error_bound(self, case: Case) -> Bound:
        x, attributes = case.operands[0], case.attributes
        slope = float64(constant_of(before_calibration(given(case.chain[0], 1))))
        factor = attributes["alpha_scale"] * np.exp2(-attributes["alpha_shift"].astype(np.float64))
        return np.asarray(coefficient(factor, x.scale, slope * x.scale, x.largest) + 0.5 * x.scale)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """Values that are not negative stay as they are."""
        x = emit.wide(call.input(0))
        slope = factor(call.attributes["alpha_shift"], call.attributes["alpha_scale"])
        negative = emit.call("RequantizeRound", x, slope, *limits(8))
        return (emit.cast(by_sign(x, x, negative, emit), call.input(0).dtype),)


ALPHA_SHIFT = 7
"""Rounding shift of a bernoulli2 slope (reference/arithmetic.md 2.11)."""


def slope_attributes(slope: Array) -> dict[str, Any]:
    """Slopes in 7 fraction bits: one per channel, or one for all (``unet_nearest_prelu_b``, ten of ten)."""
    scales = np.rint(slope.astype(np.float64).ravel() * (1 << ALPHA_SHIFT)).astype(int)
    return {
        "alpha_scale": scales.tolist(),
        "alpha_shift": [ALPHA_SHIFT] * scales.size,
        "data_format": "NHWC",
    }
