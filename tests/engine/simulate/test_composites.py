"""Composites that the CPU computes in float inside a quantised graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
