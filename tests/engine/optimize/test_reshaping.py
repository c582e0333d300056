"""What a Reshape does to axes."""

from __future__ import annotations

import pytest

from engine.optimize.reshaping import Correspondence, finds_its_place

JOINED = [
    ((1, 8, 4, 4), (1, 8, 16), True, True),
    ((1, 8, 8, 8), (1, 8, 64), True, True),
    ((1, 8, 8, 4), (1, 8, 32), False, False),
    ((1, 8, 32), (1, 8, 8, 4), False, False),
    ((1, 8, 4, 8), (1, 32, 8), True, False),
    ((1, 2, 3, 4, 5), (6, 4, 5), True, False),
    ((1, 16, 2, 1), (1, 16, 2), True, True),
    ((1, 1, 16, 8), (1, 16, 8), True, True),
    ((1, 16, 1, 2), (1, 16, 2), False, False),
    ((16, 1, 1, 8), (1, 16, 8), False, False),
    ((1, 12, 8, 6), (12, 48), True, False),
    ((1, 12, 8, 6), (96, 6), True, False),
    ((1, 12, 8, 6), (576,), True, False),
    ((1, 2, 2, 4, 4, 16), (4, 16, 16), True, False),
    ((1, 12, 8, 6), (1, 3, 4, 8, 2, 3), True, False),
    ((1, 8, 6, 5), (1, 2, 4, 2, 3, 5), True, True),
]


@pytest.mark.parametrize(("before", "after", "one", "two"), JOINED)
def test_what_is_joined_is_found_as_the_original_finds_it(
    before: tuple[int, ...], after: tuple[int, ...], one: bool, two: bool
) -> None:
    pair = (before, after)
    assert (finds_its_place([pair]), finds_its_place([pair, pair])) == (one, two)


def test_ones_are_dropped_at_the_same_end_of_all_operands() -> None:
    """The mean of one row, all of whose axes are 1, may be cut at either end, and the original cuts at the last."""
    assert not finds_its_place([((1, 16, 1, 1), (1, 16)), ((1, 1, 1, 1), (1, 1))])
    assert finds_its_place([((1, 16, 2, 1), (1, 16, 2)), ((1, 1, 2, 1), (1, 1, 2))])


@pytest.mark.parametrize(
    ("before", "after", "groups"),
    [
        ((2, 3, 4), (2, 12), (((0,), (0,)), ((1, 2), (1,)))),
        ((2, 12), (2, 3, 4), (((0,), (0,)), ((1,), (1, 2)))),
        ((6, 4), (4, 6), (((0, 1), (0, 1)),)),
        ((1, 6), (6,), (((0,), ()), ((1,), (0,)))),
        ((6,), (6, 1), (((0,), (0,)), ((), (1,)))),
        ((2, 3), (7,), None),
        ((0, 3), (0,), None),
    ],
)
def test_axes_that_hold_the_same_elements(before: tuple[int, ...], after: tuple[int, ...], groups: object) -> None:
    found = Correspondence.between(before, after)
    assert (None if found is None else found.groups) == groups
