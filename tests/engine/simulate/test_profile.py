"""Profiles account for every step of a program."""

from __future__ import annotations

import pytest

from engine.ir import load_model
from engine.simulate.fast import FastSimulator
from engine.simulate.profile import Cost, Profile, profile
from tests.engine.simulate.test_session import IMAGE_MODEL


def test_costs_cover_the_program() -> None:
    model = load_model(IMAGE_MODEL)
    found = profile(model, repetitions=2)
    assert sum(cost.calls for cost in found.costs) == len(FastSimulator(model, 1).program.steps)
    assert "HzSQuantizedConv" in {cost.op_type for cost in found.costs}
    assert all(cost.seconds > 0 and cost.bytes > 0 for cost in found.costs)
    assert [cost.seconds for cost in found.costs] == sorted((c.seconds for c in found.costs), reverse=True)


def test_share_outside_kernels() -> None:
    assert Profile((Cost("a", "copy", 1, 0.75, 8),), 1.0).outside_kernels == pytest.approx(0.25)
    assert Profile((Cost("a", "copy", 1, 2.0, 8),), 1.0).outside_kernels == 0.0
