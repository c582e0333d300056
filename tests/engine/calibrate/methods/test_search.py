"""Methods that choose among others, sensitivities, bias correction, and the log of a calibration."""

from __future__ import annotations

import logging
import re

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate import ArrayData, CalibrationOptions, FloatSession, run_calibration
from engine.calibrate.corrections.bias import _process, correct_biases, correct_in_turn, mean_errors, with_biases_of
from engine.calibrate.forward.compare import cosine
from engine.calibrate.methods.search import SENSITIVE, candidates_of
from engine.calibrate.methods.sensitivity import GatedSession, calibrations_by_node, local_similarities, sensitivities
from engine.calibrate.methods.thresholds import threshold_sources
from engine.ir import calibration_nodes, constant_of, read_calibration, to_bytes
from engine.place import PlacementOptions, place
from engine.terms import CalibrationType, Compatibility
from tests.engine.calibrate.models import graph, residual

DATA = {"x": np.random.default_rng(3).standard_normal((10, 3, 6, 5)).astype(np.float32)}


def run(**options: object) -> ir.Model:
    model = residual()
    placed = place(model, "bayes-e", PlacementOptions()).model
    return run_calibration(model, placed, ArrayData(DATA), CalibrationOptions.model_validate(options))


def thresholds(model: ir.Model) -> dict[str, list[float]]:
    return {str(node.name): read_calibration(node).thresholds.tolist() for node in calibration_nodes(model)}


def test_default_is_no_worse_than_any_candidate() -> None:
    expected = FloatSession(residual()).run(DATA)["y"]

    def similarity(model: ir.Model) -> float:
        found = FloatSession(model).run(DATA)["y"]
        norms = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
        return float(((found * expected).sum(axis=1) / norms).mean())

    candidates = candidates_of(CalibrationOptions(calibration_type=CalibrationType.DEFAULT))
    best = max(similarity(run(**candidate.model_dump())) for candidate in candidates)
    assert similarity(run(calibration_type="default", compatibility="clean")) >= best - 1e-6


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


@pytest.mark.parametrize("count", [1, 5, 16, 20, 40])
def test_default_compares_means_over_the_same_samples(caplog: pytest.LogCaptureFixture, count: int) -> None:
    """Whoever is left has seen them all: among them a candidate per channel, which entered later."""
    model, rng = residual(), np.random.default_rng(4)
    placed = place(model, "bayes-e", PlacementOptions()).model
    data = ArrayData({"x": rng.standard_normal((count, 3, 6, 5)).astype(np.float32)})
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
        mixed = run(calibration_type="mix")
    worst = min(local_similarities(run(), {"x": DATA["x"][-1:]}).values())
    assert ("select top-0 nodes" in caplog.text) == (worst >= SENSITIVE)
    if worst >= SENSITIVE:
        assert thresholds(mixed) == thresholds(run())


def test_mix_takes_the_best_method_for_sensitive_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.calibrate.methods.search.SENSITIVE", 1.1)
    feed = {"x": DATA["x"][-1:]}
    mixed = local_similarities(run(calibration_type="mix"), feed)
    assert (
        mixed["conv0"]
        == max(
            local_similarities(run(**option.model_dump()), feed)["conv0"]
            for option in candidates_of(CalibrationOptions())
        )
        or mixed["conv0"] >= local_similarities(run(), feed)["conv0"]
    )


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({}, ["Run calibration model with max method."]),
        (
            {"asymmetric": True, "mean_bias_correction": True},
            [
                "Run calibration model with max:asymmetric method.",
                "Asymmetric quantization is enabled.",
                "Take mean errors on 8 samples out of biases: mean_bias_correction.",
            ],
        ),
        (
            {"bias_correction": True},
            ["Run calibration model with bias correction method with bias samples: 1.", "fits the last sample"],
        ),
        (
            {"asymmetric": True, "bias_correction": True},
            [
                "Run calibration model with bias correction method with bias samples: 1.",
                "bias_correction has no effect with asymmetric",
                "mean_bias_correction",
            ],
        ),
        (
            {"bias_correction": True, "mean_bias_correction": True},
            ["bias_correction has no effect beside mean_bias_correction", "Take mean errors on 8 samples"],
        ),
        (
            {"calibration_type": "default", "bias_correction": True},
            [
                "Run calibration model with bias correction method with bias samples: 1.",
                "bias_correction has no effect with calibration_type default",
            ],
        ),
        (
            {"per_channel": True},
            ["Run calibration model with max:per_channel method.", "Perchannel quantization is enabled."],
        ),
        (
            {"max_percentile": 0.9999, "per_channel": True},
            ["Run calibration model with max-percentile:percentile=0.9999,per_channel method."],
        ),
        ({"order_independent_kl": True}, ["order_independent_kl has no effect with calibration_type max"]),
        (
            {"order_independent_kl": True, "calibration_type": "mix"},
            ["Histograms have the range of all samples: order_independent_kl."],
        ),
        ({"calibration_type": "default"}, ["Run calibration model with modelwise search method.", "Select "]),
        (
            {"calibration_type": "mix", "per_channel": True},
            ["Run calibration model with layerwise search method.", "per_channel has no effect", "Merge_Info"],
        ),
    ],
)
def test_the_log_says_what_was_done(
    caplog: pytest.LogCaptureFixture, options: dict[str, object], lines: list[str]
) -> None:
    with caplog.at_level(logging.INFO, logger="engine"):
        run(**options)
    assert [line for line in lines if line not in caplog.text] == []


@pytest.mark.parametrize("options", [{"asymmetric": True}, {"calibration_type": "default"}])
def test_where_bias_correction_is_idle_mean_bias_correction_works(options: dict[str, object]) -> None:
    plain = to_bytes(run(**options))
    assert to_bytes(run(**options, bias_correction=True)) == plain
    own = to_bytes(run(**options, mean_bias_correction=True))
    assert own != plain
    assert to_bytes(run(**options, bias_correction=True, mean_bias_correction=True)) == own


def test_bias_correction_in_turn_leaves_the_last_sample_without_mean_error() -> None:
    data, calibrated = ArrayData(DATA), run()
    before = to_bytes(calibrated)
    corrected = correct_in_turn(residual(), calibrated, data)
    feed = data.read(len(data) - 1, len(data))
    convolutions = [node for node in residual().graph if node.op_type == "Conv"]
    results = [str(node.outputs[0].name) for node in convolutions]
    wanted = FloatSession(residual(), results).run(feed)
    old, new = (FloatSession(model, results).run(feed) for model in (calibrated, corrected))
    assert to_bytes(calibrated) == before
    for name in results:  # two convolutions are one group, which one process corrects
        assert np.abs((old[name] - wanted[name]).mean(axis=(0, 2, 3))).max() > 1e-4
        np.testing.assert_allclose((new[name] - wanted[name]).mean(axis=(0, 2, 3)), 0, atol=2e-6)


def test_samples_that_are_not_finite_do_not_reach_biases() -> None:
    x = DATA["x"].copy()
    x[[0, -1], 0, 0, 0] = np.nan, np.inf
    holed, finite, calibrated = ArrayData({"x": x}), ArrayData({"x": DATA["x"][1:-1]}), run()
    expected = correct_in_turn(residual(), calibrated, finite), correct_biases(calibrated, finite, 7)
    found = correct_in_turn(residual(), calibrated, holed), correct_biases(calibrated, holed)
    assert list(map(to_bytes, found)) == list(map(to_bytes, expected))
    nothing = ArrayData({"x": np.full_like(x, np.nan)})
    for model in (correct_in_turn(residual(), calibrated, nothing), correct_biases(calibrated, nothing)):
        assert to_bytes(model) == to_bytes(calibrated.clone())


@pytest.mark.parametrize("word", ["bias_correction", "mean_bias_correction"])
def test_convolutions_that_are_calibrated_outputs_are_corrected(word: str) -> None:
    rng = np.random.default_rng(0)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="conv")]
    model = graph(nodes, {"x": (1, 3, 6, 5)}, ["y"], {"w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32)})
    placed = place(model, "bayes-e", PlacementOptions(output_type="int8")).model
    corrected = run_calibration(model, placed, ArrayData(DATA), CalibrationOptions(**{word: True}))
    (node,) = (node for node in corrected.graph if node.op_type == "Conv")
    assert np.abs(constant_of(node.inputs[2])).max() > 0


def test_the_float_graph_takes_over_corrected_biases() -> None:
    corrected = correct_in_turn(residual(), run(), ArrayData(DATA))
    reference = with_biases_of(corrected, residual())
    theirs, ours = (
        {node.name: constant_of(node.inputs[2]) for node in model.graph if node.op_type == "Conv"}
        for model in (corrected, reference)
    )
    (old,) = (constant_of(node.inputs[2]) for node in residual().graph if node.name == "conv0")
    assert theirs.keys() == {"conv0", "conv1"}
    for name, bias in theirs.items():
        np.testing.assert_array_equal(ours[name], bias)
    assert not np.array_equal(theirs["conv0"], old)


def test_the_processes_of_the_original_take_turns() -> None:
    assert [_process(index) for index in range(0, 28, 4)] == [0, 0, 1, 0, 1, 0, 1]
    assert [_process(index) for index in range(6, 14)] == [0, 0, 1, 1, 1, 1, 0, 0]


def test_bias_correction_brings_the_means_back() -> None:
    plain = run()
    before = to_bytes(plain)
    corrected = correct_biases(plain, ArrayData(DATA), 10)
    errors = {name: np.abs(error).max() for name, error in mean_errors(plain, ArrayData(DATA), 10).items()}
    # The other runs of the corrected model start from the same float tensors, so the mean error is gone but for
    # what the correction itself, being in the float path too, cannot change: quantised less plain stays as it is.
    found, wanted = FloatSession(corrected).run(DATA)["y"], FloatSession(residual()).run(DATA)["y"]
    old = FloatSession(plain).run(DATA)["y"]
    assert errors.keys() == {"conv0", "conv1"}
    assert to_bytes(plain) == before
    assert np.abs((found - wanted).mean(axis=0)).max() < np.abs((old - wanted).mean(axis=0)).max()


def test_gates_switch_single_nodes() -> None:
    calibrated = run()
    session = GatedSession(calibrated)
    names = {str(node.name) for node in calibration_nodes(calibrated)}
    np.testing.assert_allclose(session.run(DATA, ())["y"], FloatSession(residual()).run(DATA)["y"], rtol=1e-5)
    np.testing.assert_allclose(
        session.run(DATA, names)["y"], FloatSession(calibrated).run(DATA)["y"], rtol=1e-3, atol=1e-3
    )


def test_sensitivities_cover_every_node_that_reads_calibrated_tensors() -> None:
    calibrated = run()
    found = sensitivities(calibrated, {"x": DATA["x"][:2]})
    assert found.keys() == calibrations_by_node(calibrated).keys()
    assert all(0.9 < value <= 1.0 + 1e-9 for value in found.values())


def test_kl_depends_on_the_order_unless_told_not_to() -> None:
    model = residual()
    placed = place(model, "bayes-e", PlacementOptions()).model
    growing = {"x": DATA["x"] * np.linspace(0.2, 3, 10, dtype=np.float32).reshape(-1, 1, 1, 1)}
    falling = {"x": growing["x"][::-1].copy()}

    def found(data: dict[str, np.ndarray], **options: object) -> dict[str, list[float]]:
        chosen = CalibrationOptions.model_validate({"calibration_type": "kl", **options})
        return thresholds(run_calibration(model, placed, ArrayData(data), chosen))

    assert found(growing) != found(falling)
    assert found(growing, order_independent_kl=True) == found(falling, order_independent_kl=True)


@pytest.mark.parametrize("option", ["mse_thresholds", "nodewise_methods"])
def test_own_methods_do_not_fit_searches(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} need calibration_type max or kl"):
        CalibrationOptions.model_validate({"calibration_type": "default", option: True})


@pytest.mark.parametrize("options", [{"mse_thresholds": True}, {"nodewise_methods": True}, {"adaptive_rounding": True}])
def test_own_options_are_no_worse_by_far(options: dict[str, object]) -> None:
    expected = FloatSession(residual()).run(DATA)["y"]
    errors = [float(((FloatSession(m).run(DATA)["y"] - expected) ** 2).mean()) for m in (run(**options), run())]
    assert errors[0] < 2 * errors[1]


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

    assert threshold_sources(placed)["y_before_HzCalibration"] == "y"
    scores = [second(candidate) for candidate in candidates]
    assert scores[0] < max(scores)
    assert second(CalibrationOptions(calibration_type=CalibrationType.MIX)) == pytest.approx(max(scores))
    assert second(CalibrationOptions(nodewise_methods=True)) > scores[0]
