"""Bytes of maps on the chip and in DDR: which dimensions are padded to what."""

from __future__ import annotations

import pytest

from engine.chips.latency import load_latency
from engine.chips.latency.layout import RowPadding
from engine.compile.sizes import activation_bytes, as_map, ddr_bytes, row_width


@pytest.mark.parametrize(
    ("march", "width", "stored"),
    [
        ("bayes-e", 7, 8),
        ("bayes-e", 33, 36),
        ("bayes-e", 56, 64),
        ("bayes-e", 112, 112),
        ("bayes-e", 168, 168),
        ("bayes", 33, 64),
        ("bayes", 65, 68),
        ("bayes", 112, 128),
        ("bayes", 168, 192),
        ("bayes", 224, 224),
        ("bernoulli2", 17, 24),
        ("bernoulli2", 56, 56),
    ],
)
def test_stored_rows_have_the_measured_widths(march: str, width: int, stored: int) -> None:
    assert row_width(width, load_latency(march).output_row) == stored


@pytest.mark.parametrize(("width", "loaded"), [(1, 16), (28, 32), (112, 128), (168, 192), (224, 256)])
def test_loaded_rows_have_the_measured_widths(width: int, loaded: int) -> None:
    assert row_width(width, load_latency("bayes-e").input_row) == loaded


def test_image_channels_are_not_padded() -> None:
    padding = RowPadding(block=128, minimum=16, channels=16)
    assert ddr_bytes((1, 2, 16, 3), 8, padding) == 2 * 16 * 3
    assert ddr_bytes((1, 2, 16, 4), 8, padding) == 2 * 16 * 4
    assert ddr_bytes((1, 2, 16, 5), 8, padding) == 2 * 16 * 16
    assert ddr_bytes((1, 2, 16, 24), 8, padding) == 2 * 16 * 32


def test_single_pixels_of_a_batch_are_one_map() -> None:
    assert as_map((1792, 1, 1, 28)) == (1, 28, 64, 28)
    assert as_map((1, 1, 1, 28)) == (1, 1, 1, 28)
    assert as_map((4, 8, 8, 16)) == (4, 8, 8, 16)
    assert activation_bytes((1792, 1, 1, 64), 32) == 1792 * 64 * 4


def test_other_ranks_are_dense_and_wider_integers_take_more_bytes() -> None:
    padding = RowPadding(block=128, minimum=16, channels=16)
    assert (ddr_bytes((3, 5), 16, padding), activation_bytes((3, 5), 16)) == (30, 30)
    assert activation_bytes((2, 3, 9, 10), 16) == 2 * 3 * 16 * 16 * 2
    assert activation_bytes((1, 3, 9, 10), 8, row=4) == 3 * 12 * 16
    assert as_map((65, 1, 1, 8)) == (1, 5, 13, 8)
