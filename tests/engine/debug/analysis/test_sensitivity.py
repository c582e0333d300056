from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from engine.debug import get_sensitivity_of_nodes
from engine.debug.analysis.data import read_samples
from engine.debug.analysis.metrics import DistanceMeasure, measure
from engine.debug.analysis.model import DebugModel, NodeType
from engine.debug.analysis.sensitivity import sensitivities
from engine.errors import CalibrationDataError, ConfigError, ModelError
from engine.floats.float_model import FloatSession, Kernels
from engine.ir import load_model, save_model
from tests.conftest import ROOT
from tests.engine.debug.models import in_variant, random_feed, zoo

METRICS = tuple(DistanceMeasure)
Feed = Mapping[str, NDArray[np.float32]]


def brute_force(
    model: DebugModel, feed: Feed, names: Sequence[str], outputs: Sequence[str]
) -> dict[str, dict[DistanceMeasure, float]]:
    """One full forward of a model of its own per node; one thread, as ORT sums differently in several."""

    def run(working: frozenset[str]) -> dict[str, list[NDArray[np.float32]]]:
        session = FloatSession(in_variant(model, working), outputs, kernels=Kernels.PLAIN, threads=1, max_batch=1)
        samples = len(next(iter(feed.values()))) // next(iter(session.inputs.values()))[0]
        return {name: np.split(array, samples) for name, array in session.run(feed).items()}

    expected = run(frozenset())
    found = {}
    for name in names:
        actual = run(model.variant([name]))
        pairs = [pair for key in outputs for pair in zip(actual[key], expected[key], strict=True)]
        found[name] = {metric: float(np.mean([measure(metric, *pair) for pair in pairs])) for metric in METRICS}
    return found


def assert_same(
    fast: Mapping[str, Mapping[DistanceMeasure, float]],
    slow: Mapping[str, Mapping[DistanceMeasure, float]],
    tolerance: float | None = 1e-6,
) -> None:
    """``tolerance``: relative; None for the same bits."""
    assert fast.keys() == slow.keys()
    if tolerance is None:
        np.testing.assert_array_equal(
            [list(fast[name].values()) for name in slow], [list(row.values()) for row in slow.values()]
        )
        return
    for name, row in slow.items():
        for metric, value in row.items():
            assert fast[name][metric] == pytest.approx(value, rel=tolerance, abs=1e-6, nan_ok=True), (name, metric)


@pytest.mark.parametrize(
    "name",
    [
        "mnist_lenet",
        pytest.param("mnist_mobilenet", marks=pytest.mark.nightly),
        "mnist_resnet8",
        pytest.param("scene_unet", marks=pytest.mark.nightly),
        pytest.param("scene_yolo", marks=pytest.mark.nightly),
    ],
)
def test_equal_to_one_full_forward_per_node_on_the_zoo(name: str) -> None:
    calibrated, feed = zoo(name)
    model = DebugModel(calibrated)
    for kind in NodeType:
        names = model.of_kind(kind)
        assert_same(sensitivities(model, feed, names, METRICS), brute_force(model, feed, names, model.outputs), None)


@pytest.mark.nightly
@pytest.mark.reference
def test_equal_to_one_full_forward_per_node_on_foreign_models(reference_dir: Path) -> None:
    files = sorted((reference_dir / "golden").rglob("*.calib.onnx"))
    assert files
    for file in files:
        model = DebugModel(file)
        feed = random_feed(model.model, 2)
        names = (*model.of_kind(NodeType.NODE), *model.of_kind(NodeType.WEIGHT))
        # ONNX Runtime fuses transposes into products, which shows where an error is as small as float's own.
        assert_same(sensitivities(model, feed, names, METRICS), brute_force(model, feed, names, model.outputs), 1e-5)


def test_intermediate_node_as_output() -> None:
    calibrated, feed = zoo("mnist_resnet8")
    model = DebugModel(calibrated)
    names = model.of_kind(NodeType.NODE)
    output = names[len(names) // 2]
    found = sensitivities(model, feed, names, METRICS, output)
    assert_same(found, brute_force(model, feed, names, (model.output_of(output),)))
    assert found[names[-1]][DistanceMeasure.MSE] == 0


def test_documented_call_prints_and_returns_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calibrated, feed = zoo("mnist_lenet")
    file = save_model(calibrated, tmp_path / "calibrated_model.onnx")
    for name, array in feed.items():
        (tmp_path / "calibration_data" / name).mkdir(parents=True)
        for index in range(len(array)):
            np.save(tmp_path / "calibration_data" / name / f"{index}.npy", array[index : index + 1])
    found = get_sensitivity_of_nodes(
        model_or_file=str(file),
        metrics=["cosine-similarity", "mse"],
        calibrated_data=f"{tmp_path}/calibration_data/",
        output_node=None,
        node_type="node",
        data_num=None,
        verbose=True,
        interested_nodes=None,
    )
    cosines = [float(row["cosine-similarity"]) for row in found.values()]
    assert cosines == sorted(cosines)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip("=") == "node"
    assert lines[1].split() == ["Node", "cosine-similarity", "mse"]
    assert [line.split() for line in lines[3:]] == [[name, *row.values()] for name, row in found.items()]
    assert found == get_sensitivity_of_nodes(onnx.load(file), ["cosine-similarity", "mse"], feed)


def test_interested_nodes_outrank_node_type_and_first_metric_sorts() -> None:
    calibrated, feed = zoo("mnist_lenet")
    model = DebugModel(calibrated)
    chosen = [model.of_kind(NodeType.WEIGHT)[0], model.of_kind(NodeType.NODE)[1]]
    found = get_sensitivity_of_nodes(
        calibrated, ["mse", "sqnr"], feed, node_type="activation", interested_nodes=chosen, data_num=1
    )
    assert set(found) == set(chosen)
    assert [float(row["mse"]) for row in found.values()] == sorted(
        (float(row["mse"]) for row in found.values()), reverse=True
    )


def test_samples_are_sorted_by_number_and_counted(tmp_path: Path) -> None:
    calibrated, _ = zoo("mnist_lenet")
    model = DebugModel(calibrated).model
    name = str(model.graph.inputs[0].name)
    (tmp_path / name).mkdir()
    for index in range(12):
        np.save(tmp_path / name / f"{index}.npy", np.full((1, 1, 28, 28), index, np.float32))
    assert read_samples(model, tmp_path)[name][:, 0, 0, 0].tolist() == list(range(12))
    assert len(read_samples(model, tmp_path, 3)[name]) == 3
    for count in (0, 13):
        with pytest.raises(CalibrationDataError, match="1 to 12"):
            read_samples(model, tmp_path, count)
    with pytest.raises(CalibrationDataError, match=r"no \.npy files"):
        read_samples(model, os.fspath(tmp_path / "nowhere"))


def test_at_most_so_many_samples_where_no_number_is_given(caplog: pytest.LogCaptureFixture) -> None:
    calibrated, feed = zoo("mnist_lenet")
    model = DebugModel(calibrated).model
    with caplog.at_level("INFO", "engine.debug.analysis.data"):
        assert len(read_samples(model, feed, most=2)["image"]) == 2
        assert caplog.messages == ["the first 2 of 3 samples; all: --data_num all"]
        caplog.clear()
        for count, most, expected in ((None, 8, 3), (None, None, 3), (3, 2, 3)):
            assert len(read_samples(model, feed, count, most)["image"]) == expected
        assert not caplog.messages


def test_mistakes_are_named() -> None:
    calibrated, feed = zoo("mnist_lenet")
    image = feed["image"]
    for data in ([image], {"image": np.full_like(image, np.nan)}, {"image": image.astype(str)}):
        with pytest.raises(CalibrationDataError):
            get_sensitivity_of_nodes(calibrated, "mse", data)
    for count in ("1", 1.5):
        with pytest.raises(CalibrationDataError, match="data_num"):
            get_sensitivity_of_nodes(calibrated, "mse", feed, data_num=count)
    for model in (None, 3):
        with pytest.raises(ModelError, match="model_or_file"):
            get_sensitivity_of_nodes(model, "mse", feed)
    for metrics in (None, 3):
        with pytest.raises(ConfigError, match="metrics"):
            get_sensitivity_of_nodes(calibrated, metrics, feed)
    with pytest.raises(ConfigError, match="node 3"):
        get_sensitivity_of_nodes(calibrated, "mse", feed, interested_nodes=[3])
    with pytest.raises(ConfigError, match="metric 'cosine' is unknown"):
        get_sensitivity_of_nodes(calibrated, "cosine", feed)
    with pytest.raises(ConfigError, match="node_type is 'nodes'"):
        get_sensitivity_of_nodes(calibrated, calibrated_data=feed, node_type="nodes")
    with pytest.raises(ConfigError, match="is not in the calibrated model"):
        get_sensitivity_of_nodes(calibrated, calibrated_data=feed, interested_nodes="Conv_none")
    with pytest.raises(ModelError, match="no HzCalibration"):
        DebugModel(load_model(ROOT / "suites" / "zoo" / "mnist_lenet.onnx"))
    assert isinstance(DebugModel(calibrated).model, ir.Model)
