"""Convolutions of channels that a Reshape made of rows or of a whole map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.optimize.covering import LONGEST_COVERED_SIDE, CoverByKernel
from tests.engine.optimize.equivalence import applied, assert_equivalent, build, operators
from tests.engine.optimize.networks import node, normal


def behind_reshape(
    before: tuple[int, ...], after: tuple[int, ...], *, kernel: int = 1, output: bool = False, **attributes: Any
) -> Any:
    """A convolution of 3 channels behind a Reshape of ``before`` to ``after``, which may be an output too."""
    weight = normal(3 * attributes.get("group", 1), after[1] // attributes.get("group", 1), kernel, kernel)
    nodes = [node("Reshape", "x s", "r"), node("Conv", "r w b", name="conv", **attributes)]
    constants = {"s": np.asarray(after), "w": weight, "b": normal(len(weight))}
    return build(nodes, {"x": before}, ["r", "y"] if output else ["y"], constants)


@pytest.mark.parametrize(
    ("before", "after", "kernel"),
    [
        ((1, 4, 5, 9), (1, 20, 1, 9), (5, 1)),
        ((2, 4, 5, 9), (2, 20, 1, 9), (5, 1)),
        ((1, 4, 5, 7), (1, 140, 1, 1), (5, 7)),
        ((1, 4, 1, 7), (1, 28, 1, 1), (1, 7)),
        ((1, 1, 1, 4), (1, 4, 1, 1), (1, 4)),
        ((1, 2, LONGEST_COVERED_SIDE, 12), (1, 14, 1, 12), (7, 1)),
    ],
)
def test_rows_and_maps_are_covered(before: tuple[int, ...], after: tuple[int, ...], kernel: tuple[int, int]) -> None:
    model = behind_reshape(before, after)
    modified, found = applied(CoverByKernel(), model)
    conv = found.graph[-1]
    assert modified
    assert conv.attributes["kernel_shape"].value == kernel
    assert conv.inputs[0].name == "x"
    assert tuple(conv.inputs[1].shape) == (3, before[1], *kernel)
    assert conv.inputs[1].name == "w"
    assert_equivalent(model, found)


@pytest.mark.parametrize(
    "model",
    [
        behind_reshape((1, 2, LONGEST_COVERED_SIDE + 1, 12), (1, 16, 1, 12)),
        behind_reshape((1, 4, 5, 9), (1, 180, 1, 1)),
        behind_reshape((1, 4, 5, 9), (1, 20, 9, 1)),
        behind_reshape((1, 4, 4, 6), (1, 8, 2, 6)),
        behind_reshape((1, 4, 4, 6), (1, 24, 4, 1)),
        behind_reshape((1, 4, 4, 6), (1, 2, 8, 6)),
        behind_reshape((2, 4, 4, 6), (1, 8, 4, 6)),
        behind_reshape((2, 4, 6), (1, 8, 1, 6)),
        behind_reshape((1, 4, 5, 9), (1, 20, 1, 9), output=True),
        behind_reshape((1, 4, 5, 9), (1, 20, 1, 9), group=2),
        behind_reshape((1, 4, 5, 9), (1, 20, 1, 9), strides=[1, 2]),
        behind_reshape((1, 4, 5, 9), (1, 20, 1, 9), pads=[0, 1, 0, 1]),
        behind_reshape((1, 4, 5, 9), (1, 20, 1, 9), kernel=3, pads=[1, 1, 1, 1]),
    ],
    ids=["long", "wide", "columns", "part", "other", "fewer", "batch", "line", "read", "groups", "step", "pads", "3x3"],
)
def test_others_stay(model: Any) -> None:
    modified, found = applied(CoverByKernel(), model)
    assert not modified
    assert operators(found) == ["Reshape", "Conv"]
