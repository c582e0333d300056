"""How constants lie in a ``.bin``: convolution weights in blocks that the MAC array loads, everything else in a row.

A convolution weight (output channels, kernel height, kernel width, input channels / group) becomes
``[out blocks][taps][in blocks][out][in]``, taps = kernel height x width, with both channel axes padded by zeros to the
march's block. Where the march has a depthwise unit and a weight has one input channel it becomes
``[channel blocks][taps][channel]`` with channels and taps padded. Both rules reproduce the measured weight traffic
(``docs/performance_model.md``). Packing loses nothing: :func:`unpack` gives the array back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import ContainerError


class ElementOrder(StrEnum):
    """Order of a constant's elements in the data section."""

    LINEAR = "linear"
    BLOCKED = "blocked"
    DEPTHWISE = "depthwise"


@dataclass(frozen=True)
class Block:
    """Multiples that convolution weights are padded to.

    Attributes:
        out_channels: output channels of a block.
        in_channels: input channels of a block.
        depthwise_channels: channels of a block of a depthwise weight; 0 where depthwise weights are packed like others.
        depthwise_taps: multiple that the taps of a depthwise weight are padded to.
    """

    out_channels: int
    in_channels: int
    depthwise_channels: int = 0
    depthwise_taps: int = 1


def weight_layout(shape: tuple[int, ...], block: Block) -> ElementOrder:
    """Layout of a convolution weight of shape (O, kh, kw, I / group)."""
    return ElementOrder.DEPTHWISE if block.depthwise_channels and shape[3] == 1 else ElementOrder.BLOCKED


def pack(array: NDArray[Any], layout: ElementOrder, block: Block) -> bytes:
    """``array`` as little-endian bytes in ``layout``.

    Args:
        array: integers or floats; of rank 4 (output channels, height, width, input channels) unless ``layout`` is
            ``LINEAR``.
        layout: order of the elements.
        block: channels of a block; what it adds to an incomplete block is zero.
    """
    array = np.asarray(array, _little_endian(array.dtype.name))
    if layout is ElementOrder.LINEAR:
        return array.tobytes()
    outs, kh, kw, ins = array.shape
    padded = np.zeros(_padded_shape(array.shape, layout, block), array.dtype)
    padded[:outs, : kh * kw, :ins] = array.reshape(outs, kh * kw, ins)
    out_block, in_block = _block_of(layout, block)
    blocks = padded.reshape(-1, out_block, padded.shape[1], padded.shape[2] // in_block, in_block)
    return blocks.transpose(0, 2, 3, 1, 4).tobytes()


def packed_bytes(dtype: str, shape: tuple[int, ...], layout: ElementOrder, block: Block) -> int:
    """Length in bytes of what :func:`pack` returns for an array of type ``dtype`` (numpy's name) and ``shape``."""
    elements = shape if layout is ElementOrder.LINEAR else _padded_shape(shape, layout, block)
    return math.prod(elements) * _little_endian(dtype).itemsize


def unpack(
    data: bytes | memoryview, dtype: str, shape: tuple[int, ...], layout: ElementOrder, block: Block
) -> NDArray[Any]:
    """Inverse of :func:`pack`.

    Raises:
        ContainerError: ``data`` has not the length that dtype, shape and layout imply, or the padding is not zero.
    """
    if layout is not ElementOrder.LINEAR and len(shape) != 4:
        raise ContainerError(f"a {layout} constant has rank 4, not shape {shape}")
    if layout is ElementOrder.DEPTHWISE and (shape[3] != 1 or not block.depthwise_channels):
        raise ContainerError(f"a constant of shape {shape} cannot be packed as {layout} in blocks of {block}")
    if len(data) != packed_bytes(dtype, shape, layout, block):
        raise ContainerError(f"a {layout} constant of {dtype} {shape} does not have {len(data)} bytes")
    flat = np.frombuffer(data, _little_endian(dtype))
    if layout is ElementOrder.LINEAR:
        return flat.reshape(shape).copy()
    outs, kh, kw, ins = shape
    padded_outs, taps, padded_ins = _padded_shape(shape, layout, block)
    out_block, in_block = _block_of(layout, block)
    blocks = flat.reshape(padded_outs // out_block, taps, padded_ins // in_block, out_block, in_block)
    padded = blocks.transpose(0, 3, 1, 2, 4).reshape(padded_outs, taps, padded_ins)
    if padded[outs:].any() or padded[:, kh * kw :].any() or padded[..., ins:].any():
        raise ContainerError("the padding of a packed weight is not zero")
    return np.ascontiguousarray(padded[:outs, : kh * kw, :ins]).reshape(shape)


def _padded_shape(shape: tuple[int, ...], layout: ElementOrder, block: Block) -> tuple[int, int, int]:
    """Output channels, taps and input channels with padding."""
    outs, kh, kw, ins = shape
    out_block, in_block = _block_of(layout, block)
    taps = round_up(kh * kw, block.depthwise_taps) if layout is ElementOrder.DEPTHWISE else kh * kw
    return round_up(outs, out_block), taps, round_up(ins, in_block)


def _block_of(layout: ElementOrder, block: Block) -> tuple[int, int]:
    return (
        (block.depthwise_channels, 1) if layout is ElementOrder.DEPTHWISE else (block.out_channels, block.in_channels)
    )


def round_up(value: int, multiple: int) -> int:
    """The least multiple of ``multiple`` that is not below ``value``."""
    return -(-value // multiple) * multiple


def _little_endian(dtype: str) -> np.dtype[Any]:
    return np.dtype(dtype).newbyteorder("<")
