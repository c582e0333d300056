from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from engine.debug.analysis.variants import FLOAT, switch
from engine.debug.bisection.integer_error import PARTS, NodeError, error_table, integer_errors
from engine.debug.bisection.stages import StageName
from engine.floats.float_model import FloatSession, Kernels
from engine.ir import load_model, shape_of
from engine.quantize import quantize
from tests.engine.debug.bisection.test_bisect import Conversion
from tests.engine.debug.models import MARCH, zoo


@pytest.mark.parametrize("name", ["mnist_lenet", "mnist_mobilenet", "mnist_resnet8"])
def test_parts_sum_to_the_error_of_the_integer_model(name: str) -> None:
    calibrated, feed = zoo(name)
    errors = integer_errors(calibrated, quantize(calibrated, MARCH), feed)
    assert len(errors) > 5
    plain = calibrated.clone()
    switch(plain, FLOAT)
    floats = FloatSession(plain, [error.tensor for error in errors], kernels=Kernels.PLAIN, max_batch=1).run(feed)
    for error in errors:
        assert tuple(error.parts) == PARTS
        np.testing.assert_allclose(sum(error.parts.values()), error.total, atol=1e-9)
        assert sum(error.shares.values()) == pytest.approx(error.mse, rel=1e-9, abs=1e-15)
        assert np.abs(error.total).max() < 0.2 * np.abs(floats[error.tensor]).max()
    lines = error_table(errors).splitlines()
    assert [line.split()[0] for line in lines[1:]] == [error.node for error in errors]


@pytest.mark.nightly
@pytest.mark.reference
def test_every_quantised_operator_has_its_error_and_the_parts_sum(reference_dir: Path) -> None:
    """On the original's models: each operator that stands for a float node has an entry."""
    covered: set[str] = set()
    operators: set[str] = set()
    for file in sorted((reference_dir / "golden" / "conversions").glob("*.quant.onnx")):
        calibrated = load_model(file.with_name(file.name.replace(".quant.", ".calib.")))
        quantized = load_model(file)
        rng = np.random.default_rng(0)
        feed = {
            str(value.name): rng.uniform(0.1, 2, shape_of(value)).astype(np.float32)
            for value in calibrated.graph.inputs
        }
        errors = integer_errors(calibrated, quantized, feed)
        assert errors, file.name
        for error in errors:
            parts = np.sum(list(error.parts.values()), axis=0)
            known = np.isfinite(parts)  # not so behind the square root of a negative value
            assert known.all() or "Sqrt" in file.name
            np.testing.assert_allclose(parts[known], error.total[known], rtol=1e-9, atol=1e-9)
        tensors = {error.tensor for error in errors}
        for node in quantized.graph:
            if node.domain == "horizon":
                operators.add(node.op_type)
                names = (str(value.name).removesuffix("_quantized") for value in node.outputs)
                if not tensors.isdisjoint(names):
                    covered.add(node.op_type)
    # Of the last two, each is one step among several that stand for one float node (Softmax, Concat).
    assert operators - covered == {"HzQuantize", "HzQuantizedReduceMax", "HzRequantize"}


def test_accumulators_of_last_convolutions_are_split_too(tmp_path: Path) -> None:
    conversion = Conversion(0, tmp_path)
    stages = conversion.make()
    errors = integer_errors(stages[StageName.CALIBRATED], stages[StageName.QUANTIZED], {"image": conversion.images})
    last = next(error for error in errors if error.tensor == "out")
    assert last.units.shape == (1, 5, 1, 1)
    assert np.isfinite(last.units).all()
    assert last.shares["clipping"] == last.shares["rounding"] == 0
    assert last.shares["inherited"] > 0


def test_rounding_is_half_a_unit_and_a_small_threshold_clips(tmp_path: Path) -> None:
    conversion = Conversion(0, tmp_path)
    calibrated = conversion.make()[StageName.CALIBRATED]
    unit = calibration_node(calibrated).attributes["scales"].as_floats()[0]
    assert np.abs(error_of_r0(conversion, calibrated).parts["rounding"]).max() <= unit / 2 + 1e-9
    narrow = calibrated.clone()
    node = calibration_node(narrow)
    for key in ("thresholds", "scales"):
        node.attributes.add(ir.AttrFloat32s(key, [node.attributes[key].as_floats()[0] / 8]))
    shares = error_of_r0(conversion, narrow).shares
    assert max(shares, key=lambda name: shares[name]) == "clipping"


def calibration_node(model: ir.Model) -> ir.Node:
    return next(node for node in model.graph if node.name == "r0_HzCalibration")


def error_of_r0(conversion: Conversion, calibrated: ir.Model) -> NodeError:
    errors = integer_errors(calibrated, quantize(calibrated, MARCH), {"image": conversion.images})
    return next(error for error in errors if error.tensor == "r0")
