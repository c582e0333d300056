"""The stage that rewrites the float model."""

from __future__ import annotations

import pytest

from engine.convert.stages.optimize import OPTIMIZE
from engine.ir import MARK_MARCH, to_bytes
from engine.optimize import optimize
from tests.engine.calibrate.models import residual
from tests.engine.convert.work import configured, ran


@pytest.mark.parametrize("march", ["bayes-e", "bernoulli2"])
def test_the_model_is_optimised_for_the_march(march: str) -> None:
    found = ran(OPTIMIZE, configured(model__march=march), original_float=residual())["folded"]
    assert to_bytes(found) == to_bytes(optimize(residual(), march))
    assert found.metadata_props[MARK_MARCH] == march
    assert OPTIMIZE.parameters == ("model_parameters.march", "model_parameters.compatibility")
