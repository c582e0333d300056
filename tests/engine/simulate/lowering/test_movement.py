"""Data movement as strided copies, and resizing."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from engine.ops.core.windows import Geometry
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.movement import (
    MOST_LINES,
    bordered,
    concat,
    even_runs,
    extract,
    lower_depth_to_space,
    lower_pad,
    lower_resize,
    lower_shuffle,
    lower_space_to_depth,
    lower_upsample,
    pad,
    transpose,
)
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import call, compute, fed, instructions, kinds, ramp, run

X = ramp(1, 4, 6, 8, first=-100)


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_pixels_and_channels_change_places(dtype: type) -> None:
    x = X.astype(dtype)
    compute(lower_upsample, "HzQuantizedResizeUpsample", [x], scale=[2, 3])
    compute(lower_depth_to_space, "HzDepthToSpace", [x], blocksize=2)
    compute(lower_depth_to_space, "HzDepthToSpace", [x[..., :4]], blocksize=2, mode="CRD")
    compute(lower_space_to_depth, "HzSpaceToDepth", [x], block_height=2, block_width=3)
    compute(lower_shuffle, "HzChannelShuffle", [x], group=4)
    compute(lower_pad, "HzPad", [x], pads=[0, 1, 2, 0, 0, 3, 4, 0], value=-7)
    compute(lower_pad, "HzPad", [x, np.array([9], dtype)], pads=[0, 0, 1, 0, 0, 0, 0, 0])
    compute(lower_pad, "HzPad", [x], pads=[0, 0, 0, 3, 0, 0, 0, 5], value=4)
    compute(lower_pad, "HzPad", [x], pads=[0, 1, 0, 2, 0, 0, 3, 0], value=-1)


@pytest.mark.parametrize("twice", [0, 1])
@pytest.mark.parametrize("mode", ["center", "origin"])
def test_resizing_either_way(mode: str, twice: int) -> None:
    for sizes in ([9, 11], [3, 2]):
        attributes = {
            "sizes": sizes,
            "align_mode": mode,
            "is_interpolate_twice": twice,
            "step_decimal_bit": 16 - 8 * twice,
        }
        compute(lower_resize, "HzQuantizedRoiResize", [X], **attributes)


@pytest.mark.parametrize(
    ("lowering", "op_type", "attributes", "message"),
    [
        (lower_upsample, "HzQuantizedResizeUpsample", {"scale": [0, 1]}, "factors 0 and 1"),
        (lower_depth_to_space, "HzDepthToSpace", {"blocksize": 3}, "blocks of 3 for 8 channels"),
        (lower_depth_to_space, "HzDepthToSpace", {"blocksize": 2, "mode": "CRD"}, "mode CRD"),
        (
            lower_space_to_depth,
            "HzSpaceToDepth",
            {"block_height": 3, "block_width": 1},
            "blocks of 3x1 in a map of 4x6",
        ),
        (lower_shuffle, "HzChannelShuffle", {"group": 3}, "3 groups of 8 channels"),
        (lower_pad, "HzPad", {"pads": [1, 0, 0, 0, 0, 0, 0, 0]}, "samples are padded"),
        (lower_pad, "HzPad", {"pads": [0, -1, 0, 0, 0, 0, 0, 0]}, "pads that are negative"),
        (lower_pad, "HzPad", {"pads": [0] * 8, "mode": "reflect"}, "mode reflect"),
        (lower_pad, "HzPad", {"pads": [0, -1, 0, 0, 0, 0, 0, 0], "mode": "edge"}, "pads that are negative"),
        (lower_resize, "HzQuantizedRoiResize", {"sizes": [0, 4]}, "resized to 0x4"),
    ],
)
def test_what_is_left_to_the_definition(lowering: Any, op_type: str, attributes: dict[str, Any], message: str) -> None:
    program = Assembler()
    with pytest.raises(NotLowered, match=message):
        lowering(call(op_type, program.input(X.shape, np.int8), **attributes), program)


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
@pytest.mark.parametrize(
    "pads", [[0] * 8, [0, 1, 2, 0, 0, 3, 0, 0], [0, 0, 0, 2, 0, 0, 0, 3], [1, 0, 0, 0, 2, 70, 70, 0]]
)
def test_borders_that_repeat_the_outermost_line(dtype: type, pads: list[int]) -> None:
    compute(lower_pad, "HzPad", [X.astype(dtype)], pads=pads, mode="edge")


@pytest.mark.parametrize("mode", ["edge", "reflect"])
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        ([0, 0, 0], [0, 0, 0]),
        ([2, 0, 0], [1, 0, 0]),
        ([0, 3, 4], [0, 2, 5]),
        ([1, 1, 1], [0, 3, 0]),
        ([0, 0, 6], [0] * 3),
    ],
)
def test_borders_of_own_lines(mode: Any, dtype: type, begins: list[int], ends: list[int]) -> None:
    program = Assembler()
    feeds = fed(program, ramp(3, 4, 7).astype(dtype))
    found = run(program, feeds, bordered(feeds[0][0], begins, ends, mode, program))
    np.testing.assert_array_equal(found, np.pad(feeds[0][1], list(zip(begins, ends, strict=True)), mode=mode))


def test_borders_that_are_left_to_numpy() -> None:
    program = Assembler()
    x, long = program.input((3, 4), np.int8), program.input((1, 100), np.int8)
    with pytest.raises(NotLowered, match="4 lines of 4 are reflected"):
        bordered(x, [0, 4], [0, 0], "reflect", program)
    with pytest.raises(NotLowered, match=f"{MOST_LINES + 1} lines are copied one by one"):
        bordered(long, [0, MOST_LINES], [0, 0], "reflect", program)
    bordered(long, [0, MOST_LINES - 1], [0, 0], "reflect", program)
    with pytest.raises(NotLowered, match="0 elements"):
        bordered(program.input((0, 4), np.int8), [0, 1], [0, 0], "edge", program)


def test_lines_in_pieces_that_go_on_evenly() -> None:
    assert list(even_runs([2, 1, 0, 1, 2, 1])) == [(0, 1, 1), (1, 1, 1), (2, 3, 1), (5, 1, 1)]
    assert list(even_runs([0, 0, 0, 1, 2, 2])) == [(0, 3, 0), (3, 2, 1), (5, 1, 1)]
    assert list(even_runs([])) == []


def test_a_map_without_a_border_stays_as_it_is() -> None:
    program = Assembler()
    x = program.input((1, 2, 2, 1), np.int8)
    assert pad(x, Geometry(np.zeros(2), np.zeros(4, int), np.ones(2)), 5, program) is x
    assert kinds(program) == []


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.float32])
@pytest.mark.parametrize("perm", [(0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2), (3, 1, 0, 2)])
def test_axes_of_any_type(perm: tuple[int, ...], dtype: type) -> None:
    x = ramp(2, 17, 18, 19).astype(dtype)
    program = Assembler()
    feeds = fed(program, x)
    np.testing.assert_array_equal(run(program, feeds, transpose(feeds[0][0], perm, program)), x.transpose(perm))


def test_more_axes_than_a_copy_has_are_copied_one_by_one() -> None:
    x = ramp(2, 3, 2, 3, 2, 3)
    program = Assembler()
    feeds = fed(program, x)
    y = transpose(feeds[0][0], (5, 4, 3, 2, 1, 0), program)
    assert len(kinds(program)) == 2 * 2, "one for every index of the two shortest axes that neither side goes on along"
    np.testing.assert_array_equal(run(program, feeds, y), x.T)


def test_a_part_of_a_tensor_is_a_view_where_it_lies_together() -> None:
    program = Assembler()
    feeds = fed(program, X)
    x = feeds[0][0]
    rows = extract(x, [0, 1, 0, 0], [1, 2, 6, 8], [1] * 4, program)
    assert (rows.buffer, rows.start, kinds(program)) == (x.buffer, 48, [])
    strided = extract(x, [0, 1, 0, 3], [1, 2, 3, 2], [1, 1, 2, 4], program)
    assert kinds(program) == [InstructionKind.COPY]
    np.testing.assert_array_equal(run(program, feeds, strided), X[:, 1:3, ::2, 3::4])


def test_tensors_that_cannot_be_joined_or_turned() -> None:
    program = Assembler()
    x, y = program.input((1, 2), np.int8), program.input((2, 3), np.int8)
    with pytest.raises(NotLowered, match="tensors of several types or ranks"):
        concat([x, program.input((1, 2), np.int16)], 0, program)
    with pytest.raises(NotLowered, match="whose other dimensions differ"):
        concat([x, y], 0, program)
    with pytest.raises(NotLowered, match="a tensor of complex128"):
        transpose(program.input((2, 3), np.complex128), (1, 0), program)
    with pytest.raises(NotLowered, match=r"axes \[0, 0\] of a tensor of rank 2"):
        transpose(x, (0, 0), program)


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32])
@pytest.mark.parametrize("shape", [(6, 2, 8, 2), (3, 5, 4, 7), (2, 3, 4, 5), (1, 2, 9000, 1), (1, 300, 90, 1)])
def test_axes_in_every_order(shape: tuple[int, ...], kind: type) -> None:
    x = np.random.default_rng(0).integers(-100, 100, shape).astype(kind)
    for perm in itertools.permutations(range(4)):
        program = Assembler()
        feeds = fed(program, x)
        result = transpose(feeds[0][0], perm, program)
        np.testing.assert_array_equal(run(program, feeds, result), x.transpose(perm), err_msg=str(perm))


def test_pairs_that_stay_together_move_as_one_element() -> None:
    program = Assembler()
    transpose(program.input((6, 2, 8, 2), np.int8), (0, 2, 1, 3), program)
    (step,) = instructions(program)
    assert [tensor.dtype for tensor in step.operands.values()] == [np.int16, np.int16]


@pytest.mark.parametrize("shape", [(2, 90_000), (90_000, 2)])
def test_large_planes_are_cut_along_their_longer_axis(shape: tuple[int, int]) -> None:
    program = Assembler()
    transpose(program.input(shape, np.int8), (1, 0), program)
    assert [step.fields["units"] for step in instructions(program)] == [16]
