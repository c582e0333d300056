"""Quotients, choices and sums in terms of what the BPU has."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import UnsupportedError
from engine.ir import MARK_SWAPPED
from engine.optimize.arithmetic import (
    DivToReciprocal,
    LargerFactorFirst,
    ShareArithmetic,
    SumToAdd,
    WhereToProducts,
)
from engine.terms import Compatibility
from tests.engine.optimize.equivalence import applied, build, census, operators, optimized
from tests.engine.optimize.networks import MAP, node, normal


def test_division_becomes_a_product() -> None:
    after = optimized(build([node("Exp", "x", "e"), node("Div", "x e", name="d")], MAP, ["y"]))
    assert [item.name for item in after.graph] == ["Exp_0", "d_reciprocal", "d_mul"]
    assert after.graph[1].outputs[0].name == "de_reciprocal"
    of_one = build([node("Exp", "x", "e"), node("Div", "one e")], MAP, ["y"], {"one": np.float32(1)})
    assert census(optimized(of_one)) == {"Exp": 1, "Reciprocal": 1}
    by_constant = build([node("Div", "x k")], {"x": (2, 5)}, ["y"], {"k": normal(5) + 4})
    assert census(optimized(by_constant)) == {"Mul": 1}


@pytest.mark.parametrize("constant", [False, True])
def test_a_choice_becomes_products(constant: bool) -> None:
    rng = np.random.default_rng(1)
    constants = {"zero": np.float32(0), "other": rng.normal(size=(1, 4, 8, 8)).astype(np.float32)}
    if constant:
        constants["c"] = rng.random((1, 4, 8, 8)) > 0.5
        before = build([node("Where", "c x other")], MAP, ["y"], constants)
        assert census(optimized(before)) == {"Mul": 1, "Add": 1}
    else:
        before = build([node("Greater", "x zero", "c"), node("Where", "c x other")], MAP, ["y"], constants)
        assert census(optimized(before)) == {"Greater": 1, "Cast": 2, "Equal": 1, "Mul": 2, "Add": 1}


def test_a_choice_of_infinity_stays() -> None:
    constants = {"zero": np.float32(0), "other": np.float32(-np.inf)}
    before = build([node("Greater", "x zero", "c"), node("Where", "c x other")], MAP, ["y"], constants)
    assert census(optimized(before)) == {"Greater": 1, "Where": 1}


def test_sum_becomes_additions() -> None:
    inputs = {"x": (2, 3), "u": (2, 3), "v": (2, 3)}
    after = optimized(build([node("Sum", "x u v", name="s")], inputs, ["y"]))
    assert census(after) == {"Add": 2}
    assert after.graph[1].name == "s_Add_2"
    assert census(optimized(build([node("Sum", "x", name="s"), node("Relu", "y", "z")], inputs, ["z"]))) == {"Relu": 1}
    broadcast = build([node("Sum", "x u")], {"x": (2, 3), "u": (3,)}, ["y"])
    assert census(optimized(broadcast)) == {"Add": 1}


@pytest.mark.parametrize(
    ("divisor", "expected"),
    [([2.0, 4.0], ["Mul"]), ([2.0, 0.0], ["Div"]), ([2.0, 1e-39], ["Div"]), ([2.0, 1e-38], ["Mul"])],
)
def test_a_constant_whose_inverse_is_finite_is_inverted(divisor: list[float], expected: list[str]) -> None:
    before = build([node("Div", "x k", name="d")], {"x": (1, 2)}, ["y"], {"k": np.float32(divisor)})
    _, after = applied(DivToReciprocal(), before, exact=False)
    assert operators(after) == expected
    if divisor[1] == 4.0:
        assert after.graph[0].inputs[1].const_value.numpy().tolist() == [0.5, 0.25]


def test_integers_are_divided() -> None:
    nodes = [node("Cast", "x", "i", to=7), node("Div", "i k", "d"), node("Cast", "d", to=1)]
    assert not applied(DivToReciprocal(), build(nodes, MAP, ["y"], {"k": np.int64([3])}))[0]


def test_one_over_a_smaller_tensor_keeps_its_product() -> None:
    nodes = [node("Exp", "x", "e"), node("Div", "one e")]
    for shape, expected in (((1,), ["Exp", "Reciprocal"]), ((2, 4, 8, 8), ["Exp", "Reciprocal", "Mul"])):
        before = build(list(nodes), MAP, ["y"], {"one": np.ones(shape, np.float32)})
        assert operators(applied(DivToReciprocal(), before)[1]) == expected


def test_where_that_replaces_what_is_undefined_stays() -> None:
    """Rows of an attention that are masked as a whole: their Softmax is undefined, and its product with zero too."""
    constants = {"mask": np.where(np.arange(8) < 4, 0.0, -np.inf).astype(np.float32), "k": np.float32(0.0)}
    nodes = [
        node("Add", "x mask", "s"),
        node("Softmax", "s", "p", axis=2),
        node("Greater", "x k", "c"),
        node("Where", "c k p"),
    ]
    _, after = applied(WhereToProducts(), build(nodes, MAP, ["y"], constants))
    assert operators(after) == ["Add", "Softmax", "Greater", "Where"]


@pytest.mark.parametrize(("inputs", "expected"), [("x x x", ["Add", "Add"]), ("x", ["Sum"]), ("x k", ["Add"])])
def test_sums_of_several_become_additions(inputs: str, expected: list[str]) -> None:
    constants = {"k": normal(4, 1, 1)} if "k" in inputs else {}
    _, after = applied(SumToAdd(), build([node("Sum", inputs, name="s")], MAP, ["y"], constants))
    assert operators(after) == expected
    assert [item.name for item in after.graph] == (
        ["s"] if expected == ["Sum"] else [f"s_Add_{n + 1}" for n in range(len(expected))]
    )


@pytest.mark.parametrize("shape", [(1, 4, 8, 8), (4, 8, 8), (1, 1, 4, 8, 8)])
def test_choices_become_products(shape: tuple[int, ...]) -> None:
    constants = {"c": np.random.default_rng(0).random(shape) > 0.5, "k": np.float32(3)}
    modified, after = applied(
        WhereToProducts(), build([node("Where", "c x k", name="w")], {"x": shape}, ["y"], constants)
    )
    assert modified
    assert [item.name for item in after.graph] == ["w_mul", "w_not_mul", "w_add"]


def test_a_computed_choice_casts_its_condition_twice() -> None:
    nodes = [node("Greater", "x k", "c"), node("Where", "c x k", name="w")]
    _, after = applied(WhereToProducts(), build(nodes, MAP, ["y"], {"k": np.float32(0.25)}))
    assert [item.name for item in after.graph][1:] == ["w_cast", "w_mul", "w_equal", "w_not_cast", "w_not_mul", "w_add"]


def test_constants_get_the_dimensions_of_the_result() -> None:
    """As ``Mul_91b.1.n1.weight_expand_dims`` of vit_sep."""
    nodes = [node("Mul", "x k", "m", name="Mul_1"), node("Add", "m b", name="Add_2")]
    after = optimized(build(nodes, {"x": (2, 3, 5)}, ["y"], {"k": normal(5), "b": normal(3, 1)}))
    constants = [(item.inputs[1].name, tuple(item.inputs[1].shape)) for item in after.graph]
    assert constants == [("Mul_1k_expand_dims", (1, 1, 5)), ("Add_2b_expand_dims", (1, 3, 1))]


@pytest.mark.parametrize("op_type", ["Add", "Mul"])
@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ("g x", "x g"),
        ("x g", "x g"),
        ("x x", "x x"),
        ("k x", "x k"),
        ("k g", "g k"),
        ("whole x", "whole x"),
        ("less x", "x less"),
    ],
)
def test_the_operand_that_is_broadcast_comes_last(op_type: str, operands: str, expected: str) -> None:
    """A constant of fewer dimensions counts as broadcast, though it has as many elements."""
    _, *sizes = MAP["x"]
    constants = {"k": normal(1, 1, *sizes[1:]), "whole": normal(1, *sizes), "less": normal(*sizes)}
    before = build([node("GlobalAveragePool", "x", "g"), node(op_type, operands, name="m")], MAP, ["y"], constants)
    _, after = applied(LargerFactorFirst(), before)
    (product,) = (item for item in after.graph if item.name == "m")
    assert [value.name for value in product.inputs if value] == expected.split()


@pytest.mark.parametrize(
    ("op_type", "second", "compatibility", "left"),
    [
        ("Add", "z x", Compatibility.CLEAN, 1),
        ("Sub", "x z", Compatibility.CLEAN, 1),
        ("Sub", "z x", Compatibility.ORIGINAL, 1),
        ("Sub", "z x", Compatibility.CLEAN, 2),
        ("Mul", "x z", Compatibility.ORIGINAL, 2),
    ],
)
def test_equal_sums_and_differences_are_one(op_type: str, second: str, compatibility: Compatibility, left: int) -> None:
    nodes = [node(op_type, "x z", "a"), node(op_type, second, "b"), node("Abs", "a", "y0"), node("Neg", "b", "y1")]
    before = build(nodes, {"x": (1, 3, 2, 2), "z": (1, 3, 2, 2)}, ["y0", "y1"])
    after = ShareArithmetic(compatibility)(before).model
    found = [item for item in after.graph if item.op_type == op_type]
    assert len(found) == left
    swapped = (op_type, second, left) == ("Sub", "z x", 1)
    assert [MARK_SWAPPED in item.metadata_props for item in found] == [swapped] * left


@pytest.mark.parametrize(("compatibility", "outputs"), [("original", ["z", "a"]), ("clean", ["z", "b"])])
def test_an_output_that_equals_a_tensor_before_it_has_its_name(compatibility: str, outputs: list[str]) -> None:
    nodes = [node("Relu", "x", "a"), node("Abs", "a", "z"), node("Relu", "x", "b")]
    after = ShareArithmetic(Compatibility(compatibility))(build(nodes, {"x": (1, 3, 2, 2)}, ["z", "b"])).model
    assert [value.name for value in after.graph.outputs] == outputs


def test_two_outputs_that_are_equal_are_refused_by_name() -> None:
    nodes = [node("Relu", "x", "a", name="A"), node("Relu", "x", "b", name="B")]
    before = build(nodes, {"x": (1, 3, 2, 2)}, ["a", "b"])
    with pytest.raises(UnsupportedError, match=r"outputs a and b \(nodes A, B\).*output_nodes.*clean"):
        ShareArithmetic()(before)
    after = ShareArithmetic(Compatibility.CLEAN)(build(nodes, {"x": (1, 3, 2, 2)}, ["a", "b"])).model
    assert [value.name for value in after.graph.outputs] == ["a", "b"]
