"""Where windows lie on a map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.ops.core.windows import geometry, tap_corners, taps


def window(**lists: Any) -> dict[str, Any]:
    defaults = {"kernel_shape": [1, 3], "strides": [1, 2], "pads": [0, 0, 0, 0], **lists}
    return {name: value if isinstance(value, int) else np.array(value) for name, value in defaults.items()}


@pytest.mark.parametrize(
    ("width", "attributes", "out", "right", "extent"),
    [
        (7, {}, 3, 0, 3),
        (8, {}, 3, 0, 3),
        (8, {"ceil_mode": 1}, 4, 1, 3),
        (7, {"ceil_mode": 1}, 3, 0, 3),
        (8, {"dilations": [1, 2]}, 2, 0, 5),
        (7, {"pads": [0, 1, 0, 1]}, 4, 1, 3),
        (3, {"kernel_shape": [1, 1], "strides": [1, 4], "ceil_mode": 1}, 1, 0, 1),
        (4, {"kernel_shape": [1, 2], "strides": [1, 4], "pads": [0, 0, 0, 1], "ceil_mode": 1}, 1, 1, 2),
    ],
)
def test_a_last_window_counts_where_it_starts_inside(
    width: int, attributes: dict[str, Any], out: int, right: int, extent: int
) -> None:
    found = geometry((1, width), window(**attributes))
    assert (found.out.tolist(), found.extent.tolist(), int(found.pads[3])) == ([1, out], [1, extent], right)


def test_taps_go_row_by_row() -> None:
    attributes = window(kernel_shape=[2, 2], strides=[1, 1], dilations=[2, 3])
    assert tap_corners(attributes) == [(0, 0), (0, 3), (2, 0), (2, 3)]


def test_every_tap_sees_the_padding() -> None:
    x = np.arange(1, 5, dtype=np.int8).reshape(1, 1, 4, 1)
    found = [tap.ravel().tolist() for tap in taps(x, window(pads=[0, 1, 0, 0]), -9)]
    assert found == [[-9, 2], [1, 3], [2, 4]]
