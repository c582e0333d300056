"""Cases become as small as the fault allows."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.debug.bisection.shrink import FaultyCase, shrink
from engine.simulate import Session
from tests.engine.calibrate.models import graph


def convolution(weight: np.ndarray, shape: tuple[int, ...], **attributes: object) -> ir.Model:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", **attributes)
    return graph([node], {"x": shape}, ["y"], {"w": weight.astype(np.float32)})


def case(model: ir.Model, right: ir.Model | None, x: np.ndarray) -> FaultyCase:
    x = x.astype(np.float32)
    actual = Session(model).run({"x": x})["y"]
    return FaultyCase(model, right, {"x": x}, Session(right).run({"x": x})["y"] if right else x, actual)


def differs(found: FaultyCase) -> bool:
    return not np.allclose(found.actual, found.expected)


def test_rows_columns_and_channels_are_halved_as_long_as_the_fault_remains() -> None:
    right = np.ones((8, 8, 1, 1))
    wrong = right.copy()
    wrong[5, 2] = 3.0
    shape = (1, 8, 6, 7)
    found = shrink(case(convolution(wrong, shape), convolution(right, shape), np.ones(shape)), differs)
    (x,) = found.inputs.values()
    assert x.shape == (1, 1, 1, 1)
    assert (found.actual.tolist(), found.expected.tolist()) == ([[[[3.0]]]], [[[[1.0]]]])
    weight = found.model.graph[0].inputs[1].const_value.numpy()
    assert weight.tolist() == [[[[3.0]]]]


def test_the_place_of_the_fault_is_kept() -> None:
    x = np.zeros((1, 2, 8, 8))
    x[0, 1, 6, 3] = 5.0
    shape = x.shape
    right, wrong = (convolution(np.full((2, 2, 1, 1), value), shape) for value in (1.0, 2.0))
    found = shrink(case(wrong, right, x), differs)
    assert found.inputs["x"].tolist() == [[[[5.0]]]]


def test_groups_go_with_their_channels() -> None:
    right = np.ones((8, 1, 1, 1))
    wrong = right.copy()
    wrong[6] = 2.0
    shape = (1, 8, 2, 2)
    models = (convolution(weight, shape, group=8) for weight in (wrong, right))
    found = shrink(case(*models, np.ones(shape)), differs)
    assert found.inputs["x"].shape == (1, 1, 1, 1)
    assert found.model.graph[0].attributes["group"].value == 1


def test_a_window_keeps_what_it_needs() -> None:
    shape = (1, 1, 8, 8)
    wrong, right = (
        graph([helper.make_node(kind, ["x"], ["y"], name="pool", kernel_shape=[3, 3])], {"x": shape}, ["y"])
        for kind in ("MaxPool", "AveragePool")
    )
    found = shrink(case(wrong, right, np.arange(64.0).reshape(shape)), differs)
    assert found.inputs["x"].shape == (1, 1, 3, 3)


def test_without_a_right_model_the_result_is_that_of_the_input_element_by_element() -> None:
    node = helper.make_node("Clip", ["x", "low", "high"], ["y"], name="clip")
    bounds = {"low": np.float32(-9), "high": np.float32(2)}
    model = graph([node], {"x": (4, 6)}, ["y"], bounds)
    x = np.zeros((4, 6))
    x[2, 5] = 3.0
    found = shrink(case(model, None, x), differs)
    assert (found.inputs["x"].tolist(), found.actual.tolist()) == ([[3.0]], [[2.0]])


@pytest.mark.parametrize("shows", [lambda found: False])
def test_what_shows_nothing_stays_as_it_is(shows: object) -> None:
    shape = (1, 1, 4, 4)
    given = case(convolution(np.ones((1, 1, 1, 1)), shape), None, np.ones(shape))
    assert shrink(given, shows) is given
