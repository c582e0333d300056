"""HzQuantizedReduceMax: maximum over one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.schema import DATA_FORMAT, OUTPUT_BIT, Schema


class ReduceMax(QuantizedOperator):
    """Maximum over one axis, which stays with length 1; the scale and width are the input's."""

    op_type = "HzQuantizedReduceMax"
    attributes: ClassVar[Schema] = {
        "axis": Attribute("int", doc="axis that is reduced"),
        "output_bit": OUTPUT_BIT,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 (ARITHMETIC.md 1, HzQuantizedReduceMax)."""
        return (np.asarray(inputs[0]).max(axis=attributes["axis"], keepdims=True),)
