"""The registry: what it knows, and how attributes are read."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir
import pytest

import engine.ops
from engine.errors import ModelError, UnsupportedError
from engine.ops.add import AddRule
from engine.ops.core.base import Array, Attributes, BpuOperator, FloatRule, QuantizedOperator
from engine.ops.core.costs import CostKind
from engine.ops.core.schema import Schema
from engine.ops.registry import (
    MODULES,
    OPERATORS,
    RULE_BY_TYPE,
    STANDARD_OPERATORS,
    bpu_operator,
    has_bpu_operator,
    operator,
    read_attributes,
    rules_by_type,
)


def make_node(op_type: str, **attributes: object) -> ir.Node:
    return ir.node(op_type, [ir.Value(name="x")], attributes, domain="horizon", name="n")  # type: ignore[arg-type]  # any of the allowed kinds


def test_every_operator_is_listed_under_its_type() -> None:
    assert all(name == entry.op_type for name, entry in OPERATORS.items())
    assert len(OPERATORS) >= 29


def test_unknown_operator_is_named() -> None:
    with pytest.raises(UnsupportedError, match="horizon::HzNothing is not known"):
        operator("HzNothing")


def test_defaults_are_filled_in_and_lists_become_arrays() -> None:
    attributes = read_attributes(make_node("HzRequantize", output_scale=[5], output_right_shift=[2]))
    assert attributes["bits"] == 8
    assert attributes["output_scale"].dtype == np.int64
    assert attributes["data_format"] == "NHWC"


def test_missing_and_wrong_attributes_are_refused() -> None:
    with pytest.raises(ModelError, match="HzRequantize n: attribute output_right_shift is missing"):
        read_attributes(make_node("HzRequantize", output_scale=[5]))
    with pytest.raises(ModelError, match="attribute output_scale has kind int, expected ints"):
        read_attributes(make_node("HzRequantize", output_scale=5, output_right_shift=[2]))


def test_unknown_attribute_is_refused() -> None:
    """It was once ignored with a warning, and a pad's value was lost with it."""
    with pytest.raises(UnsupportedError, match="HzLut n: attribute surprise is not known and may change the result"):
        read_attributes(make_node("HzLut", surprise=1))


def test_records_of_the_original_are_known() -> None:
    attributes = read_attributes(make_node("HzSQuantizedConv", kernel_shape=[1, 1], input_scales=[0.25]))
    assert attributes["input_scales"].tolist() == [0.25]


def test_every_module_of_an_operator_is_registered() -> None:
    """A module that is not imported by the registry would be there for nobody, without a word."""
    found = {module.name for module in pkgutil.iter_modules(engine.ops.__path__) if not module.ispkg}
    assert {module.__name__.rpartition(".")[2] for module in MODULES} == found - {"registry"}


class Forgetful(QuantizedOperator):
    """Declares nothing that a backend needs."""

    op_type = "HzForgetful"
    attributes: ClassVar[Schema] = {}

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        return (np.asarray(inputs[0]),)


@pytest.mark.parametrize("entry", sorted(BpuOperator.__abstractmethods__))
def test_an_operator_without_an_entry_for_a_backend_cannot_be_registered(entry: str) -> None:
    with pytest.raises(TypeError, match=rf"Forgetful.*\b{entry}\b"):
        Forgetful()  # type: ignore[abstract]  # that is what is tested


def test_no_operator_lacks_an_entry_for_a_backend() -> None:
    lacking = {
        name: sorted(type(entry).__abstractmethods__)
        for name, entry in {**OPERATORS, **STANDARD_OPERATORS}.items()
        if type(entry).__abstractmethods__
    }
    assert lacking == {}


def test_float_types_have_a_rule_and_rules_an_operator() -> None:
    """Only what a rule decomposes becomes no operator of its own."""
    made = {name for entry in (*OPERATORS.values(), *STANDARD_OPERATORS.values()) for name in entry.float_types}
    assert made <= RULE_BY_TYPE.keys()
    left = {name: rule for name, rule in RULE_BY_TYPE.items() if name not in made}
    assert all(type(rule).decompose is not FloatRule.decompose for rule in left.values()), sorted(left)


def test_kinds_that_follow_from_weights_are_declared_by_nobody() -> None:
    declared = {entry.cost for entry in (*OPERATORS.values(), *STANDARD_OPERATORS.values())}
    assert declared.isdisjoint({CostKind.DEPTHWISE, CostKind.GROUPED})


def test_the_bpu_has_only_what_is_registered() -> None:
    x = ir.Value(name="x")
    assert bpu_operator(ir.node("Concat", [x])).op_type == "Concat"
    assert not has_bpu_operator(ir.node("Erf", [x]))
    assert not has_bpu_operator(ir.node("Concat", [x], domain="somebody.else"))
    with pytest.raises(UnsupportedError, match="node e: the BPU has no operator ::Erf"):
        bpu_operator(ir.node("Erf", [x], name="e"))
    with pytest.raises(UnsupportedError, match="HzNothing is not known"):
        has_bpu_operator(make_node("HzNothing"))


def test_a_float_type_has_one_rule() -> None:
    class OtherRule(AddRule):
        pass

    with pytest.raises(TypeError, match="AddRule and OtherRule are both for Add"):
        rules_by_type([AddRule(), OtherRule()])
