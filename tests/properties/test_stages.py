"""Each stage of a conversion is equivalent to the one before it, on generated networks."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from numpy.typing import NDArray

from engine.compile import load_bin as load_bin
from engine.frontend import colour
from engine.ir import ACTIVATION_QUANT_ATTRS, calibration_nodes, load_model, save_model, to_bytes
from engine.optimize import optimize
from engine.simulate import Session
from tests.engine.frontend.images import as_trained, to_model_input
from tests.properties.stages import MARCHES, Stages, evidence
from tests.strategies.graphs import GraphCase, graph_cases
from tests.strategies.images import ImageCase, image_cases

UNIT_ROUNDOFF = float(np.finfo(np.float32).eps)


def outputs(model: ir.Model, name: str, data: NDArray, mode: str = "fast") -> NDArray:
    """The only output of ``model`` for a batch of inputs."""
    (result,) = Session(model, mode=mode).run({name: data}).values()
    return result


def float_tolerance(model: ir.Model, reference: NDArray) -> float:
    """Bound on the rounding of a float32 network: every operator may lose a few units in the last place."""
    operations = sum(1 for _ in model.graph)
    largest = float(np.max(np.abs(reference), initial=0.0))
    return 64 * operations * UNIT_ROUNDOFF * max(largest, 1e-6)


def feature_map_stages(case: GraphCase, march: str) -> Stages:
    return Stages(case.model, case.calibration, march)


@given(case=image_cases())
def test_original_equals_source_with_preprocessing_by_hand(case: ImageCase) -> None:
    """HzPreprocess on the run-time image = the source on the training image, mean and scale applied by hand."""
    spec = case.spec
    trained = colour.convert_colour(case.pixels, spec.type_train, spec.type_train)
    stages = Stages(case.model, trained, "bayes-e", (spec,))
    runtime = colour.convert_colour(case.pixels, spec.type_train, spec.type_rt)
    fed = to_model_input(runtime, spec)
    mean = np.reshape(np.asarray(spec.mean or (0.0,), np.float32), (-1, 1, 1))
    scale = np.reshape(np.asarray(spec.scale or (1.0,), np.float32), (-1, 1, 1))
    seen = as_trained(runtime, spec).transpose(0, 3, 1, 2)
    by_hand = (seen.astype(np.float32) - mean) * scale
    with evidence("original", stages, case.blocks, "original_float", pixels=case.pixels):
        expected = outputs(stages.source, "x", by_hand)
        actual = outputs(stages.original, "x", fed)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(expected).max())))


@pytest.mark.parametrize("march", MARCHES)
@given(case=graph_cases())
def test_optimized_equals_original(march: str, case: GraphCase) -> None:
    stages = feature_map_stages(case, march)
    with evidence("optimized", stages, case.blocks, "optimized_float", samples=case.samples):
        expected = outputs(stages.original, "x", case.samples)
        actual = outputs(stages.optimized, "x", case.samples)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=float_tolerance(stages.original, expected))


@pytest.mark.parametrize("march", MARCHES)
@given(case=graph_cases())
def test_optimizing_twice_changes_nothing(march: str, case: GraphCase) -> None:
    stages = feature_map_stages(case, march)
    with evidence("optimize_twice", stages, case.blocks, "optimized_float"):
        assert to_bytes(optimize(stages.optimized, march)) == to_bytes(stages.optimized)


@pytest.mark.parametrize("march", MARCHES)
@given(case=graph_cases())
def test_calibrated_with_all_switches_off_equals_optimized(march: str, case: GraphCase) -> None:
    stages = feature_map_stages(case, march)
    with evidence("switches_off", stages, case.blocks, "calibrated", samples=case.samples):
        switched_off = stages.calibrated.clone()
        for node in calibration_nodes(switched_off):
            node.attributes["switch"] = ir.AttrString("switch", "OFF")
        expected = outputs(stages.optimized, "x", case.samples)
        np.testing.assert_array_equal(outputs(switched_off, "x", case.samples), expected)


@pytest.mark.parametrize("march", MARCHES)
@given(case=graph_cases())
def test_fast_simulator_equals_reference(march: str, case: GraphCase) -> None:
    stages = feature_map_stages(case, march)
    with evidence("fast", stages, case.blocks, "simulate", samples=case.samples):
        expected = outputs(stages.quantized, "x", case.samples, mode="reference")
        np.testing.assert_array_equal(outputs(stages.quantized, "x", case.samples), expected)
        one_by_one = np.concatenate([outputs(stages.quantized, "x", x[None]) for x in case.samples])
        np.testing.assert_array_equal(one_by_one, expected)


@pytest.mark.parametrize("march", MARCHES)
@given(case=graph_cases())
def test_bin_equals_quantized(march: str, case: GraphCase, tmp_path_factory: pytest.TempPathFactory) -> None:
    stages = feature_map_stages(case, march)
    path = tmp_path_factory.mktemp("bin") / "model.bin"
    with evidence("bin", stages, case.blocks, "bin", samples=case.samples):
        stages.compiled.save(path)
        expected = outputs(stages.quantized, "x", case.samples)
        (actual,) = Session(path).run({"x": case.samples}).values()
        np.testing.assert_array_equal(actual, expected)
        assert load_bin(path).to_bytes() == path.read_bytes()


@pytest.mark.parametrize("stage", ["source", "original", "optimized", "placed", "calibrated", "quantized"])
@given(case=graph_cases(max_blocks=2))
def test_saving_and_loading_changes_nothing(
    stage: str, case: GraphCase, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stages = feature_map_stages(case, "bayes-e")
    with evidence("save_load", stages, case.blocks, stage):
        model = getattr(stages, stage)
        path = save_model(model, tmp_path_factory.mktemp("files") / "model.onnx")
        assert to_bytes(load_model(path)) == to_bytes(model)


@pytest.mark.parametrize("march", MARCHES)
@given(case=graph_cases())
def test_every_activation_of_a_bpu_node_has_one_threshold(march: str, case: GraphCase) -> None:
    """After calibration no threshold is missing, zero, negative, infinite or NaN, and scales follow from them."""
    stages = feature_map_stages(case, march)
    with evidence("thresholds", stages, case.blocks, "calibrated"):
        for node in calibration_nodes(stages.calibrated):
            thresholds = np.asarray(node.attributes["thresholds"].value, np.float32)
            assert thresholds.size >= 1
            assert np.all(np.isfinite(thresholds))
            assert np.all(thresholds > 0)
            if node.attributes["quant_attrs"].value == ACTIVATION_QUANT_ATTRS:
                assert thresholds.size == 1
