"""What the tables of types ask about nodes and tensors."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from engine.chips import load_chip
from engine.ir import node_by_name
from engine.place.devices import mark_placement
from engine.rulebook.width_sites import is_moved_in_int8, joins_operands, on_bpu_or_resized_late, rescaled_for
from tests.engine.place.networks import network, one


@pytest.mark.parametrize(
    ("op_type", "attributes", "moved_in_int8"),
    [
        ("GlobalMaxPool", {}, True),
        ("MaxPool", {"kernel_shape": [1, 1]}, False),
        ("Resize", {"mode": "nearest"}, True),
        ("Relu", {}, False),
    ],
)
def test_what_is_moved_in_int8(op_type: str, attributes: dict[str, object], moved_in_int8: bool) -> None:
    inputs = ("c0", "", "s") if op_type == "Resize" else ("c0",)
    model = network([one(op_type, *inputs, **attributes)], constants={"s": np.float32([1, 1, 2, 2])})
    node = node_by_name(model, ["Middle"])["Middle"]
    assert not is_moved_in_int8(node.outputs[0])
    mark_placement(model, load_chip("bayes-e"))
    assert is_moved_in_int8(node.outputs[0]) is moved_in_int8
    assert on_bpu_or_resized_late(node)


def test_a_concat_joins_its_operands() -> None:
    model = network([helper.make_node("Relu", ["c0"], ["r"], name="Relu"), one("Concat", "c0", "r", axis=1)])
    found = node_by_name(model, ["Relu", "Middle"])
    assert [joins_operands(found[name]) for name in ("Relu", "Middle")] == [False, True]


@pytest.mark.parametrize(
    ("before", "others", "rescaled"), [("Add", (), True), ("Add", ("Relu",), False), ("Abs", (), False)]
)
def test_a_result_is_rescaled_for_its_only_reader(before: str, others: tuple[str, ...], rescaled: bool) -> None:
    operands = ["c0"] * (2 if before == "Add" else 1)
    nodes = [helper.make_node(before, operands, ["b"], name="Before"), one("MaxPool", "b", kernel_shape=[1, 1])]
    model = network([*nodes, *(helper.make_node(each, ["b"], [each], name=each) for each in others)])
    mark_placement(model, load_chip("bayes-e"))
    assert rescaled_for(node_by_name(model, ["Middle"])["Middle"], {}) is rescaled
