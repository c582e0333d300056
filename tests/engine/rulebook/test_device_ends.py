"""The rules of the later steps, alone: what each looks for."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import pytest
from onnx import helper

from engine.chips import load_chip
from engine.ir import MARK_LATE, MARK_ON, mark, node_by_name
from engine.rulebook.device_ends import MOVEMENTS, PRODUCTS
from engine.rulebook.device_sites import DeviceSite, On, Place
from engine.rulebook.rule import Rule, Table
from engine.terms import Device
from tests.engine.place.networks import network, one


def decided(
    table: Table[DeviceSite, Place],
    nodes: Sequence[onnx.NodeProto],
    name: str,
    march: str = "bayes-e",
    on_bpu: Sequence[str] = (),
) -> Rule[DeviceSite, Place] | None:
    """What ``table`` says of the node ``name``, while those of ``on_bpu`` are on the BPU and others on the CPU."""
    model, chip = network(list(nodes)), load_chip(march)
    for node in node_by_name(model, [name, *on_bpu]).values():
        if node.name in on_bpu:
            mark(node, MARK_ON, Device.BPU)
    return table.decide(DeviceSite(node_by_name(model, [name])[name], chip), chip.family)


def moved(*readers: str) -> list[onnx.NodeProto]:
    """A Transpose of what the CPU computes, and what reads it."""
    nodes = [
        helper.make_node("Neg", ["c0"], ["n"], name="Neg"),
        helper.make_node("Transpose", ["n"], ["t"], name="Turned", perm=[0, 1, 3, 2]),
    ]
    return [*nodes, *(helper.make_node(each, ["t"], [each], name=each) for each in readers), one("Relu", "c0")]


@pytest.mark.parametrize("march", ["bayes-e", "bernoulli2"])
def test_a_movement_of_floats_that_the_cpu_reads_too_leaves_when_they_are_quantised(march: str) -> None:
    rule = decided(MOVEMENTS, moved("Tanh", "Abs"), "Turned", march, ["Turned", "Tanh"])
    assert rule is not None
    assert (rule.id, rule.then.on) == ("device.moved-floats", On.FLOATS)


def test_a_movement_that_the_bpu_alone_reads_stays() -> None:
    assert decided(MOVEMENTS, moved("Tanh", "Abs"), "Turned", "bayes-e", ["Turned", "Tanh", "Abs"]) is None


def test_a_movement_of_what_the_bpu_computes_stays() -> None:
    assert decided(MOVEMENTS, moved("Tanh", "Abs"), "Turned", "bayes-e", ["Neg", "Turned", "Tanh"]) is None


@pytest.mark.parametrize(("march", "found"), [("bernoulli2", "device.product-tail"), ("bayes-e", None)])
def test_bernoulli2_leaves_a_product_that_no_bpu_node_reads_late(march: str, found: str | None) -> None:
    rule = decided(PRODUCTS, [one("Mul", "c0", "c0")], "Middle", march)
    assert (None if rule is None else rule.id) == found
    assert rule is None or rule.then.on is On.LATE
    read = decided(
        PRODUCTS, [helper.make_node("Mul", ["c0", "c0"], ["p"], name="P"), one("Relu", "p")], "P", march, ["Middle"]
    )
    assert read is None


@pytest.mark.parametrize(("late", "found"), [(True, None), (False, "device.product-tail")])
def test_a_function_that_left_last_keeps_the_product_that_the_cpu_reads_too(late: bool, found: str | None) -> None:
    nodes = [helper.make_node("Mul", ["c0", "c0"], ["p"], name="P"), one("Elu", "p"), one("Relu", "p")]
    nodes[-1].name, nodes[-1].output[0] = "Other", "other"
    model, chip = network(nodes), load_chip("bernoulli2")
    named = node_by_name(model, ["P", "Middle"])
    mark(named["Middle"], MARK_LATE, "1" if late else None)
    rule = PRODUCTS.decide(DeviceSite(named["P"], chip), chip.family)
    assert (None if rule is None else rule.id) == found
