"""Two networks in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.errors import UnsupportedError
from engine.rewrite.proof import RANDOM_SAMPLES, ExactOutputs, FloatNetwork, OutputComparison, random_inputs
from tests.engine.rewrite.networks import source

SAMPLE = {"x": np.full((1, 4, 8, 8), -2.0, np.float32)}


def test_a_network_equals_itself_on_random_and_given_samples() -> None:
    model = source("y = Conv(x, W(2, 4, 3, 3))")
    found = ExactOutputs.of(model, [SAMPLE]).compare(model)
    assert found == OutputComparison(RANDOM_SAMPLES, 1, 0.0, 0.0)
    assert found.equal
    assert "3 random and 1 given samples" in found.words


def test_a_difference_that_random_numbers_do_not_show_is_seen_on_given_samples() -> None:
    exact, other = source("y = Clip(x, -9.0, 9.0)"), source("y = Clip(x, -9.0, 8.0)")
    assert ExactOutputs.of(exact).compare(other).equal
    found = ExactOutputs.of(exact, [{"x": SAMPLE["x"] * -20}]).compare(other)
    assert (found.largest, found.equal) == (1.0, False)


@pytest.mark.parametrize("other", ["y = Relu(x)", "y = Log(x)", "y = Reshape(x, [1, 4, 64])"])
def test_other_outputs_are_not_equal(other: str) -> None:
    assert not ExactOutputs.of(source("y = Identity(x)")).compare(source(other)).equal


def test_undefined_numbers_at_the_same_places_are_equal() -> None:
    model = source("y = Log(x)")
    assert ExactOutputs.of(model).compare(model).equal


def test_what_cannot_run_is_refused() -> None:
    model = source("y = Relu(x)")
    model.graph[0].op_type = "Nonsense"
    with pytest.raises(UnsupportedError, match="ONNX Runtime cannot load the network"):
        FloatNetwork(model)
    with pytest.raises(UnsupportedError, match="cannot run the network"):
        FloatNetwork(source("y = Relu(x)")).run({"x": np.zeros((1, 2), np.float32)})


def test_integers_are_zero() -> None:
    x = ir.Value(name="i", type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([2]))
    graph = ir.Graph([x], [], nodes=[], name="g")
    assert random_inputs(ir.Model(graph, ir_version=8), np.random.default_rng(0))["i"].tolist() == [0, 0]
