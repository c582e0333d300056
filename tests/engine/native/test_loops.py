"""Loops: what they hand to machine code, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from engine.calibrate.compiled import COUNT
from engine.calibrate.statistics.bits import COUNTED, LANES
from engine.native import prebuilt
from engine.native.loops import Argument, Loop


def test_arguments_become_words() -> None:
    array = np.zeros((2, 3), np.float32)
    kinds = (Argument("float32"), Argument("float64"), Argument("int32"), Argument("float32", 2))
    words = Loop("module", "name", kinds).words((1.0, -0.0, np.int32(-1), array))
    numbers = [0x3F800000, 1 << 63, 0xFFFFFFFF]
    assert words == np.array([*numbers, array.ctypes.data, 6, 2, 3, 12, 4], np.uint64).tobytes()


@pytest.mark.parametrize(
    "array",
    [np.zeros((2, 3)), np.zeros(6, np.float32), np.zeros((3, 2), np.float32).T],
    ids=["type", "dimensions", "layout"],
)
def test_what_compiled_code_would_misread_is_refused(array: np.ndarray) -> None:
    with pytest.raises(TypeError, match="C-contiguous float32 of 2 dimensions, got"):
        Argument("float32", 2).refuse_other(array)


def test_arguments_are_counted() -> None:
    with pytest.raises(TypeError, match="count takes 4 arguments, got 1"):
        COUNT(np.zeros(1, np.float32))


def test_without_an_object_numba_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prebuilt, "addresses", lambda: None)
    counts = np.zeros(LANES * 4, np.int64)
    Loop(COUNT.module, COUNT.name, COUNT.arguments)(
        np.array([0.5, 2.5], np.float32), 1.0, counts, np.empty(COUNTED, np.uint32)
    )
    assert counts.reshape(LANES, 4).sum(axis=0).tolist() == [1, 0, 1, 0]
