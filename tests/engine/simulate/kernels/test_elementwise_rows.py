"""Rows of parameters are told apart, and sums are narrowed to int16."""

from __future__ import annotations

import numpy as np

from engine.simulate.kernels import elementwise_rows as rows
from engine.simulate.kernels.tiles import MIN_SCRATCH


def test_every_row_has_a_place_of_its_own() -> None:
    places = [getattr(rows, name) for name in vars(rows) if name.isupper() and not name.endswith(("_16", "_SIDE"))]
    assert sorted(places) == list(range(8))
    assert 4 * rows.SIDE_BY_SIDE <= MIN_SCRATCH
    assert (np.iinfo(np.int16).min, np.iinfo(np.int16).max) == (rows.LOW_16, rows.HIGH_16)
