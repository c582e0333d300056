"""HzPad: padding with a constant or with the border."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from engine.errors import UnsupportedError
from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.schema import DATA_FORMAT, Schema


class Pad(QuantizedOperator):
    """ONNX Pad on integers; plain data movement, the scale and width are the input's."""

    op_type = "HzPad"
    attributes: ClassVar[Schema] = {
        "pads": Attribute("ints", doc="begin of every axis, then end of every axis, in the tensor's own layout"),
        "mode": Attribute("str", "constant", "constant or edge"),
        "value": Attribute("int", 0, "integer that a constant pad holds"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16.

        Raises:
            UnsupportedError: a mode that the BPU does not have.
        """
        x = np.asarray(inputs[0])
        width = list(zip(attributes["pads"][: x.ndim], attributes["pads"][x.ndim :], strict=True))
        match attributes["mode"]:
            case "constant":
                return (np.pad(x, width, constant_values=attributes["value"]),)
            case "edge":
                return (np.pad(x, width, mode="edge"),)
            case other:
                raise UnsupportedError(f"HzPad: mode is {other!r}; allowed: constant, edge")
