"""Halves of the evaluation samples."""

from __future__ import annotations

import numpy as np
import pytest

from harness.trials.halves import selection_samples


@pytest.mark.parametrize("count", [4, 5, 100, 1201])
def test_every_sample_is_in_one_half_and_the_halves_are_the_same_every_time(count: int) -> None:
    chosen = selection_samples(count)
    assert chosen.sum() == count // 2
    np.testing.assert_array_equal(chosen, selection_samples(count))


def test_the_order_of_a_data_set_does_not_tell_the_halves_apart() -> None:
    """Sorted by class, or classes in turn: each half has about as many of each."""
    chosen = selection_samples(1000)
    for classes in (np.arange(1000) // 100, np.arange(1000) % 10, np.arange(1000) % 2):
        assert np.abs(np.bincount(classes[chosen]) / np.bincount(classes) - 0.5).max() < 0.15


def test_too_few_samples_have_no_halves() -> None:
    assert not selection_samples(3).any()
