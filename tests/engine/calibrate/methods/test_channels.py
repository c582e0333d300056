"""Which tensors take a threshold per channel, and the scales that equalise channels."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate.methods.channels import channel_scales, equalizable, readers
from engine.ir import node_by_name
from tests.engine.calibrate.models import add_calibration, graph, residual


@pytest.mark.parametrize(("largest", "expected"), [(0.19, ()), (0.215, ("c",))])
def test_a_convolution_of_small_weights_keeps_its_input_at_one_threshold(
    largest: float, expected: tuple[str, ...]
) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c"], name="first"),
        helper.make_node("Conv", ["c", "w1"], ["d"], name="second"),
        helper.make_node("Add", ["d", "c"], ["y"], name="add"),
    ]
    weights = {"w0": np.ones((2, 2, 1, 1), np.float32), "w1": np.full((2, 2, 1, 1), -largest, np.float32)}
    assert equalizable(graph(nodes, {"x": (1, 2, 3, 3)}, ["y"], weights), ["c"]) == expected


def test_a_result_that_only_a_sum_reads_keeps_one_threshold() -> None:
    """As the branches of RepVGG blocks and the shortcuts of RegNet."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="first"),
        helper.make_node("Conv", ["x", "w"], ["d"], name="second"),
        helper.make_node("Add", ["d", "c"], ["y"], name="add"),
    ]
    weights = {"w": np.ones((2, 2, 1, 1), np.float32)}
    assert equalizable(graph(nodes, {"x": (1, 2, 3, 3)}, ["y"], weights), ["c", "d"]) == ()


def test_scales_of_channels_are_finite_whatever_the_maxima() -> None:
    largest = np.finfo(np.float32).max
    for maxima in ([1.0, largest], [largest, largest], [0.0, largest], [0.0, 1e-45]):
        scales = channel_scales(np.asarray(maxima, np.float32))
        assert np.isfinite(scales).all()
        assert scales.min() == 1


def test_scales_are_the_reciprocals_of_ranges_relative_to_the_largest() -> None:
    """With the floor of 0.001 of the largest: (4 + 0.004) / (1 + 0.004), and so on."""
    found = channel_scales(np.asarray([4.0, 1.0, 0.0], np.float32))
    np.testing.assert_allclose(found, [1.0, 4.004 / 1.004, 1001.0], rtol=3e-7)
    assert found.dtype == np.float32


def test_channels_without_values_are_left_alone() -> None:
    assert channel_scales(np.zeros(3, np.float32)).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([("Conv", "x w", "c"), ("Relu", "c", "r"), ("Add", "c r", "y")], ("c",)),
        ([("ConvTranspose", "x w", "c"), ("Relu", "c", "r"), ("Add", "c r", "y")], ("c",)),
        ([("Conv", "x w", "c"), ("Relu", "c", "r"), ("Mul", "c r", "y")], ()),
        ([("Relu", "x", "c"), ("Relu", "c", "r"), ("Add", "c r", "y")], ()),
    ],
)
def test_results_of_convolutions_that_an_add_reads_are_equalisable(
    nodes: list[tuple[str, str, str]], expected: tuple[str, ...]
) -> None:
    made = [helper.make_node(kind, ins.split(), outs.split(), name=kind) for kind, ins, outs in nodes]
    model = graph(made, {"x": (1, 2, 3, 3)}, ["y"], {"w": np.ones((2, 2, 1, 1), np.float32)})
    assert equalizable(model, ["c", "x", "y"]) == expected
    assert equalizable(model, ["x"]) == ()


def test_maps_of_another_rank_keep_one_threshold() -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "c"), helper.make_node("Add", ["c", "x"], ["y"], "a")]
    weight = {"w": np.ones((2, 2, 1), np.float32)}
    assert equalizable(graph(nodes, {"x": (1, 2, 5)}, ["y"], weight), ["c"]) == ()


def test_readers_are_found_behind_calibration() -> None:
    model = residual()
    add_calibration(model, "c0")
    names: list[str] = [node.name for node in readers(_result(model, "conv0"))]
    assert sorted(names) == ["add", "relu0"]


def _result(model: ir.Model, node: str) -> ir.Value:
    return node_by_name(model, [node])[node].outputs[0]
