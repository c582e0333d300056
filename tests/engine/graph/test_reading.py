"""Who reads a tensor."""

from __future__ import annotations

import onnx_ir as ir
from onnx import helper

from engine.graph.reading import float_readers, sole_reader, used_once
from engine.place import place
from tests.engine.place.networks import network, one


def test_readers_are_seen_through_calibrations_and_an_output_has_no_only_one() -> None:
    placed = place(network([one("Sigmoid", "c0")]), "bayes-e").model
    nodes = {node.name: node for node in placed.graph}
    raw = nodes["Conv_0"].outputs[0]
    assert [reader.name for reader in float_readers(raw)] == ["Middle"]
    assert sole_reader(raw) is nodes["c0_HzCalibration"]
    last = nodes["Conv_9"].outputs[0]
    ir.node("Relu", [last])
    assert sole_reader(last) is None, "it is an output of the graph besides"


def test_a_tensor_that_is_read_twice_by_one_node_has_one_reader_and_several_uses() -> None:
    model = network([helper.make_node("Mul", ["c0", "c0"], ["m"], name="Square")])
    nodes = {node.name: node for node in model.graph}
    square, value = nodes["Square"], nodes["Conv_0"].outputs[0]
    assert sole_reader(value) is square
    assert sole_reader(value, once=True) is None
    assert not used_once(value)
    assert used_once(square.outputs[0])
    assert sole_reader(square.outputs[0], once=True) is nodes["Conv_9"]
