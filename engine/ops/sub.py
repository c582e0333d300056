"""HzSElementwiseSub: difference of two activations of different scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from engine.ops.add import ELEMENTWISE_OUTPUT, requantize_elementwise
from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.fixed_point import shift_left
from engine.ops.schema import Schema


class Sub(QuantizedOperator):
    """``(x << x_shift) - e * e_scale``, requantised; ``output_scale`` is negative where the operands were swapped."""

    op_type = "HzSElementwiseSub"
    attributes: ClassVar[Schema] = {
        "x_shift": Attribute("ints", (0,), "left shift of x"),
        "e_scale": Attribute("ints", (1,), "multiplier of e"),
        **ELEMENTWISE_OUTPUT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x and e, int8 or int16, also mixed (ARITHMETIC.md 1, HzSElementwiseSub)."""
        x, e = (np.asarray(value, np.int64) for value in inputs)
        difference = shift_left(x, attributes["x_shift"]) - e * attributes["e_scale"]
        return (requantize_elementwise(difference, attributes),)
