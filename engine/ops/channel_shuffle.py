"""HzChannelShuffle: interleaves groups of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.schema import DATA_FORMAT, Schema


class ChannelShuffle(QuantizedOperator):
    """Channels as (group, C / group), transposed; plain data movement."""

    op_type = "HzChannelShuffle"
    attributes: ClassVar[Schema] = {"group": Attribute("int", doc="number of groups"), "data_format": DATA_FORMAT}

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 NHWC (ARITHMETIC.md, additional operators)."""
        x, group = np.asarray(inputs[0]), int(attributes["group"])
        shuffled = x.reshape(*x.shape[:3], group, -1).swapaxes(3, 4)
        return (shuffled.reshape(x.shape),)
