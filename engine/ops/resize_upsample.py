"""HzQuantizedResizeUpsample: nearest-neighbour enlargement by whole factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.schema import DATA_FORMAT, Schema


class ResizeUpsample(QuantizedOperator):
    """Repeats every pixel ``scale`` times; the scale and width are the input's."""

    op_type = "HzQuantizedResizeUpsample"
    attributes: ClassVar[Schema] = {
        "scale": Attribute("ints", doc="vertical and horizontal factor"),
        "mode": Attribute("str", "nearest", "always nearest"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 NHWC (ARITHMETIC.md 1, HzQuantizedResizeUpsample)."""
        vertical, horizontal = attributes["scale"]
        return (np.asarray(inputs[0]).repeat(vertical, axis=1).repeat(horizontal, axis=2),)
