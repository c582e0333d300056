"""Outputs of a model, one row per image."""

from __future__ import annotations

import numpy as np

from harness.backends.outputs import images_first


def test_images_come_first_where_they_do_not() -> None:
    """Three runs of a network whose outputs are 4x1x5, and 1x7."""
    steps, rows = np.arange(60).reshape(12, 1, 5), np.zeros((3, 7))
    found = images_first([steps, rows], 3)
    assert [array.shape for array in found] == [(3, 4, 1, 5), (3, 7)]
    np.testing.assert_array_equal(found[0][1], steps[4:8])
