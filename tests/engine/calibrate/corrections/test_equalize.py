"""Cross-layer equalisation: the same function with channels of like range."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from engine.calibrate import FloatSession
from engine.calibrate.corrections.equalize import equalize
from engine.ir import constant_of, set_constant, to_bytes
from tests.engine.calibrate.models import graph

X = {"x": np.random.default_rng(0).standard_normal((4, 3, 6, 5)).astype(np.float32)}


def network(activation: str, group: int = 1):
    rng = np.random.default_rng(1)
    constants = {
        "w0": (rng.standard_normal((4, 3, 1, 1)) * np.asarray([1, 20, 0.1, 0]).reshape(4, 1, 1, 1)).astype(np.float32),
        "b0": rng.standard_normal(4).astype(np.float32),
        "w1": rng.standard_normal((4, 4 // group, 3, 3)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], name="conv0"),
        helper.make_node(activation, ["c0"], ["r0"], name="act0"),
        helper.make_node("Conv", ["r0", "w1"], ["y"], name="conv1", group=group, pads=[1, 1, 1, 1]),
    ]
    return graph(nodes, {"x": (1, 3, 6, 5)}, ["y"], constants)


@pytest.mark.parametrize("activation", ["Relu", "LeakyRelu"])
@pytest.mark.parametrize("group", [1, 4])
def test_function_stays_and_ranges_meet(activation: str, group: int) -> None:
    model = network(activation, group)
    before = to_bytes(model)
    found, pairs = equalize(model)
    assert (pairs, to_bytes(model)) == (1, before)
    np.testing.assert_allclose(FloatSession(found).run(X)["y"], FloatSession(model).run(X)["y"], rtol=1e-4, atol=1e-4)
    given = np.abs(constant_of(found.graph[0].inputs[1])).max(axis=(1, 2, 3))
    read = np.abs(constant_of(found.graph[2].inputs[1])).max(axis=(1, 2, 3) if group > 1 else (0, 2, 3))
    np.testing.assert_allclose(given[:3], read[:3], rtol=1e-5)


def test_what_is_not_homogeneous_stays() -> None:
    model = network("Sigmoid")
    found, pairs = equalize(model)
    assert pairs == 0
    assert to_bytes(found) == to_bytes(model)


def test_a_channel_that_lives_by_its_bias_does_not_outgrow_the_others() -> None:
    model = network("Relu")
    first = model.graph[0]
    weight = np.array(constant_of(first.inputs[1]))
    weight[2] *= 1e-20
    set_constant(model.graph, first, 1, weight)
    found, _ = equalize(model)
    bias = np.abs(np.asarray(constant_of(found.graph[0].inputs[2])))
    np.testing.assert_allclose(bias[2:], np.abs(np.asarray(constant_of(first.inputs[2])))[2:])


def test_no_channel_is_scaled_beyond_the_limit_in_all_rounds() -> None:
    model = network("Relu")
    first, second = model.graph[0], model.graph[2]
    weight = np.array(constant_of(second.inputs[1]))
    weight[:, 1] *= 0.002
    set_constant(model.graph, second, 1, weight)
    found, _ = equalize(model)
    before, after = (np.abs(np.asarray(constant_of(node.inputs[1]))) for node in (first, found.graph[0]))
    ratio = before[:3].max(axis=(1, 2, 3)) / after[:3].max(axis=(1, 2, 3))
    assert ratio.max() == pytest.approx(32, rel=1e-5)
