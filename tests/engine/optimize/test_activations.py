"""Activations that exporters write as several nodes."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest

from engine.optimize.activations import (
    CollapseActivations,
    CollapseRsqrt,
    CollapseSoftmax,
    HardSigmoidToHardSwish,
    StandardActivations,
)
from tests.engine.optimize.equivalence import applied, build, census, operators, optimized
from tests.engine.optimize.networks import MAP, node

HALF, ONE, ROOT = np.float32(0.5), np.float32(1), np.float32(math.sqrt(2))
SCALARS = {
    "half": HALF,
    "one": ONE,
    "root": ROOT,
    "inverse": np.float32(math.sqrt(0.5)),
    "three": np.float32(3),
    "six": np.array([6], np.float32),
    "sixth": np.float32(1 / 6),
    "zero": np.float32(0),
}
RELU6 = [node("Add", "three x", "a"), node("Clip", "a zero six0", "k")]
ERF = [node("Div", "x root", "d"), node("Erf", "d", "e"), node("Add", "e one", "f")]


@pytest.mark.parametrize(
    ("nodes", "op_type"),
    [
        ([node("Sigmoid", "x", "s"), node("Mul", "s x", name="named")], "HzSwish"),
        ([node("Softplus", "x", "s"), node("Tanh", "s", "t"), node("Mul", "x t", name="named")], "HzMish"),
        ([*RELU6, node("Mul", "x k", "m", name="named"), node("Div", "m six")], "HzHardSwish"),
        ([*RELU6, node("Mul", "k x", "m", name="named"), node("Mul", "sixth m")], "HzHardSwish"),
        ([*RELU6, node("Div", "k six", "q"), node("Mul", "x q", name="named")], "HzHardSwish"),
        ([*RELU6, node("Mul", "k sixth", "q"), node("Mul", "x q", name="named")], "HzHardSwish"),
        ([node("HardSigmoid", "x", "h", alpha=1 / 6), node("Mul", "x h", name="named")], "HzHardSwish"),
        ([node("HardSwish", "x", name="named")], "HzHardSwish"),
        ([node("Mish", "x", name="named")], "HzMish"),
        ([*ERF, node("Mul", "x half", "h"), node("Mul", "h f", name="named")], "HzGelu"),
        ([*ERF, node("Mul", "x f", "h"), node("Mul", "h half", name="named")], "HzGelu"),
        ([*ERF, node("Mul", "half f", "h"), node("Mul", "x h", name="named")], "HzGelu"),
        (
            [node("Mul", "x inverse", "d"), *ERF[1:], node("Mul", "x half", "h"), node("Mul", "h f", name="named")],
            "HzGelu",
        ),
    ],
)
def test_activations_collapse(nodes: list[onnx.NodeProto], op_type: str) -> None:
    constants = {**SCALARS, "six0": np.float32(6)}
    before = build(nodes, {"x": (2, 3, 4, 5)}, ["y"], constants, 18)
    (collapsed,) = optimized(before).graph
    assert (collapsed.domain, collapsed.op_type, collapsed.name) == ("horizon", op_type, "named")


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Add", "x three", "a"), node("Clip", "a zero one", "k"), node("Mul", "x k", "m"), node("Div", "m six")],
        [node("Sigmoid", "x", "s"), node("Tanh", "x", "t"), node("Mul", "t s")],
        [node("HardSigmoid", "x", "h", alpha=0.2), node("Mul", "x h")],
    ],
)
def test_similar_activations_do_not(nodes: list[onnx.NodeProto]) -> None:
    after = optimized(build(nodes, {"x": (2, 3, 4, 5)}, ["y"], SCALARS))
    assert not any(item.domain for item in after.graph)


def test_a_shared_sigmoid_is_no_swish() -> None:
    nodes = [node("Sigmoid", "x", "s"), node("Mul", "s x"), node("Relu", "s", "z")]
    assert census(optimized(build(nodes, MAP, ["y", "z"]))) == {"Sigmoid": 1, "Mul": 1, "Relu": 1}


def test_relu6_of_old_opsets_collapses() -> None:
    nodes = [
        node("Add", "x three", "a"),
        node("Clip", "a", "k", min=0.0, max=6.0),
        node("Mul", "x k", "m"),
        node("Div", "m six"),
    ]
    assert census(optimized(build(nodes, MAP, ["y"], SCALARS, 10))) == {"HzHardSwish": 1}


def test_reciprocal_square_root_collapses() -> None:
    nodes = [
        node("Mul", "x x", "q"),
        node("Add", "q eps", "a"),
        node("Sqrt", "a", "s", name="root"),
        node("Div", "x s"),
    ]
    after = optimized(build(nodes, MAP, ["y"], {"eps": np.float32(1e-5)}))
    assert census(after) == {"Mul": 2, "HzRsqrt": 1}
    assert after.graph[1].attributes["epsilon"].value == pytest.approx(1e-5)


@pytest.mark.parametrize(("perm", "collapses"), [([0, 3, 2, 1], True), ([0, 2, 3, 1], False)])
def test_softmax_over_channels_collapses(perm: list[int], collapses: bool) -> None:
    back = [int(axis) for axis in np.argsort(perm)]
    nodes = [
        node("Transpose", "x", "t", perm=perm),
        node("Softmax", "t", "s", name="named", axis=3),
        node("Transpose", "s", perm=back),
    ]
    after = optimized(build(nodes, MAP, ["y"]))
    assert ("HzSoftmax" in census(after)) == collapses
    assert not collapses or [(item.name, item.attributes["axis"].value) for item in after.graph] == [("named", 1)]


@pytest.mark.parametrize(("root", "collapses"), [(1.41421, True), (1.4143, True), (1.4144, False)])
def test_constants_may_be_written_with_few_digits(root: float, collapses: bool) -> None:
    """One part in ten thousand of the square root of 2 is 0.00014."""
    nodes = [
        node("Div", "x root", "d"),
        node("Erf", "d", "e"),
        node("Add", "e one", "f"),
        node("Mul", "x f", "p"),
        node("Mul", "p half", name="last"),
    ]
    before = build(nodes, MAP, ["y"], {"root": np.float32(root), "one": ONE, "half": HALF})
    modified, after = applied(CollapseActivations(), before, exact=False)
    assert modified == collapses
    assert (operators(after)[-1], list(after.graph)[-1].name) == (("HzGelu" if collapses else "Mul"), "last")
    if collapses:
        assert after.graph[-1].attributes["approximate"].value == "none"


@pytest.mark.parametrize(("kind", "opset"), [("HardSwish", 14), ("Mish", 18)])
def test_onnxs_own_become_the_same_operators(kind: str, opset: int) -> None:
    _, after = applied(StandardActivations(), build([node(kind, "x", name="n")], MAP, ["y"], opset=opset))
    assert [(item.op_type, item.name, item.domain) for item in after.graph] == [(f"Hz{kind}", "n", "horizon")]


@pytest.mark.parametrize(
    ("slope", "offset", "collapses"),
    [(1 / 6, 0.5, True), (0.16667, 0.5, True), (0.167, 0.5, False), (1 / 6, 0.4, False), (0.2, 0.5, False)],
)
def test_a_hard_sigmoid_of_a_sixth_makes_a_hard_swish(slope: float, offset: float, collapses: bool) -> None:
    nodes = [node("HardSigmoid", "x", "h", alpha=slope, beta=offset), node("Mul", "h x", name="last")]
    modified, after = applied(HardSigmoidToHardSwish(), build(nodes, MAP, ["y"]), exact=False)
    assert (modified, operators(after)) == (collapses, ["HzHardSwish"] if collapses else ["HardSigmoid", "Mul"])


def test_a_hard_sigmoid_of_something_else_stays() -> None:
    nodes = [node("Abs", "x", "a"), node("HardSigmoid", "a", "h", alpha=1 / 6), node("Mul", "h x")]
    assert not applied(HardSigmoidToHardSwish(), build(nodes, MAP, ["y"]))[0]


@pytest.mark.parametrize(
    ("nodes", "epsilon", "behind"),
    [
        ([node("Sqrt", "s", "r"), node("Reciprocal", "r", name="last")], 0.0, 0),
        ([node("Add", "s e", "a"), node("Sqrt", "a", "r"), node("Reciprocal", "r", name="last")], 0.5, 0),
        ([node("Add", "e s", "a"), node("Sqrt", "a", "r"), node("Reciprocal", "r", name="last")], 0.5, 0),
        ([node("Sqrt", "s", "r"), node("Add", "r e", "a"), node("Reciprocal", "a", name="last")], 0.5, 1),
        ([node("Sqrt", "s", "r"), node("Add", "e r", "a"), node("Reciprocal", "a", name="last")], 0.5, 1),
    ],
)
def test_epsilon_is_what_is_added(nodes: list[onnx.NodeProto], epsilon: float, behind: int) -> None:
    before = build([node("Abs", "x", "s"), *nodes], MAP, ["y"], {"e": np.float32(0.5)})
    _, after = applied(CollapseRsqrt(), before)
    last = list(after.graph)[-1]
    assert (last.op_type, last.name, last.attributes["epsilon"].value) == ("HzRsqrt", "last", epsilon)
    assert last.attributes["is_sqrt_add_reciprocal"].value == behind


def test_a_root_of_any_other_sum_stays() -> None:
    nodes = [node("Abs", "x", "s"), node("Add", "s s", "a"), node("Sqrt", "a", "r"), node("Reciprocal", "r")]
    assert not applied(CollapseRsqrt(), build(nodes, MAP, ["y"]))[0]


def test_a_sum_behind_a_root_that_others_read_stays() -> None:
    nodes = [node("Abs", "x", "s"), node("Sqrt", "s", "r"), node("Add", "r e", "a"), node("Reciprocal", "a")]
    assert not applied(CollapseRsqrt(), build(nodes, MAP, ["y", "a"], {"e": np.float32(0.5)}))[0]


def test_a_root_that_others_read_stays() -> None:
    nodes = [node("Abs", "x", "s"), node("Sqrt", "s", "r"), node("Reciprocal", "r")]
    assert not applied(CollapseRsqrt(), build(nodes, MAP, ["y", "r"]))[0]


@pytest.mark.parametrize(
    ("first", "axis", "last", "over"),
    [
        ([0, 3, 2, 1], -1, [0, 3, 2, 1], 1),
        ([0, 3, 2, 1], 3, [0, 3, 2, 1], 1),
        ([0, 1, 3, 2], 3, [0, 1, 3, 2], 2),
        ([3, 1, 2, 0], 3, [3, 1, 2, 0], 0),
        ([0, 3, 2, 1], 2, [0, 3, 2, 1], None),
        ([0, 2, 3, 1], -1, [0, 3, 1, 2], None),
        ([0, 1, 3, 2], 3, [0, 3, 2, 1], None),
    ],
)
def test_a_softmax_between_swaps_of_its_axis(first: list[int], axis: int, last: list[int], over: int | None) -> None:
    nodes = [
        node("Transpose", "x", "a", perm=first),
        node("Softmax", "a", "s", name="n", axis=axis),
        node("Transpose", "s", perm=last),
    ]
    modified, after = applied(CollapseSoftmax(), build(nodes, MAP, ["y"]))
    assert modified == (over is not None)
    if modified:
        assert [(item.op_type, item.name, item.attributes["axis"].value) for item in after.graph] == [
            ("HzSoftmax", "n", over)
        ]
