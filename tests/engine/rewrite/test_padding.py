"""Reflected borders."""

from __future__ import annotations

import pytest

from engine.rewrite.padding import ReflectionAsSlices
from tests.engine.rewrite.networks import operators, rewritten, source, stays


@pytest.mark.parametrize("pads", [[0, 0, 2, 3, 0, 0, 1, 0], [0, 0, 1, 1, 0, 0, 1, 1], [0, 0, 0, 4, 0, 0, 0, 4]])
def test_borders_are_slices(pads: list[int]) -> None:
    found = operators(rewritten(ReflectionAsSlices(), source(f'y = Pad(x, {pads}, mode="reflect")')))
    assert set(found) == {"Slice", "Concat"}
    assert found.count("Slice") == sum(pads)


def test_wide_borders_stay_and_are_named() -> None:
    change = ReflectionAsSlices()
    assert stays(change, source('y = Pad(x, [0, 0, 9, 0, 0, 0, 0, 0], mode="reflect")', shape=(1, 4, 16, 16)))
    assert "more than 8" in change.remarks[0]


@pytest.mark.parametrize("mode", ["constant", "edge"])
def test_other_modes_stay(mode: str) -> None:
    assert stays(ReflectionAsSlices(), source(f'y = Pad(x, [0, 0, 1, 1, 0, 0, 1, 1], mode="{mode}")'))
