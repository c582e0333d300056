"""HzSPRelu: PReLU with a 16-bit slope per channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.fixed_point import rescale, round_shift, to_type
from engine.ops.schema import DATA_FORMAT, OUTPUT_BIT, Schema


class SPRelu(QuantizedOperator):
    """Both sides are requantised, the negative one after multiplication by its slope."""

    op_type = "HzSPRelu"
    attributes: ClassVar[Schema] = {
        "positive_scale": Attribute("ints", (1,), "multiplier where x >= 0"),
        "positive_right_shift": Attribute("ints", (0,), "rounding shift where x >= 0"),
        "accu_right_shift": Attribute("ints", (0,), "bits dropped from x * slope before saturation to 16 bits"),
        "negative_scale": Attribute("ints", (1,), "multiplier where x < 0"),
        "negative_right_shift": Attribute("ints", (0,), "rounding shift where x < 0"),
        "output_bit": OUTPUT_BIT,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 NHWC, slope int16 that broadcasts to it (ARITHMETIC.md 1, HzSPRelu)."""
        x, slope = (np.asarray(value, np.int64) for value in inputs)
        bits = attributes["output_bit"]
        positive = to_type(round_shift(x * attributes["positive_scale"], attributes["positive_right_shift"]), bits)
        shifts = attributes["accu_right_shift"], attributes["negative_scale"], attributes["negative_right_shift"]
        return (np.where(x >= 0, positive, rescale(x * slope, *shifts, bits=bits)),)
