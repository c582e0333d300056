"""How constants lie in a ``.bin``: convolution weights in blocks that the MAC array loads, everything else in a row.

A convolution weight (output channels, kernel height, kernel width, input channels) becomes
``[out blocks][kernel height][kernel width][in blocks][out][in]`` with both channel axes padded by zeros to the march's
block (LATENCY.md: 16 x 8 on bayes-e). Where a weight has one input channel (depthwise) only the output channels are
padded. Packing loses nothing: :func:`unpack` gives the array back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import ContainerError


class Layout(StrEnum):
    """Order of a constant's elements in the data section."""

    LINEAR = "linear"
    BLOCKED = "blocked"
    DEPTHWISE = "depthwise"


@dataclass(frozen=True)
class Block:
    """Channels that the MAC array takes at once; weights are padded to multiples of these."""

    out_channels: int
    in_channels: int


def weight_layout(array: NDArray[Any]) -> Layout:
    """Layout of a convolution weight of shape (O, kh, kw, I / group)."""
    return Layout.DEPTHWISE if array.shape[3] == 1 else Layout.BLOCKED


def pack(array: NDArray[Any], layout: Layout, block: Block) -> bytes:
    """``array`` as little-endian bytes in ``layout``; rank 4 except for ``LINEAR``."""
    array = np.asarray(array, _little_endian(array.dtype.name))
    if layout is Layout.LINEAR:
        return array.tobytes()
    shape = tuple(array.shape)
    outs, kh, kw, ins = _padded_shape(shape, layout, block)
    padded = np.zeros((outs, kh, kw, ins), array.dtype)
    padded[: shape[0], :, :, : shape[3]] = array
    block_in = ins if layout is Layout.DEPTHWISE else block.in_channels
    blocks = padded.reshape(outs // block.out_channels, block.out_channels, kh, kw, ins // block_in, block_in)
    return blocks.transpose(0, 2, 3, 4, 1, 5).tobytes()


def packed_bytes(dtype: str, shape: tuple[int, ...], layout: Layout, block: Block) -> int:
    """Length in bytes of what :func:`pack` returns."""
    elements = shape if layout is Layout.LINEAR else _padded_shape(shape, layout, block)
    count = 1
    for dim in elements:
        count *= dim
    return count * _little_endian(dtype).itemsize


def unpack(data: bytes | memoryview, dtype: str, shape: tuple[int, ...], layout: Layout, block: Block) -> NDArray[Any]:
    """Inverse of :func:`pack`.

    Raises:
        ContainerError: ``data`` has not the length that dtype, shape and layout imply, or the padding is not zero.
    """
    if layout is not Layout.LINEAR and len(shape) != 4:
        raise ContainerError(f"a {layout} constant has rank 4, not shape {shape}")
    if len(data) != packed_bytes(dtype, shape, layout, block):
        raise ContainerError(f"a {layout} constant of {dtype} {shape} does not have {len(data)} bytes")
    flat = np.frombuffer(data, _little_endian(dtype))
    if layout is Layout.LINEAR:
        return flat.reshape(shape).copy()
    outs, kh, kw, ins = _padded_shape(shape, layout, block)
    block_in = ins if layout is Layout.DEPTHWISE else block.in_channels
    blocks = flat.reshape(outs // block.out_channels, kh, kw, ins // block_in, block.out_channels, block_in)
    padded = blocks.transpose(0, 4, 1, 2, 3, 5).reshape(outs, kh, kw, ins)
    if padded[shape[0] :].any() or padded[..., shape[3] :].any():
        raise ContainerError("the padding of a packed weight is not zero")
    return np.ascontiguousarray(padded[: shape[0], :, :, : shape[3]])


def _padded_shape(shape: tuple[int, ...], layout: Layout, block: Block) -> tuple[int, int, int, int]:
    outs, kh, kw, ins = shape
    return (
        round_up(outs, block.out_channels),
        kh,
        kw,
        ins if layout is Layout.DEPTHWISE else round_up(ins, block.in_channels),
    )


def round_up(value: int, multiple: int) -> int:
    """The least multiple of ``multiple`` that is not below ``value``."""
    return -(-value // multiple) * multiple


def _little_endian(dtype: str) -> np.dtype[Any]:
    return np.dtype(dtype).newbyteorder("<")
