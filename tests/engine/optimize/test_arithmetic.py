"""Quotients, choices and sums in terms of what the BPU has."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.optimize.equivalence import build, census, optimized
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
    assert after.graph[1].name == "s"
    assert census(optimized(build([node("Sum", "x", name="s"), node("Relu", "y", "z")], inputs, ["z"]))) == {"Relu": 1}
    broadcast = build([node("Sum", "x u")], {"x": (2, 3), "u": (3,)}, ["y"])
    assert census(optimized(broadcast)) == {"Sum": 1}
