"""The compiled depthwise convolution: the order of its sums, written down in numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.floats.depthwise import DepthwiseGeometry, convolve
from engine.floats.depthwise_loops import BLOCK

Floats = NDArray[np.float32]
Pair = tuple[int, int]


def in_order(
    source: Floats, weight: Floats, bias: Floats, strides: Pair, dilations: Pair, pads: Pair, size: Pair
) -> Floats:
    """Taps in groups of four, each summed by itself, every group added to the sum; last the ninth tap and the bias."""
    rows, columns = weight.shape[1:]
    reach = [strides[axis] * (size[axis] - 1) + dilations[axis] * (weight.shape[1 + axis] - 1) + 1 for axis in (0, 1)]
    padded = np.zeros(
        (len(source), *(max(r, p + s) for r, p, s in zip(reach, pads, source.shape[1:], strict=True))), np.float32
    )
    padded[:, pads[0] : pads[0] + source.shape[1], pads[1] : pads[1] + source.shape[2]] = source
    products = [
        padded[
            :,
            y * dilations[0] : y * dilations[0] + strides[0] * (size[0] - 1) + 1 : strides[0],
            x * dilations[1] : x * dilations[1] + strides[1] * (size[1] - 1) + 1 : strides[1],
        ]
        * weight[:, y, x, None, None]
        for y, x in itertools.product(range(rows), range(columns))
    ]
    total = None
    for first in range(0, len(products) - 1, 4):
        group = products[first]
        for product in products[first + 1 : first + 4]:
            group = group + product
        total = group if total is None else total + group
    return (total + products[-1]) + bias[:, None, None]


@pytest.mark.parametrize(
    ("kernel", "strides", "dilations", "pads"),
    [
        ((3, 3), (1, 1), (1, 1), (1, 1)),
        ((3, 3), (2, 2), (1, 1), (0, 1)),
        ((3, 3), (2, 2), (1, 1), (1, 0)),
        ((5, 5), (1, 2), (2, 1), (2, 3)),
        ((3, 3), (3, 3), (1, 2), (1, 2)),
        ((1, 9), (1, 1), (1, 1), (0, 4)),
    ],
)
def test_the_order_of_sums(kernel: Pair, strides: Pair, dilations: Pair, pads: Pair) -> None:
    rng = np.random.default_rng(0)
    size = (9, 11)
    source = rng.standard_normal((3, 17, 20), np.float32)
    weight, bias = rng.standard_normal((3, *kernel), np.float32), rng.standard_normal(3, np.float32)
    result = np.empty((2, 3, *size), np.float32)
    geometry = DepthwiseGeometry((17, 20), size, kernel, strides, dilations, pads, pads)
    convolve(np.stack([source, -source]), weight, bias, geometry, np.array([-np.inf, np.inf], np.float32), result)
    for sample, found in zip((source, -source), result, strict=True):
        np.testing.assert_array_equal(found, in_order(sample, weight, bias, strides, dilations, pads, size))


def test_results_are_clipped_and_blocks_leave_no_seam() -> None:
    width = BLOCK + 5
    source = np.arange(width, dtype=np.float32).reshape(1, 1, 1, width)
    weight = np.zeros((1, 1, 9), np.float32)
    weight[0, 0, 4] = 1
    result = np.empty_like(source)
    geometry = DepthwiseGeometry((1, width), (1, width), (1, 9), (1, 1), (1, 1), (0, 4), (0, 4))
    convolve(source, weight, np.full(1, -3, np.float32), geometry, np.array([0, 2000], np.float32), result)
    np.testing.assert_array_equal(result, np.clip(source - 3, 0, 2000))
