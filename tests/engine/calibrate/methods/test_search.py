"""Methods that choose among others."""

from __future__ import annotations

import logging
import re

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import helper

from engine.calibrate import ArrayData, CalibrationOptions, FloatSession, calibrate, collect_for, run_calibration
from engine.calibrate.methods.measured import only_measured
from engine.calibrate.methods.search import SENSITIVE, candidates_of
from engine.calibrate.methods.sensitivity import local_similarities, mean_cosine
from engine.calibrate.methods.thresholds import apply_thresholds, threshold_sources
from engine.floats.compare import cosine
from engine.floats.switched import SwitchedModel, SwitchedSample
from engine.ir import calibration_nodes, read_calibration
from engine.place import PlacementOptions, place
from engine.terms import CalibrationType, Compatibility
from tests.engine.calibrate.methods.test_asymmetric import DATA as UNSIGNED_DATA
from tests.engine.calibrate.methods.test_asymmetric import chain
from tests.engine.calibrate.models import DATA, calibrated_residual, graph, residual, shortcut, thresholds_of


def test_default_is_no_worse_than_any_candidate() -> None:
    expected = FloatSession(residual()).run(DATA)["y"]

    def similarity(model: ir.Model) -> float:
        found = FloatSession(model).run(DATA)["y"]
        norms = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
        return float(((found * expected).sum(axis=1) / norms).mean())

    candidates = candidates_of(CalibrationOptions(calibration_type=CalibrationType.DEFAULT))
    best = max(similarity(calibrated_residual(**candidate.model_dump())) for candidate in candidates)
    assert similarity(calibrated_residual(calibration_type="default", compatibility="clean")) >= best - 1e-6


@pytest.mark.parametrize("first", range(4))
def test_default_takes_the_method_that_is_best_on_the_first_sample(
    caplog: pytest.LogCaptureFixture, first: int
) -> None:
    model = residual()
    placed = place(model, "bayes-e", PlacementOptions()).model
    data = ArrayData({"x": np.roll(DATA["x"], -first, axis=0)})
    default = CalibrationOptions(calibration_type=CalibrationType.DEFAULT)
    sample = data.read(0, 1)
    expected = FloatSession(model).run(sample)["y"][0]
    losses = {
        option.log_name: 1
        - cosine(FloatSession(run_calibration(model, placed, data, option)).run(sample)["y"][0], expected)
        for option in candidates_of(default)
        if not option.per_channel
    }
    with caplog.at_level(logging.INFO, logger="engine.calibrate.methods.search"):
        run_calibration(model, placed, data, default)
    (chosen,) = re.findall(r"Select (\S+) method", caplog.text)
    assert losses[re.sub("[:,]per_channel", "", chosen)] <= min(losses.values()) + 1e-7


@pytest.mark.parametrize("similar", [True, False])
def test_default_goes_asymmetric_only_where_no_method_is_similar_enough(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, similar: bool
) -> None:
    monkeypatch.setattr("engine.calibrate.methods.search.SIMILAR", 0.0 if similar else 2.0)
    model = chain(pads=1)
    placed = place(model, "bayes-e", PlacementOptions()).model
    data = ArrayData(UNSIGNED_DATA)
    default = CalibrationOptions(calibration_type=CalibrationType.DEFAULT)
    with caplog.at_level(logging.DEBUG, logger="engine.calibrate.methods.search"):
        found = run_calibration(model, placed, data, default)
    tried = dict(re.findall(r"of (\S+) on the first sample: (\S+)", caplog.text))
    (chosen,) = re.findall(r"Select (\S+) method", caplog.text)
    assert any("asymmetric" in name for name in tried) is not similar
    assert tried[re.sub("[:,]per_channel", "", chosen)] == max(tried.values())
    has_unsigned = any(read_calibration(node).qtype == "uint8" for node in calibration_nodes(found))
    assert has_unsigned == ("asymmetric" in chosen)
    assert ("Asymmetric quantization is enabled." in caplog.text) == has_unsigned


def test_default_looks_at_one_sample_where_channels_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is best there has nothing to be compared with."""
    monkeypatch.setattr("engine.calibrate.methods.search.SENSITIVE", 2.0)
    read: list[int] = []

    class Data(ArrayData):
        def read(self, start: int, stop: int) -> dict[str, np.ndarray]:
            read.extend(range(start, stop))
            return super().read(start, stop)

    model, default = chain(pads=1), CalibrationOptions(calibration_type=CalibrationType.DEFAULT)
    placed, data = place(model, "bayes-e", PlacementOptions()).model, Data(UNSIGNED_DATA)
    statistics = collect_for(model, [placed], data, default)
    read.clear()
    run_calibration(model, placed, data, default, statistics=statistics)
    assert not any(tensor.equalized for tensor in statistics.tensors.values())
    assert set(read) == {0}


@pytest.mark.parametrize("count", [1, 5, 16, 20, 40])
def test_default_compares_means_over_the_same_samples(caplog: pytest.LogCaptureFixture, count: int) -> None:
    """Whoever is left has seen them all: among them a candidate per channel, which entered later."""
    model, rng = shortcut(), np.random.default_rng(12)
    placed = place(model, "bayes-e", PlacementOptions()).model
    data = ArrayData({"x": 4 * rng.standard_normal((count, 3, 6, 5)).astype(np.float32)})
    default = CalibrationOptions(calibration_type=CalibrationType.DEFAULT, compatibility=Compatibility.CLEAN)
    with caplog.at_level(logging.DEBUG, logger="engine.calibrate.methods.search"):
        run_calibration(model, placed, data, default)
    printed = re.findall(r"Mean cosine similarity of (\S+): (\S+)", caplog.text)
    chosen = re.findall(r"Select (\S+) method", caplog.text)
    by_name = {option.log_name: option for option in candidates_of(default)}
    rows = {"x": data.read(0, count)["x"][sorted({round(i) for i in np.linspace(0, count - 1, min(count, 32))})]}
    expected = FloatSession(model).run(rows)["y"]
    for name, value in printed:
        actual = FloatSession(run_calibration(model, placed, data, by_name[name])).run(rows)["y"]
        cosines = [cosine(row, other) for row, other in zip(actual, expected, strict=True)]
        assert float(value) == pytest.approx(np.mean(cosines), abs=1e-6)
    assert any(by_name[name].per_channel for name, _ in printed)
    assert (chosen[0], max(value for _, value in printed)) in printed


def test_mix_is_max_where_no_node_is_sensitive(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="engine"):
        mixed = calibrated_residual(calibration_type="mix")
    worst = min(local_similarities(calibrated_residual(), {"x": DATA["x"][-1:]}).values())
    assert ("select top-0 nodes" in caplog.text) == (worst >= SENSITIVE)
    if worst >= SENSITIVE:
        assert thresholds_of(mixed) == thresholds_of(calibrated_residual())


def test_mix_takes_the_best_method_for_sensitive_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.calibrate.methods.search.SENSITIVE", 1.1)
    feed = {"x": DATA["x"][-1:]}
    mixed = local_similarities(calibrated_residual(calibration_type="mix"), feed)
    assert (
        mixed["conv0"]
        == max(
            local_similarities(calibrated_residual(**option.model_dump()), feed)["conv0"]
            for option in candidates_of(CalibrationOptions())
        )
        or mixed["conv0"] >= local_similarities(calibrated_residual(), feed)["conv0"]
    )


def test_chosen_methods_reach_graph_outputs_that_nodes_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.calibrate.methods.search.SENSITIVE", 1.1)
    rng = np.random.default_rng(1)
    weights = {name: rng.standard_normal((4, 4, 1, 1)).astype(np.float32) for name in ("w0", "w1")}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["y"], name="first"),
        helper.make_node("Conv", ["y", "w1"], ["z"], name="second"),
    ]
    model = graph(nodes, {"x": (1, 4, 8, 8)}, ["y", "z"], weights)
    placed = place(model, "bayes-e", PlacementOptions(output_type="int8")).model
    data = rng.standard_normal((20, 4, 8, 8)).astype(np.float32)
    data[0] *= 8  # an outlier that only max looks at
    candidates = candidates_of(CalibrationOptions(calibration_type=CalibrationType.MIX))
    feed = {"x": data[-1:]}

    def second(options: CalibrationOptions) -> float:
        return local_similarities(run_calibration(model, placed, ArrayData({"x": data}), options), feed)["second"]

    assert threshold_sources(placed)["y_HzCalibration"] == "y"
    scores = [second(candidate) for candidate in candidates]
    by_max = scores[1]
    assert by_max < max(scores)
    assert second(CalibrationOptions(calibration_type=CalibrationType.MIX)) == pytest.approx(max(scores))
    assert second(CalibrationOptions(nodewise_methods=True)) > by_max


@pytest.mark.parametrize("first", range(4))
def test_mix_begins_with_what_is_best_on_the_first_sample_with_weights_as_floats(
    caplog: pytest.LogCaptureFixture, first: int
) -> None:
    model = residual()
    placed = place(model, "bayes-e", PlacementOptions()).model
    data = ArrayData({"x": np.roll(DATA["x"], -first, axis=0)})
    options = CalibrationOptions(calibration_type=CalibrationType.MIX)
    statistics = collect_for(model, [placed], data, options)
    sample = data.read(0, 1)
    expected = FloatSession(model).run(sample)["y"]
    similar = {}
    for option in candidates_of(options):
        measured = apply_thresholds(only_measured(placed), statistics.thresholds(option))
        similar[option.log_name] = cosine(FloatSession(measured).run(sample)["y"], expected)
    with caplog.at_level(logging.INFO, logger="engine.calibrate.methods.search"):
        run_calibration(model, placed, data, options, statistics=statistics)
    (base,) = re.findall(r"Calculate all sensitivity nodes with (\S+) calibration", caplog.text)
    assert similar[base] == pytest.approx(max(similar.values()), abs=2e-7)


def test_mix_looks_at_one_tensor_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.calibrate.methods.search.SENSITIVE", 1.1)
    placed = place(residual(), "bayes-e", PlacementOptions()).model
    data = ArrayData(DATA)
    last = data.read(len(data) - 1, len(data))
    options, measured = CalibrationOptions(calibration_type="mix"), only_measured(placed)
    statistics = collect_for(residual(), [placed], data, options)
    models = [calibrate(measured, statistics, candidate) for candidate in candidates_of(options)]
    found = thresholds_of(run_calibration(residual(), placed, data, options))
    for name in threshold_sources(measured):
        scores = []
        for model in models:
            calibration = next(read_calibration(node) for node in calibration_nodes(model) if node.name == name)
            (sample,) = SwitchedModel(model).on(last)
            scores.append(mean_cosine(sample.cosines([{name: calibration}])))
        choices = [thresholds_of(model)[name] for model in models]
        best = [choice for choice, score in zip(choices, scores, strict=True) if score == max(scores)]
        assert found[name] in best


def test_settings_that_try_the_same_do_it_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("engine.calibrate.methods.search.SENSITIVE", 1.1)
    placed = place(residual(), "bayes-e", PlacementOptions()).model
    options = CalibrationOptions(calibration_type="mix")
    statistics = collect_for(residual(), [placed], ArrayData(DATA), options)

    def run(data: NDArray[np.float32]) -> tuple[dict[str, list[float]], list[str]]:
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="engine.calibrate.methods.search"):
            found = run_calibration(residual(), placed, ArrayData({"x": data}), options, statistics=statistics)
        return thresholds_of(found), caplog.messages

    first = run(DATA["x"])
    asked: list[int] = []
    cosines = SwitchedSample.cosines
    monkeypatch.setattr(SwitchedSample, "cosines", lambda self, given: asked.append(len(given)) or cosines(self, given))
    assert run(DATA["x"]) == first
    assert not asked
    assert run(DATA["x"][::-1])[1] != first[1]
    assert asked


def test_settings_of_default_share_what_they_try(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    placed, options = (
        place(residual(), "bayes-e", PlacementOptions()).model,
        CalibrationOptions(calibration_type="default"),
    )
    statistics = collect_for(residual(), [placed], ArrayData(DATA), options)
    found = []
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.DEBUG, logger="engine.calibrate.methods.search"):
            model = run_calibration(residual(), placed, ArrayData(DATA), options, statistics=statistics)
        found.append((thresholds_of(model), caplog.messages))
        monkeypatch.setattr(FloatSession, "run", lambda *given: pytest.fail("a model runs"))
    assert found[0] == found[1]
