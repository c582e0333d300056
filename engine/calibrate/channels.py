"""Thresholds per channel: which tensors take them, and how channels are equalised (CALIBRATION.md 2)."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import before_calibration, is_calibration, shape_of

PRODUCERS = ("Conv", "ConvTranspose")

_FLOOR = np.float32(0.001)
"""Share of the largest channel's maximum that is added to every channel's: it keeps empty channels finite."""


def equalizable(model: ir.Model, tensors: Collection[str]) -> tuple[str, ...]:
    """The ``tensors`` that ``per_channel`` gives a threshold per channel: a convolution's output that an ``Add`` reads.

    Elsewhere the original writes equal values for all channels, or one. It also leaves out one of the five tensors of
    EfficientNet-Lite0 that this rule names, for a reason that is not known.

    Args:
        model: optimised or placed model.
        tensors: names to choose from.
    """
    return tuple(
        str(value.name)
        for node in model.graph
        if node.op_type in PRODUCERS
        for value in node.outputs
        if value.name in tensors and len(shape_of(value)) == 4 and any(user.op_type == "Add" for user in readers(value))
    )


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
        float32, same shape: ``r_max / r_c`` with ``r_c = max_c + 0.001 max_t``, 1 where all values are zero.
        CALIBRATION.md 2 gives nearly the same in another form; this one fits its thresholds to one unit in the last
        place instead of 25.
    """
    largest = channel_max.max(initial=np.float32(0))
    if largest == 0:
        return np.ones_like(channel_max)
    ranges = channel_max + _FLOOR * largest
    return np.asarray(ranges.max() / ranges, np.float32)
