"""Reshapes of maps in NCHW: which make rows of what was a map, and which cut tokens that were one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from engine.compile.layers import Layer
from engine.compile.motion import Motion
from engine.ops.core.costs import CostKind

_MAP_RANK = 4
JOINED_BITS = frozenset({8, 16})
"""Bits of a map whose rows are joined on the BPU."""
_VIEWS = frozenset({Motion.VIEW, Motion.NONE})


def joins_rows(layer: Layer) -> bool:
    """Whether a reshape makes one row of the pixels of each channel of a map that was none of rows (NCHW)."""
    before, after = layer.input_shapes[0], layer.output_shape
    if layer.kind is not CostKind.RESHAPE or not layer.converted or len(before) != _MAP_RANK or before[0] > 1:
        return False
    views = layer.motion in _VIEWS and layer.output_bits in JOINED_BITS
    return views and min(before[1:]) > 1 and after[-1] == before[2] * before[3]


def becomes_cut(layer: Layer, readers: Mapping[str, Sequence[Layer]]) -> bool:
    """Whether a reshape and the transposition behind it make tokens of a map, which are cut into heads then."""
    turning = readers.get(layer.output, ())
    if layer.kind is not CostKind.RESHAPE or len(turning) != 1 or turning[0].kind is not CostKind.TRANSPOSE:
        return False
    cutting = readers.get(turning[0].output, ())
    return bool(cutting) and all(map(_cuts_tokens, cutting))


def _cuts_tokens(layer: Layer) -> bool:
    before, after = layer.input_shapes[0], layer.output_shape
    cuts = layer.kind is CostKind.RESHAPE and layer.motion is Motion.ELEMENTS
    return cuts and before[-1] == math.prod(after[2:]) and len(after) == _MAP_RANK


def joins_pixels(layer: Layer) -> bool:
    """Whether a reshape makes a row of the pixels of a map of one channel, which is a batch of single pixels to it.

    A column of pixels is one too.
    """
    before, after = layer.input_shapes[0], layer.output_shape
    if layer.kind is not CostKind.RESHAPE or len(before) != _MAP_RANK or before[0] > 1 or before[3] > 1:
        return False
    return layer.motion is Motion.ELEMENTS and before[1] > 1 and after[-1] == before[1] * before[2]
