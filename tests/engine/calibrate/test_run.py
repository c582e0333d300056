"""The calibration of a conversion as a whole: which stage runs when, and what the log says of it."""

from __future__ import annotations

import logging

import numpy as np
import onnx_ir as ir
import pytest

from engine.calibrate import (
    ArrayData,
    CalibrationOptions,
    FloatSession,
    Kernels,
    Statistics,
    StatisticsOptions,
    calibration_tensors,
    collect,
    run_calibration,
)
from engine.calibrate.methods.mse import mse_threshold
from engine.calibrate.methods.thresholds import threshold_sources
from engine.calibrate.run import collect_for, needs_data
from engine.calibrate.statistics.collection import HistogramRule
from engine.ir import calibration_nodes
from engine.place import NodeTypes, PlacementOptions, place
from tests.engine.calibrate.models import DATA, calibrated_residual, residual, thresholds_of


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({}, ["Run calibration model with max method."]),
        (
            {"asymmetric": True, "mean_bias_correction": True},
            [
                "Run calibration model with max:asymmetric method.",
                "Asymmetric quantization is enabled.",
                "Correcting biases by the mean errors on 8 samples: mean_bias_correction.",
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
                "fits the last sample",
            ],
        ),
        (
            {"bias_correction": True, "mean_bias_correction": True},
            [
                "bias_correction has no effect together with mean_bias_correction",
                "Correcting biases by the mean errors on 8 samples",
            ],
        ),
        (
            {"calibration_type": "default", "bias_correction": True},
            [
                "Run calibration model with bias correction method with bias samples: 1.",
                "fits the last sample",
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
            ["Histograms cover the range of all samples: order_independent_kl."],
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
        calibrated_residual(**options)
    assert [line for line in lines if line not in caplog.text] == []


def test_kl_depends_on_the_order_unless_told_not_to() -> None:
    model = residual()
    placed = place(model, "bayes-e", PlacementOptions()).model
    growing = {"x": DATA["x"] * np.linspace(0.2, 3, 10, dtype=np.float32).reshape(-1, 1, 1, 1)}
    falling = {"x": growing["x"][::-1].copy()}

    def found(data: dict[str, np.ndarray], **options: object) -> dict[str, list[float]]:
        chosen = CalibrationOptions.model_validate({"calibration_type": "kl", **options})
        return thresholds_of(run_calibration(model, placed, ArrayData(data), chosen))

    assert found(growing) != found(falling)
    assert found(growing, order_independent_kl=True) == found(falling, order_independent_kl=True)


@pytest.mark.parametrize("options", [{"mse_thresholds": True}, {"nodewise_methods": True}, {"adaptive_rounding": True}])
def test_own_options_are_no_worse_by_far(options: dict[str, object]) -> None:
    expected = FloatSession(residual()).run(DATA)["y"]
    errors = [
        float(((FloatSession(m).run(DATA)["y"] - expected) ** 2).mean())
        for m in (calibrated_residual(**options), calibrated_residual())
    ]
    assert errors[0] < 2 * errors[1]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("max", True), ("kl", True), ("default", True), ("mix", True), ("load", False), ("skip", False)],
)
def test_which_methods_need_data(kind: str, expected: bool) -> None:
    assert needs_data(CalibrationOptions(calibration_type=kind)) is expected


def placed_with_int16() -> ir.Model:
    return place(residual(), "bayes-e", PlacementOptions(node_info={"conv1": NodeTypes(input_type="int16")})).model


def test_tensors_of_16_bits_are_never_clipped_for_the_sake_of_the_square_error() -> None:
    placed, options = placed_with_int16(), CalibrationOptions(mse_thresholds=True)
    data = {"x": DATA["x"].copy()}
    data["x"][0, 0, 0, 0] = 60.0
    calibrated = run_calibration(residual(), placed, ArrayData(data), options)
    statistics = collect_for(residual(), [placed], ArrayData(data), options).tensors
    kinds = {str(node.name).removesuffix("_HzCalibration"): node for node in calibration_nodes(calibrated)}
    assert kinds["r0"].attributes["qtype"].value == "int16"
    found = thresholds_of(calibrated)
    source = threshold_sources(placed)["r0_HzCalibration"]
    assert found["r0_HzCalibration"] == [statistics[source].pooled.maximum]
    clipped = mse_threshold(statistics["x"].pooled.histogram, statistics["x"].pooled.maximum)
    assert found["x_HzCalibration"] == [np.float32(clipped)]
    assert clipped < 60.0


def test_statistics_that_are_there_are_not_collected_again(monkeypatch: pytest.MonkeyPatch) -> None:
    placed, data = place(residual(), "bayes-e", PlacementOptions()).model, ArrayData(DATA)
    options = CalibrationOptions()
    statistics = collect_for(residual(), [placed], data, options)
    expected = thresholds_of(run_calibration(residual(), placed, data, options))
    asked: list[object] = []
    monkeypatch.setattr("engine.calibrate.run.collect_for", lambda *a, **k: asked.append(a) or statistics)
    assert thresholds_of(run_calibration(residual(), placed, data, options, statistics=statistics)) == expected
    assert asked == []
    fewer = Statistics({}, statistics.samples)
    assert thresholds_of(run_calibration(residual(), placed, data, options, statistics=fewer)) == expected
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({}, HistogramRule.NONE),
        ({"calibration_type": "kl"}, HistogramRule.REFERENCE),
        ({"calibration_type": "kl", "order_independent_kl": True}, HistogramRule.ORDER_INDEPENDENT),
    ],
)
def test_what_is_collected(monkeypatch: pytest.MonkeyPatch, given: dict[str, object], rule: HistogramRule) -> None:
    asked = []
    monkeypatch.setattr("engine.calibrate.run.collect_once", lambda *arguments: asked.append(arguments))
    placed = place(residual(), "bayes-e", PlacementOptions()).model
    collect_for(residual(), [placed, placed_with_int16()], ArrayData(DATA), CalibrationOptions(**given), threads=2)
    ((_, tensors, _, wanted, outputs),) = asked
    assert outputs is None
    assert list(tensors) == list(dict.fromkeys(tensors))
    assert (wanted.histogram, wanted.threads, wanted.kernels) == (rule, 2, Kernels.PLAIN)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"bias_correction": True, "compatibility": "clean"},
            "is computed like mean_bias_correction, because compatibility is clean",
        ),
        ({"calibration_type": "kl", "order_independent_kl": True}, "Histograms cover the range of all samples"),
        ({"adaptive_rounding": True}, "Rounding weights by the error of the results"),
        ({"nodewise_methods": True}, "Choosing a calibration method per tensor"),
    ],
)
def test_the_log_says_what_own_options_do(
    caplog: pytest.LogCaptureFixture, options: dict[str, object], told: str
) -> None:
    with caplog.at_level(logging.INFO, logger="engine"):
        calibrated_residual(**options)
    assert told in caplog.text


@pytest.mark.parametrize(("kind", "expected"), [("max", 1.0), ("kl", 0.99169921875)])
def test_quantised_constants_are_looked_at_as_tensors(kind: str, expected: float) -> None:
    """The scales of LayerNorm in vit_timm and swin: all ones."""
    data = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1, 4, 8]))
    ones = ir.Value(name="k", const_value=ir.tensor(np.ones((1, 1, 8), np.float32), name="k"))
    ones.shape, ones.type = ir.Shape([1, 1, 8]), data.type
    nodes = []
    for index, op_type in enumerate(("Exp", "Mul", "Exp")):
        inputs = [nodes[-1].outputs[0] if nodes else data, *([ones] if op_type == "Mul" else [])]
        result = ir.Value(name=f"y{index}", type=data.type, shape=data.shape)
        nodes.append(ir.node(op_type, inputs, outputs=[result], name=f"n{index}"))
    graph = ir.Graph([data], nodes[-1].outputs, nodes=nodes, initializers=[ones], opset_imports={"": 13}, name="g")
    model = ir.Model(graph, ir_version=8)
    placed = place(model, "bayes-e", PlacementOptions()).model
    feed = ArrayData({"x": np.random.default_rng(0).normal(size=(8, 4, 8)).astype(np.float32)})
    options = CalibrationOptions(calibration_type=kind)
    found = thresholds_of(run_calibration(model, placed, feed, options))
    assert found["k_HzCalibration"] == pytest.approx([expected])
    shared = collect(model, calibration_tensors(placed), feed, StatisticsOptions(kernels=Kernels.PLAIN))
    assert "k" not in shared.tensors  # as a sweep hands them on
    assert thresholds_of(run_calibration(model, placed, feed, options, statistics=shared)) == found
