"""Where pixels end up."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import ConfigError
from harness.datasets.fitting import fit_steps, placement
from harness.datasets.transformers import apply
from harness.terms import Fit, ReadMode


@pytest.mark.parametrize("fit", list(Fit))
@pytest.mark.parametrize("original", [(40, 64), (90, 50), (64, 64)])
def test_a_square_lies_where_the_placement_says(fit: Fit, original: tuple[int, int]) -> None:
    image = np.zeros((*original, 3), np.float32)
    top, left, side = original[0] // 2 - 6, original[1] // 2 - 6, 12
    image[top : top + side, left : left + side] = 200
    done = apply(fit_steps(fit, (64, 64)), image, ReadMode.OPENCV)
    factor, offset = placement(fit, original, (64, 64))
    rows, columns = np.nonzero(done[..., 0] > 160)
    found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    corners = np.array([[left, top], [left + side, top + side]]) * factor + offset
    assert np.abs(found - corners.reshape(-1)).max() <= 2


def test_only_squares_are_cropped() -> None:
    with pytest.raises(ConfigError, match="fit crop needs a square input, not 32 x 64"):
        fit_steps(Fit.CROP, (32, 64))
