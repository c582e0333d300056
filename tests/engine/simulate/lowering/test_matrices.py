"""What products of matrices take: the choices that follow from it."""

from __future__ import annotations

import numpy as np
import pytest

from engine.native.registers import LANES
from engine.simulate.kernels.tiles import DEPTH, MOST_HIGH, SIDE
from engine.simulate.lowering.matrices import crossing, finished, gathered, halves, in_place, in_registers


def test_multiplications_or_loads_are_what_takes_longest() -> None:
    assert in_place(3, 192, 4 * LANES, 0.0, MOST_HIGH) == 3 * 3 * 4
    assert in_place(3, 192, LANES, 1.0, MOST_HIGH) > 3 * 3
    assert in_place(3, 192, 4 * LANES, 0.0, SIDE) > in_place(3, 192, 4 * LANES, 0.0, MOST_HIGH)


@pytest.mark.parametrize(("pieces", "size", "is_better"), [(1, 64, True), (3, 192, True), (9, 4, True), (7, 8, False)])
def test_windows_are_gathered_where_many_short_pieces_fill_a_register(pieces: int, size: int, is_better: bool) -> None:
    channels = (4 if is_better else 32) * LANES
    assert (
        in_place(pieces, size, channels, crossing(size), MOST_HIGH) <= gathered(pieces, size, channels)
    ) == is_better


def test_places_begin_with_lines_or_not() -> None:
    assert [crossing(64), crossing(128, 192), crossing(32), crossing(64, 48), crossing(3)] == [0, 0, 0.5, 0.75, 63 / 64]


def test_every_vector_is_finished() -> None:
    assert finished(LANES + 1) == 2 * finished(1)


def test_two_vectors_come_before_the_next_two() -> None:
    w = np.zeros((2 * DEPTH, 3, LANES, 4), np.int8)
    w[:] = (np.arange(2 * DEPTH) // DEPTH)[:, np.newaxis, np.newaxis, np.newaxis] * 3 + np.arange(3)[
        :, np.newaxis, np.newaxis
    ]
    order = in_registers(w).reshape(-1, DEPTH * LANES * 4)
    assert order[:, 0].tolist() == [0, 1, 3, 4, 2, 5]


def test_bytes_of_int16_meet_the_same_weights_apart() -> None:
    w = np.array([[[[3, -2]]]], np.int16)
    assert halves(w).tolist() == [[[[3, 0, -2, 0]], [[0, 3, 0, -2]]]]
    assert in_place(1, 64, 64, 0.0, MOST_HIGH, item=2) == 2 * in_place(1, 64, 64, 0.0, MOST_HIGH)
