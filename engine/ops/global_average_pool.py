"""HzSQuantizedGlobalAveragePool: mean over height and width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.fixed_point import round_shift, saturate, to_type
from engine.ops.schema import DATA_FORMAT, OUTPUT_BIT, ROUNDING, Schema


class GlobalAveragePool(QuantizedOperator):
    """The sum over a map, requantised by 1 / (H * W); unlike elsewhere both shifts round half up."""

    op_type = "HzSQuantizedGlobalAveragePool"
    attributes: ClassVar[Schema] = {
        "accu_right_shift": Attribute("ints", (0,), "rounding shift of the sum, per channel"),
        "output_scale": Attribute("ints", (1,), "requantisation multiplier, per channel"),
        "output_right_shift": Attribute("ints", (0,), "rounding shift of the product, per channel"),
        "rounding_method": ROUNDING,
        "output_bit": OUTPUT_BIT,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 NHWC; output (N, 1, 1, C) (ARITHMETIC.md 1, HzSQuantizedGlobalAveragePool)."""
        total = np.asarray(inputs[0], np.int64).sum(axis=(1, 2), keepdims=True)
        narrowed = saturate(round_shift(total, attributes["accu_right_shift"]), 16)
        y = round_shift(narrowed * attributes["output_scale"], attributes["output_right_shift"])
        return (to_type(y, attributes["output_bit"]),)
