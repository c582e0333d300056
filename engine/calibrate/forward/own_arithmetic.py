"""Composites of float passes that the original computes with code of its own, not with ONNX Runtime.

Thresholds are maxima of what these operators give, and deep networks amplify one different last bit to more than 1e-6.
With these orders of operations, and ONNX Runtime for everything else, all thresholds of 13 recorded
conversions are the original's bit for bit (YOLOv5 twice, YOLOv8 twice, MobileNetV3, ResNet, U-Net, Darknet); with every
other order that was tried they are not from the first such operator on.

* ``HzPreprocess``: the channels' products one after the other, then the bias, without fused multiply-add.
* ``HzSwish``: ``x * (1 / (1 + exp(-x)))`` with the C library's ``expf``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.ir import HORIZON_DOMAIN, attribute, constant_of
from engine.ops.foreign.composite import PREPROCESS

Array = NDArray[Any]
Compute = Callable[[Array, Array], None]
"""Computes the first argument, float32, into the second."""

_CHANNELS_FIRST = (0, 3, 1, 2)


def has_own_arithmetic(node: ir.Node) -> bool:
    """Whether :func:`computed` is to compute ``node``; a preprocessing with computed weights is ONNX Runtime's."""
    if node.domain != HORIZON_DOMAIN or node.op_type not in OWN_ARITHMETIC:
        return False
    return node.op_type != PREPROCESS or all(constant_of(value) is not None for value in node.inputs[1:3])


def computed(node: ir.Node) -> Compute:
    """What computes ``node``."""
    return OWN_ARITHMETIC[node.op_type](node)


def _swish(node: ir.Node) -> Compute:
    def compute(source: Array, result: Array) -> None:
        from engine.calibrate.forward.elementwise_loops import swish

        swish(np.ascontiguousarray(source).reshape(-1), result.reshape(-1))

    return compute


def _preprocess(node: ir.Node) -> Compute:
    weight, bias = (constant_of(value) for value in node.inputs[1:3])
    if weight is None or bias is None:
        raise ModelError(f"node {node.name!r}: {PREPROCESS} needs constant weights and biases")
    group, nhwc = attribute(node, "channel_group", 1), attribute(node, "data_format", "NCHW") == "NHWC"
    factors = np.asarray(weight, np.float32).reshape(len(weight), -1)
    bias = np.asarray(bias, np.float32).reshape(-1)

    def compute(source: Array, result: Array) -> None:
        maps, out = (source.transpose(_CHANNELS_FIRST), result.transpose(_CHANNELS_FIRST)) if nhwc else (source, result)
        for channel, (row, shift) in enumerate(zip(factors, bias, strict=True)):
            first = channel // (len(factors) // group) * factors.shape[1]
            total = maps[:, first] * row[0]
            for offset, factor in enumerate(row[1:], 1):
                total += maps[:, first + offset] * factor
            out[:, channel] = total + shift

    return compute


OWN_ARITHMETIC: Mapping[str, Callable[[ir.Node], Compute]] = MappingProxyType(
    {PREPROCESS: _preprocess, "HzSwish": _swish}
)
"""By type of composite."""
