"""Local response normalisation of float32 as the original's runtime has it, compiled."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.jit import entry

Floats = NDArray[np.float32]


@entry
def response_normalisation(source: Floats, factors: Floats, reach: int, result: Floats) -> None:
    """``x (bias + alpha / size * sum of squares)^-beta``, the sum over ``reach`` channels to either side.

    The first channel's sum adds one channel after the other; each following one adds the channel that comes in and
    takes off the one that leaves. The power is the C library's. Asked: 6 nodes, 4,240 numbers.

    Args:
        source: shape (channels, places).
        factors: alpha / size, beta and bias.
        reach: half of the window, without its middle.
        result: shape (channels, places).
    """
    alpha, beta, bias = factors[0], factors[1], factors[2]
    channels, places = source.shape
    for place in range(places):
        total = bias
        for channel in range(min(reach + 1, channels)):
            total += alpha * (source[channel, place] * source[channel, place])
        for channel in range(channels):
            if channel:
                coming, leaving = channel + reach, channel - reach - 1
                if coming < channels:
                    total += alpha * (source[coming, place] * source[coming, place])
                if leaving >= 0:
                    total -= alpha * (source[leaving, place] * source[leaving, place])
            result[channel, place] = source[channel, place] * np.float32(math.pow(total, -beta))
