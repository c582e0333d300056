"""Reshapes and transposes move behind Concats, Splits and Softmaxes."""

from __future__ import annotations

import numpy as np
import pytest

from engine.optimize.sink_parts import SinkReshapeBehindConcat, SinkReshapeBehindSoftmax, SinkReshapeBehindSplit
from tests.engine.optimize.equivalence import applied, build, optimized
from tests.engine.optimize.equivalence import operators as kinds
from tests.engine.optimize.networks import node

MEAN_AND_MAXIMUM = (
    node("Transpose", "x", "t", perm=[0, 2, 1]),
    node("ReduceMean", "t", "m", axes=[1], keepdims=0),
    node("ReduceMax", "t", "k", axes=[1], keepdims=0),
    node("Concat", "m k", "c", name="Join", axis=-1),
)


def test_mean_and_maximum_of_tokens_are_joined_before_their_axis_is_dropped() -> None:
    """The published log of YOLOv13n: the mean is taken of the map, the maximum of the tokens."""
    nodes = [*MEAN_AND_MAXIMUM, node("Softmax", "c", axis=1)]
    after = optimized(build(nodes, {"x": (1, 6, 16)}, ["y"], {}))
    found = ["ReduceMean", "Transpose", "Transpose", "ReduceMax", "Concat", "Reshape", "Softmax"]
    assert sorted(item.op_type for item in after.graph) == sorted(found)
    assert [item.name for item in after.graph][-2] == "Joinc_Reshape_0"
    (join,) = (item for item in after.graph if item.op_type == "Concat")
    assert [list(value.shape or ()) for value in join.outputs] == [[1, 2, 6]]


@pytest.mark.parametrize(
    ("shapes", "axis", "sinks"),
    [
        (((1, 4, 1, 3), (1, 4, 3)), 2, True),
        (((1, 1, 4, 3), (1, 4, 3)), 1, False),  # boxes of YOLOv8n
        (((1, 4, 3), (1, 4, 1, 3)), 3, False),
        (((1, 4, 2, 2), (1, 4, 4)), 2, True),
        (((1, 2, 2, 4), (1, 4, 4)), 1, False),
        (((1, 1, 4, 3), (1, 4, 3)), 2, False),
        (((1, 4, 3, 1), (1, 4, 3)), 1, True),
        (((1, 4, 3), (1, 4, 1, 3)), 2, True),
        (((1, 4, 3), (1, 4, 3, 1)), 1, True),
        (((1, 4, 3, 2), (1, 4, 1, 3, 2)), 2, False),
        (((1, 4, 6), (1, 4, 3, 2)), 2, True),
        (((1, 4, 3), (1, 12)), 1, True),
        (((1, 4, 2, 2), (1, 4, 4)), 1, False),
        (((1, 4, 2, 2), (1, 4, 4, 1)), 2, False),
        (((1, 4, 2, 2), (1, 2, 2, 4)), 3, False),
        (((4, 1, 2), (1, 4, 2)), 2, False),
    ],
)
def test_reshapes_pass_a_concat_where_they_only_drop_axes(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], axis: int, sinks: bool
) -> None:
    before, after = shapes
    nodes = [node("Reshape", "a s", "p"), node("Reshape", "b s", "q"), node("Concat", "p q", axis=axis)]
    model = build(nodes, {"a": before, "b": before}, ["y"], {"s": np.array(after)})
    modified, result = applied(SinkReshapeBehindConcat(), model)
    assert (modified, kinds(result)) == (sinks, ["Concat", "Reshape"] if sinks else ["Reshape", "Reshape", "Concat"])


@pytest.mark.parametrize(("before", "sinks"), [((1, 1, 4, 3), True), ((4, 1, 3), False), ((2, 2, 3), False)])
def test_a_reshape_passes_a_split_where_it_only_drops_axes(before: tuple[int, ...], sinks: bool) -> None:
    """The distances of YOLOv8n: its published ``quant_info`` names what the Split gives so."""
    nodes = [node("Reshape", "a s", "p"), node("Split", "p", "q r", axis=-2, split=[1, 3])]
    nodes += [node("Relu", "q", "y"), node("Sigmoid", "r", "z")]
    model = build(nodes, {"a": before}, ["y", "z"], {"s": np.array((1, 4, 3))}, opset=11)
    modified, result = applied(SinkReshapeBehindSplit(), model)
    assert modified == sinks
    (split,) = (item for item in result.graph if item.op_type == "Split")
    assert [value.name for value in split.outputs] == (["q_reshape", "r_reshape"] if sinks else ["q", "r"])
    if sinks:
        assert [list(value.shape or ()) for value in split.outputs] == [[1, 1, 1, 3], [1, 1, 3, 3]]


@pytest.mark.parametrize(
    ("before", "after", "axis", "sinks"),
    [
        ((1, 12, 1, 1), (1, 12), 1, True),
        ((1, 12, 1, 1), (1, 12), -1, True),
        ((1, 12, 1, 1), (1, 12, 1), 1, True),
        ((1, 12, 8, 1), (1, 12, 8), 1, True),
        ((1, 12, 1, 1), (1, 12), 0, False),
        ((1, 12, 1, 1), (1, 12, 1), 2, False),
        ((1, 12, 8, 1), (1, 12, 8), 2, False),
        ((1, 12, 1, 8), (1, 12, 8), 1, False),
        ((1, 12, 8, 8), (1, 12, 64), 1, False),
        ((1, 12, 8, 8), (1, 768), 1, False),
        ((1, 12, 1, 1), (3, 4), 1, False),
        ((1, 12, 1, 1), (1, 1, 12), 2, False),
        ((1, 12, 1, 1), (12,), 0, False),
        ((1, 12, 1, 1), (1, 1, 12, 1), 2, False),
        ((1, 3, 64, 4), (1, 3, 4, 64), 2, False),
    ],
)
def test_a_reshape_passes_a_softmax_over_channels_where_it_drops_the_last_axes(
    before: tuple[int, ...], after: tuple[int, ...], axis: int, sinks: bool
) -> None:
    """Each was a head of one of two networks that the original was asked about."""
    nodes = [node("Reshape", "a s", "p", name="r"), node("Softmax", "p", "y", name="n", axis=axis)]
    modified, result = applied(SinkReshapeBehindSoftmax(), build(nodes, {"a": before}, ["y"], {"s": np.array(after)}))
    assert (modified, kinds(result)) == (sinks, ["Softmax", "Reshape"] if sinks else ["Reshape", "Softmax"])
    assert [(item.name, item.outputs[0].name) for item in result.graph] == (
        [("n", "p"), ("r", "y")] if sinks else [("r", "p"), ("n", "y")]
    )


@pytest.mark.parametrize(("op_type", "outputs"), [("LogSoftmax", ["y"]), ("Softmax", ["y", "p"])])
def test_a_reshape_passes_no_log_softmax_and_stays_where_it_is_read_otherwise(op_type: str, outputs: list[str]) -> None:
    nodes = [node("Reshape", "a s", "p"), node(op_type, "p", "y", axis=1)]
    model = build(nodes, {"a": (1, 12, 1, 1)}, outputs, {"s": np.array((1, 12))})
    assert not applied(SinkReshapeBehindSoftmax(), model)[0]


@pytest.mark.parametrize(("widths", "sinks"), [((2, 2), True), ((2, 4), False)])
def test_maps_of_one_width_are_joined_before_they_become_lines(widths: tuple[int, int], sinks: bool) -> None:
    shapes = {"a": (1, 3, 4, widths[0]), "b": (1, 3, 2, widths[1])}
    nodes = [node("Reshape", "a s", "p"), node("Reshape", "b s", "q"), node("Concat", "p q", axis=2)]
    modified, result = applied(SinkReshapeBehindConcat(), build(nodes, shapes, ["y"], {"s": np.array((1, 3, -1))}))
    assert modified == sinks
    if sinks:
        assert list(result.graph[0].outputs[0].shape or ()) == [1, 3, 6, 2]
