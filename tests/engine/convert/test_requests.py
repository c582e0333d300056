"""What a configuration asks of the stages, from several parameters that overlap."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.config import Config, parse_config
from engine.convert.requests import placement_options
from engine.convert.stages.calibrate import calibration_options
from engine.facts.devices import on_bpu
from engine.ir import calibration_of
from engine.place import NodeTypes, place
from tests.engine.optimize.equivalence import build


def network() -> ir.Model:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "first"),
        helper.make_node("Conv", ["c", "v"], ["y"], "second"),
    ]
    weights = {name: np.ones((4, 4, 1, 1), np.float32) for name in "wv"}
    return build(nodes, {"x": (1, 4, 5, 5)}, ["y"], weights)


def config(optimization: str = "", **model: Any) -> Config:
    return parse_config(
        {
            "model_parameters": {
                "onnx_model": "m.onnx",
                "march": "bayes-e",
                "output_model_file_prefix": "m",
                **model,
            },
            "input_parameters": {
                "input_type_train": "featuremap",
                "input_layout_train": "NCHW",
                "input_type_rt": "featuremap",
            },
            "calibration_parameters": {"calibration_type": "skip", "optimization": optimization},
        }
    )


def test_inputs_and_outputs_of_a_type_are_both_asked_for() -> None:
    found = placement_options(config("set_Conv_input_int16; set_Conv_output_int16"), network()).node_info
    assert found == dict.fromkeys(("first", "second"), NodeTypes(input_type="int16", output_type="int16"))


def test_requests_for_one_node_are_joined_and_node_info_wins() -> None:
    given = config(
        "set_Conv_input_int16",
        node_info={"first": {"ON": "BPU", "InputType": "int8"}},
        set_node_data_type={"first": "int16"},
    )
    found = placement_options(given, network()).node_info
    assert found["first"] == NodeTypes(on="BPU", input_type="int8", output_type="int16")
    assert found["second"] == NodeTypes(input_type="int16")


def test_a_type_that_the_model_has_not_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "engine.convert"):
        options = placement_options(config("set_MatMul_input_int16"), network())
    assert options.node_info == {}
    assert "optimization set_MatMul_input_int16 has no effect: the optimised model has no MatMul" in caplog.text


@pytest.mark.parametrize(("march", "asked"), [("bernoulli2", None), ("bayes", "int8"), ("bayes-e", "int8")])
def test_bernoulli2_leaves_outputs_as_they_are(march: str, asked: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """21 of 21 outputs of two networks are there what they are without the option, to the last integer."""
    with caplog.at_level(logging.WARNING, "engine.convert"):
        found = placement_options(config("set_model_output_int8", march=march), network())
    assert found.output_type == asked
    assert ("set_model_output_int8 has no effect on march bernoulli2" in caplog.text) is (asked is None)


def test_options_of_the_calibration_are_passed_on() -> None:
    options = calibration_options(config("asymmetric; set_model_output_int8"))
    assert (options.asymmetric, options.bias_correction) == (True, False)


def test_types_are_sent_to_the_bpu_but_for_nodes_that_are_placed_by_name(caplog: pytest.LogCaptureFixture) -> None:
    given = config("run_Conv_on_bpu; run_Relu_on_bpu", node_info={"second": {"ON": "CPU"}})
    with caplog.at_level(logging.WARNING, "engine.convert"):
        assert placement_options(given, network()).run_on_bpu == {"first"}
    assert "run_Relu_on_bpu has no effect: the optimised model has no Relu" in caplog.text


def test_8_bits_of_either_side_ask_for_the_bpu_but_for_nodes_that_are_placed_by_name() -> None:
    """Published configurations join both by a comma; ``optimization`` of the zoo's YOLO networks."""
    given = config("set_Conv_input_int8,set_Conv_output_int8", node_info={"second": {"ON": "CPU"}})
    found = placement_options(given, network()).node_info
    assert found == {"first": NodeTypes(on="BPU", input_type="int8"), "second": NodeTypes(on="CPU")}


def test_16_bits_of_the_other_side_stay_whatever_the_order() -> None:
    for given in ("set_Conv_output_int8;set_Conv_input_int16", "set_Conv_input_int16;set_Conv_output_int8"):
        found = placement_options(config(given), network()).node_info
        assert found == dict.fromkeys(("first", "second"), NodeTypes(on="BPU", input_type="int16"))


def test_16_bits_for_all_nodes_leave_what_is_asked_of_one() -> None:
    found = placement_options(
        config("set_all_nodes_int16", node_info={"second": {"InputType": "int8"}}), network()
    ).node_info
    assert found == {"first": NodeTypes(input_type="int16", by_name=False), "second": NodeTypes(input_type="int8")}


def test_an_option_without_effect_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "engine.convert"):
        assert placement_options(config("lstm_batch_last"), network()).node_info == {}
    assert "optimization lstm_batch_last has no effect" in caplog.text


@pytest.mark.parametrize("asked", ["set_Softmax_input_int8", "set_Softmax_input_int8,set_Softmax_output_int8"])
def test_softmax_runs_on_the_bpu_in_8_bits(asked: str) -> None:
    """As published logs of YOLO13 show (``hb_mapper_log_yolo13n.txt`` of the public model zoo for bayes-e)."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "first"),
        helper.make_node("Softmax", ["c"], ["s"], "soft", axis=3),
        helper.make_node("Conv", ["s", "v"], ["y"], "second"),
    ]
    model = build(nodes, {"x": (1, 4, 5, 5)}, ["y"], {name: np.ones((4, 4, 1, 1), np.float32) for name in "wv"})
    assert [on_bpu(node) for node in place(model, "bayes-e").model.graph if node.op_type == "Softmax"] == [False]
    placed = place(model, "bayes-e", placement_options(config(asked), model)).model
    parts = [node for node in placed.graph if node.name.endswith("_FROM_QUANTIZED_SOFTMAX")]
    assert [node.op_type for node in parts] == ["ReduceMax", "Sub", "Exp", "ReduceSum", "Reciprocal", "Mul"]
    assert all(map(on_bpu, parts))
    found = [calibration_of(value) for node in parts for value in node.inputs]
    assert {calibration.qtype for calibration in found if calibration is not None} == {"int8"}
