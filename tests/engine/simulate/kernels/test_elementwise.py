"""Sums, products and pools of the machine, at the edges of 32 bits."""

from __future__ import annotations

from dataclasses import replace

import numba
import numpy as np
import pytest

from engine.simulate.kernels.elementwise import accumulate
from engine.simulate.kernels.elementwise_rows import (
    ACCU_SHIFT,
    E_SCALE,
    E_SHIFT,
    HALF,
    HIGH_16,
    LOW_16,
    OFFSET,
    OUT_SHIFT,
    SCALE,
    X_SHIFT,
)
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import fed, run

ROWS = (X_SHIFT, E_SCALE, E_SHIFT, OFFSET, ACCU_SHIFT, SCALE, HALF, OUT_SHIFT)


def combined(
    x: list[int], e: list[int], parameters: dict[int, list[int]], *, multiply: int = 0, wide: int = 0, bits: int = 16
) -> list[int]:
    """Two rows of int16, by one set of parameters or one for each element."""
    program = Assembler()
    feeds = fed(program, np.array(x, np.int16), np.array(e, np.int16))
    y = program.tensor((len(x),), f"int{bits}")
    period = max(map(len, parameters.values()))
    params = np.zeros((8, period), np.int64)
    params[SCALE] = 1
    for row, values in parameters.items():
        params[row] = values
    dims = np.array([[1, 1, 1, len(x)], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1]], np.int64)
    operands = {"x": feeds[0][0], "e": feeds[1][0], "y": y}
    fields = {
        "multiply": multiply,
        "wide": wide,
        "period": period,
        "low": -(1 << (bits - 1)),
        "high": (1 << (bits - 1)) - 1,
    }
    own = program.address(params.astype(np.int64 if wide else np.int32))
    program.emit(
        InstructionKind.ELEMENTWISE,
        operands,
        units=1,
        scratch=8 * len(x),
        dims=program.address(dims),
        params=own,
        **fields,
    )
    return [int(value) for value in run(program, feeds, y)]


@numba.njit
def added(x: np.ndarray, total: np.ndarray) -> None:
    accumulate(x, total)


def test_bytes_are_added_in_32_bits() -> None:
    total = np.array([1000, -1000], np.int32)
    added(np.array([127, -128], np.int8), total)
    assert total.tolist() == [1127, -1128]


def test_rows_of_parameters_are_in_order() -> None:
    assert tuple(range(8)) == ROWS
    assert (LOW_16, HIGH_16) == (-32768, 32767)


@pytest.mark.parametrize("wide", [0, 1])
@pytest.mark.parametrize("period", [1, 3])
def test_a_weighted_sum_is_floored_saturated_multiplied_and_shifted(wide: int, period: int) -> None:
    parameters = {X_SHIFT: [2], E_SCALE: [-3], E_SHIFT: [1], ACCU_SHIFT: [1], SCALE: [3], HALF: [2], OUT_SHIFT: [2]}
    spread = {row: values * period for row, values in parameters.items()}
    found = combined([5, -5, 30000], [1, -2, -30000], spread, wide=wide)
    assert found == [(7 * 3 + 2) >> 2, (-4 * 3 + 2) >> 2, (32767 * 3 + 2) >> 2]


@pytest.mark.parametrize("wide", [0, 1])
@pytest.mark.parametrize("period", [1, 2])
def test_a_product_has_an_offset(wide: int, period: int) -> None:
    parameters = {OFFSET: [5] * period, ACCU_SHIFT: [2] * period}
    assert combined([7, -32768], [3, -32768], parameters, multiply=1, wide=wide) == [26 >> 2, 32767]
    assert combined([7, -300], [3, 300], parameters, multiply=1, wide=wide, bits=8) == [6, -128]


def test_parameters_may_differ_by_element() -> None:
    assert combined([1, 1], [0, 0], {X_SHIFT: [3, 5]}) == [8, 32]
    assert combined([1, 1, 1, 1], [0] * 4, {X_SHIFT: [3, 5]}, wide=1) == [8, 32, 8, 32]


@pytest.mark.parametrize("channels", [*range(1, 18), 24, 31, 32, 40])
def test_windows_of_any_number_of_channels(channels: int) -> None:
    """Vectors of a last part overlap, which a maximum does not mind; nothing behind the result is written."""
    program = Assembler()
    x = np.random.default_rng(channels).integers(-128, 128, (1, 4, 6, channels)).astype(np.int8)
    feeds = fed(program, x)
    both = program.constant_operand(np.full(2 * 3 * channels + 64, -77, np.int8))
    y = replace(both, shape=(1, 2, 3, channels))
    offsets = np.array([0, channels, 6 * channels, 7 * channels], np.int64)
    fields = {"in_w": 6, "in_c": channels, "out_w": 3, "stride_h": 2, "stride_w": 2}
    taps = {"taps": 4, "tap_offsets": program.address(offsets)}
    program.emit(InstructionKind.MAX_POOL, {"x": feeds[0][0], "y": y}, units=2, **fields, **taps)
    found = run(program, feeds, both)
    expected = x.reshape(1, 2, 2, 3, 2, channels).max(axis=(2, 4))
    np.testing.assert_array_equal(found[: expected.size].reshape(expected.shape), expected)
    assert (found[expected.size :] == -77).all()
