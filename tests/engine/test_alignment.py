"""Where an array begins does not change what ONNX Runtime computes from it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import helper

from engine.alignment import ALIGNMENT, aligned
from engine.simulate import Session
from tests.engine.calibrate.models import graph

CHANNELS, LENGTH = 5, 11


def beginning_at(offset: int, values: NDArray[Any]) -> NDArray[Any]:
    """``values`` so many elements behind a multiple of 64 bytes."""
    room = np.zeros(values.size + 32, values.dtype)
    first = -room.ctypes.data // values.itemsize % (64 // values.itemsize) + offset
    found = room[first : first + values.size].reshape(values.shape)
    found[...] = values
    return found


def test_only_what_begins_elsewhere_is_copied() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    fitting = beginning_at(4, values)
    assert aligned(fitting) is fitting
    copy = aligned(beginning_at(3, values))
    assert copy.ctypes.data % ALIGNMENT == 0
    np.testing.assert_array_equal(copy, values)


def mean() -> ir.Model:
    node = helper.make_node("ReduceMean", ["x"], ["y"], "mean", axes=[2])
    return graph([node], {"x": (1, CHANNELS, LENGTH)}, ["y"], opset=13)


@pytest.mark.parametrize("mode", ["fast", "reference"])
def test_sums_of_rows_have_the_same_bits_wherever_a_sample_begins(mode: Literal["fast", "reference"]) -> None:
    x = np.random.default_rng(1).normal(scale=100, size=(9, CHANNELS, LENGTH)).astype(np.float32)
    session = Session(mean(), mode=mode)
    alone = np.concatenate([session.run({"x": aligned(row[None])})["y"] for row in x])
    for offset in range(4):
        assert session.run({"x": beginning_at(offset, x)})["y"].tobytes() == alone.tobytes()
        shifted = np.concatenate([session.run({"x": beginning_at(offset, row[None])})["y"] for row in x])
        assert shifted.tobytes() == alone.tobytes()
