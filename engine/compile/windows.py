"""What it takes to cut a map into windows and to put windows together again, as attention over windows does.

Pixels of a row of a window and their channels are one row to the compiler. Such rows change places for each row of
windows, and are cut into pixels for all windows at once. ``docs/evidence/latency.md`` has what was asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from engine.chips.latency.overhead import Overhead
from engine.compile.layers import Layer
from engine.compile.motion import Motion
from engine.ops.core.costs import CostKind

Amount = tuple[Overhead, float]
"""An overhead and how often it occurs, as :mod:`engine.compile.overheads` has them."""

_RANK = 6


def cuts_windows(layer: Layer) -> bool:
    """Whether a transposition makes windows of the rows of a map, shape (1, down, side, across, side, channels), or
    rows of windows.
    """
    before, after = layer.input_shapes[0], layer.output_shape
    if layer.kind is not CostKind.TRANSPOSE or layer.motion is not Motion.PIXELS or len(before) != _RANK:
        return False
    return before[0] == 1 and tuple(after) == (*before[:2], before[3], before[2], *before[4:])


def window_amounts(layer: Layer) -> Iterator[Amount]:
    """The overheads of such a layer, and of the reshape beside it."""
    _, down, first, second, width, channels = layer.input_shapes[0]
    height, across = (first, second) if first == width else (second, first)
    row, window = across * width * channels / 1e3, height * width * channels / 1e3
    yield Overhead.WINDOWS, 1
    yield Overhead.WINDOWS_ROW, row
    yield Overhead.WINDOWS_ROWS, row * down
    yield Overhead.WINDOWS_CUT, window
    yield Overhead.WINDOWS_COUNT, down * across / 1e3
    yield Overhead.WINDOWS_ELEMENT, math.prod(layer.output_shape) / 1e3
