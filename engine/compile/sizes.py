"""Bytes of tensors as they lie on the chip and in DDR."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.chips.latency.layout import RowPadding
from engine.compile.packing import round_up

_BATCH_PIXELS = 64

IMAGE_CHANNELS = 4
"""Maps with at most this number of channels are images, whose channels are hardly padded in DDR."""


def as_map(shape: Sequence[int]) -> tuple[int, ...]:
    """``shape`` (NHWC) as it is laid out: the single pixels of a batch are those of one map, up to 64 in a row."""
    if len(shape) != 4 or shape[0] == 1 or shape[1:3] != (1, 1):
        return tuple(shape)
    width = next(width for width in range(min(shape[0], _BATCH_PIXELS), 0, -1) if shape[0] % width == 0)
    return 1, shape[0] // width, width, shape[3]


def activation_bytes(shape: Sequence[int], bits: int, row: int = 8) -> int:
    """Bytes of a feature map on the chip.

    Args:
        shape: of the tensor; NHWC if of rank 4, others are not padded.
        bits: of an element.
        row: pixels to a multiple of which rows are padded; channels are padded to a multiple of 8.
    """
    if len(shape) != 4:
        return math.prod(shape) * bits // 8
    batch, height, width, channels = as_map(shape)
    return batch * height * round_up(width, row) * round_up(channels, 8) * bits // 8


def ddr_bytes(shape: Sequence[int], bits: int, padding: RowPadding) -> int:
    """Bytes of a tensor in DDR.

    Args:
        shape: of the tensor; NHWC if of rank 4, others are not padded.
        bits: of an element.
        padding: blocks of pixels and channels to which rows are padded; images of few channels have their own.
    """
    if len(shape) != 4:
        return math.prod(shape) * bits // 8
    batch, height, width, channels = as_map(shape)
    padded = round_up(channels, padding.channels if channels > IMAGE_CHANNELS else padding.few)
    return batch * height * row_width(width, padding) * padded * bits // 8


def row_width(width: int, padding: RowPadding) -> int:
    """Pixels of a row in DDR: whole blocks, and a rest that is padded to a power of two."""
    blocks, rest = divmod(width, padding.block)
    tail = max(padding.minimum, 1 << (rest - 1).bit_length()) if rest else 0
    return blocks * padding.block + min(tail, max(padding.block, padding.minimum))


def nv12_bytes(shape: Sequence[int]) -> int:
    """Bytes of an NV12 image of ``shape`` (NHWC): its planes are dense."""
    return math.prod(shape[:3]) * 3 // 2
