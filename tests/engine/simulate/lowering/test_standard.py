"""Standard operators that move integers: the same memory where it can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.standard import (
    StandardLowering,
    lower_concat,
    lower_flatten,
    lower_gather,
    lower_identity,
    lower_reshape,
    lower_slice,
    lower_split,
    lower_transpose,
)
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import fed, instructions, ramp, run

X = ramp(2, 3, 4, 5)


def moved(lowering: StandardLowering, inputs: list[Any], outputs: int = 1, index: int = 0, **attributes: Any) -> Any:
    """A result of a node whose first input is fed, and how many instructions that takes."""
    program = Assembler()
    feeds = fed(program, inputs[0])
    node = ir.node("Node", [], attributes, num_outputs=outputs, name="n")
    results = lowering(node, [feeds[0][0], *inputs[1:]], program)
    assert len(results) == outputs
    count = len(instructions(program))
    return run(program, feeds, results[index]), count


def test_what_stays_in_place() -> None:
    for lowering, inputs, attributes, shape in (
        (lower_reshape, [X, np.array([0, -1, 10])], {}, (2, 6, 10)),
        (lower_reshape, [X[:0], np.array([0, 3, 20])], {"allowzero": 1}, (0, 3, 20)),
        (lower_flatten, [X], {}, (2, 60)),
        (lower_flatten, [X], {"axis": -1}, (24, 5)),
        (lower_flatten, [X], {"axis": 0}, (1, 120)),
        (lower_identity, [X], {}, X.shape),
        (lower_transpose, [X[:1, :, :1]], {"perm": [2, 1, 0, 3]}, (1, 3, 1, 5)),
    ):
        found, count = moved(lowering, inputs, **attributes)  # type: ignore[arg-type]  # one table of several kinds
        assert (found.shape, count) == (shape, 0)
        np.testing.assert_array_equal(found.ravel(), inputs[0].ravel()[: found.size])


def test_axes_change_places() -> None:
    for perm in ([0, 2, 3, 1], [3, 2, 1, 0], [1, 0, 3, 2]):
        found, _ = moved(lower_transpose, [X], perm=perm)
        np.testing.assert_array_equal(found, X.transpose(perm))
    found, _ = moved(lower_transpose, [X])
    np.testing.assert_array_equal(found, X.T)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (([1, 0], [3, 9]), X[1:3, 0:9]),
        (([-2], [-1], [3]), X[..., -2:-1]),
        (([0, 1], [4, 5], [2, 3], [2, 3]), X[:, :, 0:4:2, 1:5:3]),
    ],
)
def test_slices(bounds: tuple[list[int], ...], expected: np.ndarray) -> None:
    found, _ = moved(lower_slice, [X, *(np.array(bound) for bound in bounds)])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("indices", "axis"),
    [(1, 0), (-1, 2), ([1], -1), ([0, 2], 3), ([[1, 2], [3, 4]], 3), ([-3, -2], 1)],
)
def test_elements_of_an_axis(indices: Any, axis: int) -> None:
    found, _ = moved(lower_gather, [X, np.array(indices)], axis=axis)
    np.testing.assert_array_equal(found, np.take(X, np.array(indices), axis))


def test_parts_are_equal_but_for_the_last_or_as_stated() -> None:
    for index, part in enumerate((X[..., :2], X[..., 2:4], X[..., 4:])):
        found, _ = moved(lower_split, [X], 3, index, axis=3)
        np.testing.assert_array_equal(found, part)
    found, _ = moved(lower_split, [X, np.array([1, 2])], 2, 1, axis=1)
    np.testing.assert_array_equal(found, X[:, 1:])
    found, _ = moved(lower_split, [X], 2, 0, axis=1, split=[2, 1])
    np.testing.assert_array_equal(found, X[:, :2])


def test_constants_are_joined_in_the_arena() -> None:
    other = ramp(2, 1, 4, 5, first=50)
    found, _ = moved(lower_concat, [X, other], axis=1)
    np.testing.assert_array_equal(found, np.concatenate([X, other], axis=1))


@pytest.mark.parametrize(
    ("lowering", "inputs", "attributes", "message"),
    [
        (lower_identity, [np.ones(2, np.int8)], {}, "its first input is a constant"),
        (lower_reshape, ["x", "x"], {}, "its shape is computed"),
        (lower_slice, ["x", "x", np.array([1])], {}, "its bounds are computed"),
        (lower_slice, ["x"], {}, "its bounds are computed"),
        (lower_slice, ["x", np.array([1]), np.array([1])], {}, "nothing is left"),
        (lower_slice, ["x", np.array([1]), np.array([0]), np.array([0]), np.array([-1])], {}, "it goes backwards"),
        (lower_gather, ["x", "x"], {}, "its indices are computed"),
        (lower_gather, ["x", np.array(2)], {}, "an index lies outside"),
        (lower_gather, ["x", np.array([0, 2, 1])], {"axis": 1}, "do not go on evenly"),
        (lower_gather, ["x", np.array([], np.int64)], {}, "do not go on evenly"),
        (lower_split, ["x", "x"], {}, "its sizes are computed"),
        (lower_split, ["x", np.array([2, 0])], {}, "a part is empty"),
    ],
)
def test_what_is_left_to_the_definition(
    lowering: Any, inputs: list[Any], attributes: dict[str, Any], message: str
) -> None:
    program = Assembler()
    x = program.input((2, 3), np.int8)
    given = [x if isinstance(value, str) else value for value in inputs]
    with pytest.raises(NotLowered, match=message):
        lowering(ir.node("Node", [], attributes, num_outputs=2, name="n"), given, program)
