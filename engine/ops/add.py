"""HzSElementwiseAdd: sum of two activations of different scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.fixed_point import rescale, shift_left
from engine.ops.schema import DATA_FORMAT, OUTPUT_BIT, ROUNDING, Schema

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
    attributes: ClassVar[Schema] = {
        "x_shift": Attribute("ints", (0,), "left shift of x"),
        "e_scale": Attribute("ints", (1,), "multiplier of e"),
        "e_shift": Attribute("ints", (0,), "left shift of the product with e"),
        **ELEMENTWISE_OUTPUT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x and e, int8 or int16, also mixed (ARITHMETIC.md 1, HzSElementwiseAdd)."""
        x, e = (np.asarray(value, np.int64) for value in inputs)
        shifted = shift_left(e * attributes["e_scale"], attributes["e_shift"])
        return (requantize_elementwise(shift_left(x, attributes["x_shift"]) + shifted, attributes),)


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
