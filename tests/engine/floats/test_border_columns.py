"""Averages that take padding on the right of a map for values of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from engine.calibrate import CalibrationOptions
from engine.calibrate.statistics.collection import StatisticsOptions, collect
from engine.floats.border_columns import columns_counted, counts_columns, with_border_columns
from engine.floats.float_model import FloatSession
from engine.floats.standard import StandardNode
from engine.terms import Compatibility

MAP = np.ones((1, 2, 4, 5), np.float32)


def average(pads: Sequence[int] = (1, 1, 1, 1), include: int = 0, ceil: int = 0, stride: int = 1) -> ir.Model:
    """Input ``x``, average ``y`` of windows of 3 x 3 and a Relu ``z`` of that."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, MAP.shape)
    window = {"kernel_shape": [3, 3], "strides": [stride, stride], "pads": list(pads)}
    nodes = [
        helper.make_node("AveragePool", ["x"], ["y"], name="pool", count_include_pad=include, ceil_mode=ceil, **window),
        helper.make_node("Relu", ["y"], ["z"], name="relu"),
    ]
    sides = [
        (-(-free // stride) if ceil else free // stride) + 1
        for free in (MAP.shape[2] + pads[0] + pads[2] - 3, MAP.shape[3] + pads[1] + pads[3] - 3)
    ]
    y, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 2, *sides)) for name in "yz")
    graph = helper.make_graph(nodes, "g", [x], [z], value_info=[y])
    return ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8))


def run(model: ir.Model) -> NDArray[np.float32]:
    found: NDArray[np.float32] = FloatSession(model, ["y"]).run({"x": MAP})["y"]
    return found


def test_windows_at_the_right_divide_by_columns_that_are_padding() -> None:
    found = run(with_border_columns(average()))
    assert np.allclose(found[:, :, :, -1], 2 / 3)
    assert np.allclose(found[:, :, :, :-1], 1)


def test_a_window_that_ceil_mode_lets_reach_over_the_padding_divides_by_what_is_padding() -> None:
    found = run(with_border_columns(average((0, 0, 0, 1), ceil=1, stride=2)))
    assert found.shape[2:] == (2, 3)
    assert np.allclose(found[:, :, :, -1], 1 / 2)
    assert np.allclose(found[:, :, :, :-1], 1)


@pytest.mark.parametrize(("pads", "include"), [((1, 1, 1, 0), 0), ((1, 1, 1, 1), 1), ((0, 0, 0, 0), 0)])
def test_without_padding_on_the_right_that_is_left_out_a_network_stays_what_it_is(
    pads: tuple[int, ...], include: int
) -> None:
    model = average(pads, include)
    assert with_border_columns(model) is model
    assert not any(map(counts_columns, model.graph))


def test_the_model_itself_is_not_changed() -> None:
    model = average()
    assert np.allclose(run(with_border_columns(model))[..., -1], 2 / 3)
    assert [node.op_type for node in model.graph] == ["AveragePool", "Relu"]
    assert np.allclose(run(model), 1)


@pytest.mark.parametrize(("compatibility", "largest"), [(Compatibility.ORIGINAL, 1 / 3), (Compatibility.CLEAN, 1 / 2)])
def test_calibration_counts_them_unless_it_is_clean(compatibility: Compatibility, largest: float) -> None:
    """The last window has two columns of the map, one of which is 1, and one of padding."""
    options = StatisticsOptions.covering([CalibrationOptions(compatibility=compatibility)])
    samples = {"x": MAP * np.array([0, 0, 0, 0, 1], np.float32)}
    found = collect(average((0, 0, 0, 2), stride=3), ["y"], samples, options)
    assert found.tensors["y"].pooled.maximum == pytest.approx(largest)


@pytest.mark.parametrize(
    ("width", "window", "counted"),
    [
        (6, {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1], "ceil_mode": 1}, 0),
        (6, {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1]}, 1),
        (3, {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER", "pads": [0, 0, 0, 1]}, 0),
        (3, {"kernel_shape": [2, 2], "pads": [0, 1]}, 0),
    ],
)
def test_columns_that_no_window_reads_and_pads_that_are_not_taken_do_not_count(
    width: int, window: dict[str, object], counted: int
) -> None:
    node = ir.node("AveragePool", [ir.Value(name="x")], window, outputs=[ir.Value(name="y")], name="pool")
    assert columns_counted(node, (1, 2, 4, width)) == counted


def test_a_simulated_average_has_the_windows_that_the_runtime_leaves() -> None:
    window = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1], "ceil_mode": 1}
    node = ir.node("AveragePool", [ir.Value(name="x")], window, outputs=[ir.Value(name="y")], name="pool")
    x = np.random.default_rng(2).normal(size=(1, 2, 4, 6)).astype(np.float32)
    (found,) = StandardNode(node, {"": 13})([x])
    assert found.shape == (1, 2, 2, 2)
