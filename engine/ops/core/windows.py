"""Sliding windows over NHWC maps, shared by the pooling operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ops.core.portable import TO_NCHW, Array, Attributes, Emitter, SourceTensor
from engine.ops.core.schema import pad_spatial


@dataclass(frozen=True)
class Geometry:
    """Where the windows of a pooling or convolution lie.

    Attributes:
        out: height and width of the result.
        pads: top, left, bottom, right; with ``ceil_mode`` including what fills up the last window.
        extent: height and width that a dilated window spans.
    """

    out: NDArray[np.int64]
    pads: NDArray[np.int64]
    extent: NDArray[np.int64]


def geometry(size: Sequence[int], attributes: Attributes) -> Geometry:
    """Windows over a map of ``size`` (height, width), from ``kernel_shape``, ``pads``, ``strides``.

    Reads also ``dilations`` and ``ceil_mode`` where they are given. With ``ceil_mode`` a last window that starts inside
    the padded input is kept (ONNX's definition).
    """
    kernel, strides, pads = attributes["kernel_shape"], attributes["strides"], attributes["pads"]
    dilations = attributes.get("dilations", np.ones(2, np.int64))
    extent = dilations * (kernel - 1) + 1
    start_room = np.asarray(size, np.int64) + pads[:2]
    room = start_room + pads[2:] - extent
    out = room // strides + 1
    if attributes.get("ceil_mode", 0):
        out = -(-room // strides) + 1
        out = out - ((out - 1) * strides >= start_room)
    missing = np.maximum((out - 1) * strides + extent - (start_room + pads[2:]), 0)
    return Geometry(out, pads + np.concatenate([np.zeros(2, np.int64), missing]), extent)


def tap_corners(attributes: Attributes) -> list[tuple[int, int]]:
    """Row and column of every position in the window, row by row."""
    kernel, dilations = attributes["kernel_shape"], attributes.get("dilations", np.ones(2, np.int64))
    return [(ky * int(dilations[0]), kx * int(dilations[1])) for ky in range(kernel[0]) for kx in range(kernel[1])]


def taps(x: Array, attributes: Attributes, pad_value: int) -> Iterator[Array]:
    """For every position in the window, ``x`` as each output pixel sees it there: (N, H_out, W_out, C)."""
    windows, strides = geometry(x.shape[1:3], attributes), attributes["strides"]
    x = pad_spatial(x, windows.pads, pad_value)
    for top, left in tap_corners(attributes):
        rows = slice(top, top + (windows.out[0] - 1) * strides[0] + 1, strides[0])
        yield x[:, rows, left : left + (windows.out[1] - 1) * strides[1] + 1 : strides[1]]


def padded_planes(x: SourceTensor, attributes: Attributes, value: float, emit: Emitter) -> ir.Value:
    """``x`` in float32 NCHW, padded, or cut at its end, to just what the windows see."""
    planes = emit.cast(emit.transpose(x.value, *TO_NCHW), np.float32)
    windows, size = geometry(x.shape[1:3], attributes), np.array(x.shape[1:3])
    before = windows.pads[:2]
    after = (windows.out - 1) * attributes["strides"] + windows.extent - size - before
    if not before.any() and not after.any():
        return planes
    return emit.op("Pad", planes, np.array([0, 0, *before, 0, 0, *after], np.int64), np.float32(value))
