"""Normalisations taken apart, in the form and under the names of exporters."""

from __future__ import annotations

import numpy as np
import pytest

from engine.optimize.normalization import DecomposeNorm, DecomposeNormalization
from tests.engine.optimize.equivalence import applied, build, operators
from tests.engine.optimize.networks import node, normal


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize(("axis", "shape"), [(-1, (5,)), (1, (4, 5)), (-2, (4, 5))])
def test_a_layer_normalisation_is_a_power(opset: int, axis: int, shape: tuple[int, ...]) -> None:
    constants = {"s": normal(*shape), "b": normal(*shape)}
    before = build(
        [node("LayerNormalization", "x s b", name="n", axis=axis, epsilon=1e-3)],
        {"x": (2, 4, 5)},
        ["y"],
        constants,
        opset,
    )
    modified, after = applied(DecomposeNormalization(), before)
    assert modified
    chain = ["ReduceMean", "Sub", "Pow", "ReduceMean", "Add", "Sqrt", "Reciprocal", "Mul", "Mul", "Add"]
    assert operators(after) == chain
    assert [item.name for item in after.graph][:3] == ["n_mean1", "n_sub1", "n_pow1"]
    assert ("axes" in after.graph[0].attributes) == (opset < 18)
    assert after.graph.initializers["n_epsilon"].const_value.numpy() == np.float32(1e-3)


def test_an_instance_normalisation_is_a_product_over_the_sides() -> None:
    constants = {"s": normal(4), "b": normal(4)}
    before = build([node("InstanceNormalization", "x s b", name="n")], {"x": (1, 4, 5, 6)}, ["y"], constants)
    modified, after = applied(DecomposeNormalization(), before)
    assert (modified, operators(after)[2]) == (True, "Mul")
    assert tuple(after.graph[0].attributes["axes"].value) == (2, 3)
    assert after.graph.initializers["n_epsilon"].const_value.numpy() == np.float32(1e-5)


def test_what_is_absent_is_not_computed() -> None:
    before = build([node("LayerNormalization", "x s")], {"x": (2, 4, 5)}, ["y"], {"s": normal(5)}, 17)
    assert operators(applied(DecomposeNormalization(), before)[1])[-2:] == ["Mul", "Mul"]


@pytest.mark.parametrize(
    ("nodes", "constants", "outputs"),
    [
        ([node("Abs", "x2", "s"), node("LayerNormalization", "x s")], {}, ["y"]),
        ([node("LayerNormalization", "x k _", "m mean"), node("Sub", "m mean")], {"k": normal(5)}, ["y"]),
    ],
)
def test_what_others_compute_or_read_stays(nodes: list, constants: dict, outputs: list[str]) -> None:
    before = build(nodes, {"x": (2, 4, 5), "x2": (5,)}, outputs, constants, 17)
    assert not applied(DecomposeNormalization(), before)[0]


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("axes", [[-1], [1, 2], None])
@pytest.mark.parametrize(
    ("kind", "chain"), [("ReduceL1", ["Abs", "ReduceSum"]), ("ReduceL2", ["Pow", "ReduceSum", "Sqrt"])]
)
def test_a_norm_is_a_sum(kind: str, chain: list[str], axes: list[int] | None, opset: int) -> None:
    by_input = opset >= 18 and axes is not None
    stated = {} if by_input or axes is None else {"axes": axes}
    written = node(kind, "x a" if by_input else "x", name="n", keepdims=0, **stated)
    constants = {"a": np.array(axes)} if by_input else {}
    before = build([written], {"x": (2, 4, 5)}, ["y"], constants, opset)
    modified, after = applied(DecomposeNorm(), before)
    assert (modified, operators(after)) == (True, chain)
    assert [item.name for item in after.graph] == [f"n_{name}" for name in chain]
    names = {"ReduceL1": ["y_Abs", "y"], "ReduceL2": ["y_pow", "y_reducesum", "y"]}[kind]
    assert [item.outputs[0].name for item in after.graph] == names
    assert ("axes" in after.graph[1].attributes) == (opset < 13 and axes is not None)
