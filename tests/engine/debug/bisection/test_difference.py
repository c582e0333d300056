"""When two tensors that should be the same are not."""

from __future__ import annotations

import numpy as np
import pytest

from engine.debug.bisection.difference import are_integers, float_difference, integer_difference

INT8 = np.int8


@pytest.mark.parametrize(
    ("actual", "expected", "relative", "text"),
    [
        ([1.0, 100.0], [1.0, 100.0], 1e-4, None),
        ([1.0099, 100.0], [1.0, 100.0], 1e-4, None),
        ([1.0102, 100.0], [1.0, 100.0], 1e-4, "50.0% of the values differ, by at most 0.0102"),
        ([0.9e-7], [0.0], 1e-4, None),
        ([1.1e-7], [0.0], 1e-4, "100.0% of the values differ"),
        ([np.nan, 1.0], [1.0, 1.0], 1e-4, "of the values differ"),
        ([1.0], [1.0, 1.0], 1e-4, "shape (1,) in place of (2,)"),
        ([2.0], [1.0], 0.5, "by at most 1"),
        ([1.5], [1.0], 0.5, None),
    ],
)
def test_floats(actual: list[float], expected: list[float], relative: float, text: str | None) -> None:
    found = float_difference(relative)(np.asarray(actual), np.asarray(expected))
    assert (found is None) == (text is None)
    assert (text or "") in (found or "")


@pytest.mark.parametrize(
    ("actual", "expected", "lsb", "differs"),
    [
        (np.asarray([1, 2], INT8), np.asarray([1, 2], INT8), 0, False),
        (np.asarray([1, 3], INT8), np.asarray([1, 2], INT8), 0, True),
        (np.asarray([1, 3], INT8), np.asarray([1, 2], INT8), 1, False),
        (np.asarray([1, 4], INT8), np.asarray([1, 2], INT8), 1, True),
        (np.asarray([-128], INT8), np.asarray([127], INT8), 254, True),
        (np.asarray([-128], INT8), np.asarray([127], INT8), 255, False),
        (np.asarray([1.0, np.nan]), np.asarray([1.0, np.nan]), 0, False),
        (np.asarray([1.0]), np.asarray([1.5]), 0, True),
        (np.asarray([1.0]), np.asarray([1.5]), 1, False),
        (np.asarray([1], INT8), np.asarray([1, 1], INT8), 0, True),
    ],
)
def test_integers(actual: np.ndarray, expected: np.ndarray, lsb: float, differs: bool) -> None:
    assert (integer_difference(lsb)(actual, expected) is not None) == differs


def test_integers_of_one_shape() -> None:
    one = np.zeros(2, INT8)
    assert are_integers(one, one.astype(np.int32))
    assert not are_integers(one, one.astype(np.float32))
    assert not are_integers(one, np.zeros(3, INT8))
