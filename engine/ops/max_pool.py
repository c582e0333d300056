"""HzQuantizedMaxPool: window maximum."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import ClassVar

import numpy as np

from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.schema import DATA_FORMAT, DILATIONS, KERNEL, OUTPUT_BIT, PADS, STRIDES, Schema
from engine.ops.windows import taps


class MaxPool(QuantizedOperator):
    """Maximum over a window; padding never wins; the scale and width are the input's."""

    op_type = "HzQuantizedMaxPool"
    attributes: ClassVar[Schema] = {
        "kernel_shape": KERNEL,
        "pads": PADS,
        "strides": STRIDES,
        "dilations": DILATIONS,
        "ceil_mode": Attribute("int", 0, "1: round the output size up"),
        "output_bit": OUTPUT_BIT,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 NHWC (ARITHMETIC.md 1, HzQuantizedMaxPool)."""
        x = np.asarray(inputs[0])
        return (reduce(np.maximum, taps(x, attributes, np.iinfo(x.dtype).min)).copy(),)
