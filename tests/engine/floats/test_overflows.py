"""A Mish that is not a number where exponentials of float32 overflow, and what is measured of it."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

from engine.calibrate import ArrayData, CalibrationOptions, run_calibration
from engine.calibrate.statistics.collection import StatisticsOptions, collect
from engine.floats.float_model import FloatSession
from engine.floats.overflows import LARGEST_EXPONENT, with_overflows
from engine.ir import HORIZON_DOMAIN
from engine.place import place
from engine.terms import CalibrationType, Compatibility
from tests.conftest import ROOT

CASES = sorted((ROOT / "tests" / "parity" / "recorded" / "overflows").iterdir())
VALUES = np.array([-200.0, -3.0, 0.5, 20.0, 88.5, LARGEST_EXPONENT, 88.73, 300.0], np.float32).reshape(1, 2, 2, 2)


def mish(behind: str = "Relu") -> ir.Model:
    """Input ``x``, Mish ``m`` and a node ``y`` behind it."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 2, 2))
    m = helper.make_tensor_value_info("m", TensorProto.FLOAT, (1, 2, 2, 2))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2, 2, 2))
    nodes = [
        helper.make_node("HzMish", ["x"], ["m"], name="mish", domain=HORIZON_DOMAIN),
        helper.make_node(behind, ["m"], ["y"], name="behind"),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], value_info=[m])
    opsets = [helper.make_opsetid("", 11), helper.make_opsetid(HORIZON_DOMAIN, 1)]
    return ir.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=8))


def test_the_limit_is_the_largest_number_whose_exponential_is_finite() -> None:
    with np.errstate(over="ignore"):
        assert np.isfinite(np.exp(LARGEST_EXPONENT))
        assert np.isinf(np.exp(np.nextafter(LARGEST_EXPONENT, np.float32(100))))


def test_large_values_become_nan_and_all_others_keep_their_bits() -> None:
    model = mish("Identity")
    exact = FloatSession(model, ["m"]).run({"x": VALUES})["m"]
    found = FloatSession(with_overflows(model), ["m", "y"]).run({"x": VALUES})
    assert np.array_equal(np.isnan(found["m"]), VALUES > LARGEST_EXPONENT)
    kept = VALUES <= LARGEST_EXPONENT
    assert np.array_equal(found["m"][kept], exact[kept])
    assert np.array_equal(found["y"], found["m"], equal_nan=True)


def test_the_model_itself_is_not_changed() -> None:
    model = mish()
    with_overflows(model)
    assert [node.op_type for node in model.graph] == ["HzMish", "Relu"]
    assert [value.name for node in model.graph for value in node.outputs] == ["m", "y"]


def test_a_network_without_a_mish_stays_what_it_is() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 11]> g (float[1] x) => (float[1] y) { y = Relu(x) }'
    )
    model = ir.from_proto(proto)
    assert with_overflows(model) is model


def test_the_result_of_a_mish_may_be_an_output() -> None:
    model = mish()
    model.graph.outputs.append(model.graph.node(0).outputs[0])
    found = FloatSession(with_overflows(model)).run({"x": VALUES})
    assert np.array_equal(np.isnan(found["m"]), VALUES > LARGEST_EXPONENT)


@pytest.mark.parametrize(
    ("compatibility", "largest"),
    [(Compatibility.ORIGINAL, float(LARGEST_EXPONENT)), (Compatibility.CLEAN, 300.0)],
)
def test_what_is_not_a_number_is_not_measured_unless_the_conversion_is_clean(
    compatibility: Compatibility, largest: float
) -> None:
    options = StatisticsOptions.covering([CalibrationOptions(compatibility=compatibility)])
    found = collect(mish(), ["x", "m"], {"x": VALUES}, options)
    assert found.tensors["x"].pooled.maximum == 300.0
    assert found.tensors["m"].pooled.maximum == pytest.approx(largest)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_recorded_cases_pass_the_limit(case: Path) -> None:
    """One in which nothing does would agree without the rule."""
    model = onnx.load(case / "model.onnx")
    (first,) = [node.output[0] for node in model.graph.node if node.op_type == "Softplus"][:1]
    read = next(node.input[0] for node in model.graph.node if first in node.output)
    model.graph.output.append(helper.make_tensor_value_info(read, TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    samples = [np.fromfile(file, np.float32).reshape(given.shape) for file in sorted((case / "cal_0").iterdir())]
    assert max(session.run([read], {given.name: sample})[0].max() for sample in samples) > LARGEST_EXPONENT


@pytest.mark.parametrize(("compatibility", "told"), [(Compatibility.ORIGINAL, 1), (Compatibility.CLEAN, 0)])
def test_a_calibration_tells_of_it(compatibility: Compatibility, told: int, caplog: pytest.LogCaptureFixture) -> None:
    optimized, options = mish(), CalibrationOptions(compatibility=compatibility)
    placed = place(optimized, "bayes-e").model
    with caplog.at_level(logging.WARNING):
        run_calibration(optimized, placed, ArrayData({"x": VALUES}), options)
    lines = [record.getMessage() for record in caplog.records if "Mish" in record.getMessage()]
    assert len(lines) == told
    assert all(line.startswith("Node mish (Mish) reads values of up to 300: ") for line in lines)


@pytest.mark.parametrize(("compatibility", "tells"), [(Compatibility.ORIGINAL, False), (Compatibility.CLEAN, True)])
def test_an_output_that_is_no_number_on_the_last_sample_tells_mix_nothing(
    compatibility: Compatibility, tells: bool, caplog: pytest.LogCaptureFixture
) -> None:
    optimized = mish("Identity")
    placed = place(optimized, "bayes-e").model
    data = np.random.default_rng(0).normal(0, 4, (6, 2, 2, 2)).astype(np.float32)
    data[-1, 0, 0, 0] = 120
    options = CalibrationOptions(calibration_type=CalibrationType.MIX, compatibility=compatibility)
    with caplog.at_level(logging.INFO):
        run_calibration(optimized, placed, ArrayData({"x": data}), options)
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Calculate top")]
    assert len(lines) == 2
    assert [not line.startswith("Calculate top0 ") for line in lines] == [tells] * 2
