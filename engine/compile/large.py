"""Convolutions of large windows in steps: pixels of their map are folded by two before, which halves the windows.

``docs/evidence/latency.md`` has what was asked.
"""

from __future__ import annotations

import math

from engine.chips.latency import Latency
from engine.chips.latency.through_ddr import LargeWindows
from engine.compile.layers import Layer
from engine.compile.packing import round_up
from engine.ops.core.costs import CostKind

_PIXELS = 8
"""Multiple that rows of the folded map are padded to."""
_VECTOR_BYTES = 256
"""Of a vector of a row of the map on its way."""
_WITH_BORDER = 9 / 8
"""Rows that pass, of those of the map."""
_MAP_RANK = 4


def folds_windows(layer: Layer, latency: Latency) -> LargeWindows | None:
    """How the map of a convolution is folded; None of others."""
    large = latency.large_windows
    steps = layer.kind is CostKind.CONV and min(layer.strides) > 1 and len(layer.input_shapes[0]) == _MAP_RANK
    narrow = layer.input_bits == 8  # int16 was not asked
    return large if large is not None and steps and narrow and max(layer.kernel) > large.above else None


def window_bytes(layer: Layer, latency: Latency) -> int:
    """Bytes that the map stores, and loads again, while it is folded."""
    large = folds_windows(layer, latency)
    if large is None or max(layer.kernel) > large.most:
        return 0
    batch, height, width, channels = layer.input_shapes[0]
    if not large.whole:
        return round(batch * height * _WITH_BORDER * _VECTOR_BYTES * -(-channels // large.channels))
    folded = -(-height // 2) * round_up(-(-width // 2), _PIXELS) * round_up(4 * channels, large.channels)
    return batch * (height * width * channels + folded)


def window_us(layer: Layer, latency: Latency) -> float:
    """Time of folding besides its traffic; it hides behind that of whole maps."""
    large = folds_windows(layer, latency)
    if large is None or (large.whole and window_bytes(layer, latency)):
        return 0.0
    return large.us + large.pixel_ns * math.prod(layer.input_shapes[0][:-1]) / 1000
