"""Transposes move behind arithmetic, where they meet those that undo them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from engine.errors import UnsupportedError
from engine.optimize.dense import MARK_PRODUCT
from engine.optimize.transposes import (
    CancelAroundReshape,
    ReshapeBeforeTransposes,
    ReshapeToTranspose,
    ShareMovements,
    TransposeToReshape,
    axes_without_ones,
    keeps_order,
)
from engine.terms import Compatibility
from tests.engine.optimize.equivalence import applied, build, census, operators, optimized
from tests.engine.optimize.networks import node, normal

TO_LAST, TO_SECOND = [0, 2, 3, 1], [0, 3, 1, 2]
SHAPE = (1, 6, 4, 5)


def enclosed(*middle: onnx.NodeProto, first: str = "x", last: str = "m") -> list[onnx.NodeProto]:
    return [node("Transpose", first, "t", perm=TO_LAST), *middle, node("Transpose", last, perm=TO_SECOND)]


def transposes(nodes: list[onnx.NodeProto], outputs: tuple[str, ...] = ("y",), **constants: np.ndarray) -> int:
    after = optimized(build(nodes, {"x": SHAPE, "z": SHAPE}, list(outputs), constants))
    return census(after).get("Transpose", 0)


@pytest.mark.parametrize("shape", [(), (6,), (5, 1), (4, 5, 1), (1, 4, 1, 6)])
def test_constants_of_every_rank_are_permuted(shape: tuple[int, ...]) -> None:
    nodes = enclosed(node("Add", "t c", "s"), node("Max", "s d", "m"))
    assert transposes(nodes, c=normal(*shape), d=normal(*shape)) == 0


def test_normalisation_over_the_last_axis() -> None:
    middle = [
        node("ReduceMean", "t", "mean", axes=[-1], keepdims=1),
        node("Sub", "t mean", "d"),
        node("Mul", "d d", "q"),
        node("ReduceMean", "q", "v", axes=[3], keepdims=1),
        node("Add", "v e", "w"),
        node("Sqrt", "w", "r"),
        node("Div", "d r", "n"),
        node("Mul", "n g", "m"),
    ]
    assert transposes(enclosed(*middle), e=np.float32(1e-5), g=normal(6)) == 0


def test_two_transposed_operands_and_two_ends() -> None:
    nodes = [
        node("Transpose", "x", "t", perm=TO_LAST),
        node("Transpose", "z", "u", perm=TO_LAST),
        node("Mul", "t u", "p"),
        node("Transpose", "p", perm=TO_SECOND),
        node("Tanh", "p", "h"),
        node("Transpose", "h", "y2", perm=TO_SECOND),
    ]
    assert transposes(nodes, ("y", "y2")) == 0


@pytest.mark.parametrize(
    ("nodes", "outputs", "left"),
    [
        (enclosed(node("Relu", "t", "m")), ("y", "m"), 1),
        ([node("Reshape", "z shape", "z2"), *enclosed(node("Add", "t z2", "m"))], ("y",), 2),
        (enclosed(node("Softmax", "t", "m", axis=3)), ("y",), 2),
        (enclosed(node("LeakyRelu", "t", "m")), ("y",), 2),
        (enclosed(node("ReduceMean", "t", "m", keepdims=1)), ("y",), 2),
    ],
)
def test_what_is_read_or_computed_otherwise(nodes: list[onnx.NodeProto], outputs: tuple[str, ...], left: int) -> None:
    assert transposes(nodes, outputs, shape=np.array([1, 4, 5, 6])) == left


def test_a_transpose_passes_a_factor_per_channel_in_its_first_round() -> None:
    after = optimized(build(enclosed(node("Mul", "t k", "m")), {"x": SHAPE}, ["y"], {"k": normal(4, 1, 1)}))
    assert [item.op_type for item in after.graph] == ["Mul"]


def test_a_factor_that_a_round_left_is_a_convolution_behind_the_next_transpose() -> None:
    nodes = [
        node("Relu", "x", "r"),
        node("Transpose", "r", "t", perm=TO_LAST),
        node("ReduceMean", "t", "m", axes=[3], keepdims=1),
        node("Transpose", "m", "u", perm=TO_SECOND),
        node("Mul", "u k"),
    ]
    after = optimized(build(nodes, {"x": SHAPE}, ["y"], {"k": np.float32(1.5)}))
    assert [item.op_type for item in after.graph] == ["Relu", "ReduceMean", "Transpose", "Conv", "Transpose"]


def test_names_are_those_of_the_original() -> None:
    nodes = [node("Transpose", "x", "t", perm=TO_LAST), node("Add", "t c", "s", name="A"), node("Softmax", "s", axis=3)]
    after = optimized(build(nodes, {"x": SHAPE}, ["y"], {"c": normal(4, 5, 1)}))
    add, transpose, _ = after.graph
    assert (add.outputs[0].name, transpose.name, transpose.outputs[0].name) == ("s_transpose", "A_s_Transpose", "s")


def test_transposes_that_only_move_single_axes_become_part_of_a_reshape() -> None:
    turned = [node("Softmax", "x", "s", axis=1), node("Transpose", "s", "t", perm=TO_LAST)]
    after = optimized(build([*turned, node("Reshape", "t k")], {"x": (1, 6, 1, 1)}, ["y"], {"k": np.array([6, 1])}))
    assert [item.op_type for item in after.graph] == ["Softmax", "Reshape"]
    alone = optimized(build([*turned, node("Softmax", "t", axis=3)], {"x": (1, 6, 1, 1)}, ["y"]))
    assert [item.op_type for item in alone.graph] == ["Softmax", "Transpose", "Softmax"]


def test_a_reshape_that_moves_single_axes_becomes_part_of_the_transpose_behind_it() -> None:
    nodes = [node("Softmax", "x", "s", axis=1), node("Reshape", "s k", "r"), node("Transpose", "r", perm=TO_SECOND)]
    after = optimized(build(nodes, {"x": (4, 1, 5, 6)}, ["y"], {"k": np.array([1, 4, 5, 6])}))
    assert [item.op_type for item in after.graph] == ["Softmax", "Transpose"]


def test_rows_between_two_transposes_are_reshaped_once() -> None:
    nodes = [
        node("Softmax", "x", "s", axis=1),
        node("Transpose", "s", "t", perm=[0, 2, 1]),
        node("Reshape", "t k", "r"),
        node("Transpose", "r", perm=TO_SECOND),
    ]
    after = optimized(build(nodes, {"x": (1, 6, 8)}, ["y"], {"k": np.array([1, 1, 8, 6])}))
    assert [item.op_type for item in after.graph] == ["Softmax", "Reshape"]


def test_equal_movements_of_a_tensor_are_shared() -> None:
    nodes = [
        node("Softmax", "x", "s", axis=1),
        node("Transpose", "s", "t", perm=TO_LAST),
        node("Transpose", "s", "u", perm=TO_LAST),
        node("Softmax", "t", axis=1),
        node("Softmax", "u", "y2", axis=2),
    ]
    assert transposes(nodes, ("y", "y2")) == 1


def test_dense_layers_of_a_channels_last_block_become_convolutions() -> None:
    middle = [node("MatMul", "t w", "a"), node("Add", "a b", "c"), node("Relu", "c", "r"), node("MatMul", "r v", "m")]
    after = optimized(
        build(enclosed(*middle), {"x": SHAPE}, ["y"], {"w": normal(6, 8), "b": normal(8), "v": normal(8, 6)})
    )
    assert [item.op_type for item in after.graph] == ["Conv", "Relu", "Conv"]


@pytest.mark.parametrize(
    ("shape", "perm", "expected"),
    [
        ((1, 6, 1, 5), [0, 2, 1, 3], True),
        ((1, 6, 1, 5), [3, 0, 1, 2], False),
        ((2, 1, 5), [1, 0, 2], True),
        ((2, 2), [1, 0], False),
    ],
)
def test_moving_axes_of_one_element_keeps_the_order(shape: tuple[int, ...], perm: list[int], expected: bool) -> None:
    model = build([node("Transpose", "x", perm=perm)], {"x": shape}, ["y"])
    assert keeps_order(model.graph[0]) is expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node("Transpose", "x", perm=[0, 2, 1, 3], name="t")], ["Transpose"]),
        ([node("Transpose", "x", "t", perm=[0, 2, 1, 3], name="t"), node("Reshape", "t s")], ["Reshape", "Reshape"]),
        ([node("Reshape", "x q", "r"), node("Transpose", "r", perm=[0, 2, 1, 3], name="t")], ["Reshape", "Reshape"]),
        ([node("Transpose", "x", "t", perm=[0, 3, 1, 2], name="t"), node("Reshape", "t s")], ["Transpose", "Reshape"]),
    ],
)
def test_only_beside_a_reshape_it_becomes_one(nodes: list[onnx.NodeProto], expected: list[str]) -> None:
    used = {name for proto in nodes for name in proto.input}
    constants = {"s": np.asarray([30]), "q": np.asarray([1, 3, 1, 10])}
    before = build(
        nodes, {"x": (1, 6, 1, 5)}, ["y"], {name: array for name, array in constants.items() if name in used}
    )
    modified, after = applied(TransposeToReshape(), before)
    assert (modified, operators(after)) == (expected == ["Reshape", "Reshape"], expected)
    if modified:
        assert "t_reshape" in [item.name for item in after.graph]


@pytest.mark.parametrize(
    ("target", "perm", "expected"),
    [([6, 1, 1, 5], [0, 3, 1, 2], [1, 0, 2, 3]), ([1, 5, 1, 6], [0, 3, 1, 2], None), ([6, 5], [1, 0], None)],
)
def test_a_reshape_that_moves_single_axes_is_a_transpose_in_front_of_one(
    target: list[int], perm: list[int], expected: list[int] | None
) -> None:
    nodes = [node("Reshape", "x s", "r"), node("Transpose", "r", perm=perm)]
    modified, after = applied(ReshapeToTranspose(), build(nodes, {"x": (1, 6, 1, 5)}, ["y"], {"s": np.asarray(target)}))
    assert modified == (expected is not None)
    if expected is not None:
        assert operators(after) == ["Transpose", "Transpose"]
        assert list(after.graph[0].attributes["perm"].value) == expected


@pytest.mark.parametrize("beside", ["Transpose", "Relu"])
def test_a_reshape_that_moves_single_axes_is_a_transpose_behind_one_alone(beside: str) -> None:
    first = node("Transpose", "x", "t", perm=[0, 2, 3, 1]) if beside == "Transpose" else node("Relu", "x", "t")
    nodes = [first, node("Reshape", "t s", "y", name="r")]
    shape, target = {"x": (1, 6, 1, 5)}, [1, 5, 1, 6] if beside == "Transpose" else [6, 1, 1, 5]
    modified, after = applied(ReshapeToTranspose(), build(nodes, shape, ["y"], {"s": np.asarray(target)}))
    assert modified == (beside == "Transpose")
    assert [item.name for item in after.graph][1] == ("r_transpose" if modified else "r")


@pytest.mark.parametrize(("last", "cancels"), [([0, 3, 1, 2], True), ([0, 2, 1, 3], False)])
def test_two_transposes_around_a_reshape_cancel_where_the_order_stays(last: list[int], cancels: bool) -> None:
    """(1, 6, 4, 5) as (1, 4, 5, 6), then as (4, 5, 6, 1) and back."""
    nodes = [
        node("Transpose", "x", "t", perm=[0, 2, 3, 1]),
        node("Reshape", "t s", "r"),
        node("Transpose", "r", perm=[0, 3, 1, 2] if cancels else last),
    ]
    before = build(nodes, {"x": SHAPE}, ["y"], {"s": np.asarray([1, 4, 5, 6])})
    modified, after = applied(CancelAroundReshape(), before)
    assert (modified, operators(after)) == (cancels, ["Reshape"] if cancels else ["Transpose", "Reshape", "Transpose"])


@pytest.mark.parametrize(
    ("target", "perm"), [([4, 6, 5], [1, 2, 0]), ([1, 4, 6, 5], None), ([4, 30], None)], ids=["drops", "keeps", "joins"]
)
def test_a_reshape_that_drops_axes_goes_before_the_transposes_around_it(
    target: list[int], perm: list[int] | None
) -> None:
    """The prototypes of YOLOv13n (its published log): heads to the batch, then the last two axes swapped."""
    last = [0, 2, 1] if len(target) == 3 else [1, 0] if len(target) == 2 else [0, 1, 3, 2]
    nodes = [
        node("Transpose", "x", "t", perm=[0, 2, 1, 3]),
        node("Reshape", "t s", "r"),
        node("Transpose", "r", perm=last, name="Last"),
    ]
    modified, after = applied(
        ReshapeBeforeTransposes(), build(nodes, {"x": (1, 6, 4, 5)}, ["y"], {"s": np.asarray(target)})
    )
    assert modified == (perm is not None)
    if perm is not None:
        reshape, transpose = after.graph
        assert (list(reshape.outputs[0].shape or ()), transpose.name) == ([6, 4, 5], "Last")
        assert list(transpose.attributes["perm"].value) == perm


@pytest.mark.parametrize(
    ("source", "perms", "left"),
    [
        ("Relu", (TO_LAST, TO_LAST), 1),
        ("Relu", (TO_LAST, TO_SECOND), 2),
        ("Conv", (TO_LAST, TO_LAST), 1),
        ("product", (TO_LAST, TO_LAST), 2),
    ],
)
def test_equal_movements_of_one_tensor_are_one_but_behind_a_product(
    source: str, perms: tuple[list[int], list[int]], left: int
) -> None:
    first = node("Relu", "x", "a") if source == "Relu" else node("Conv", "x w", "a")
    if source == "product":
        first.metadata_props.add(key=MARK_PRODUCT, value="matmul")
    nodes = [first, *(node("Transpose", "a", f"t{i}", perm=perm) for i, perm in enumerate(perms))]
    nodes += [node("Abs", "t0", "y0"), node("Neg", "t1", "y1")]
    constants = {} if source == "Relu" else {"w": normal(6, 6, 1, 1)}
    _, after = applied(ShareMovements(), build(nodes, {"x": SHAPE}, ["y0", "y1"], constants))
    assert census(after)["Transpose"] == left


@pytest.mark.parametrize(
    ("targets", "outputs"),
    [
        (([1, 6, 6], [1, 6, 6]), ["y", "a"]),
        (([1, -1, 6], [1, -1, 6]), ["y", "a"]),
        (([1, 6, 6], [1, -1, 6]), ["y", "b"]),
    ],
)
def test_a_reshape_at_the_end_with_the_same_numbers_as_one_before_is_that(
    targets: tuple[list[int], list[int]], outputs: list[str]
) -> None:
    constants = {name: np.array(target) for name, target in zip("st", targets, strict=True)}
    nodes = [node("Reshape", "x s", "a"), node("Reshape", "x t", "b"), node("Abs", "a", "y")]
    after = ShareMovements()(build(nodes, {"x": (1, 6, 6, 1)}, ["y", "b"], constants)).model
    assert [value.name for value in after.graph.outputs] == outputs


def test_movements_that_are_one_cannot_be_two_outputs() -> None:
    nodes = [node("Transpose", "x", name, perm=TO_LAST) for name in "ab"]
    with pytest.raises(UnsupportedError, match="outputs a and b"):
        ShareMovements()(build(nodes, {"x": SHAPE}, ["a", "b"]))
    after = ShareMovements(Compatibility.CLEAN)(build(nodes, {"x": SHAPE}, ["a", "b"])).model
    assert [value.name for value in after.graph.outputs] == ["a", "b"]


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ((1, 2, 1, 3), (2, 3), [1, 3]),
        ((1, 2, 1, 3), (1, 2, 3), [0, 1, 3]),
        ((2, 1, 1), (2,), [0]),
        ((1, 1, 2, 3), (2, 1, 3), None),  # an axis of length 1 elsewhere
        ((2, 3), (2, 3), None),
        ((2, 3), (6,), None),
    ],
)
def test_axes_that_a_reshape_keeps(before: tuple[int, ...], after: tuple[int, ...], kept: list[int] | None) -> None:
    assert axes_without_ones(before, after) == kept


@pytest.mark.parametrize("first", [{}, {"perm": [2, 1, 0]}])
def test_a_transpose_without_an_order_of_axes_stays(first: dict[str, list[int]]) -> None:
    """ONNX reverses the axes then; the conversion ended with a traceback."""
    nodes = [
        node("Relu", "x", "r"),
        node("Transpose", "r", "t", **first),
        node("Reshape", "t s", "u"),
        node("Transpose", "u"),
    ]
    before = build(nodes, {"x": (2, 1, 3)}, ["y"], {"s": np.asarray([3, 2])})
    assert operators(optimized(before))
