"""Standard operators on integers: which of them run where, in which layout, with which constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from engine.ops.core.base import FloatRule, Tie
from engine.ops.core.reasons import Code
from engine.ops.movement import (
    ConcatRule,
    GatherElementsRule,
    GatherRule,
    MaxRule,
    ReshapeRule,
    SliceRule,
    SplitRule,
    TileRule,
    TransposeRule,
)
from engine.ops.registry import RULE_BY_TYPE
from tests.engine.ops.operators import Lowered, Recorder, constant, float_node, lowered, refused, scaled, tensor

MAP = (1, 4, 6, 8)


def ints(name: str, *values: int) -> ir.Value:
    return constant(name, np.array(values, np.int64))


def moved(rule: FloatRule, node: ir.Node) -> tuple[Lowered, dict[str, Any]]:
    """What becomes of ``node`` with an int16 input ``x``, and the constants that it reads."""
    recorder = Recorder(x=scaled(0.5, qtype="int16"))
    rule.lower([node], recorder)
    (made,) = recorder.nodes
    assert (made.bits, made.scale, made.domain, made.op_type) == (16, [0.5], "", node.op_type)
    return made, {name: array.tolist() for name, array in recorder.constants.items()}


@pytest.mark.parametrize("kind", ["Concat", "Max"])
def test_what_is_joined_takes_the_scale_of_the_result(kind: str) -> None:
    node = float_node(kind, [tensor("a", *MAP), tensor("b", *MAP)], MAP, **({"axis": 1} if kind == "Concat" else {}))
    rule = RULE_BY_TYPE[kind]
    assert (rule.tie(node), rule.activations(node), rule.passive) == (Tie.OPERANDS_TAKE_OUTPUT, (0, 1), True)
    made = lowered(rule, node, a=scaled(0.5), b=scaled(0.25), y=scaled(1))
    assert (made.scale, made.bits, made.domain) == ([1.0], 8, "")
    assert (made.inputs, made.layout) == (["a NHWC", "b NHWC"], "NHWC")
    assert made.attributes == ({"axis": 3} if kind == "Concat" else {})


def test_constants_are_joined() -> None:
    node = float_node("Concat", [constant("k", np.ones(MAP, np.float32)), tensor("x", *MAP)], MAP, axis=1)
    assert [refused(ConcatRule(), node, march) for march in ("bayes", "bernoulli2")] == [None, None]


def test_tensors_of_one_rank_are_compared_and_constants_of_any() -> None:
    nodes = [
        float_node("Max", [tensor("a", *MAP), other], MAP) for other in (constant("k", [1.0]), tensor("b", 4, 6, 8))
    ]
    assert [refused(MaxRule(), node) for node in nodes] == [None, Code.RANKS_DIFFER]
    shapes = [(2,) * rank for rank in (1, 2, 7, 8)]
    found = [refused(MaxRule(), float_node("Max", [tensor("a", *s), tensor("b", *s)], s)) for s in shapes]
    assert found == [Code.RANK_MOVED, None, None, Code.RANK_MOVED]


@pytest.mark.parametrize("kind", ["Reshape", "Transpose", "Split", "Concat"])
@pytest.mark.parametrize(("rank", "code"), [(1, Code.RANK_MOVED), (2, None), (8, None), (9, Code.RANK_MOVED)])
def test_tensors_of_two_to_eight_dimensions_are_moved(kind: str, rank: int, code: Code | None) -> None:
    shape = (1,) * rank
    assert refused(RULE_BY_TYPE[kind], float_node(kind, [tensor("x", *shape)], shape)) is code
    if kind == "Reshape":
        assert refused(RULE_BY_TYPE[kind], float_node(kind, [tensor("x", 1, 1)], shape)) is code


def test_reshape_and_transpose_keep_the_layout_of_onnx() -> None:
    made, constants = moved(ReshapeRule(), float_node("Reshape", [tensor("x", *MAP), ints("k", 0, -1)], (4, 48)))
    assert (made.layout, made.inputs, constants) == ("NCHW", ["x NCHW", "k"], {"k": [0, -1]})
    made, _ = moved(TransposeRule(), float_node("Transpose", [tensor("x", 1, 2, 3)], (3, 2, 1)))
    assert (made.layout, made.attributes) == ("NCHW", {"perm": [2, 1, 0]})
    made, _ = moved(TransposeRule(), float_node("Transpose", [tensor("x", *MAP)], MAP, perm=[0, 2, 1, 3]))
    assert made.attributes == {"perm": [0, 2, 1, 3]}


def cut(steps: int = 1, rank: int = 4, bounds: bool = True) -> ir.Node:
    starts = ints("s", 1, 0) if bounds else tensor("s", 2)
    inputs = [tensor("x", *MAP[:rank]), starts, ints("e", 3, 6), ints("a", 1, -2), ints("t", steps, 1)]
    return float_node("Slice", inputs, (1, 2, 6, 8))


def test_slices_have_constant_bounds_and_positive_steps() -> None:
    nodes = [cut(), cut(steps=-1), cut(rank=3), cut(bounds=False), float_node("Slice", [tensor("x", *MAP)], MAP)]
    codes = [None, Code.NEGATIVE_STEP, None, Code.BOUNDS_NOT_CONSTANT, Code.BOUNDS_NOT_CONSTANT]
    assert [refused(SliceRule(), node) for node in nodes] == codes
    nine = float_node("Slice", [tensor("x", *(2,) * 9), ints("s", 0), ints("e", 1), ints("a", 1)], (2, 1, *(2,) * 7))
    assert refused(SliceRule(), nine) is Code.RANK_MOVED


def test_axes_of_a_slice_are_those_of_nhwc() -> None:
    made, constants = moved(SliceRule(), cut(steps=2))
    assert made.layout == "NHWC"
    assert constants == {"s": [1, 0], "e": [3, 6], "a": [3, 1], "t": [2, 1]}
    assert moved(SliceRule(), cut(rank=3))[1]["a"] == [1, -2]
    plain = float_node("Slice", [tensor("x", *MAP), ints("s", 0, 1), ints("e", 1, 3)], (1, 2, 6, 8))
    assert moved(SliceRule(), plain)[1] == {"s": [0, 1], "e": [1, 3], "n_axes": [0, 3]}


def test_positions_are_a_constant_vector() -> None:
    x, rule = tensor("x", *MAP), GatherRule()
    positions = [ints("i", 2, 0), tensor("i", 2), constant("i", np.array(1)), constant("i", np.ones((2, 2), int))]
    nodes = [float_node("Gather", [x, value], MAP, axis=1) for value in positions]
    assert [refused(rule, node) for node in nodes] == [None, Code.INDICES_NOT_CONSTANT, Code.POSITIONS, Code.POSITIONS]
    made, constants = moved(rule, nodes[0])
    assert (made.attributes, made.layout, constants) == ({"axis": 3}, "NHWC", {"i": [2, 0]})
    assert not rule.passive
    late = [
        refused(rule, float_node("Gather", [tensor("x", *(2,) * rank), ints("i", 0)], (1,)), late=True)
        for rank in (2, 3, 4, 5)
    ]
    assert late == [None, None, None, Code.RANK_GATHERED]


def test_elements_are_gathered_from_maps_at_positions_in_nhwc() -> None:
    positions = np.arange(8).reshape(1, 2, 2, 2)
    node = float_node("GatherElements", [tensor("x", *MAP), constant("i", positions)], (1, 2, 2, 2), axis=-1)
    made, constants = moved(GatherElementsRule(), node)
    assert (made.attributes, constants) == ({"axis": 2}, {"n_indices": positions.transpose(0, 2, 3, 1).tolist()})
    others = [
        float_node("GatherElements", [tensor("x", *MAP), tensor("i", *MAP)], MAP),
        float_node("GatherElements", [tensor("x", 4, 6, 8), constant("i", np.zeros((4, 6, 8), int))], (4, 6, 8)),
    ]
    assert [refused(GatherElementsRule(), other) for other in others] == [Code.INDICES_NOT_CONSTANT, None]
    made, constants = moved(GatherElementsRule(), others[1])
    assert (made.attributes, np.shape(constants["n_indices"])) == ({"axis": 0}, (4, 6, 8))


@pytest.mark.parametrize("kind", ["Tile", "Expand"])
def test_one_axis_alone_is_repeated(kind: str) -> None:
    def repeated(after: tuple[int, ...], counts: ir.Value, before: tuple[int, ...] = (1, 1, 6, 8)) -> ir.Node:
        return float_node(kind, [tensor("x", *before), counts], after)

    counts = ints("r", 1, 4, 1, 1)
    made, constants = moved(TileRule(), repeated(MAP, counts))
    assert (made.layout, constants) == ("NCHW", {"r": [1, 4, 1, 1]})
    nodes = [
        repeated(MAP, counts),
        repeated((1, 1, 12, 8), counts),
        repeated((1, 1, 12, 16), counts),
        repeated((1, 8), counts, (1, 1)),
        repeated(MAP, counts, (6, 8)),
        repeated(MAP, tensor("r", 4)),
    ]
    codes = [None, None, None, None, Code.ONE_AXIS_REPEATED, Code.NOT_CONSTANT]
    assert [refused(TileRule(), node) for node in nodes] == codes
    late = [refused(TileRule(), node, late=True) for node in nodes[:4]]
    assert late == [None, None, Code.ONE_AXIS_REPEATED, None]


def test_a_split_states_its_sizes_as_the_network_does() -> None:
    by_input = float_node("Split", [tensor("x", *MAP), ints("k", 1, 3)], (1, 1, 6, 8), (1, 3, 6, 8), axis=1)
    made, constants = moved(SplitRule(), by_input)
    assert (made.inputs, made.outputs, made.attributes) == (["x NHWC", "k"], ["y", "y1"], {"axis": 3})
    assert constants == {"k": [1, 3]}
    by_attribute = float_node("Split", [tensor("x", *MAP)], (1, 1, 6, 8), (1, 3, 6, 8), split=[1, 3])
    attributes = moved(SplitRule(), by_attribute)[0].attributes
    assert {name: np.ravel(value).tolist() for name, value in attributes.items()} == {"split": [1, 3], "axis": [0]}
    assert not SplitRule().passive
