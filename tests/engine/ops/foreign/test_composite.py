"""Composites: their functions, the standard nodes that they are, and the CPU inside a quantised graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special  # type: ignore[import-untyped]  # it ships no types

from engine.errors import ModelError
from engine.ops.foreign.composite import COMPOSITES, expand_composites
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
    np.testing.assert_allclose(found, COMPOSITES[op_type].function(x, attributes), rtol=1e-5)


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
        ReferenceSimulator(node_model("HzSoftmax", [x], {"axis": 2})).run({"x0": x})


def test_functions_by_their_definition() -> None:
    x = np.array([-4.0, -1.0, 0.0, 2.0, 4.0])
    expected = {
        "HzSwish": x / (1 + np.exp(-x)),
        "HzHardSwish": [0.0, -1 / 3, 0.0, 5 / 3, 4.0],
        "HzMish": x * np.tanh(np.log1p(np.exp(x))),
        "HzGelu": x * [3.1671241833e-05, 0.158655253931, 0.5, 0.977249868052, 0.999968328758],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(COMPOSITES[name].function(x, {}), values, rtol=1e-9, atol=1e-12)
        assert COMPOSITES[name].function(x.astype(np.float32), {}).dtype == np.float32
    np.testing.assert_allclose(COMPOSITES["HzRsqrt"].function(np.array([0.75]), {"epsilon": 0.25}), [1.0])
    assert COMPOSITES["HzSoftmax"].function is None


def test_the_standard_nodes_keep_the_order_of_the_original() -> None:
    """``x * clip(x + 3, 0, 6) / 6``, the quotient last, and the result under its own name."""
    x = np.zeros((1, 2), np.float32)
    model = expand_composites(node_model("HzHardSwish", [x], {}))
    types = [node.op_type for node in model.graph if node.op_type != "Constant"]
    assert types == ["Add", "Max", "Min", "Mul", "Div"]
    assert [value.name for value in model.graph.outputs] == ["y"]
    kept = expand_composites(node_model("HzHardSwish", [x], {}), keep=lambda node: node.op_type == "HzHardSwish")
    assert [node.op_type for node in kept.graph] == ["HzHardSwish"]


def test_channels_are_shuffled_in_groups_that_divide_them() -> None:
    x = np.arange(6, dtype=np.float32).reshape(1, 6, 1, 1)
    (found,) = (
        ReferenceSimulator(expand_composites(node_model("HzChannelShuffle", [x], {"group": 2}))).run({"x0": x}).values()
    )
    assert found.ravel().tolist() == [0, 3, 1, 4, 2, 5]
    with pytest.raises(ModelError, match="group 4 does not divide 6 channels"):
        expand_composites(node_model("HzChannelShuffle", [x], {"group": 4}))


@pytest.mark.parametrize(("layout", "shape"), [("NCHW", (1, 2, 1, 2)), ("NHWC", (1, 1, 2, 2))])
def test_preprocessing_is_a_convolution_in_nchw(layout: str, shape: tuple[int, ...]) -> None:
    x = np.arange(4, dtype=np.float32).reshape(shape)
    weight, bias = np.array([1, 10], np.float32).reshape(2, 1, 1, 1), np.array([0.5, 0.25], np.float32)
    attributes = {"data_format": layout, "channel_group": 2}
    model = node_model("HzPreprocess", [x], attributes, {1: weight, 2: bias})
    (found,) = ReferenceSimulator(expand_composites(model)).run({"x0": x}).values()
    channel = 1 if layout == "NCHW" else 3
    along = [-1 if axis == channel else 1 for axis in range(4)]
    np.testing.assert_array_equal(found, x * weight.reshape(along) + bias.reshape(along))
