"""Tiles whose results leave the registers as bytes, and windows read in place, equal to the definition."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from engine.native.registers import LANES, REGISTERS
from engine.simulate.kernels.finished_tiles import make_finished_tile
from engine.simulate.kernels.instructions import INSTRUCTION
from engine.simulate.kernels.tiles import BIAS, E_RIGHT, E_SCALE, FLIP, MATRICES, OUT_SHIFT, RIGHT_SHIFT, SCALE
from engine.simulate.lowering.constants import with_words
from engine.simulate.lowering.convolution import lower_convolution
from engine.simulate.program import Assembler
from tests.cpu import needs_cpu
from tests.engine.simulate.kernels.test_convolution import OP, STAGE, WORD_STAGE, noise
from tests.engine.simulate.machine import call, compute, instructions

WIDTHS = (1, 2, 3, 4)
TILES = {(v, added): make_finished_tile(2, v, added) for v in WIDTHS for added in (False, True)}
needs_quads = needs_cpu(REGISTERS.quads, "dot products of four bytes are those of AVX512-VNNI")


@needs_quads
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("vectors", WIDTHS)
def test_a_tile_stores_the_bytes_that_are_asked_for_and_no_others(vectors: int, added: bool) -> None:
    tile = TILES[vectors, added]

    @numba.njit
    def compute_tile(
        records: np.ndarray[Any, Any], a: int, pitch: int, w: int, params: int, mask: int, e: int, y: int, z: int
    ) -> None:
        tile(records[0], a, pitch, w, w, 0, params, mask, e, y, z, 9, 9, 0, y)

    rng, columns, rows, step = np.random.default_rng(vectors), vectors * LANES, 2, vectors * LANES + 7
    a = rng.integers(0, 256, (2, 4, 12)).astype(np.uint8)  # pieces lie above each other, rows overlap by a step of four
    w = rng.integers(-128, 128, (2, 3, columns, 4)).astype(np.int8)
    params = np.zeros((7, columns), np.int32)
    params[BIAS], params[RIGHT_SHIFT], params[SCALE] = np.arange(columns) * 50 - 900, 4, 16000
    params[OUT_SHIFT], params[E_SCALE], params[E_RIGHT] = 16 + np.arange(columns) % 3, 300, 1
    params[SCALE, ::3] = -15000 & 0xFFFF
    params = with_words(params)
    e, y = noise(rows, step + LANES), np.full((rows, step), 77, np.int8)
    z = np.full((rows, step + 3), 77, np.int8)
    record = np.zeros(1, INSTRUCTION)
    sizes = {"pieces": 2, "piece_pitch": a.strides[0], "steps": 3, "params_pitch": params.strides[0], "low": -100}
    places = {"out_c": step, "y_pitch": step, "z_pitch": step + 3, "z_flip": -128, "block_columns": 1, "block_rows": 1}
    for name, value in (sizes | places).items():
        record[name] = value
    flat = a.reshape(2, -1)
    windows = np.stack([flat[:, 4 * row : 4 * row + 12] for row in range(rows)]).reshape(rows, 2, 3, 4)
    total = np.einsum("rpsk,psck->rc", windows.astype(np.int64), w.astype(np.int64))
    sums = total.astype(np.int32)
    stored = columns - 5
    compute_tile(
        *(record, (sums if MATRICES else a).ctypes.data, 4, w.ctypes.data, params.ctypes.data, (1 << stored) - 1),
        *(e.ctypes.data, y.ctypes.data, z.ctypes.data),
    )
    total += params[BIAS]
    if added:
        given = e.ravel()[np.arange(rows)[:, np.newaxis] * step + np.arange(columns)]
        total += (given.astype(np.int64) * 300) >> 1
    scale = np.where(np.arange(columns) % 3 == 0, -15000, 16000)
    scaled = (np.clip(total >> 4, -32768, 32767) * scale) >> (16 + np.arange(columns) % 3)
    np.testing.assert_array_equal(y[:, :stored], np.clip(np.maximum(scaled, -100), -128, 127)[:, :stored])
    assert np.all(y[:, stored:] == 77)
    np.testing.assert_array_equal(z[:, :stored], y[:, :stored] ^ -128)
    assert np.all(z[:, stored:] == 77)
    assert (scaled < -100).any()


@pytest.mark.parametrize("inside", [1, 2, LANES - 1, LANES, 2 * LANES, 3 * LANES + 1])
@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("size", [1, 3])
def test_groups_begin_with_any_channel(inside: int, groups: int, size: int) -> None:
    """Each channel has a scale and shifts of its own."""
    channels = groups * inside
    constants = [noise(channels, size, size, 4), np.arange(channels, dtype=np.int32) * 300, np.zeros(channels, np.int8)]
    stage = {
        "right_shift": [k % 3 for k in range(channels)],
        "scale": [16384 + 97 * k for k in range(channels)],
        "out_shift": [20 + k % 4 for k in range(channels)],
    }
    x = noise(1, 5, 30, 4 * groups)
    compute(lower_convolution, OP, [x, *constants], kernel_shape=[size, size], group=groups, **stage)


@pytest.mark.parametrize("shift", [15, 16, 17, 18, 31])
def test_the_least_shift_of_upper_halves(shift: int) -> None:
    constants = [noise(70, 1, 1, 8), np.arange(70, dtype=np.int32) * 900, np.zeros(70, np.int8)]
    stage = {"right_shift": [0], "scale": [-32767], "out_shift": [shift] * 69 + [24]}
    compute(lower_convolution, OP, [noise(1, 3, 20, 8), *constants], kernel_shape=[1, 1], **stage)


@pytest.mark.parametrize("channels", [LANES - 3, 2 * LANES, 3 * LANES, 4 * LANES, 4 * LANES + 5, 9 * LANES])
@pytest.mark.parametrize(("inside", "height"), [(3, 3), (8, 3), (5, 2)])
@pytest.mark.parametrize("strides", [[1, 1], [2, 2], [1, 2], [2, 1]])
@pytest.mark.parametrize("added", [False, True])
def test_windows_in_place_at_the_ends_of_rows_and_tiles(
    channels: int, inside: int, height: int, strides: list[int], added: bool
) -> None:
    """Steps in either direction, pieces that are no whole steps, panels with rests, sums, all of several rows."""
    constants = [noise(channels, height, 3, inside), np.arange(channels, dtype=np.int32) * 90 - 500]
    attributes: dict[str, Any] = {
        "kernel_shape": [height, 3],
        "strides": strides,
        "dilations": [2, 1],
        "pads": [1, 1, 2, 1],
        "activation": "relu" if inside == 8 else "none",
        **WORD_STAGE,
    }
    x = noise(1, 9, 41, inside)
    x[0, 3] = -128
    result = compute(lower_convolution, OP, [x, *constants, np.zeros(channels, np.int8)], **attributes)
    if added:
        e = noise(*result.shape)
        sums: dict[str, Any] = {"use_sumin": 1, "e_scale": [40], "e_shift": [1]}
        compute(lower_convolution, OP, [x, *constants, np.zeros(channels, np.int8), e], **attributes, **sums)


@pytest.mark.parametrize("size", [1, 3])
def test_several_samples(size: int) -> None:
    constants = [noise(32, size, size, 16), np.arange(32, dtype=np.int32) * 90, np.zeros(32, np.int8)]
    window = {"kernel_shape": [size, size], "pads": [size // 2] * 4}
    result = compute(lower_convolution, OP, [noise(3, 6, 20, 16), *constants], **window, **WORD_STAGE)
    assert result.shape == (3, 6, 20, 32)


@needs_quads
@pytest.mark.parametrize(
    ("shape", "channels", "window", "in_place"),
    [
        ((1, 40, 40, 32), 32, {"kernel_shape": [3, 3], "pads": [1] * 4}, 1),
        ((1, 40, 40, 32), 32, {"kernel_shape": [3, 3]}, 1),
        ((1, 40, 40, 32), 32, {"kernel_shape": [1, 1]}, int(MATRICES)),
        ((1, 7, 7, 32), 512, {"kernel_shape": [3, 3], "pads": [1] * 4}, 0),
        ((1, 7, 7, 64), 512, {"kernel_shape": [3, 3], "pads": [1] * 4}, int(MATRICES)),
        ((1, 18, 18, 16), 512, {"kernel_shape": [3, 3], "strides": [2, 2]}, 0),
        ((1, 40, 40, 32), 32, {"kernel_shape": [3, 3], "dilations": [1, 2]}, 0),
        ((1, 40, 40, 32), 32, {"kernel_shape": [3, 3], "group": 2}, 0),
    ],
)
@pytest.mark.parametrize("stage", [STAGE, WORD_STAGE])
def test_windows_are_read_in_place_where_that_takes_less_time(
    shape: tuple[int, ...], channels: int, window: dict[str, Any], in_place: int, stage: dict[str, Any]
) -> None:
    """Results of small shifts do not fit the upper halves of products."""
    program, groups = Assembler(), window.get("group", 1)
    constants = [noise(channels, *window["kernel_shape"], shape[3] // groups), np.zeros(channels, np.int32)]
    x = program.input(shape, np.int8)
    lower_convolution(call(OP, x, *constants, np.zeros(channels, np.int8), **window, **stage), program)
    step = instructions(program)[-1]
    assert step.fields["in_place"] == in_place
    assert step.fields["finishes"] == int(stage is WORD_STAGE)
    assert (step.operands["x"].buffer is x.buffer) == (not (in_place and FLIP) and "pads" not in window)
