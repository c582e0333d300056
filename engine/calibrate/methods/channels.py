"""Thresholds per channel: which tensors take them, and how channels are equalised (reference/calibration.md 2)."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import before_calibration, constant_of, is_calibration, shape_of

PRODUCERS = ("Conv", "ConvTranspose")

LEAST_WEIGHT = 0.2
"""Convolutions without a weight of this magnitude do not take the scales of their input's channels.

Fitted: on EfficientNet-Lite0 the original leaves one threshold to what the six convolutions read whose largest weight
is 0.190 or less, and writes one per channel (distinct ones, or equal ones where no ``Add`` reads the tensor) for the
ten whose largest is 0.215 or more. The number 0.2 lies between; nothing measured says more.
"""

_FLOOR = np.float32(0.001)
"""Share of the largest channel's maximum that is added to every channel's: it keeps empty channels finite."""
_LARGEST = np.finfo(np.float32).max / np.float32(2)
"""More than this counts as this, infinity among others, so that the sum is finite."""


def equalizable(model: ir.Model, tensors: Collection[str]) -> tuple[str, ...]:
    """The ``tensors`` that ``per_channel`` gives a threshold per channel.

    They are a convolution's output that an ``Add`` and something else read, unless a convolution of small weights
    reads it as well (:data:`LEAST_WEIGHT`). Elsewhere the original writes equal values for all channels, or one: for
    all six that only an ``Add`` reads (``repvgg_unfused``, ``regnet_se``). Not followed is ``mobilenet_v1_c``, where
    three results of ``Relu`` are per channel, with distinct values in front of a depthwise convolution. All 13 tensors
    that are per channel have thresholds of 17.19 or more and readers' weights of 0.215 or more. Of the other results of
    ``Conv``, ``Relu`` and ``Add`` that convolutions read in 13 networks, those with such weights have 14.50 at most,
    and those with such thresholds (``mobilevit_c``, EfficientNet-Lite0) weights of 0.195 at most.

    Args:
        model: optimised or placed model.
        tensors: names to choose from.
    """
    return tuple(
        str(value.name)
        for node in model.graph
        if node.op_type in PRODUCERS
        for value in node.outputs
        if value.name in tensors and len(shape_of(value)) == 4 and _is_equalizable(readers(value))
    )


def _is_equalizable(users: Collection[ir.Node]) -> bool:
    is_sum = [user.op_type == "Add" for user in users]
    return (
        any(is_sum)
        and not all(is_sum)
        and all(_largest_weight(user) >= LEAST_WEIGHT for user in users if user.op_type == "Conv")
    )


def _largest_weight(convolution: ir.Node) -> float:
    """``max|w|``; infinity where the weight is not a constant."""
    source = convolution.inputs[1]
    weight = None if source is None else constant_of(before_calibration(source))
    return np.inf if weight is None else float(np.abs(weight).max(initial=0))


def readers(value: ir.Value) -> list[ir.Node]:
    """The nodes that read ``value``, looking through ``HzCalibration``."""
    found = []
    for user in value.consumers():
        found += (
            readers(user.outputs[0])
            if is_calibration(user) and before_calibration(user.outputs[0]) is value
            else [user]
        )
    return found


def channel_scales(channel_max: NDArray[np.float32]) -> NDArray[np.float32]:
    """What every channel is multiplied by so that all have about the same maximum.

    Args:
        channel_max: float32, shape (channels,).

    Returns:
        float32, same shape: ``1 / (r_c / r_max)`` with ``r_c = max_c + 0.001 max_t``, every step rounded to float32; 1
        where all values are zero, or as good as. reference/calibration.md 2 gives nearly the same in another
        form; this one gives every measured threshold to the last bit, which the printed similarities need.
    """
    maxima = np.minimum(channel_max, _LARGEST)
    largest = maxima.max(initial=np.float32(0))
    if _FLOOR * largest == 0:
        return np.ones_like(maxima)
    ranges = maxima + _FLOOR * largest
    return np.asarray(np.float32(1) / (ranges / ranges.max()), np.float32)
