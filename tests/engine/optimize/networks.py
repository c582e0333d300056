"""Small networks that the tests of the passes start from."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from tests.engine.optimize.equivalence import build

RNG = np.random.default_rng(3)
MAP = {"x": (1, 4, 8, 8)}


def node(op_type: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    """A node from space-separated names; ``_`` is an absent input."""
    names = ["" if name == "_" else name for name in inputs.split()]
    return helper.make_node(op_type, names, outputs.split(), **attributes)


def normal(*shape: int) -> NDArray[np.float32]:
    return RNG.normal(size=shape).astype(np.float32)


def conv_then(*nodes: onnx.NodeProto, bias: bool = True, **constants: Any) -> Any:
    """A 3x3 convolution from ``x`` to ``c``, then ``nodes`` to ``y``."""
    inputs = "x w b" if bias else "x w"
    first = node("Conv", inputs, "c", name="conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return build([first, *nodes], MAP, ["y"], {"w": normal(6, 4, 3, 3), "b": normal(6), **constants})
