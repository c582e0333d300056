"""The numbers of operations."""

from __future__ import annotations

from engine.simulate.kernels.operations import ADD, DIVIDE, FIRST_MAXIMUM, MAXIMUM, MULTIPLY, SUBTRACT, SUM


def test_operations_are_numbered_without_gaps() -> None:
    assert sorted({ADD, SUBTRACT, MULTIPLY, DIVIDE}) == [0, 1, 2, 3]
    assert [SUM, MAXIMUM, FIRST_MAXIMUM] == [0, 1, 2]
