"""HzSQuantizedMatmul: product of two activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.fixed_point import rescale, wrap_int32
from engine.ops.schema import DATA_FORMAT, OUTPUT_BIT, ROUNDING, Schema


class Matmul(QuantizedOperator):
    """``numpy.matmul`` over the last two axes, in ONNX's own layout."""

    op_type = "HzSQuantizedMatmul"
    attributes: ClassVar[Schema] = {
        "output_bit": OUTPUT_BIT,
        "right_shift": Attribute("ints", (0,), "accumulator bits dropped before saturation to 16 bits"),
        "scale": Attribute("ints", (1,), "requantisation multiplier"),
        "out_shift": Attribute("ints", (0,), "rounding shift of the product"),
        "rounding_method": ROUNDING,
        "high_precision_output": Attribute("int", 0, "1: the output is the int32 accumulator"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: a and b, int8 or int16 (ARITHMETIC.md 1, HzSQuantizedMatmul)."""
        a, b = (np.asarray(value, np.int64) for value in inputs)
        accumulator = wrap_int32(np.matmul(a, b))
        if attributes["high_precision_output"] or attributes["output_bit"] == 32:
            return (accumulator.astype(np.int32),)
        shifts = attributes["right_shift"], attributes["scale"], attributes["out_shift"]
        return (rescale(accumulator, *shifts, bits=attributes["output_bit"], rounding=attributes["rounding_method"]),)
