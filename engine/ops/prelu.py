"""HzPRelu (bernoulli2): PReLU with a slope alpha_scale / 2**alpha_shift per channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

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
    """``x`` where it is not negative, else ``sat8(rnd(x * alpha_scale, alpha_shift))``; alpha >= 0.

    A half is rounded up, and down where the slope is more than 1 (all 962 halves of 10 slopes asked, and 5 slopes of
    LeakyRelu).
    """

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
        x, sign = np.asarray(inputs[0]), _rounding_sign(attributes)
        product = x.astype(np.int64) * attributes["alpha_scale"] * sign
        return (np.where(x >= 0, x, to_type(sign * round_shift(product, attributes["alpha_shift"]), 8)),)

    def error_bound(self, case: Case) -> Bound:
        x, attributes = case.operands[0], case.attributes
        slope = float64(constant_of(before_calibration(given(case.chain[0], 1))))
        factor = attributes["alpha_scale"] * np.exp2(-attributes["alpha_shift"].astype(np.float64))
        return np.asarray(coefficient(factor, x.scale, slope * x.scale, x.largest) + 0.5 * x.scale)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """Values that are not negative stay as they are."""
        x = emit.wide(call.input(0))
        sign = np.asarray(_rounding_sign(call.attributes), np.float64)
        slope = factor(call.attributes["alpha_shift"], call.attributes["alpha_scale"]) * sign
        low, _ = limits(8)
        negative = emit.op("Mul", emit.call("RequantizeRound", x, slope, low, -low), sign)
        return (emit.cast(by_sign(x, x, negative, emit), call.input(0).dtype),)


def _rounding_sign(attributes: Attributes) -> NDArray[np.int64]:
    """-1 for slopes of more than 1, whose products are rounded as those of the opposite sign; 1 for others."""
    scale, shift = np.asarray(attributes["alpha_scale"]), np.asarray(attributes["alpha_shift"])
    return np.where(scale > np.left_shift(1, shift), -1, 1)


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
