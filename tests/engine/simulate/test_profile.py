"""Profiles account for every step of a program."""

from __future__ import annotations

import numpy as np
import pytest

from engine.ir import load_model
from engine.simulate.fast import FastSimulator
from engine.simulate.lowering.tables import look_up
from engine.simulate.profile import OperatorCost, Profile, _summed, profile
from engine.simulate.program import Assembler
from tests.engine.simulate.test_session import IMAGE_MODEL


def test_costs_cover_the_program() -> None:
    model = load_model(IMAGE_MODEL)
    found = profile(model, repetitions=2)
    assert sum(cost.calls for cost in found.costs) == len(FastSimulator(model, 1).program.steps)
    assert "HzSQuantizedConv" in {cost.op_type for cost in found.costs}
    assert all(cost.seconds > 0 and cost.bytes > 0 for cost in found.costs)
    assert [cost.seconds for cost in found.costs] == sorted((c.seconds for c in found.costs), reverse=True)


def test_share_outside_kernels() -> None:
    assert Profile((OperatorCost("a", "copy", 1, 0.75, 8),), 1.0).outside_kernels == pytest.approx(0.25)
    assert Profile((OperatorCost("a", "copy", 1, 2.0, 8),), 1.0).outside_kernels == 0.0


def test_steps_of_one_operator_and_kind_are_summed() -> None:
    program = Assembler(owner="HzLut")
    x = program.input((100,), np.int8)
    y = look_up(look_up(x, np.zeros((1, 256), np.int8), program), np.zeros((1, 256), np.int16), program)
    program.owner = "Other"
    z = program.tensor((100,), np.int8)
    program.call(lambda given: (given[0],), [y], [z])
    program.keep(z)
    assert _summed(program.finish(), [0.5, 0.25, 2.0]) == (
        OperatorCost("Other", "numpy", 1, 2.0, 200 + 100),
        OperatorCost("HzLut", "table", 2, 0.75, 100 + 100 + 100 + 200),
    )
