"""Differences between quantised models are found, counted and named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from engine.ir import load_model
from engine.quantize.diff import UNPAIRED, Aspect, diff

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "conversions"


@pytest.fixture
def model() -> ir.Model:
    return load_model(GOLDEN / "res.quant.onnx")


def node(model: ir.Model, name: str) -> ir.Node:
    return next(item for item in model.graph if item.name == name)


def test_a_model_equals_its_copy(model: ir.Model) -> None:
    assert diff(model, model.clone()) == []


def test_a_changed_integer_is_counted(model: ir.Model) -> None:
    other = model.clone()
    weight = node(other, "Conv_1").inputs[1]
    assert weight is not None
    assert weight.const_value is not None
    array = weight.const_value.numpy().copy()
    array[0, 0, 0, :2] += 1
    weight.const_value = ir.tensor(array, name=weight.name)
    (found,) = diff(model, other)
    assert (found.aspect, found.where, found.elements, found.total) == (Aspect.INTEGERS, "Conv_1", 2, array.size)


def test_attributes_are_compared_element_by_element(model: ir.Model) -> None:
    other = model.clone()
    changed = node(other, "Conv_2")
    shifts = np.array(changed.attributes["out_shift"].as_ints())
    shifts[3] += 1
    changed.attributes["out_shift"] = ir.AttrInt64s("out_shift", shifts.tolist())
    del changed.attributes["use_bias"]
    found = {(item.what, item.elements) for item in diff(model, other) if item.aspect is Aspect.ATTRIBUTE}
    assert found == {("out_shift", 1), ("use_bias", 1)}


def test_names_do_not_decide_what_is_compared(model: ir.Model) -> None:
    other = model.clone()
    node(other, "Conv_1").name = "another"
    (found,) = diff(model, other)
    assert (found.aspect, found.first, found.second) == (Aspect.NAME, "Conv_1", "another")


def test_another_operator_ends_the_walk_and_leaves_nodes_unpaired(model: ir.Model) -> None:
    other = model.clone()
    node(other, "Conv_5").op_type = "HzSQuantizedPreprocess"
    found = diff(model, other)
    assert {item.aspect for item in found} == {Aspect.STRUCTURE}
    assert "Conv_0" in {item.where for item in found}


def test_what_nobody_reads_is_paired_by_name(model: ir.Model) -> None:
    def with_cast(kind: int) -> ir.Model:
        other = model.clone()
        cast = ir.node("Cast", [node(other, "Conv_1").outputs[0]], {"to": kind}, name="unread")
        other.graph.insert_after(node(other, "Conv_1"), cast)
        return other

    assert diff(with_cast(7), with_cast(7)) == []
    (found,) = diff(with_cast(7), with_cast(6))
    assert (found.aspect, found.where, found.what) == (Aspect.ATTRIBUTE, "unread", "to")
    (only,) = diff(with_cast(7), model)
    assert (only.aspect, only.where, only.what) == (Aspect.STRUCTURE, "unread", UNPAIRED)


def test_empty_places_of_integer_operators_do_not_count(model: ir.Model) -> None:
    other = model.clone()
    changed = node(other, "Conv_5")
    inputs = [*changed.inputs[:2], None, *changed.inputs[2:]]
    changed.resize_inputs(len(inputs))
    for index, value in enumerate(inputs):
        changed.replace_input_with(index, value)
    assert diff(model, other) == []


def test_floats_are_told_from_integers_and_types_from_values(model: ir.Model) -> None:
    name, value = next((n, v) for n, v in model.graph.initializers.items() if v.dtype == ir.DataType.FLOAT)
    assert value.const_value is not None
    array = value.const_value.numpy()
    for changed, aspect in ((array * np.float32(2), Aspect.FLOATS), (array.astype(np.float64), Aspect.TYPE)):
        other = model.clone()
        other.graph.initializers[name].const_value = ir.tensor(changed, name=name)
        assert {item.aspect for item in diff(model, other)} == {aspect}


def test_borders_are_compared_first(model: ir.Model) -> None:
    other = model.clone()
    other.graph.inputs[0].name, other.graph.outputs[0].shape = "renamed", ir.Shape((1, 2))
    found = diff(model, other)
    assert [item.aspect for item in found[:2]] == [Aspect.NAME, Aspect.TYPE]
    assert str(found[0]) == "name: graph input x : x | renamed"
