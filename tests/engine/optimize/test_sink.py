"""Reshapes move behind the arithmetic on what they reshape."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from engine.optimize.sink import ELEMENTWISE, SinkReshape, SinkTranspose, _Correspondence
from tests.engine.optimize.equivalence import applied, build, census, optimized
from tests.engine.optimize.equivalence import operators as kinds
from tests.engine.optimize.networks import MAP, node, normal

ROWS = {"x": (1, 6, 4, 4)}


def operators(nodes: list[onnx.NodeProto], **constants: np.ndarray) -> list[str]:
    before = build([node("Softmax", "x", "s", axis=1), node("Reshape", "s shape", "r"), *nodes], ROWS, ["y"], constants)
    return [item.op_type for item in optimized(before).graph][1:]


@pytest.mark.parametrize(
    ("nodes", "last"),
    [
        ([node("Sigmoid", "r")], "Sigmoid"),
        ([node("Sigmoid", "r", "s"), node("Mul", "r s")], "HzSwish"),
        ([node("Sigmoid", "r", "s"), node("Sub", "r s")], "Sub"),
        ([node("Exp", "x", "e"), node("Reshape", "e shape", "q"), node("Div", "r q")], "Mul"),
    ],
)
def test_reshapes_of_all_operands_sink(nodes: list[onnx.NodeProto], last: str) -> None:
    before = build([node("Reshape", "x shape", "r"), *nodes], MAP, ["y"], {"shape": np.array([1, 4, -1])})
    after = optimized(before)
    assert [item.op_type for item in after.graph][-2:] == [last, "Reshape"]
    assert census(after)["Reshape"] == 1


def test_reshapes_do_not_sink_where_one_operand_is_not_reshaped() -> None:
    before = build(
        [node("Reshape", "x shape", "r"), node("Add", "r z")],
        {**MAP, "z": (64,)},
        ["y"],
        {"shape": np.array([1, 4, 64])},
    )
    assert [item.op_type for item in optimized(before).graph] == ["Reshape", "Add"]


@pytest.mark.parametrize("shape", [(), (1,), (6, 1), (1, 6, 16)])
def test_constants_are_reshaped_with_the_tensor(shape: tuple[int, ...]) -> None:
    add = [node("Add", "r k", "a"), node("Softmax", "a", axis=1)]
    assert operators(add, shape=np.array([1, 6, 16]), k=normal(*shape))[:2] != ["Reshape", "Add"]


@pytest.mark.parametrize(
    ("target", "constant"),
    [((6, 1, 16), (6, 1, 16)), ((2, 3, 16), (3, 1)), ((1, 1, 1, 96), (96,))],
)
def test_constants_that_would_change_their_axis_keep_the_reshape_in_front(
    target: tuple[int, ...], constant: tuple[int, ...]
) -> None:
    nodes = [node("Add", "r k", "a"), node("Softmax", "a", axis=1)]
    assert operators(nodes, shape=np.array(target), k=normal(*constant))[:2] == ["Reshape", "Add"]


def test_a_normalisation_over_an_axis_that_stays_is_computed_on_the_map() -> None:
    nodes = [node("ReduceMean", "r", "m", axes=[1], keepdims=1), node("Sub", "r m", "d"), node("Softmax", "d", axis=1)]
    assert operators(nodes, shape=np.array([1, 6, 16])) == ["ReduceMean", "Sub", "Reshape", "Softmax"]


def test_a_reduction_over_a_joined_axis_is_not() -> None:
    nodes = [node("ReduceMean", "r", axes=[2], keepdims=1)]
    assert operators(nodes, shape=np.array([1, 6, 16])) == ["Reshape", "ReduceMean"]


def test_a_product_with_a_matrix_is_computed_on_the_map() -> None:
    nodes = [
        node("Transpose", "r", "t", perm=[0, 2, 1]),
        node("MatMul", "t w", "p"),
        node("Transpose", "p", "u", perm=[0, 2, 1]),
        node("Softmax", "u", axis=1),
    ]
    assert operators(nodes, shape=np.array([1, 6, 16]), w=normal(6, 3)) == ["Conv", "Reshape", "Softmax"]


def test_names_are_those_of_the_original() -> None:
    nodes = [
        node("Softmax", "x", "s", axis=1),
        node("Reshape", "s k", "r"),
        node("Relu", "r", "a", name="R"),
        node("Softmax", "a", axis=1),
    ]
    after = optimized(build(nodes, ROWS, ["y"], {"k": np.array([1, 6, 16])}))
    _, relu, reshape, _ = after.graph
    assert (relu.outputs[0].name, reshape.name, reshape.outputs[0].name) == ("a_reshape", "Ra_Reshape_0", "a")
    assert reshape.inputs[1].name == "Ra_Reshape_0_shape"


def test_a_slice_along_an_axis_that_stays_is_taken_from_the_map() -> None:
    nodes = [node("Slice", "r start end axis")]
    numbers = {"start": np.array([0]), "end": np.array([2]), "axis": np.array([1])}
    assert operators(nodes, shape=np.array([1, 6, 16]), **numbers) == ["Slice", "Reshape"]
    joined = {**numbers, "axis": np.array([-1])}
    assert operators(nodes, shape=np.array([1, 6, 16]), **joined) == ["Reshape", "Slice"]


@pytest.mark.parametrize(
    ("before", "after", "groups"),
    [
        ((2, 3, 4), (2, 12), (((0,), (0,)), ((1, 2), (1,)))),
        ((2, 12), (2, 3, 4), (((0,), (0,)), ((1,), (1, 2)))),
        ((6, 4), (4, 6), (((0, 1), (0, 1)),)),
        ((1, 6), (6,), (((0,), ()), ((1,), (0,)))),
        ((6,), (6, 1), (((0,), (0,)), ((), (1,)))),
        ((2, 3), (7,), None),
        ((0, 3), (0,), None),
    ],
)
def test_axes_that_hold_the_same_elements(before: tuple[int, ...], after: tuple[int, ...], groups: object) -> None:
    found = _Correspondence.between(before, after)
    assert (None if found is None else found.groups) == groups


def test_leaky_relu_lets_nothing_pass() -> None:
    assert "LeakyRelu" not in ELEMENTWISE
    for kind, last in (("Relu", "Reshape"), ("LeakyRelu", "LeakyRelu")):
        before = build([node("Reshape", "x s", "r"), node(kind, "r")], MAP, ["y"], {"s": np.asarray([4, 64])})
        modified, after = applied(SinkReshape(), before)
        assert (modified, kinds(after)[-1]) == (kind == "Relu", last)


@pytest.mark.parametrize(("other", "sinks"), [("c", True), ("t", True), ("z", False)])
def test_a_transpose_sinks_where_all_computed_operands_are_transposed(other: str, sinks: bool) -> None:
    nodes = [node("Transpose", "x", "t", perm=[0, 2, 3, 1]), node("Max", f"t {other}")]
    constants = {"c": normal(1, 8, 8, 4)} if other == "c" else {}
    inputs = MAP | ({"z": (1, 8, 8, 4)} if other == "z" else {})
    modified, after = applied(SinkTranspose(), build(nodes, inputs, ["y"], constants))
    assert (modified, kinds(after)) == (sinks, ["Max", "Transpose"] if sinks else ["Transpose", "Max"])
