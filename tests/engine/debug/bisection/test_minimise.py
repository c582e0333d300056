"""The node at fault, cut out with the sample that shows it best."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from engine.debug.bisection.bisect import Material, PairReport, bisect
from engine.debug.bisection.minimise import minimise
from engine.debug.bisection.stages import StageName
from engine.errors import ModelError
from engine.ir import MARK_MARCH, constant_of, node_by_name
from engine.quantize import quantize
from engine.simulate import Session
from tests.engine.calibrate.models import DATA, add_calibration, calibrated_residual, residual


def found(material: Material) -> PairReport:
    bad = bisect(material).first_bad
    assert bad is not None
    return bad


def test_a_faulty_node_of_a_float_stage() -> None:
    faulty = residual()
    weight = constant_of(faulty.graph.initializers["w1"]).copy()
    weight[2] *= 2
    faulty.graph.initializers["w1"].const_value = ir.tensor(weight, name="w1")
    material = Material({StageName.ORIGINAL: residual(), StageName.OPTIMIZED: faulty}, DATA)
    bad = found(material)
    case = minimise(bad, material)
    assert [node.name for node in case.model.graph] == ["conv1"]
    (x,) = case.inputs.values()
    assert x.shape[2:] == (1, 1)
    np.testing.assert_allclose(Session(case.model).run(case.inputs)[case.model.graph.outputs[0].name], case.actual)
    assert not np.allclose(case.actual, case.expected)


def test_the_sample_with_the_largest_difference_is_taken() -> None:
    faulty = residual()
    node = node_by_name(faulty, ["relu0"])["relu0"]
    node.op_type = "Abs"
    feed = {"x": DATA["x"].copy() * 0.01}
    feed["x"][4] *= 1000
    material = Material({StageName.ORIGINAL: residual(), StageName.OPTIMIZED: faulty}, feed)
    case = minimise(found(material), material)
    assert np.abs(case.actual - case.expected).max() > 1


def test_a_threshold_of_a_weight() -> None:
    optimized, calibrated = residual(), residual()
    add_calibration(calibrated, "w1", thresholds=[100.0] * 4, scales=[100 / 127] * 4)
    material = Material({StageName.OPTIMIZED: optimized, StageName.CALIBRATED: calibrated}, DATA)
    bad = found(material)
    assert bad.node == "w1_HzCalibration"
    case = minimise(bad, material)
    assert [node.op_type for node in case.model.graph] == ["HzCalibration"]
    np.testing.assert_array_equal(case.expected, next(iter(case.inputs.values())))


def test_an_integer_node() -> None:
    calibrated = calibrated_residual()
    assert calibrated.metadata_props[MARK_MARCH] == "bayes-e"
    quantized = quantize(calibrated, "bayes-e")
    node = next(node for node in quantized.graph if "Conv" in node.op_type)
    name = next(key for key in node.attributes if key.endswith("shift"))
    values = list(node.attributes[name].value)
    node.attributes[name] = ir.AttrInt64s(name, [value + 1 for value in values])
    material = Material({StageName.CALIBRATED: calibrated, StageName.QUANTIZED: quantized}, DATA)
    bad = found(material)
    case = minimise(bad, material)
    assert [item.name for item in case.model.graph] == [node.name] == [bad.node]
    assert not np.array_equal(case.actual, case.expected)


def test_a_stage_that_keeps_its_bound_has_nothing_to_minimise() -> None:
    material = Material({StageName.ORIGINAL: residual(), StageName.OPTIMIZED: residual()}, DATA)
    (pair,) = bisect(material).pairs
    with pytest.raises(ModelError, match="optimized is within its bound, so there is nothing to minimise"):
        minimise(pair, material)
    with pytest.raises(ModelError, match="is within its bound"):
        minimise(replace(pair, node="conv0"), material)
