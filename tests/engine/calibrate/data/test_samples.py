"""The samples that options look at."""

from __future__ import annotations

import numpy as np
import pytest

from engine.calibrate import ArrayData
from engine.calibrate.data.samples import evenly_spread, finite_samples


@pytest.mark.parametrize(
    ("total", "count", "indices"), [(1, 8, [0]), (3, 8, [0, 1, 2]), (50, 3, [0, 24, 49]), (2, 1, [0])]
)
def test_indices_are_spread_from_the_first_to_the_last(total: int, count: int, indices: list[int]) -> None:
    assert evenly_spread(total, count) == indices


def test_what_is_not_finite_is_left_out() -> None:
    x, z = np.zeros((4, 2), np.float32), np.zeros((4, 1), np.float32)
    x[1, 0], z[2, 0] = np.nan, -np.inf
    found = list(finite_samples(ArrayData({"x": x, "z": z}), range(4)))
    assert len(found) == 2
    assert {name: array.shape for name, array in found[0].items()} == {"x": (1, 2), "z": (1, 1)}
