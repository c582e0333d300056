"""Calibration nodes that a file brings: taken out, what they say remembered."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from engine.errors import ModelError
from engine.frontend.prepared import given_thresholds, given_types, take_out_calibration
from engine.ir import HORIZON_DOMAIN
from tests.engine.calibrate.models import add_calibration, residual


def test_what_works_is_remembered_and_nothing_of_it_is_left() -> None:
    model = residual()
    add_calibration(model, "x", thresholds=[1.5], scales=[1.5 / 127])
    add_calibration(model, "r0", thresholds=[2.0], scales=[2.0 / 255], qtype="uint8")
    add_calibration(model, "c1", thresholds=[9.0], scales=[1.0], switch="OFF")
    add_calibration(model, "a")
    add_calibration(model, "w1", thresholds=[1.0, 2.0, 3.0, 4.0], scales=[1.0] * 4)
    take_out_calibration(model)
    assert given_thresholds(model) == {"x": [1.5], "r0": [2.0], "w1": [1.0, 2.0, 3.0, 4.0]}
    assert given_types(model) == {"r0": "uint8"}
    assert [node.op_type for node in model.graph] == [node.op_type for node in residual().graph]
    assert [[value.name for value in node.inputs] for node in model.graph] == [
        [value.name for value in node.inputs] for node in residual().graph
    ]
    assert HORIZON_DOMAIN not in model.opset_imports


def test_outputs_keep_their_names() -> None:
    model = residual()
    node = add_calibration(model, "y", thresholds=[3.0], scales=[1.0])
    model.graph.outputs[:] = node.outputs
    take_out_calibration(model)
    (output,) = model.graph.outputs
    assert (output.name, output.producer().name) == ("y_calibrated", "reshape")
    assert given_thresholds(model) == {"y_calibrated": [3.0]}


def test_another_operator_of_the_domain_keeps_it() -> None:
    model = residual()
    add_calibration(model, "x", thresholds=[1.0], scales=[1.0])
    model.graph.append(ir.node("HzSwish", [model.graph.outputs[0]], domain=HORIZON_DOMAIN, name="swish"))
    take_out_calibration(model)
    assert HORIZON_DOMAIN in model.opset_imports


def test_a_model_that_brings_nothing_says_nothing() -> None:
    model = residual()
    take_out_calibration(model)
    assert (given_thresholds(model), given_types(model), dict(model.metadata_props)) == ({}, {}, {})


def test_damaged_nodes_are_named() -> None:
    model = residual()
    add_calibration(model, "x", thresholds=["text"])
    with pytest.raises(ModelError, match="node 'x_HzCalibration': HzCalibration has an attribute of a wrong type"):
        take_out_calibration(model)
    model = residual()
    add_calibration(model, "x").replace_input_with(0, None)
    with pytest.raises(ModelError, match="node 'x_HzCalibration': HzCalibration has no input"):
        take_out_calibration(model)
