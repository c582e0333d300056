"""Composites that the CPU computes in float inside a quantised graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special  # type: ignore[import-untyped]  # it ships no types

from engine.errors import ModelError
from engine.ops.foreign.composite import COMPOSITES, function_of
from engine.simulate.fast import FastSimulator
from engine.simulate.reference import ReferenceSimulator
from tests.engine.simulate.models import node_model

ELEMENTWISE = sorted(name for name, composite in COMPOSITES.items() if composite.function is not None)


@pytest.mark.parametrize("simulator", [ReferenceSimulator, FastSimulator])
@pytest.mark.parametrize("op_type", ELEMENTWISE)
def test_composites_on_the_cpu_are_computed_in_float(op_type: str, simulator: Any) -> None:
    x = np.linspace(0.1, 6, 24, dtype=np.float32).reshape(1, 2, 3, 4)
    attributes = {"epsilon": 0.25} if op_type == "HzRsqrt" else {}
    (found,) = simulator(node_model(op_type, [x], attributes)).run({"x0": x}).values()
    np.testing.assert_allclose(found, function_of(op_type)(x, attributes), rtol=1e-5)


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [1, -1, 2])
@pytest.mark.parametrize("simulator", [ReferenceSimulator, FastSimulator])
def test_softmax_normalises_one_axis_alone(simulator: Any, axis: int, opset: int) -> None:
    """Before operator set 13 the standard operator took all axes from its own on as one."""
    x = np.random.default_rng(0).normal(size=(1, 5, 3, 4)).astype(np.float32)
    model = node_model("HzSoftmax", [x], {"axis": axis})
    model.opset_imports[""] = opset
    (found,) = simulator(model).run({"x0": x}).values()
    np.testing.assert_allclose(found, scipy.special.softmax(x, axis=axis), rtol=1e-5)


def test_softmax_without_a_valid_axis_is_refused() -> None:
    x = np.zeros((1, 2), np.float32)
    with pytest.raises(ModelError, match="axis is 2; allowed: -2 to 1"):
        ReferenceSimulator(node_model("HzSoftmax", [x], {"axis": 2}))
