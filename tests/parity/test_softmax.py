"""Softmax of float32 has the bits of the original's own runtime.

``recorded/softmax/rows.npz`` has what that gave for random rows of 1 to 255 numbers, three of each length, and one row
of 444 numbers from -110 to 0: ``x_<length>`` and ``y_<length>``, float32, shape (rows, length).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.floats.softmax.definition import softmax_rows

ROWS = np.load(Path(__file__).parent / "recorded" / "softmax" / "rows.npz", allow_pickle=False)
LENGTHS = sorted(int(name.removeprefix("x_")) for name in ROWS.files if name.startswith("x_"))
FOUR = 4


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_have_the_bits_of_the_original(length: int) -> None:
    """But those of the last numbers of a tensor whose count four does not divide."""
    x, expected = ROWS[f"x_{length}"], ROWS[f"y_{length}"]
    whole = x.size - x.size % FOUR
    found = softmax_rows(x).reshape(-1)
    np.testing.assert_array_equal(found[:whole], expected.reshape(-1)[:whole])
    np.testing.assert_allclose(found[whole:], expected.reshape(-1)[whole:], rtol=2e-7)
