"""HzSElementwiseMul: product of two activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from engine.ops.add import ELEMENTWISE_OUTPUT, requantize_elementwise
from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.fixed_point import saturate, shift_right, to_type
from engine.ops.schema import Schema


class Mul(QuantizedOperator):
    """``x * e``, requantised; operands broadcast (a squeeze-and-excite gate is 1x1)."""

    op_type = "HzSElementwiseMul"
    attributes: ClassVar[Schema] = {
        "add_rounding_bias": Attribute(
            "int", 0, "1 (bernoulli2): half an output unit is added first, both shifts floor"
        ),
        **ELEMENTWISE_OUTPUT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x and e, int8 or int16 (ARITHMETIC.md 1, HzSElementwiseMul)."""
        x, e = (np.asarray(value, np.int64) for value in inputs)
        if not attributes["add_rounding_bias"]:
            return (requantize_elementwise(x * e, attributes),)
        accu_shift, scale = attributes["accu_right_shift"], attributes["output_scale"]
        out_shift = attributes["output_right_shift"]
        half = np.rint(np.exp2(out_shift + accu_shift) / (2.0 * scale)).astype(np.int64)
        product = saturate(shift_right(x * e + half, accu_shift), 16) * scale
        return (to_type(shift_right(product, out_shift), attributes["output_bit"]),)
