"""Register tiles: their shape by CPU, and dot products, packing and requantisation of whole vectors."""

from __future__ import annotations

import numba
import numpy as np

from engine.native.registers import LANES
from engine.simulate.kernels.tiles import BIAS, HALF, OUT_SHIFT, PAIR, PARAMETER_ROWS, QUAD, RIGHT_SHIFT, SCALE
from engine.simulate.kernels.vector import I8, I16, make_dot_tile, make_pack, make_requantize

dots, rounded, pairs = make_dot_tile(2, 1), make_requantize(I8, rounded=True), make_pack(I16, 2)


@numba.njit
def dot_tile(a: int, pitch: int, w: int, steps: int, out: int) -> None:
    dots(a, pitch, 1, 0, w, steps, out)


@numba.njit
def requantized(acc: int, y: int, params: int, pitch: int, low: int) -> None:
    rounded(acc, 4 * LANES, y, LANES, 1, params, pitch, low)


@numba.njit
def packed(source: int, pitch: int, target: int) -> None:
    pairs(source, pitch, target)


def test_dot_products_of_pairs_wrap() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-32768, 32768, (2, 6)).astype(np.int16)
    w = rng.integers(-32768, 32768, (3, LANES, 2)).astype(np.int16)
    a[0], w[:, 0] = -32768, -32768
    out = np.zeros((2, LANES), np.int32)
    dot_tile(a.ctypes.data, a.strides[0], w.ctypes.data, 3, out.ctypes.data)
    exact = np.einsum("rsk,sck->rc", a.reshape(2, 3, 2).astype(np.int64), w.astype(np.int64))
    np.testing.assert_array_equal(out, exact.astype(np.int32))
    assert exact[0, 0] == 6 * 2**30


def test_results_are_floored_saturated_multiplied_rounded_and_clipped() -> None:
    params = np.zeros((PARAMETER_ROWS, LANES), np.int32)
    params[BIAS], params[RIGHT_SHIFT], params[SCALE], params[OUT_SHIFT], params[HALF] = 1, 1, 3, 1, 1
    acc, y = np.zeros(LANES, np.int32), np.zeros(LANES, np.int8)
    acc[:4] = [4, -6, 1000, 2**30]
    requantized(acc.ctypes.data, y.ctypes.data, params.ctypes.data, params.strides[0], -4)
    assert y[:4].tolist() == [3, -4, 127, 127]
    params[OUT_SHIFT] = 10
    requantized(acc.ctypes.data, y.ctypes.data, params.ctypes.data, params.strides[0], -128)
    assert y[:4].tolist() == [0, -1, 1, (32767 * 3 + 1) >> 10]


def test_rows_are_interleaved_in_the_lanes() -> None:
    rows = np.stack([np.arange(LANES), -np.arange(LANES)]).astype(np.int16)
    target = np.zeros((LANES, 2), np.int16)
    packed(rows.ctypes.data, rows.strides[0], target.ctypes.data)
    np.testing.assert_array_equal(target, rows.T)


def test_a_step_is_one_lane() -> None:
    assert PAIR * I16.width == QUAD * I8.width == 32
