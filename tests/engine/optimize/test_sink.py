"""Reshapes and transposes move behind the arithmetic on what they rearrange."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from engine.optimize.affine_apart import mark_factors
from engine.optimize.sink import ELEMENTWISE, SinkReshape, SinkTranspose
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


def test_queries_of_rows_are_scaled_in_front_of_their_reshape() -> None:
    nodes = [
        node("MatMul", "x w", "m"),
        node("Reshape", "m shape", "r"),
        node("Transpose", "r", "t", perm=[0, 2, 1, 3]),
    ]
    constants = {"w": normal(6, 6), "shape": np.array([1, 4, 2, 3]), "half": np.float32(0.5)}
    before = build(
        [*nodes, node("Mul", "t half", "h"), node("Softmax", "h", axis=3)], {"x": (1, 4, 6)}, ["y"], constants
    )
    found = [item.op_type for item in optimized(before).graph]
    assert found.index("Conv", found.index("Conv") + 1) < len(found) - 1 - found[::-1].index("Reshape")


def test_a_slice_along_an_axis_that_stays_is_taken_from_the_map() -> None:
    nodes = [node("Slice", "r start end axis")]
    numbers = {"start": np.array([0]), "end": np.array([2]), "axis": np.array([1])}
    before = build(
        [node("Reshape", "x shape", "r"), *nodes], {"x": (1, 1, 6, 4)}, ["y"], {"shape": np.array([6, 4])} | numbers
    )
    assert [item.op_type for item in optimized(before).graph] == ["Slice", "Reshape"]


@pytest.mark.parametrize("shape", [[1, 6, 16], [2, 3, 16], [6, 1, 4, 4]])
def test_a_slice_stays_behind_a_reshape_that_joins_splits_or_moves_axes(shape: list[int]) -> None:
    """Area attention of YOLOv13n, whose tokens a Reshape makes a batch (its published log)."""
    numbers = {"start": np.array([0]), "end": np.array([2]), "axis": np.array([-1])}
    assert operators([node("Slice", "r start end axis")], shape=np.array(shape), **numbers) == ["Reshape", "Slice"]


def test_what_is_added_to_the_rows_of_a_gemm_joins_its_bias() -> None:
    """The prototypes of YOLOv13n (its published log)."""
    nodes = [
        node("Gemm", "x w b", "g"),
        node("Reshape", "g s", "r"),
        node("Add", "k r", "a"),
        node("Softmax", "a", axis=2),
    ]
    constants = {"w": normal(6, 8), "b": normal(8), "s": np.array([1, 2, 4]), "k": normal(1, 2, 4)}
    assert "Add" not in census(optimized(build(nodes, {"x": (1, 6)}, ["y"], constants)))


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


@pytest.mark.parametrize(("shape", "sinks"), [((1, 8, 8, 4), False), ((8, 8, 1), True), ((4,), True)])
def test_a_transpose_stays_in_front_of_a_sum_with_a_map_of_constants(shape: tuple[int, ...], sinks: bool) -> None:
    nodes = [node("Transpose", "x", "t", perm=[0, 2, 3, 1]), node("Add", "t c")]
    modified, after = applied(SinkTranspose(), build(nodes, MAP, ["y"], {"c": normal(*shape)}))
    assert (modified, kinds(after)) == (sinks, ["Add", "Transpose"] if sinks else ["Transpose", "Add"])


@pytest.mark.parametrize(
    ("before", "after", "conv", "sinks"),
    [
        ((1, 4, 6, 2), (1, 4, 12, 1), {}, True),
        ((1, 4, 6, 2), (1, 4, 1, 12), {}, True),
        ((1, 4, 12, 1), (1, 4, 6, 2), {}, True),
        ((1, 4, 6, 2), (1, 4, 3, 4), {}, False),
        ((1, 4, 12, 1), (1, 4, 1, 12), {}, False),
        ((1, 2, 6, 4), (1, 4, 12, 1), {}, False),
        ((1, 4, 12), (1, 4, 6, 2), {}, False),
        ((1, 4, 6, 2), (1, 4, 12, 1), {"group": 4}, False),
        ((1, 4, 6, 2), (1, 4, 12, 1), {"strides": [2, 1]}, False),
    ],
)
def test_the_reshape_of_a_map_to_a_line_passes_a_convolution_of_pixels(
    before: tuple[int, ...], after: tuple[int, ...], conv: dict[str, object], sinks: bool
) -> None:
    nodes = [node("Reshape", "x s", "r"), node("Conv", "r w", kernel_shape=[1, 1], **conv)]
    weight = normal(4, 4 // int(str(conv.get("group", 1))), 1, 1)
    modified, result = applied(SinkReshape(), build(nodes, {"x": before}, ["y"], {"s": np.array(after), "w": weight}))
    assert (modified, kinds(result)) == (sinks, ["Conv", "Reshape"] if sinks else ["Reshape", "Conv"])


@pytest.mark.parametrize(("after", "sinks"), [((1, 4, 12), True), ((1, 4, 12, 1), False)])
@pytest.mark.parametrize("nodes", [[node("Add", "r q")], [node("Mul", "r k")]])
def test_a_reshape_of_as_many_axes_passes_arithmetic_of_one_tensor_only(
    nodes: list[onnx.NodeProto], after: tuple[int, ...], sinks: bool
) -> None:
    constants = {"s": np.array(after), "k": normal(1, 1, *after[2:])}
    before = build(
        [node("Reshape", "x s", "r"), node("Reshape", "z s", "q"), *nodes],
        {"x": (1, 4, 6, 2), "z": (1, 4, 6, 2)},
        ["y"],
        constants,
    )
    assert applied(SinkReshape(), before)[0] == sinks


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("shape", [(), (8, 1, 1)])
def test_a_transpose_passes_a_factor_that_no_earlier_round_left(shape: tuple[int, ...], left: bool) -> None:
    nodes = [node("Relu", "x", "r"), node("Transpose", "r", "t", perm=[0, 2, 1, 3]), node("Mul", "t k")]
    model = build(nodes, MAP, ["y"], {"k": np.float32(1.5) if not shape else normal(*shape)})
    if left:
        mark_factors(model)
    assert applied(SinkTranspose(), model)[0] != left
