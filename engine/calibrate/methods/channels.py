"""Thresholds per channel: which tensors take them, and how channels are equalised (reference/calibration.md 2)."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import attribute, before_calibration, constant_of, is_calibration, shape_of

PRODUCERS = ("Conv", "ConvTranspose")
ACTIVATIONS = ("Relu", "Clip")
"""What the BPU computes together with the convolution in front of it."""

LEAST_WEIGHT = 0.2
"""Convolutions without a weight of this magnitude do not take the scales of their input's channels.

Fitted: on EfficientNet-Lite0 the original leaves one threshold to what the six convolutions read whose largest weight
is 0.190 or less, and writes one per channel for the ten whose largest is 0.215 or more; ``mobilevit_c`` has a seventh
with 0.195. The number 0.2 lies between; nothing measured says more.
"""

LEAST_MAXIMUM = np.float32(16)
"""Tensors without a value of this magnitude keep one threshold.

Fitted, and no mechanism is known: it parts all tensors that were recorded (docs/evidence/calibration.md).
"""

LARGEST_SCALE = 16.0
"""What a channel is multiplied by at most where sums read it and no depthwise convolution does.

So it is in 14 asked conversions on two marches, and in 179 channels of 23 tensors of others; where a depthwise
convolution reads, 16 conversions have up to 588 (docs/evidence/agreement.md).
"""

_FLOOR = np.float32(0.001)
"""Share of the largest channel's maximum that is added to every channel's: it keeps empty channels finite."""
_LARGEST = np.finfo(np.float32).max / np.float32(2)
"""More than this counts as this, infinity among others, so that the sum is finite."""


def tensors_per_channel(model: ir.Model, tensors: Collection[str]) -> dict[str, float]:
    """The members of ``tensors`` that take a threshold per channel if they are large enough (:data:`LEAST_MAXIMUM`).

    They are results of convolutions, with the sum and the activation that the BPU computes together with them, that
    only convolutions read, or a sum and something else; all of these convolutions have large weights
    (:data:`LEAST_WEIGHT`). Channels differ where a sum or a depthwise convolution is among the readers (four tensors of
    EfficientNet-Lite0, which a convolution reads as well; one of ``mobilenet_v1_c``, provisional). Elsewhere the
    original writes the same value for all of them (six tensors, and two). What only sums read keeps one (six tensors of
    ``repvgg_unfused`` and ``regnet_se``).

    Args:
        model: optimised or placed model.
        tensors: names to choose from.

    Returns:
        What a channel is multiplied by at most, by name: 1 where channels do not differ.
    """
    return {
        str(value.name): _largest_scale(users)
        for node in model.graph
        for value in node.outputs
        if value.name in tensors
        and _is_convolved(value)
        and len(shape_of(value)) == 4
        and _takes_scales(users := readers(value))
    }


def is_large(channel_max: NDArray[np.float32]) -> bool:
    """Whether a tensor whose channels have these largest magnitudes reaches :data:`LEAST_MAXIMUM`."""
    return bool(channel_max.max(initial=np.float32(0)) >= LEAST_MAXIMUM)


def _is_convolved(value: ir.Value | None) -> bool:
    node = None if value is None else before_calibration(value).producer()
    if node is None:
        return False
    if node.op_type in ACTIVATIONS:
        return _is_convolved(node.inputs[0])
    return node.op_type in PRODUCERS or (node.op_type == "Add" and any(map(_is_product, node.inputs)))


def _is_product(value: ir.Value | None) -> bool:
    node = None if value is None else before_calibration(value).producer()
    return node is not None and node.op_type in PRODUCERS


def _takes_scales(users: Collection[ir.Node]) -> bool:
    types = {user.op_type for user in users}
    is_read = types == {"Conv"} or ("Add" in types and len(types) > 1)
    return is_read and all(_largest_weight(user) >= LEAST_WEIGHT for user in users if user.op_type == "Conv")


def _largest_scale(users: Collection[ir.Node]) -> float:
    if any(map(_is_depthwise, users)):
        return np.inf
    return LARGEST_SCALE if any(user.op_type == "Add" for user in users) else 1.0


def _is_depthwise(node: ir.Node) -> bool:
    """Whether ``node`` computes every channel of several from one channel."""
    weight = _weight(node) if node.op_type == "Conv" and attribute(node, "group", 1) > 1 else None
    return weight is not None and weight.shape[1] == 1


def _largest_weight(convolution: ir.Node) -> float:
    """``max|w|``; infinity where the weight is not a constant."""
    weight = _weight(convolution)
    return np.inf if weight is None else float(np.abs(weight).max(initial=0))


def _weight(convolution: ir.Node) -> NDArray[np.float32] | None:
    source = convolution.inputs[1]
    return None if source is None else constant_of(before_calibration(source))


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


def channel_scales(channel_max: NDArray[np.float32], largest: float = np.inf) -> NDArray[np.float32]:
    """What every channel is multiplied by so that all have about the same maximum.

    Args:
        channel_max: float32, shape (channels,).
        largest: of the results.

    Returns:
        float32, same shape: ``1 / (r_c / r_max)`` with ``r_c = max_c + 0.001 max_t``, every step rounded to float32, at
        most ``largest``; 1 where all values are zero, or as good as. reference/calibration.md 2 gives nearly
        the same in another form; this one gives every measured threshold to the last bit, which the printed
        similarities need.
    """
    maxima = np.minimum(channel_max, _LARGEST)
    floor = _FLOOR * maxima.max(initial=np.float32(0))
    if floor == 0:
        return np.ones_like(maxima)
    ranges = maxima + floor
    return np.asarray(np.minimum(np.float32(1) / (ranges / ranges.max()), np.float32(largest)), np.float32)
