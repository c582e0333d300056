"""Constants: lifted, computed where that is affordable, never outputs."""

from __future__ import annotations

import numpy as np
import pytest

from engine.optimize import constants
from engine.optimize.constants import ConstantOutputs, FoldConstants, LiftConstants, OwnWeights
from tests.engine.optimize.equivalence import applied, build, operators
from tests.engine.optimize.networks import MAP, node, normal


def test_constants_become_initializers_of_their_outputs_names() -> None:
    before = build([node("Constant", "", "one", value_float=1.0), node("Add", "x one")], MAP, ["y"])
    modified, after = applied(LiftConstants(), before)
    assert (modified, operators(after), list(after.graph.initializers)) == (True, ["Add"], ["one"])


def test_what_is_known_is_computed() -> None:
    nodes = [node("Shape", "x", "s"), node("Gather", "s i", "n"), node("Cast", "n", "f", to=1), node("Add", "x f")]
    modified, after = applied(FoldConstants(), build(nodes, MAP, ["y"], {"i": np.asarray([1])}))
    assert (modified, operators(after)) == (True, ["Add"])
    np.testing.assert_array_equal(after.graph[0].inputs[1].const_value.numpy(), [4])


@pytest.mark.parametrize(("limit", "left"), [(256, ["Add"]), (255, ["Expand", "Add"])])
def test_a_constant_may_not_outgrow_memory(monkeypatch: pytest.MonkeyPatch, limit: int, left: list[str]) -> None:
    """Of 1 x 4 x 8 x 8 = 256 elements."""
    monkeypatch.setattr(constants, "MAX_FOLDED_ELEMENTS", limit)
    before = build(
        [node("Expand", "k s", "e"), node("Add", "x e")], MAP, ["y"], {"k": normal(1), "s": np.asarray(MAP["x"])}
    )
    assert operators(applied(FoldConstants(), before)[1]) == left


def test_undefined_results_are_results() -> None:
    nodes = [node("Log", "k", "l"), node("Min", "x l")]
    _, after = applied(FoldConstants(), build(nodes, MAP, ["y"], {"k": np.float32([-1.0])}), exact=False)
    assert np.isnan(after.graph[0].inputs[1].const_value.numpy()).all()


def test_an_output_that_is_an_initializer_becomes_that_of_a_constant() -> None:
    before = build([node("Add", "x k", "y")], MAP, ["y", "k"], {"k": normal(1)})
    modified, after = applied(ConstantOutputs(), before)
    assert (modified, operators(after)) == (True, ["Add", "Constant"])
    assert [value.name for value in after.graph.outputs] == ["y", "k"]
    assert (after.graph[0].inputs[1].name, after.graph[1].name) == ("k_constant", "k_Constant")
    assert list(after.graph.initializers) == ["k_constant"]


def test_other_outputs_are_left_alone() -> None:
    assert not applied(ConstantOutputs(), build([node("Add", "x k")], MAP, ["y"], {"k": normal(1)}))[0]


def test_convolutions_that_share_a_weight_get_one_each() -> None:
    nodes = [
        node("Conv", "x w b", "c", name="one"),
        node("Conv", "c w b", "d", name="two"),
        node("Conv", "d v b", name="three"),
    ]
    constants_given = {"w": normal(4, 4, 1, 1), "v": normal(4, 4, 1, 1), "b": normal(4)}
    modified, after = applied(OwnWeights(), build(nodes, MAP, ["y"], constants_given))
    assert modified
    assert [item.inputs[1].name for item in after.graph] == ["w_one", "w_two", "v"]
    assert {item.inputs[2].name for item in after.graph} == {"b"}
    assert not applied(OwnWeights(), after)[0]


def test_weights_whose_copies_would_fill_the_memory_stay_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of 64 bytes are one byte too many."""
    nodes = [node("Conv", "x w", "c", name="one"), node("Conv", "c w", name="two")]
    shared = build(nodes, MAP, ["y"], {"w": normal(4, 4, 1, 1)})
    monkeypatch.setenv("PTQLAB_MAX_FOLDED_BYTES", "127")
    assert not applied(OwnWeights(), shared)[0]
    monkeypatch.setenv("PTQLAB_MAX_FOLDED_BYTES", "128")
    assert applied(OwnWeights(), shared)[0]
