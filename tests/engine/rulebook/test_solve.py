"""Constraints between scales."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.rulebook.solve import Constraint, FixedThreshold, HandedOver, How, LargestOf, ScaleOf, Scales

NAMES = "abcd"
CONSTRAINTS = st.lists(
    st.builds(ScaleOf, st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(How))
    | st.builds(FixedThreshold, st.sampled_from(NAMES), st.just(1.0)),
    max_size=12,
)


def solved(*constraints: Constraint, computed: str = "") -> Scales:
    scales = Scales(computed)
    for index, constraint in enumerate(constraints):
        scales.add(constraint, f"rule.{index}")
    return scales


@pytest.mark.parametrize(
    ("constraints", "computed", "roots"),
    [
        ([ScaleOf("a", "b", How.TAKES), ScaleOf("b", "c", How.TAKES)], "", "cccd"),
        ([ScaleOf("a", "b", How.TAKES), ScaleOf("a", "c", How.TAKES)], "", "cbcd"),
        ([ScaleOf("a", "b", How.TAKES), ScaleOf("a", "c", How.IF_FREE)], "", "bbcd"),
        ([ScaleOf("a", "b", How.TAKES), ScaleOf("a", "c", How.WITH_HEAD)], "", "cccd"),
        ([ScaleOf("a", "b", How.TAKES), ScaleOf("a", "c", How.WITH_HEAD)], "b", "bbcd"),
        ([ScaleOf("a", "b", How.TAKES), ScaleOf("a", "c", How.LEADS)], "b", "cccd"),
        ([ScaleOf("a", "b", How.TAKES), ScaleOf("b", "a", How.TAKES)], "", "bbcd"),
    ],
)
def test_who_takes_whose_scale(constraints: list[Constraint], computed: str, roots: str) -> None:
    scales = solved(*constraints, computed=computed)
    assert "".join(map(scales.root, NAMES)) == roots


def test_a_fixed_threshold_is_that_of_a_tensor_that_takes_no_other() -> None:
    scales = solved(ScaleOf("a", "b", How.TAKES), FixedThreshold("a", 2.0), FixedThreshold("b", 3.0))
    assert scales.fixed == {"b": 3.0}


def test_rules_are_told_from_a_tensor_to_the_one_whose_scale_it_has() -> None:
    scales = solved(ScaleOf("a", "b", How.TAKES), ScaleOf("b", "c", How.TAKES), LargestOf("d", ("a", "c")))
    assert scales.rules("a") == ("rule.0", "rule.1")
    assert scales.rules("c") == ()
    assert scales.rules("d") == ("rule.2",)
    assert scales.largest == {"d": ("a", "c")}


@given(CONSTRAINTS, st.sets(st.sampled_from(NAMES)))
def test_every_tensor_has_a_root_whatever_is_demanded(constraints: list[Constraint], computed: set[str]) -> None:
    """No chain of demands goes in a circle."""
    scales = solved(*constraints, computed="".join(computed))
    for name in NAMES:
        root = scales.root(name)
        assert scales.root(root) == root


def test_a_scale_is_handed_over_and_others_keep_what_values_gave_it() -> None:
    took = [ScaleOf("a", "b", How.TAKES), ScaleOf("c", "b", How.TAKES)]
    scales = solved(*took, HandedOver("b", "d", ("a",), "b"))
    assert "".join(map(scales.root, NAMES)) == "addd"
    assert scales.measured == {"a": "b"}


def test_nothing_is_handed_over_where_the_threshold_is_fixed() -> None:
    scales = solved(ScaleOf("a", "b", How.TAKES), FixedThreshold("b", 3.0), HandedOver("b", "d", ("a",), "b"))
    assert "".join(map(scales.root, NAMES)) == "bbcd"
