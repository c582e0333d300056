"""The rules of calibrations, alone: which decide over which."""

from __future__ import annotations

import pytest
from onnx import helper

from engine.chips import ChipFamily, load_chip
from engine.ir import MARK_ON
from engine.place.devices import mark_placement
from engine.rulebook.calibrated import INPUTS, RESULTS, Calibrate, Input, Result
from tests.engine.place.networks import network, one


@pytest.mark.parametrize(
    ("march", "op_type", "typed", "rule", "then"),
    [
        ("bayes-e", "Neg", None, "calibrated.result", Calibrate.YES),
        ("bayes-e", "Relu", None, "calibrated.accumulator", Calibrate.NO),
        ("bayes-e", "Relu", "int8", "calibrated.requested", Calibrate.YES),
        ("bernoulli2", "Relu", None, "calibrated.result", Calibrate.YES),
        ("bayes-e", "Transpose", None, "calibrated.moved", Calibrate.NO),
    ],
)
def test_a_result_at_the_end(march: str, op_type: str, typed: str | None, rule: str, then: Calibrate) -> None:
    model = network([one(op_type, "c0")], tail=False)
    chip = load_chip(march)
    mark_placement(model, chip)
    nodes = {node.name: node for node in model.graph}
    nodes["Middle"].metadata_props[MARK_ON] = "BPU"
    chain = [nodes["Conv_0"], nodes["Middle"]] if op_type == "Relu" else [nodes["Middle"]]
    found = RESULTS.decide(Result(chain, chip, {}, typed), load_chip(march).family)
    assert found is not None
    assert (found.id, found.then) == (rule, then)


def test_an_int32_sum_that_is_only_moved_is_calibrated_once_a_type_is_asked_of_it() -> None:
    pool = helper.make_node("GlobalAveragePool", ["c0"], ["p"], name="Pool")
    model = network([pool, one("Sigmoid", "p")], tail=False)
    mark_placement(model, load_chip("bayes-e"))
    nodes = {node.name: node for node in model.graph}
    nodes["Middle"].metadata_props[MARK_ON] = "CPU"
    value = nodes["Pool"].outputs[0]
    asked = ({}, {value: "int16"})
    found = [INPUTS.decide(Input(value, nodes["Middle"], types), ChipFamily.BAYES) for types in asked]
    assert [rule and rule.id for rule in found] == ["calibrated.exact-sum", "calibrated.input"]
