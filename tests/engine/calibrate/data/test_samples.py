"""The samples that options look at."""

from __future__ import annotations

import numpy as np
import pytest

from engine.calibrate import ArrayData
from engine.calibrate.data.samples import SelectedData, evenly_spread, finite_samples, halves


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


@pytest.mark.parametrize(
    ("total", "count", "sizes"),
    [(100, 16, (16, 16)), (9, 16, (4, 5)), (4, 16, (2, 2)), (3, 16, (3, 0)), (0, 16, (0, 0))],
)
def test_halves_share_nothing(total: int, count: int, sizes: tuple[int, int]) -> None:
    selection, test = halves(total, count)
    assert (len(selection), len(test)) == sizes
    assert not set(selection) & set(test)
    assert halves(total, count) == (selection, test)
    if total == 100:
        assert {0, 99} <= {*selection, *test}
        assert all(min(part) < 25 and max(part) > 75 for part in (selection, test))


def test_selected_samples_are_those_of_the_data() -> None:
    data = ArrayData({"x": np.arange(20, dtype=np.float32).reshape(10, 2)})
    some = SelectedData(data, [7, 2, 5])
    assert len(some) == 3
    np.testing.assert_array_equal(some.read(0, 2)["x"], [[14, 15], [4, 5]])
    digests = {
        data.digest(),
        some.digest(),
        SelectedData(data, [7, 2]).digest(),
        SelectedData(data, [2, 7, 5]).digest(),
    }
    assert len(digests) == 4
