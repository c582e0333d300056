"""Each stage is equivalent to the one before it, on networks of deployed forms with the options that people set."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.calibrate import CalibrationOptions, HistogramRule, StatisticsOptions, calibration_tensors, collect
from engine.compile.tiles import runs_of, tiled_model, tiles_of
from engine.ir import calibration_nodes
from engine.place import PlacementOptions
from engine.simulate import Session
from engine.terms import Device
from tests.properties.stages import MARCHES, Stages, evidence
from tests.strategies.deployed import DeployedCase, deployed_cases
from tests.strategies.graphs import GraphBuilder, GraphCase, finish, graph_cases, same_conv

Feed = dict[str, np.ndarray]
FEWER = settings(max_examples=max(3, settings.default.max_examples // 4))
"""These networks take several times as long as those of test_stages."""
SMALL_CHIP = 4096
"""Bytes of maps that a tile may hold."""
UNIT_ROUNDOFF = float(np.finfo(np.float32).eps)


def stages_of(case: DeployedCase, march: str, placement: PlacementOptions | None = None) -> Stages:
    return Stages(
        case.model, dict(case.calibration), march, placement=placement or PlacementOptions(), options=case.options
    )


def run(model: ir.Model, feed: Feed, mode: str = "fast") -> Feed:
    return Session(model, mode=mode).run(feed)


def assert_same(actual: Feed, expected: Feed) -> None:
    assert list(actual) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(actual[name], values, err_msg=name)


@pytest.mark.parametrize("march", MARCHES)
@FEWER
@given(case=deployed_cases())
def test_optimized_equals_original(march: str, case: DeployedCase) -> None:
    stages = stages_of(case, march)
    with evidence("deployed_optimized", stages, case.blocks, "optimized_float", **case.samples):
        expected, actual = run(stages.original, dict(case.samples)), run(stages.optimized, dict(case.samples))
        assert list(actual) == list(expected)
        for name, values in expected.items():
            bound = 64 * len(stages.original.graph) * UNIT_ROUNDOFF * max(float(np.abs(values).max(initial=0)), 1e-6)
            np.testing.assert_allclose(actual[name], values, rtol=1e-4, atol=bound, err_msg=name)


@pytest.mark.parametrize("march", MARCHES)
@FEWER
@given(case=deployed_cases(), chosen=st.none() | st.integers(0, 9))
def test_fast_and_bin_equal_the_reference(march: str, case: DeployedCase, chosen: int | None) -> None:
    """Also with an int16 convolution, where the march has it, and sample by sample."""
    wide = chosen is not None and march != "bernoulli2"
    stages = stages_of(case, march, case.int16(chosen or 0) if wide else None)
    with evidence("deployed_simulate", stages, case.blocks, "simulate", **case.samples):
        feed = dict(case.samples)
        expected = run(stages.quantized, feed, "reference")
        assert_same(run(stages.quantized, feed), expected)
        assert_same(run(stages.compiled.executable, feed), expected)
        first = {name: values[: case.batch] for name, values in feed.items()}
        alone = run(stages.quantized, first)
        for name, values in alone.items():
            np.testing.assert_array_equal(values, expected[name][: len(values)], err_msg=name)


@pytest.mark.parametrize("march", MARCHES)
@FEWER
@given(case=deployed_cases())
def test_every_threshold_is_a_positive_number(march: str, case: DeployedCase) -> None:
    stages = stages_of(case, march)
    with evidence("deployed_thresholds", stages, case.blocks, "calibrated"):
        for node in calibration_nodes(stages.calibrated):
            thresholds = np.asarray(node.attributes["thresholds"].value, np.float32)
            assert thresholds.size >= 1
            assert np.all(np.isfinite(thresholds) & (thresholds > 0)), node.name


@pytest.mark.parametrize("march", MARCHES)
@FEWER
@given(case=deployed_cases(max_blocks=2, samples=1, sides=(40, 64)))
def test_tiled_networks_equal_untiled_ones(march: str, case: DeployedCase) -> None:
    """On a chip so small that maps of this size are computed in several tiles, which is checked."""
    stages = stages_of(case, march)
    compiled = stages.compiled
    segments = [segment for segment in compiled.segments if segment.device is Device.BPU]
    found = [
        piece
        for segment, schedule in zip(segments, compiled.schedules, strict=True)
        for piece in runs_of(segment, schedule)
    ]
    assert any(len(tiles_of(piece, SMALL_CHIP)) > 1 for piece in found), "nothing is tiled"
    tiled = tiled_model(compiled.model, compiled.segments, compiled.schedules, SMALL_CHIP)
    with evidence("deployed_tiles", stages, case.blocks, "compile", **case.samples):
        assert_same(run(tiled, dict(case.samples)), run(stages.quantized, dict(case.samples)))


def uneven(case: GraphCase, seed: int) -> np.ndarray:
    """20 samples of which each is larger than the one before: what looks at the first ones alone sees too little."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(20, *case.calibration.shape[1:])).astype(np.float32)
    return base * np.linspace(0.1, 4.0, 20, dtype=np.float32).reshape(-1, 1, 1, 1)


@FEWER
@given(
    case=graph_cases(max_blocks=2),
    seed=st.integers(0, 2**16),
    batches=st.lists(st.integers(1, 8), min_size=1, max_size=3),
)
def test_statistics_do_not_depend_on_batches_or_order(case: GraphCase, seed: int, batches: list[int]) -> None:
    """max and percentiles, and kl with the order-independent histogram: from any order and batch size. kl as the
    original has it: from any batch size."""
    stages = Stages(case.model, case.calibration, "bayes-e")
    tensors, data = calibration_tensors(stages.placed), uneven(case, seed)
    shuffled = np.random.default_rng(seed).permutation(data)
    methods = [CalibrationOptions(), CalibrationOptions(max_percentile=0.99), CalibrationOptions(calibration_type="kl")]

    def found(samples: np.ndarray, rule: HistogramRule, batch: int) -> list[dict]:
        wanted = StatisticsOptions.covering(methods, rule, batch=batch)
        statistics = collect(stages.optimized, tensors, {"x": samples}, wanted)
        return [dict(statistics.thresholds(options)) for options in methods]

    with evidence("statistics", stages, case.blocks, "calibrated"):
        whole = found(data, HistogramRule.ORDER_INDEPENDENT, 8)
        original = found(data, HistogramRule.REFERENCE, 8)
        for batch in batches:
            assert found(shuffled, HistogramRule.ORDER_INDEPENDENT, batch) == whole
            assert found(data, HistogramRule.REFERENCE, batch) == original


def test_kl_of_the_original_does_depend_on_order() -> None:
    """The property above can fail: samples like its own tell orders apart where the rule does."""
    builder = GraphBuilder(13, 0, "normal")
    builder.shapes["x"] = (1, 2, 12, 12)
    model = finish(builder, (1, 2, 12, 12), same_conv(builder, same_conv(builder, "x", 2, 3), 2, 3))
    case = GraphCase(model, np.zeros((1, 2, 12, 12), np.float32), np.zeros((1, 2, 12, 12), np.float32), ())
    stages, data = Stages(model, case.calibration, "bayes-e"), uneven(case, 0)
    tensors, options = calibration_tensors(stages.placed), CalibrationOptions(calibration_type="kl")
    wanted = StatisticsOptions.covering([options])
    forwards, backwards = (
        collect(stages.optimized, tensors, {"x": samples}, wanted).thresholds(options) for samples in (data, data[::-1])
    )
    assert forwards != backwards
