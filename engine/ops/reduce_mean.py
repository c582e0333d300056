"""HzSQuantizedReduceMean: mean over one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.fixed_point import rescale
from engine.ops.schema import DATA_FORMAT, OUTPUT_BIT, Schema

REDUCTION = {
    "axis": Attribute("int", doc="axis that is summed; it stays with length 1"),
    "accu_right_shift": Attribute("ints", (0,), "bits dropped from the sum before saturation to 16 bits"),
    "scale": Attribute("ints", (1,), "requantisation multiplier"),
    "out_shift": Attribute("ints", (0,), "rounding shift of the product"),
    "output_bit": OUTPUT_BIT,
    "data_format": DATA_FORMAT,
}
"""Attributes of the summing reductions; of every list only element 0 counts."""


class ReduceMean(QuantizedOperator):
    """The sum over one axis, requantised by 1 / n."""

    op_type = "HzSQuantizedReduceMean"
    attributes: ClassVar[Schema] = REDUCTION

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 (ARITHMETIC.md 1, HzSQuantizedReduceMean / HzSQuantizedReduceSum)."""
        total = np.asarray(inputs[0], np.int64).sum(axis=attributes["axis"], keepdims=True)
        shifts = attributes["accu_right_shift"][0], attributes["scale"][0], attributes["out_shift"][0]
        return (rescale(total, *shifts, bits=attributes["output_bit"]),)
