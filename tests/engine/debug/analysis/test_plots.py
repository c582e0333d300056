from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from engine.cli.vendor.hmct_debugger import read_names, read_nested
from engine.debug import (
    get_channelwise_data_distribution,
    plot_acc_error,
    plot_distribution,
    runall,
    sensitivity_analysis,
)
from engine.debug.analysis.accumulation import Curve, Curves
from engine.debug.analysis.metrics import DistanceMeasure
from engine.debug.analysis.model import DebugModel, NodeType
from engine.debug.analysis.plots import curves_png, ranking_page, ranking_png, to_png
from engine.errors import ConfigError
from tests.engine.debug.models import zoo

PNG = b"\x89PNG\r\n"


def test_average_mode_is_the_mean_of_the_first_n(tmp_path: Path) -> None:
    model, feed = zoo("mnist_lenet")
    node = DebugModel(model).of_kind(NodeType.NODE)[0]
    plain = plot_acc_error(tmp_path, feed, model, quantize_node=[node], metric="mse")
    means = plot_acc_error(tmp_path, feed, model, quantize_node=[node], metric="mse", average_mode=True)
    values = plain.curves[0].values
    expected = [np.mean(values[: count + 1]) for count in range(len(values))]
    np.testing.assert_allclose(means.curves[0].values, expected)
    assert (tmp_path / "accumulated_error.png").read_bytes().startswith(PNG)


def test_nodes_before_the_first_error_do_not_hide_the_mean_of_the_others(tmp_path: Path) -> None:
    model, feed = zoo("mnist_lenet")
    *_, last = DebugModel(model).of_kind(NodeType.NODE)
    found = plot_acc_error(tmp_path, feed, model, quantize_node=[last], metric="sqnr", average_mode=True)
    (curve,) = found.curves
    assert np.isinf(curve.values[0])
    assert np.isfinite(curve.values[-1])


def test_weights_and_activations_are_compared_with_both(tmp_path: Path) -> None:
    model, feed = zoo("mnist_lenet")
    found = plot_acc_error(tmp_path, feed, model, quantize_node=["weight", "activation"])
    assert [curve.label for curve in found.curves] == ["weight + activation", "weight", "activation"]
    nested = plot_acc_error(tmp_path, feed, model, quantize_node=[["weight", "activation"]])
    assert nested.curves[0].values == found.curves[0].values


def test_not_quantising_a_node_and_quantising_the_others_agree(tmp_path: Path) -> None:
    model, feed = zoo("mnist_lenet")
    first, *others = DebugModel(model).of_kind(NodeType.NODE)
    shared = DebugModel(model).groups[first] & frozenset().union(*(DebugModel(model).groups[name] for name in others))
    assert not shared
    without = plot_acc_error(tmp_path, feed, model, non_quantize_node=[[first]])
    only = plot_acc_error(tmp_path, feed, model, quantize_node=[others])
    assert without.curves[0].values == only.curves[0].values
    assert without.curves[0].label == f"partial_qmodel_0: {first}"


def test_node_lists_are_checked(tmp_path: Path) -> None:
    model, feed = zoo("mnist_lenet")
    for lists in ({}, {"quantize_node": ["/0/Conv"], "non_quantize_node": ["/0/Conv"]}):
        with pytest.raises(ConfigError, match="give either"):
            plot_acc_error(tmp_path, feed, model, **lists)
    with pytest.raises(ConfigError, match="is a regular node"):
        get_channelwise_data_distribution(tmp_path, model, feed, ["/0/Conv"])
    with pytest.raises(ConfigError, match="axis is 9"):
        get_channelwise_data_distribution(tmp_path, model, feed, ["0.weight_HzCalibration"], axis=9)


def test_distributions_state_thresholds_and_shares(tmp_path: Path) -> None:
    model, feed = zoo("mnist_lenet")
    names = ["0.weight_HzCalibration", "/1/Relu_output_0_HzCalibration", "/0/Conv"]
    weight, activation, result = plot_distribution(tmp_path, model, feed, names)
    assert [item.kind for item in (weight, activation, result)] == [NodeType.WEIGHT, NodeType.ACTIVATION, NodeType.NODE]
    assert weight.clipped == activation.clipped == 0
    assert weight.before.counts.sum() == 12 * 25
    assert activation.before.counts.sum() == 3 * 12 * 28 * 28
    assert activation.thresholds == pytest.approx((activation.largest,) * 2)
    assert 0.99 < result.cosine < 1
    assert len(list(tmp_path.glob("*_distribution.png"))) == len(list(tmp_path.glob("*_distribution.html"))) == 3


def test_boxes_are_quantiles_of_the_channels(tmp_path: Path) -> None:
    model, feed = zoo("mnist_lenet")
    (boxes,) = get_channelwise_data_distribution(tmp_path, model, feed, ["0.weight_HzCalibration"])
    weight = DebugModel(model).calibrations["0.weight_HzCalibration"].inputs[0].const_value.numpy().reshape(12, -1)
    np.testing.assert_allclose(boxes.median, np.median(weight, axis=1))
    np.testing.assert_allclose(boxes.thresholds, np.abs(weight).max(axis=1), rtol=1e-6)


@pytest.mark.nightly
def test_runall_links_nodes_and_settings(tmp_path: Path) -> None:
    model, feed = zoo("mnist_mobilenet")
    page = runall(model, feed, tmp_path, node_type="node", ns_metrics=["mse", "sqnr"]).read_text("utf-8")
    links = set(re.findall(r'href="#([^"]+)"', page))
    assert links == set(re.findall(r'h[23] id="([^"]+)"', page))
    assert set(re.findall(r"Place (\d+) in .* as input of", page)) >= {"1", "2", "3", "4", "5"}
    fragments = re.findall(r"node_info: (\{[^<]*\})", page)
    assert fragments
    nodes = DebugModel(model).nodes
    for fragment in fragments:
        assert json.loads(fragment.replace("&#34;", '"')).keys() <= nodes.keys()
    assert len(page) > 1_000_000, "what draws the plots is in the page"
    assert not list(tmp_path.glob("*.js"))


def test_leaving_sensitive_nodes_in_float_brings_accuracy_back(tmp_path: Path) -> None:
    model, feed = zoo("mnist_resnet8")
    found = sensitivity_analysis(model, feed, pick_threshold=1.0, data_num=2, save_dir=tmp_path)
    assert len(found.single) == len(found.cumulative) == len(found.sensitive) > 3
    assert found.cumulative[-1] == pytest.approx(1)
    assert found.cumulative[0] == found.single[0]
    assert found.baseline < found.cumulative[-1]
    assert set(found.causes.values()) <= {"weight", "activation"}


def test_mistakes_are_named_before_anything_is_written(tmp_path: Path) -> None:
    model, feed = zoo("mnist_lenet")
    weight = DebugModel(model).of_kind(NodeType.WEIGHT)[0]
    file = tmp_path / "file"
    file.touch()
    folder = tmp_path / "folder"
    for mistake in (
        lambda: plot_acc_error(folder, feed, model, quantize_node=[weight], metric=["mse", "sqnr"]),
        lambda: plot_acc_error(folder, feed, model, quantize_node=[3]),
        lambda: get_channelwise_data_distribution(folder, model, feed, [weight], "1"),
        lambda: sensitivity_analysis(model, feed, "0.9", save_dir=folder),
        lambda: plot_distribution(file, model, feed, [weight]),
        lambda: runall(model, feed, 3),
    ):
        with pytest.raises(ConfigError):
            mistake()
    assert not folder.exists()


def test_without_a_folder_pictures_go_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, feed = zoo("mnist_lenet")
    monkeypatch.chdir(tmp_path)
    plot_distribution(None, model, feed, DebugModel(model).of_kind(NodeType.WEIGHT)[0])
    assert len(list(tmp_path.glob("*_distribution.png"))) == 1


def test_a_curve_per_node_leaves_room_for_the_curves() -> None:
    nodes = tuple(f"/model/layer{index}/Conv" for index in range(200))
    curves = tuple(Curve(node, (0.9,) * 200) for node in nodes[:60])
    figure = curves_png(Curves(nodes, DistanceMeasure.COSINE, curves))
    to_png(figure)
    (axes,) = figure.axes
    assert axes.get_position().height > 0.4
    assert len({line.get_color() for line in axes.lines}) == 60


def test_pictures_of_200_nodes() -> None:
    values = {f"/model/layer{index}/Conv": 1 - 10.0 ** -(index / 40) for index in range(200)}
    assert to_png(ranking_png("node", DistanceMeasure.COSINE, values)).startswith(PNG)
    page = ranking_page(DistanceMeasure.COSINE, values)
    assert len(page.data[0].x) == 200
    assert page.layout.title.text is None, "the heading above it says the same"


def test_lists_of_the_command_line() -> None:
    assert read_names("['cosine-similarity','mse']") == read_names("[cosine-similarity,mse]")
    assert read_names("Conv_2") == ["Conv_2"]
    assert read_nested("[[Conv_2],[Conv_2,Conv_90]]") == [["Conv_2"], ["Conv_2", "Conv_90"]]
    for text in ("[Conv_2", "[[Conv_2],Conv_3]", "[[Conv_2],[Conv_3]"):
        with pytest.raises(ConfigError):
            read_nested(text)
    with pytest.raises(ConfigError, match="not nested"):
        read_names("[[a]]")
