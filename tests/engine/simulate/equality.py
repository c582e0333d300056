"""Both simulators on one node."""

from __future__ import annotations

import numpy as np

from engine.simulate.fast import FastSimulator
from engine.simulate.reference import ReferenceSimulator
from tests.engine.simulate import strategies as cases
from tests.engine.simulate.models import node_model
from tests.engine.simulate.strategies import NodeCase


def check(case: NodeCase) -> None:
    """All samples at once, one by one, with one thread and with several: always the reference's bits."""
    one = cases.result_of_one_sample(case)
    model = node_model(
        case.op_type,
        cases.inputs_of_sample(case, 0),
        case.attributes,
        case.constants,
        domain=case.domain,
        opset=case.opset,
        output=(one.dtype, one.shape),
    )
    feed = {f"x{k}": x.reshape(-1, *x.shape[2:]) for k, x in case.samples.items()}
    expected = ReferenceSimulator(model).run(feed)["y"]
    np.testing.assert_array_equal(expected[: len(one)], one)
    single = {f"x{k}": x[0] for k, x in case.samples.items()}
    for threads in (1, 3):
        simulator = FastSimulator(model, threads)
        actual = simulator.run(feed)["y"]
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)
        np.testing.assert_array_equal(simulator.run(single)["y"], one)
