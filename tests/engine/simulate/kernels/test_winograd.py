"""Windows of 3 x 3 from fewer products: exact, whatever the map's size, its borders and what the results become."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.native.registers import LANES
from engine.simulate.kernels.tiles import FEWER, PRODUCTS, QUARTER, RUN, WINDOW_SIDE
from engine.simulate.kernels.winograd import make_transform_pixels, make_transform_sums
from engine.simulate.lowering.constants import transformed_weights
from engine.simulate.lowering.convolution import lower_convolution
from engine.simulate.program import Assembler
from tests.cpu import needs_cpu
from tests.engine.simulate.machine import call, compute, instructions

OP = "HzSQuantizedConv"
PIXELS = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
RESULTS = np.array([[1, 1, 1, 0], [0, 1, -1, -1]])

fewer = needs_cpu(FEWER, "products of four bytes are as fast as fewer products")


def bytes_(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """All int8, the extremes among them more often."""
    return rng.choice([-128, 127, *range(-128, 128)], shape).astype(np.int8)


def blocks_of(inputs: list[np.ndarray], **attributes: Any) -> int:
    """Blocks in a line of the convolution of ``inputs``; 0 where it takes all products."""
    program = Assembler()
    x = program.input(inputs[0].shape, np.int8)
    lower_convolution(call(OP, x, *inputs[1:], **attributes), program)
    return instructions(program)[-1].fields.get("across", 0)


@given(st.integers(0, 2**32 - 1))
def test_four_results_are_a_quarter_of_what_the_products_give(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pixels, weights = bytes_(rng, WINDOW_SIDE, WINDOW_SIDE).astype(np.int64), bytes_(rng, 1, 3, 3, 1)
    factors = transformed_weights(weights).astype(np.int64).reshape(WINDOW_SIDE, WINDOW_SIDE)
    products = (PIXELS @ pixels @ PIXELS.T) * factors
    expected = [[(pixels[i : i + 3, j : j + 3] * weights[0, ..., 0]).sum() for j in range(2)] for i in range(2)]
    np.testing.assert_array_equal(RESULTS @ products @ RESULTS.T, np.array(expected) << QUARTER)


def test_factors_of_weights_are_int16() -> None:
    extremes = transformed_weights(np.full((1, 3, 3, 1), -128, np.int8))
    assert (extremes.shape, extremes.min()) == ((1, PRODUCTS, 1), -1152)


def test_transforms_are_those_of_the_paper() -> None:
    """Of a block of 4 x 4 pixels in a map of 5 columns, and of the sums of a vector of channels."""
    of_pixels, of_sums = make_transform_pixels(), make_transform_sums()

    @numba.njit
    def transform(x: int, factors: int, sums: int, y: int) -> None:
        of_pixels(x, RUN, 5 * RUN, factors, 2 * RUN)
        of_sums(sums, 4 * LANES, y, 4 * LANES, 8 * LANES)

    rng = np.random.default_rng(3)
    x, factors = bytes_(rng, WINDOW_SIDE, 5, RUN), np.zeros((WINDOW_SIDE, WINDOW_SIDE, RUN), np.int16)
    sums = rng.integers(-(2**20), 2**20, (WINDOW_SIDE, WINDOW_SIDE, LANES)).astype(np.int32)
    y = np.zeros((2, 2, LANES), np.int32)
    transform(x.ctypes.data, factors.ctypes.data, sums.ctypes.data, y.ctypes.data)
    np.testing.assert_array_equal(factors, np.einsum("ij,jkc,lk->ilc", PIXELS, x[:, :4].astype(np.int64), PIXELS))
    np.testing.assert_array_equal(y, np.einsum("ij,jkc,lk->ilc", RESULTS, sums, RESULTS) >> QUARTER)


@fewer
@pytest.mark.parametrize(
    ("shape", "channels", "pads"),
    [
        ((1, 4, 4, RUN), 2 * LANES, [0, 0, 0, 0]),
        ((2, 9, 7, 2 * RUN - 3), 3 * LANES + 1, [1, 1, 1, 1]),
        ((1, 5, 70, RUN), 2 * LANES, [1, 0, 0, 1]),
        ((1, 40, 5, 4 * RUN), 5 * LANES, [1, 1, 0, 0]),
    ],
)
@pytest.mark.parametrize(
    "results",
    [
        {"right_shift": [6], "scale": [23170], "out_shift": [14]},
        {"right_shift": [2], "scale": [23170], "out_shift": [14], "activation": "relu", "output_bit": 16},
        {"output_bit": 32, "high_precision_output": 1},
    ],
)
def test_maps_of_any_size(shape: tuple[int, ...], channels: int, pads: list[int], results: dict[str, Any]) -> None:
    rng = np.random.default_rng(channels)
    weights, bias = bytes_(rng, channels, 3, 3, shape[3]), rng.integers(-9000, 9000, channels).astype(np.int32)
    inputs = [bytes_(rng, *shape), weights, bias, np.zeros(channels, np.int8)]
    assert blocks_of(inputs, kernel_shape=[3, 3], pads=pads) == -(-(shape[2] + pads[1] + pads[3] - 2) // 2)
    found = compute(lower_convolution, OP, inputs, kernel_shape=[3, 3], pads=pads, **results)
    assert np.unique(found).size > 2


@fewer
def test_what_is_added_belongs_to_the_same_pixel() -> None:
    rng = np.random.default_rng(1)
    x, e = bytes_(rng, 1, 7, 6, RUN), bytes_(rng, 1, 7, 6, 2 * LANES)
    own = [bytes_(rng, 2 * LANES, 3, 3, RUN), np.zeros(2 * LANES, np.int32), np.zeros(2 * LANES, np.int8)]
    sums = {"use_sumin": 1, "e_scale": [200], "e_shift": [3], "right_shift": [6], "scale": [23170], "out_shift": [14]}
    compute(lower_convolution, OP, [x, *own, e], kernel_shape=[3, 3], pads=[1, 1, 1, 1], **sums)


@fewer
@pytest.mark.parametrize(("magnitude", "expected"), [(127, 0), (100, 2)])
def test_sums_that_four_times_overflow_take_all_products(magnitude: int, expected: int) -> None:
    """128 x 9 x 3,680 x 127 is more than 2^29."""
    weights = np.full((LANES, 3, 3, 3680), magnitude, np.int8)
    own = [weights, np.zeros(LANES, np.int32), np.zeros(LANES, np.int8)]
    x = np.full((1, 6, 6, 3680), -128, np.int8)
    assert blocks_of([x, *own], kernel_shape=[3, 3]) == expected
    compute(lower_convolution, OP, [x, *own], kernel_shape=[3, 3], output_bit=32, high_precision_output=1)


@pytest.mark.parametrize(
    ("shape", "window"),
    [
        ((1, 9, 9, 2), {}),
        ((1, 9, 9, RUN), {"strides": [2, 1]}),
        ((1, 9, 9, RUN), {"dilations": [1, 2]}),
        ((1, 3, 9, RUN), {}),
        ((1, 9, 9, 2 * RUN), {"group": 2}),
    ],
)
def test_all_products_where_fewer_take_longer_or_windows_differ(shape: tuple[int, ...], window: dict[str, Any]) -> None:
    inside = shape[3] // window.get("group", 1)
    weights = np.ones((2 * LANES, 3, 3, inside), np.int8)
    own = [weights, np.zeros(2 * LANES, np.int32), np.zeros(2 * LANES, np.int8)]
    assert blocks_of([np.zeros(shape, np.int8), *own], kernel_shape=[3, 3], **window) == 0
