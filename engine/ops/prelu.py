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
from engine.ops.core.fixed_point import Integers, round_shift, to_type
from engine.ops.core.float_nodes import given
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode, by_sign, factor, limits
from engine.ops.core.rows import SAME_ROWS
from engine.ops.core.schema import DATA_FORMAT, Schema


class PRelu(QuantizedOperator):
    """``x`` where it is not negative, else what the slope changes of it added: ``sat8(rnd(|x| * (1 - alpha), shift))``.

    So a half is rounded up, and down where the slope is more than 1 (all 962 halves of 10 slopes asked, and 5 slopes of
    LeakyRelu); and a slope of 0 makes -1 of -128, of which no more than 127 is taken off.
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
        x = np.asarray(inputs[0])
        change, sign = _change(attributes)
        added = np.minimum(round_shift(np.abs(x.astype(np.int64)) * change, attributes["alpha_shift"]), _LARGEST_CHANGE)
        return (np.where(x >= 0, x, to_type(x + sign * added, 8)),)

    def error_bound(self, case: Case) -> Bound:
        x, attributes = case.operands[0], case.attributes
        slope = float64(constant_of(before_calibration(given(case.chain[0], 1))))
        factor = attributes["alpha_scale"] * np.exp2(-attributes["alpha_shift"].astype(np.float64))
        return np.asarray(coefficient(factor, x.scale, slope * x.scale, x.largest) + 0.5 * x.scale)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """Values that are not negative stay as they are."""
        x = emit.wide(call.input(0))
        change, sign = _change(call.attributes)
        low, _ = limits(8)
        bounds = np.array(0.0), np.array(float(_LARGEST_CHANGE))
        magnitude = emit.op("Neg", x)
        added = emit.call("RequantizeRound", magnitude, factor(call.attributes["alpha_shift"], change), *bounds)
        negative = emit.op("Max", emit.op("Add", x, emit.op("Mul", added, sign.astype(np.float64))), low)
        return (emit.cast(by_sign(x, x, negative, emit), call.input(0).dtype),)


def _change(attributes: Attributes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Magnitude of ``1 - alpha`` before the shift, and the sign with which it is added to a negative integer."""
    change = np.left_shift(1, np.asarray(attributes["alpha_shift"])) - np.asarray(attributes["alpha_scale"])
    return np.abs(change), np.where(change < 0, -1, 1)


_LARGEST_CHANGE, _MOST_BITS = 127, 15
"""What a slope changes of its operand is an int8 magnitude behind a shift of at most 15."""


def slope_integers(slope: Array) -> tuple[Integers, Integers]:
    """Multipliers and rounding shifts of bernoulli2's slopes, each of the shape of ``slope``.

    What a slope takes off its operand, or adds, ``1 - slope``, has an int8 magnitude and the most bits with which that
    is no more than 127; a half goes up. So slopes up to a half have seven bits, 0.99 has thirteen, 1 none, and
    slopes below 1/128 are none (72 of 72 slopes of PRelu and LeakyRelu asked, from 0 to 300).

    Args:
        slope: float32 of any shape, 0 or more.
    """
    exact = slope.astype(np.float64)
    change = np.abs(1.0 - exact)
    bits = np.floor(np.log2(_LARGEST_CHANGE / np.where(change > 0, change, 1.0)))
    shift = np.where(change > 0, np.clip(bits, 0, _MOST_BITS), 0).astype(np.int64)
    return np.floor(exact * np.exp2(shift) + 0.5).astype(np.int64), shift


def slope_attributes(slope: Array) -> dict[str, Any]:
    """Attributes of slopes: one per channel, or one for all (``unet_nearest_prelu_b``, ten of ten)."""
    scale, shift = slope_integers(slope.ravel())
    return {"alpha_scale": scale.tolist(), "alpha_shift": shift.tolist(), "data_format": "NHWC"}
