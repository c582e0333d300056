"""How far the conversion of a network is known."""

from __future__ import annotations

import pytest

from engine.rulebook.known import Known, how_to_settle, in_short

SHOWN = "by rules that recorded conversions show"


def test_a_network_without_doubts() -> None:
    assert str(Known.of([("a", ""), ("b", "")])) == f"all 2 nodes {SHOWN}"


def test_doubtful_nodes_are_counted_and_named() -> None:
    found = Known.of([("a", ""), *((name, "rule x (one network shows it)") for name in "bcdef")])
    assert (found.nodes, found.doubtful) == (6, 5)
    twice = Known.of([("a", "x; y"), ("b", "y")])
    assert (twice.doubtful, dict(twice.doubts)) == (2, {"y": ("a", "b"), "x": ("a",)})
    assert str(found) == f"1 of 6 nodes {SHOWN}; 5 by rule x (one network shows it): b, c, d and 2 more"


def test_the_rarest_doubts_are_counted_only() -> None:
    found = Known.of([("a", "; ".join("uvwxyz"))])
    assert found.reasons == ("1 by u: a", "1 by v: a", "1 by w: a", "1 by x: a", "and 2 other reasons")


def known(good: int, *doubts: str) -> Known:
    """As many nodes without a doubt, and one for each doubt."""
    return Known.of([*((f"good{index}", "") for index in range(good)), *((f"bad {each}", each) for each in doubts)])


@pytest.mark.parametrize(
    ("conversions", "text"),
    [
        ([known(2), known(3)], f"all nodes {SHOWN}"),
        ([known(2, "x")], f"2 of 3 nodes {SHOWN}; 1 reason to doubt the others"),
        ([known(2, "x"), known(2, "y")], f"2 of 3 nodes {SHOWN}; 2 reasons to doubt the others"),
        (
            [known(3), known(1, "x", "y"), known(2, "y")],
            f"1 of 3 to 3 of 3 nodes {SHOWN}; 2 reasons to doubt the others",
        ),
    ],
)
def test_several_conversions_of_a_network_in_short(conversions: list[Known], text: str) -> None:
    assert in_short(conversions) == text


def test_what_settles_a_doubt_names_the_network() -> None:
    assert "--network nets/net.onnx asks the original" in how_to_settle("nets/net.onnx")
