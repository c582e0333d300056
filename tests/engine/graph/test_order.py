"""Where elements are after any Reshapes and Transpositions, by axes, as numpy moves them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.graph.order import Order, joined

PLANES, PIXELS = (0, 3, 1, 2), (0, 2, 3, 1)


@given(st.data())
def test_the_order_of_elements_follows_any_chain(data: st.DataObject) -> None:
    """Sizes are products of the same factors in any order, or such that axes must be cut where they cannot be."""
    factors = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    count = int(np.prod(factors))
    order, elements = Order.start(count), np.arange(count)
    for _ in range(data.draw(st.integers(1, 4))):
        mixed = data.draw(st.permutations(factors))
        cuts = sorted(data.draw(st.sets(st.integers(1, len(factors) - 1), max_size=3))) if len(factors) > 1 else []
        shape = [int(np.prod(mixed[a:b])) for a, b in pairwise([0, *cuts, len(factors)])]
        perm = data.draw(st.permutations(range(len(shape))))
        order, elements = order.transposed(shape, perm), elements.reshape(shape).transpose(perm).ravel()
        np.testing.assert_array_equal(order.elements(), elements)
        assert order.in_place == bool((np.diff(elements) == 1).all())


def test_axes_that_do_not_divide_each_other() -> None:
    order = Order.start(36).transposed((6, 6), (1, 0))
    assert order.axes == ((6, 1), (6, 6))
    mixed = order.transposed((4, 9), (1, 0))
    assert not isinstance(mixed.axes, tuple)
    assert mixed.transposed((9, 4), (1, 0)).transposed((6, 6), (1, 0)).in_place


def test_an_order_takes_no_memory_for_large_tensors() -> None:
    shape = (1, 4096, 4096, 1024)
    order = Order.start(int(np.prod(shape, dtype=np.int64))).transposed(shape, PLANES)
    assert order.axes == ((1024, 1), (4096 * 4096, 1024))
    assert order.transposed((1, 1024, 4096, 4096), PIXELS).in_place
    assert Order.start(0).transposed((2, 0, 3), (2, 1, 0)).in_place


def test_axes_of_each_dimension() -> None:
    """Windows of 2 x 3 pixels: rows and columns are cut, channels stay whole."""
    order = Order.start(4 * 6 * 5).transposed((2, 2, 2, 3, 5), (0, 2, 1, 3, 4))
    rows, pixels, channels = order.by_dimension((4, 6, 5)) or ([], [], [])
    assert (rows, pixels) == ([(2, 60), (2, 15)], [(2, 30), (3, 5)])
    assert joined(channels) == ((5, 1),)
    assert order.by_dimension((7, 5)) is None
    assert Order.start(36).transposed((6, 6), (1, 0)).transposed((4, 9), (1, 0)).by_dimension((6, 6)) is None
