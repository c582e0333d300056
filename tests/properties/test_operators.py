"""Every quantised operator: the fast simulator gives the reference's bits.

Random legal attributes and shapes, extreme integers, sums beyond int32; for all samples at once and for one, on one
thread and on several.
"""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.ops.registry import OPERATORS
from engine.simulate.fast import FastSimulator
from engine.simulate.reference import ReferenceSimulator
from tests.engine.simulate.equality import check
from tests.engine.simulate.models import node_model
from tests.engine.simulate.strategies import quantised_operators, result_of_one_sample

STRATEGIES = quantised_operators()


@pytest.mark.parametrize("op_type", OPERATORS)
@given(data=st.data())
def test_fast_equals_reference(op_type: str, data: st.DataObject) -> None:
    """Parametrised over the registry: an operator without a strategy fails."""
    check(data.draw(STRATEGIES[op_type]))


@pytest.mark.parametrize("op_type", OPERATORS)
@given(data=st.data())
def test_batch_in_the_model_equals_samples(op_type: str, data: st.DataObject) -> None:
    """A model of two samples per run computes what a model of one sample does for each of them."""
    case = data.draw(STRATEGIES[op_type])
    rank = next(iter(case.samples.values())).ndim - 1
    assume(case.attributes.get("axis", 1) not in (0, -rank))
    pairs = {k: np.concatenate([x, x[::-1]], axis=1).reshape(len(x), 2, *x.shape[2:]) for k, x in case.samples.items()}
    one = result_of_one_sample(case)
    shape = (2, *one.shape[1:])
    inputs = [pairs[k][0] if k in pairs else None for k in range(max({**pairs, **case.constants}) + 1)]
    model = node_model(op_type, inputs, case.attributes, case.constants, output=(one.dtype, shape))
    feed = {f"x{k}": x.reshape(-1, *x.shape[2:]) for k, x in pairs.items()}
    expected = ReferenceSimulator(model).run(feed)["y"]
    np.testing.assert_array_equal(expected[:1], one)
    with patch("engine.simulate.pace.TIMED", 0):  # both threads take part
        simulator = FastSimulator(model, 2)
    np.testing.assert_array_equal(simulator.run(feed)["y"], expected)
