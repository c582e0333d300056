"""Shares of a machine's peaks."""

from __future__ import annotations

import pytest

from benchmarks.speed import roofline as module
from benchmarks.speed.roofline import Peaks, _least_seconds, roofline
from engine.simulate.profile import OperatorCost, Profile


def test_bytes_are_those_of_operands_and_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "peaks", lambda: Peaks(1000.0, 100.0, 10.0))
    costs = (OperatorCost("A", "convolution", 1, 0.5, 30), OperatorCost("B", "copy", 2, 0.25, 50))
    found = roofline(Profile(costs, 1.0, constant_bytes=20), 250)
    assert (found.bytes, found.dot_seconds) == (100, 0.5)
    assert (found.share_of_operations, found.share_of_dots, found.share_of_bytes) == (0.25, 0.5, 1.0)
    assert found.as_dict()["share_of_dots"] == 0.5


def test_a_network_without_products_has_no_share_of_them() -> None:
    found = module.Roofline(0, 10, 1.0, 0.0, Peaks(1.0, 1.0, 1.0))
    assert found.share_of_dots == 0.0


def test_peaks_are_what_a_cpu_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.005)
    found = module.peaks.__wrapped__()
    assert 1e9 < found.operations_per_s < 1e14
    assert 1e8 < found.memory_bytes_per_s < 1e13
    assert 1e8 < found.cached_bytes_per_s < 1e13


def test_the_least_mean_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that take 1 second in the first turn, then 0.5, then 2."""
    clock, turn = [0.0], iter([1.0, 1.0, 0.5, 2.0])
    monkeypatch.setattr(module.time, "thread_time", lambda: clock[0])

    def call() -> None:
        clock[0] += next(turn)

    assert _least_seconds(call) == 0.5
