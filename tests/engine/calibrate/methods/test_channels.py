"""Which tensors take a threshold per channel, and the scales that equalise channels."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate.methods.channels import channel_scales, is_large, readers, tensors_per_channel
from engine.ir import node_by_name
from tests.engine.calibrate.models import add_calibration, graph, residual

WEIGHTS = {
    "w": np.ones((2, 2, 1, 1), np.float32),
    "least": np.full((2, 2, 1, 1), -0.215, np.float32),
    "small": np.full((2, 2, 1, 1), -0.195, np.float32),
    "apart": np.ones((2, 1, 1, 1), np.float32),
}


def chosen(nodes: str, tensors: str = "c") -> dict[str, float]:
    """What channels are multiplied by at most in nodes such as ``Conv x w > c``; ``apart`` is a depthwise weight."""
    made = []
    for index, text in enumerate(nodes.split("; ")):
        kind, *names = text.replace(" >", "").split()
        groups = {"group": 2} if kind == "Conv" and names[1] == "apart" else {}
        made.append(helper.make_node(kind, names[:-1], names[-1:], name=f"n{index}", **groups))
    return tensors_per_channel(graph(made, {"x": (1, 2, 3, 3)}, ["y"], WEIGHTS), tensors.split())


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("Conv x w > c; Conv c least > d; Add d c > y", {"c": 16.0}),
        ("Conv x w > c; Conv c small > d; Add d c > y", {}),
        ("ConvTranspose x w > c; Conv c w > d; Add d c > y", {"c": 16.0}),
        ("Conv x w > c; Relu c > d; Add d c > y", {"c": 16.0}),
        ("Conv x w > c; Conv c w > y", {"c": 1.0}),
        ("Conv x w > d; Relu d > c; Conv c w > y", {"c": 1.0}),
        ("Conv x w > d; Relu d > c; Conv c apart > y", {"c": np.inf}),
        ("Conv x w > c; Conv c apart > d; Conv c w > e; Add d c > y", {"c": np.inf}),
        ("Conv x w > d; Relu d > c; Conv c apart > e; Conv c small > f; Add e f > y", {}),
        ("Conv x w > d; Add d x > c; Conv c w > y", {"c": 1.0}),
        ("Conv x w > d; Add d x > e; Clip e > c; Conv c w > f; Add f c > y", {"c": 16.0}),
    ],
)
def test_results_of_convolutions_that_convolutions_of_large_weights_read(
    nodes: str, expected: dict[str, float]
) -> None:
    """Channels differ where a sum or a depthwise convolution reads them, by 16 at most where no depthwise one does."""
    assert chosen(nodes) == expected


@pytest.mark.parametrize(
    "nodes",
    [
        "Conv x w > c; Conv x w > d; Add d c > y",  # branches of RepVGG blocks, shortcuts of RegNet
        "Conv x w > c; Sigmoid c > d; Conv c w > e; Mul d e > y",
        "Relu x > c; Conv c w > y",
        "Conv x w > d; Sigmoid d > c; Conv c w > y",
        "Conv x w > d; Sigmoid d > e; Add e x > c; Conv c w > y",
        "Conv x w > c; Relu c > y",
    ],
)
def test_other_tensors_keep_one_threshold(nodes: str) -> None:
    assert chosen(nodes) == {}
    assert chosen(nodes, "x") == {}


def test_maps_of_another_rank_keep_one_threshold() -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "c"), helper.make_node("Conv", ["c", "w"], ["y"], "d")]
    weight = {"w": np.ones((2, 2, 1), np.float32)}
    assert tensors_per_channel(graph(nodes, {"x": (1, 2, 5)}, ["y"], weight), ["c"]) == {}


@pytest.mark.parametrize(("largest", "expected"), [(14.5, False), (17.19, True)])
def test_tensors_of_small_values_keep_one_threshold(largest: float, expected: bool) -> None:
    assert is_large(np.asarray([1.0, largest], np.float32)) is expected


def test_scales_of_channels_are_finite_whatever_the_maxima() -> None:
    largest = np.finfo(np.float32).max
    for maxima in ([1.0, largest], [largest, largest], [0.0, largest], [0.0, 1e-45]):
        scales = channel_scales(np.asarray(maxima, np.float32))
        assert np.isfinite(scales).all()
        assert scales.min() == 1


def test_scales_are_the_reciprocals_of_ranges_relative_to_the_largest() -> None:
    """With the floor of 0.001 of the largest: (4 + 0.004) / (1 + 0.004), and so on."""
    maxima = np.asarray([4.0, 1.0, 0.0], np.float32)
    found = channel_scales(maxima)
    np.testing.assert_allclose(found, [1.0, 4.004 / 1.004, 1001.0], rtol=3e-7)
    np.testing.assert_allclose(channel_scales(maxima, 16.0), [1.0, 4.004 / 1.004, 16.0], rtol=3e-7)
    assert found.dtype == np.float32


def test_channels_without_values_are_left_alone() -> None:
    assert channel_scales(np.zeros(3, np.float32)).tolist() == [1.0, 1.0, 1.0]


def test_readers_are_found_behind_calibration() -> None:
    model = residual()
    add_calibration(model, "c0")
    names: list[str] = [node.name for node in readers(_result(model, "conv0"))]
    assert sorted(names) == ["add", "relu0"]


def _result(model: ir.Model, node: str) -> ir.Value:
    return node_by_name(model, [node])[node].outputs[0]
