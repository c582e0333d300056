"""Rows of accumulators and tiles of dot products to int8, four vectors at a time, equal to the definition."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from engine.native.registers import LANES
from engine.simulate.kernels.packing import make_packed_rows, make_packed_tile
from engine.simulate.kernels.tiles import BIAS, BLOCK_VECTORS, LEAST_SHIFT, OUT_SHIFT, PACKS, PAIR, RIGHT_SHIFT, SCALE
from engine.simulate.lowering.constants import with_words
from tests.cpu import needs_cpu

LOW, ROWS, STEPS = -100, 8, 5
PACKED = {vectors: (make_packed_rows(vectors), make_packed_tile(ROWS, vectors)) for vectors in (1, 2)}
needs_packs = needs_cpu(PACKS, "rows are packed with AVX2")


def parameters(columns: int) -> np.ndarray:
    """Scales of either sign and the least shifts, so that results meet both bounds of int16 and int8."""
    params = np.zeros((7, columns + 2 * LANES), np.int32)
    channel = np.arange(columns)
    params[BIAS, :columns], params[RIGHT_SHIFT, :columns] = channel * 700 - 9000, channel % 3
    params[SCALE, :columns] = np.where(channel % 3 == 0, -15000, 32767) & 0xFFFF
    params[OUT_SHIFT, :columns] = LEAST_SHIFT + channel % 5
    return with_words(params)


def expected(sums: np.ndarray) -> np.ndarray:
    channel = np.arange(sums.shape[1])
    narrow = np.clip((sums.astype(np.int64) + channel * 700 - 9000) >> channel % 3, -(1 << 15), (1 << 15) - 1)
    scaled = narrow * np.where(channel % 3 == 0, -15000, 32767) >> LEAST_SHIFT + channel % 5
    return np.clip(np.maximum(scaled, LOW), -128, 127).astype(np.int8)


@needs_packs
@pytest.mark.parametrize("vectors", sorted(PACKED))
def test_rows_far_apart(vectors: int) -> None:
    packed_rows, _ = PACKED[vectors]

    @numba.njit
    def pack(acc: int, step: int, y: int, y_step: int, params: int, pitch: int) -> None:
        packed_rows(acc, step, y, y_step, ROWS, params, pitch, LOW)

    columns = vectors * LANES
    assert BLOCK_VECTORS % vectors == 0
    sums = np.random.default_rng(vectors).integers(-90000, 90000, (ROWS, columns + 3)).astype(np.int32)
    params, y = parameters(columns), np.full((ROWS, columns + 5), 77, np.int8)
    pack(sums.ctypes.data, sums.strides[0], y.ctypes.data, y.strides[0], params.ctypes.data, params.strides[0])
    wanted = expected(sums[:, :columns])
    np.testing.assert_array_equal(y[:, :columns], wanted)
    assert np.all(y[:, columns:] == 77)
    assert {LOW, 127} < set(wanted.ravel().tolist())


@needs_packs
@pytest.mark.parametrize("vectors", sorted(PACKED))
def test_tiles_of_two_pieces(vectors: int) -> None:
    _, packed_tile = PACKED[vectors]

    @numba.njit
    def pack(a: int, pitch: int, between: int, w: int, y: int, y_step: int, params: int, params_pitch: int) -> None:
        packed_tile(a, pitch, 2, between, w, STEPS, y, y_step, params, params_pitch, LOW)

    columns, rng = vectors * LANES, np.random.default_rng(vectors)
    a = rng.integers(-128, 128, (2, ROWS, STEPS, PAIR)).astype(np.int16)
    w = rng.integers(-128, 128, (2, STEPS, columns, PAIR)).astype(np.int16)
    params, y = parameters(columns), np.full((ROWS, columns + 5), 77, np.int8)
    pack(
        *(a.ctypes.data, a.strides[1], a.strides[0], w.ctypes.data, y.ctypes.data, y.strides[0]),
        *(params.ctypes.data, params.strides[0]),
    )
    sums = np.einsum("prsk,psck->rc", a.astype(np.int64), w.astype(np.int64))
    np.testing.assert_array_equal(y[:, :columns], expected(sums))
    assert np.all(y[:, columns:] == 77)
