"""Softmax of float32 has the bits of the original's own runtime.

``recorded/softmax/rows.npz`` has what that gave for random rows of 1 to 255 numbers, three of each length, and one row
of 444 numbers from -110 to 0: ``x_<length>`` and ``y_<length>``, float32, shape (rows, length). ``along.npz`` has what
it gave for ``HzSoftmax`` of 12 arrays of 2 to 100 numbers along the axis: ``x_<number>_axis_<axis>``, ``y`` likewise.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.floats.float_model import FloatSession, Kernels
from engine.floats.softmax.definition import softmax_rows
from engine.simulate.fast import FastSimulator
from engine.simulate.reference import ReferenceSimulator
from tests.engine.simulate.models import node_model

FOLDER = Path(__file__).parent / "recorded" / "softmax"
ROWS = np.load(FOLDER / "rows.npz", allow_pickle=False)
ALONG = np.load(FOLDER / "along.npz", allow_pickle=False)
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


@pytest.mark.parametrize("name", sorted(name.removeprefix("x_") for name in ALONG.files if name.startswith("x_")))
def test_softmax_along_an_axis_has_the_bits_of_the_original(name: str) -> None:
    """In calibration and in both simulators."""
    x, expected = ALONG[f"x_{name}"], ALONG[f"y_{name}"]
    model = node_model("HzSoftmax", [x], {"axis": int(name.split("_")[-1])})
    sessions = FloatSession(model, kernels=Kernels.PLAIN), FastSimulator(model), ReferenceSimulator(model)
    for session in sessions:
        (found,) = session.run({"x0": x}).values()
        np.testing.assert_array_equal(found, expected)
