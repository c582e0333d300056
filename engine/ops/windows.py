"""Sliding windows over NHWC maps, shared by the pooling operators."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.ops.base import Array, Attributes
from engine.ops.schema import pad_spatial


def taps(x: Array, attributes: Attributes, pad_value: int) -> Iterator[Array]:
    """For every position in the window, ``x`` as each output pixel sees it there: (N, H_out, W_out, C).

    Reads ``kernel_shape``, ``pads``, ``strides`` and, if there, ``dilations`` and ``ceil_mode``. With ``ceil_mode`` a
    last window that starts inside the padded input is kept and filled up with ``pad_value`` (ONNX's definition).
    """
    kernel, strides, pads = attributes["kernel_shape"], attributes["strides"], attributes["pads"]
    dilations = attributes.get("dilations", np.ones(2, np.int64))
    extent = dilations * (kernel - 1) + 1
    size = np.array(x.shape[1:3])
    room = size + pads[:2] + pads[2:] - extent
    if attributes.get("ceil_mode", 0):
        out = -(-room // strides) + 1
        out -= (out - 1) * strides >= size + pads[:2]
    else:
        out = room // strides + 1
    missing = np.maximum((out - 1) * strides + extent - (size + pads[:2] + pads[2:]), 0)
    x = pad_spatial(x, pads + np.concatenate([np.zeros(2, np.int64), missing]), pad_value)
    for ky in range(kernel[0]):
        for kx in range(kernel[1]):
            top, left = ky * dilations[0], kx * dilations[1]
            rows = slice(top, top + (out[0] - 1) * strides[0] + 1, strides[0])
            yield x[:, rows, left : left + (out[1] - 1) * strides[1] + 1 : strides[1]]
