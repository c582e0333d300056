"""HzQuantizedGlobalMaxPool: maximum over height and width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from engine.ops.base import Array, Attributes, QuantizedOperator
from engine.ops.schema import DATA_FORMAT, OUTPUT_BIT, Schema


class GlobalMaxPool(QuantizedOperator):
    """Maximum over a map; the scale and width are the input's."""

    op_type = "HzQuantizedGlobalMaxPool"
    attributes: ClassVar[Schema] = {"output_bit": OUTPUT_BIT, "data_format": DATA_FORMAT}

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 NHWC; output (N, 1, 1, C) (ARITHMETIC.md, additional operators)."""
        return (np.asarray(inputs[0]).max(axis=(1, 2), keepdims=True),)
