"""HzQuantizedArgMax: index of the maximum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.schema import DATA_FORMAT, OUTPUT_BIT, Schema


class ArgMax(QuantizedOperator):
    """Index of the first maximum, stored as int8: an index above 127 wraps (199 becomes -57), as in the original."""

    op_type = "HzQuantizedArgMax"
    attributes: ClassVar[Schema] = {
        "axis": Attribute("int", 3, "axis that is searched; it stays with length 1"),
        "keepdims": Attribute("int", 1, "0: the axis is dropped"),
        "output_bit": OUTPUT_BIT,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 (ARITHMETIC.md, additional operators)."""
        x = np.asarray(inputs[0])
        index = np.argmax(x, axis=attributes["axis"], keepdims=bool(attributes["keepdims"]))
        return (index.astype(np.int8),)
