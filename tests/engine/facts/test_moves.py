"""What moves values, and what computes with them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from engine.facts.moves import (
    first_wanted,
    is_computed_with,
    is_exact_sum,
    is_passive,
    is_wanted,
    keeps_scale,
    moved_from,
    moved_to,
    moves_sums,
)
from engine.ir import MARK_ON
from engine.terms import Device
from tests.engine.place.networks import network


def test_movements_of_several_kinds() -> None:
    x = ir.Value(name="x", shape=ir.Shape([1, 4, 8, 8]))
    found = {
        kind: [bool(question(ir.node(kind, [x]))) for question in (is_passive, keeps_scale, moves_sums)]
        for kind in ("Transpose", "MaxPool", "Concat", "Relu")
    }
    assert found == {
        "Transpose": [True, True, True],
        "MaxPool": [True, True, False],
        "Concat": [True, False, False],
        "Relu": [False, False, False],
    }


def moved() -> ir.Model:
    """``c0`` is moved twice and then squared; what is moved once is an operand of a sum too."""
    shape = np.array((1, 4, 64))
    nodes = [
        helper.make_node("Reshape", ["c0", "flat"], ["r"], name="There"),
        helper.make_node("Reshape", ["r", "full"], ["s"], name="Back"),
        helper.make_node("Add", ["s", "c0"], ["m"], name="Sum"),
    ]
    return network(nodes, constants={"flat": shape, "full": np.array((1, 4, 8, 8))})


def test_values_are_followed_there_and_back() -> None:
    nodes = {node.name: node for node in moved().graph}
    first, last = nodes["Conv_0"].outputs[0], nodes["Back"].outputs[0]
    assert [value.name for value in moved_to(first, keeps_scale)] == ["c0", "r", "s"]
    assert moved_from(last, keeps_scale) is first
    assert moved_from(first, keeps_scale) is first


@pytest.mark.parametrize(("reads", "computed"), [("Add", True), ("Mul", False)])
def test_only_what_counts_computes(reads: str, computed: bool) -> None:
    nodes = {node.name: node for node in moved().graph}
    back = nodes["There"].outputs[0]
    counted = (reads, "Reshape")
    assert is_computed_with(back, lambda node: node.op_type in counted, keeps_scale) is computed


@pytest.mark.parametrize(
    ("behind", "exact"),
    [([], True), ([("Reshape", "BPU")], True), ([("Reshape", "CPU")], True), ([("Sigmoid", "BPU")], False)],
)
def test_a_sum_is_exact_unless_the_bpu_computes_with_it(behind: list[tuple[str, str]], exact: bool) -> None:
    value = ir.Value(name="s")
    ir.node("GlobalAveragePool", [ir.Value(name="x")], outputs=[value], metadata_props={MARK_ON: Device.BPU})
    last = value
    for kind, device in behind:
        moved = ir.Value(name="t")
        ir.node(kind, [last, ir.Value(name="k")], outputs=[moved], metadata_props={MARK_ON: device})
        last = moved
    assert is_exact_sum(value) is exact
    assert is_exact_sum(last) is (exact and all(device == Device.BPU for _, device in behind))


@pytest.mark.parametrize(
    ("reader", "wanted", "first"),
    [
        (helper.make_node("Transpose", ["c0"], ["r"], name="R", perm=[0, 1, 3, 2]), False, "r"),
        (helper.make_node("MaxPool", ["c0"], ["r"], name="R", kernel_shape=[1, 1]), True, None),
        (helper.make_node("Split", ["c0"], ["r", "q"], name="R", axis=1), True, None),
        (helper.make_node("Relu", ["c0"], ["r"], name="R"), True, None),
    ],
)
def test_what_is_wanted_in_integers(reader: onnx.NodeProto, wanted: bool, first: str | None) -> None:
    model = network([reader, helper.make_node("Exp", ["r"], ["m"], name="Middle")])
    for node in model.graph:
        node.metadata_props[MARK_ON] = Device.BPU
    order = {node: index for index, node in enumerate(model.graph)}
    (value,) = (value for node in model.graph for value in node.outputs if value.name == "c0")
    assert is_wanted(value) is wanted
    found = first_wanted(value, order)
    assert (None if found is None else found.name) == first


def test_a_pool_that_only_a_movement_reads_waits_for_it() -> None:
    nodes = [
        helper.make_node("MaxPool", ["c0"], ["p"], name="Pool", kernel_shape=[1, 1]),
        helper.make_node("Transpose", ["p"], ["r"], name="Turn", perm=[0, 1, 3, 2]),
        helper.make_node("Exp", ["r"], ["m"], name="Middle"),
    ]
    model = network(nodes)
    for node in model.graph:
        node.metadata_props[MARK_ON] = Device.BPU
    order = {node: index for index, node in enumerate(model.graph)}
    (value,) = (value for node in model.graph for value in node.outputs if value.name == "c0")
    assert not is_wanted(value)
    found = first_wanted(value, order)
    assert found is not None
    assert found.name == "r"


@pytest.mark.parametrize(("joined", "first"), [(False, "a"), (True, "b")])
def test_what_another_concat_joins_counts_last_of_what_a_concat_gives(joined: bool, first: str) -> None:
    """Two halves, of which a Concat that only a movement reads joins the first."""
    bounds = {name: np.array([value]) for name, value in (("none", 0), ("half", 2), ("all", 4), ("axis", 1))}
    nodes = [helper.make_node("Concat", ["c0", "c0"], ["j"], name="Head", axis=1)] if joined else []
    head = "j" if joined else "c0"
    nodes += [
        helper.make_node("Slice", [head, "none", "half", "axis"], ["a"], name="First"),
        helper.make_node("Slice", [head, "half", "all", "axis"], ["b"], name="Second"),
        helper.make_node("Exp", ["b"], ["e"], name="Table"),
        helper.make_node("Concat", ["a", "e"], ["t"], name="Join", axis=1),
        helper.make_node("Transpose", ["t"], ["r"], name="Turn", perm=[0, 1, 3, 2]),
        helper.make_node("Exp", ["r"], ["m"], name="Middle"),
    ]
    model = network(nodes, constants=bounds)
    for node in model.graph:
        node.metadata_props[MARK_ON] = Device.BPU
    order = {node: index for index, node in enumerate(model.graph)}
    (value,) = (value for node in model.graph for value in node.outputs if value.name == head)
    found = first_wanted(value, order)
    assert found is not None
    assert found.name == first
