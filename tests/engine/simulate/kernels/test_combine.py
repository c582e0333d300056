"""Rows of sums and products in registers: every length, one element of the second operand, what stays outside."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from engine.native.registers import LANES
from engine.simulate.kernels.combine import make_combine
from engine.simulate.kernels.vector import I16
from engine.simulate.lowering.elementwise import lower_difference, lower_product, lower_sum
from tests.engine.simulate.machine import compute

STAGE = {"output_right_shift": [9], "output_scale": [181], "accu_right_shift": [1]}
SUM = {**STAGE, "x_shift": [3], "e_scale": [77]}

multiply = make_combine(I16, multiply=True, repeats=True)


@numba.njit
def multiplied(
    x: int, x_pitch: int, e: int, e_pitch: int, y: int, rows: int, length: int, params: int, low: int, high: int
) -> None:
    multiply(x, x_pitch, e, e_pitch, y, rows, length, params, low, high)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-128, 128, shape).astype(np.int8)


@pytest.mark.parametrize("length", [1, LANES - 1, LANES, LANES + 1, 3 * LANES + 2, 2000])
@pytest.mark.parametrize("bits", [8, 16])
def test_rows_of_every_length(length: int, bits: int) -> None:
    x = noise(1, 5, 3, length)
    for e in (noise(1, 5, 3, length + 1)[..., 1:].copy(), noise(1, 5, 3, 1), noise(1, 1, 3, length), noise(1, 1, 1, 1)):
        more: dict[str, Any] = {"output_bit": bits}
        compute(lower_product, "HzSElementwiseMul", [x, e], **STAGE, **more)
        compute(lower_sum, "HzSElementwiseAdd", [x, e], **SUM, **more)
        compute(lower_difference, "HzSElementwiseSub", [x, e], **SUM, **more)


@pytest.mark.parametrize("rounding", ["FLOOR", "ROUND"])
def test_extreme_values_and_both_roundings(rounding: str) -> None:
    x = np.resize(np.array([-128, 127, 0, -1], np.int8), (1, 2, 2, 2 * LANES))
    for scale, shift in ((65535, 15), (1, 0), (32768, 16)):
        stage = {"output_right_shift": [shift], "output_scale": [scale], "accu_right_shift": [0]}
        compute(lower_product, "HzSElementwiseMul", [x, x[..., ::-1].copy()], **stage, rounding_method=rounding)


def test_a_row_ends_where_it_ends() -> None:
    length = LANES + 1
    x, e, y = noise(2, length + 3), noise(2, 4), np.full(2 * length + 1, -9, np.int16)
    params = np.array([0, 0, 0, 0, 0, 1, 0, 0], np.int32)
    multiplied(
        *(x.ctypes.data, x.strides[0], e.ctypes.data, e.strides[0], y.ctypes.data),
        *(2, length, params.ctypes.data, -32768, 32767),
    )
    np.testing.assert_array_equal(y[:-1].reshape(2, length), x[:, :length] * e[:, :1].astype(np.int16))
    assert y[-1] == -9
