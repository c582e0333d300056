"""What several tables of devices ask about a node, and the reason that a place carries."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from onnx import helper

from engine.chips import ChipFamily, load_chip
from engine.ir import MARK_ON, mark, node_by_name
from engine.ops.core.reasons import Code, sentence
from engine.rulebook.device import OPERATORS
from engine.rulebook.device_sites import NOT_READ_BY_BPU, DeviceSite, is_of_division, readers_of, reorders
from engine.terms import Device
from tests.engine.place.networks import network, one


def test_a_reason_has_the_parameters_of_its_sentence() -> None:
    middle = [helper.make_node("ReduceMean", ["c0"], ["r"], name="Mean", axes=[1]), one("Sub", "c0", "r")]
    (node,) = (node for node in network(middle).graph if node.name == "Mean")
    site = DeviceSite(node, load_chip("bernoulli2"))
    found = OPERATORS.decide(site, ChipFamily.BERNOULLI)
    assert found is not None
    assert found.id == "device.mean-of-normalisation"
    reason = found.then.reason(site)
    assert reason is not None
    assert reason.code is Code.NO_OPERATOR
    assert sentence(reason) == "bernoulli2 has no operator for ReduceMean"


def division(*further: str) -> dict[str, ir.Node]:
    """A product by a reciprocal, which ``further`` operators read as well."""
    nodes = [helper.make_node("Reciprocal", ["c0"], ["r"], name="Reciprocal"), one("Mul", "c0", "r")]
    nodes += [helper.make_node(op_type, ["r"], [op_type], name=op_type) for op_type in further]
    model = network(nodes)
    return node_by_name(model, ["Reciprocal", "Middle", *further])


def test_a_reciprocal_of_a_division_has_one_product_on_the_cpu_for_its_reader() -> None:
    chip, found = load_chip("bernoulli2"), division()
    assert is_of_division(DeviceSite(found["Reciprocal"], chip))
    assert not is_of_division(DeviceSite(found["Middle"], chip))
    assert not is_of_division(DeviceSite(found["Reciprocal"], chip, on_bpu={"Reciprocal"}))
    assert not is_of_division(DeviceSite(division("Relu")["Reciprocal"], chip))
    mark(found["Middle"], MARK_ON, Device.BPU)
    assert not is_of_division(DeviceSite(found["Reciprocal"], chip))


def test_a_node_is_read_by_the_bpu_where_one_of_its_readers_is_there() -> None:
    chip, found = load_chip("bayes-e"), division("Relu")
    assert {str(node.name) for node in readers_of(found["Reciprocal"])} == {"Middle", "Relu"}
    site = DeviceSite(found["Reciprocal"], chip)
    assert NOT_READ_BY_BPU.holds(site)
    mark(found["Relu"], MARK_ON, Device.BPU)
    assert not NOT_READ_BY_BPU.holds(site)


@pytest.mark.parametrize(("op_type", "moves"), [("Transpose", True), ("Relu", False)])
def test_values_are_moved_one_by_one_on_the_bpu_alone(op_type: str, moves: bool) -> None:
    (node,) = (node for node in network([one(op_type, "c0")]).graph if node.name == "Middle")
    assert not reorders(node)
    mark(node, MARK_ON, Device.BPU)
    assert reorders(node) is moves
