"""Convolutions: packed weights, panels, parameters, and the kernel that each takes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.native.registers import LANES, REGISTERS
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.kernels.machine import link
from engine.simulate.kernels.machine import run as run_machine
from engine.simulate.kernels.state import COPIED, RESULT
from engine.simulate.kernels.tiles import (
    BIAS,
    DEPTH,
    E_LEFT,
    E_RIGHT,
    MATRICES,
    MAX_VECTORS,
    OUT_SHIFT,
    RIGHT_SHIFT,
    SCALE,
    steps_of,
)
from engine.simulate.lowering import choice, convolution
from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.constants import convolution_parameters, pack_weights
from engine.simulate.lowering.convolution import lower_convolution, lower_preprocess
from engine.simulate.program import MOST_TOGETHER, Assembler, Instruction, PythonStep, Tensor, aligned_zeros
from tests.engine.simulate.machine import call, compute, instructions, kinds, ramp

OP = "HzSQuantizedConv"


def constants(out: int, inside: int, height: int = 1, width: int = 1, bias: int = 3) -> list[np.ndarray]:
    """Weights, biases and their shifts."""
    weights = ramp(out, height, width, inside, first=-7)
    return [weights, np.full(out, bias, np.int32), np.zeros(out, np.int8)]


@pytest.mark.parametrize("quads", [True, False])
@pytest.mark.parametrize(
    ("shape", "weights", "attributes"),
    [
        ((1, 5, 6, 3), (20, 3, 3, 3), {"kernel_shape": [3, 3], "pads": [1, 1, 0, 1]}),
        ((2, 4, 4, 5), (3, 1, 1, 5), {"kernel_shape": [1, 1], "strides": [2, 1]}),
        ((1, 6, 6, 4), (6, 2, 2, 2), {"kernel_shape": [2, 2], "group": 2, "dilations": [2, 3]}),
        ((1, 9, 9, 20), (20, 3, 3, 1), {"kernel_shape": [3, 3], "group": 20, "strides": [2, 2]}),
        ((1, 9, 9, 3), (3, 5, 3, 1), {"kernel_shape": [5, 3], "group": 3, "dilations": [1, 2]}),
        ((1, 8, 8, 3), (3, 3, 3, 1), {"kernel_shape": [3, 3], "group": 3, "pads": [1, 1, 1, 1]}),
        ((2, 5, 12, 6), (6, 3, 5, 1), {"kernel_shape": [3, 5], "group": 6, "pads": [0, 2, 1, 2], "strides": [2, 1]}),
        ((1, 4, 13, 1), (1, 1, 2, 1), {"kernel_shape": [1, 2], "group": 1}),
        ((2, 7, 12, 1), (8, 3, 3, 1), {"kernel_shape": [3, 3], "pads": [1, 0, 0, 1], "strides": [1, 2]}),
        ((1, 6, 15, 2), (5, 2, 3, 2), {"kernel_shape": [2, 3], "pads": [0, 1, 1, 0], "dilations": [2, 1]}),
        ((1, 4, 16, 4), (4, 3, 1, 1), {"kernel_shape": [3, 1], "group": 4}),
        ((1, 3, 4, 40), (40, 1, 1, 1), {"kernel_shape": [1, 1], "group": 40}),
        ((1, 3, 4, 3), (3, 1, 1, 1), {"kernel_shape": [1, 1], "group": 3}),
        ((2, 3, 9, 1), (1, 1, 1, 1), {"kernel_shape": [1, 1], "group": 1}),
    ],
)
def test_every_kind_of_window(
    shape: tuple[int, ...],
    weights: tuple[int, ...],
    attributes: dict[str, Any],
    quads: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (choice, convolution):
        monkeypatch.setattr(module, "REGISTERS", replace(REGISTERS, quads=quads and REGISTERS.quads))
    own = constants(weights[0], weights[3], *weights[1:3])
    stage = {"right_shift": [2], "scale": [23170], "out_shift": [14]}
    for dtype in (np.int8, np.int16):
        x = ramp(*shape, dtype=dtype, first=-40)
        for output in (
            stage,
            {**stage, "activation": "relu", "output_bit": 16},
            {"output_bit": 32, "high_precision_output": 1},
        ):
            compute(lower_convolution, OP, [x, *own], **attributes, **output)


def test_sums_come_from_the_arena() -> None:
    x, e = ramp(1, 2, 3, 2, first=-9), ramp(1, 2, 3, 4, first=-12)
    sums = {"kernel_shape": [1, 1], "use_sumin": 1, "e_scale": [3, 5, 7, 9], "e_shift": [2, -1, 0, -3]}
    compute(lower_convolution, OP, [x, *constants(4, 2), e], right_shift=[1], scale=[3], out_shift=[1], **sums)


def test_few_channels_by_themselves_are_tables() -> None:
    attributes = {"kernel_shape": [1, 1], "out_shift": [1], "scale": [3]}
    for channels, found in ((8, InstructionKind.TABLE), (9, InstructionKind.DEPTHWISE)):
        program = Assembler()
        x = program.input((1, 2, 2, channels), np.int8)
        lower_convolution(call(OP, x, *constants(channels, 1), group=channels, **attributes), program)
        assert kinds(program) == [found]


def test_pixels_lie_beside_each_other_where_vectors_would_be_empty() -> None:
    """12 pixels of 40 channels: two of them fill whole vectors of 16 (80), or the first count that reaches 128."""
    program = Assembler()
    x = program.input((1, 3, 4, 40), np.int8)
    lower_convolution(call(OP, x, *constants(40, 1), kernel_shape=[1, 1], group=40), program)
    (step,) = instructions(program)
    channels = step.operands["x"].shape[3]
    first = next(n for n in (1, 2, 3, 4, 6, 12) if n * 40 % LANES == 0 or n * 40 >= 128)
    assert channels == first * 40


def test_neighbours_share_the_vectors_of_a_depthwise_window() -> None:
    """A row of 64 pixels of one channel becomes vectors; the border grows to whole groups."""
    program = Assembler()
    x = program.input((1, 4, 64, 1), np.int8)
    window = {"kernel_shape": [3, 3], "group": 1, "pads": [1, 1, 1, 1]}
    lower_convolution(call(OP, x, *constants(1, 1, 3, 3), **window), program)
    pad, step = instructions(program)
    channels = step.operands["y"].shape[3]
    assert channels == LANES
    assert pad.operands["y"].shape[2] % channels == 0


@pytest.mark.skipif(MAX_VECTORS * LANES < 16, reason="the channels of two results are more than a panel has")
def test_neighbours_share_a_window_of_few_bytes() -> None:
    """Of an image, 5 columns of 3 channels are 15 bytes in one piece: what two results of 8 channels read of a row.

    Products of matrices have registers for four results.
    """
    program = Assembler()
    x = program.input((1, 9, 9, 3), np.int8)
    window = {"kernel_shape": [3, 3], "strides": [2, 2]}
    lower_convolution(call(OP, x, *constants(8, 3, 3, 3), **window, pads=[0, 0, 0, 0]), program)
    x = program.input((1, 9, 25, 3), np.int8)
    lower_convolution(call(OP, x, *constants(8, 3, 3, 3), **window, pads=[1, 1, 1, 1]), program)
    even, _, odd = instructions(program)
    expected = ((1, 4, 1, 32), 27, 8) if MATRICES else ((1, 4, 2, 16), 15, 4)
    assert (even.operands["y"].shape, even.fields["tap_length"], even.fields["stride_w"]) == expected
    assert (odd.operands["y"].shape, odd.fields["tap_length"], odd.fields["stride_w"]) == ((1, 5, 13, 8), 9, 2)


@pytest.mark.skipif(not REGISTERS.quads, reason="rows of a window are not gathered in pieces of 32 bytes")
def test_neighbours_share_a_window_of_more_bytes_where_that_takes_less_time() -> None:
    """9 columns of 3 channels are 27 bytes: two results of 8 channels fill a vector, two of 12 leave half of one. Four
    columns of 16 channels fill a register, and two results of 8 channels a vector."""
    program = Assembler()
    window = {"kernel_shape": [7, 7], "strides": [2, 2]}
    for channels in (8, 12):
        x = program.input((1, 13, 13, 3), np.int8)
        lower_convolution(call(OP, x, *constants(channels, 3, 7, 7), **window, pads=[0, 0, 0, 0]), program)
    x = program.input((1, 3, 6, 16), np.int8)
    lower_convolution(call(OP, x, *constants(8, 16, 3, 3), kernel_shape=[3, 3]), program)
    narrow, wide, deep = instructions(program)
    assert (deep.operands["y"].shape, deep.fields["tap_length"]) == ((1, 1, 2, 16), 64)
    expected = ((1, 4, 1, 32), 39) if MATRICES else ((1, 4, 2, 16), 27)
    assert (narrow.operands["y"].shape, narrow.fields["tap_length"]) == expected
    expected = ((1, 4, 1, 48), 39) if MATRICES else ((1, 4, 4, 12), 21)
    assert (wide.operands["y"].shape, wide.fields["tap_length"]) == expected
    x = ramp(1, 9, 13, 3, first=-9)
    compute(lower_convolution, OP, [x, *constants(8, 3, 7, 7)], **window, right_shift=[6], scale=[9], out_shift=[2])
    x = ramp(2, 5, 8, 16, first=-9)
    compute(lower_convolution, OP, [x, *constants(8, 16, 3, 3)], kernel_shape=[3, 3], right_shift=[6], scale=[9])


def test_neighbours_in_one_window_are_added_to_what_they_are_added_to() -> None:
    x, e = ramp(1, 3, 8, 1, first=-9), ramp(1, 1, 6, 4, first=-12)
    sums = {"kernel_shape": [3, 3], "use_sumin": 1, "e_scale": [3, 5, 7, 9], "e_shift": [2, -1, 0, -3]}
    stage = {"right_shift": [1, 2, 0, 1], "scale": [3, 4, 5, 6], "out_shift": [1, 0, 2, 1]}
    compute(lower_convolution, OP, [x, *constants(4, 1, 3, 3), e], **stage, **sums)


@pytest.mark.parametrize(("quads", "values", "kind"), [(True, 4, np.int8), (False, 2, np.int16)])
def test_panels_hold_steps_of_columns(quads: bool, values: int, kind: type) -> None:
    channels, kernel = (MAX_VECTORS + 1) * LANES - 1, values + 1
    weights = (np.arange(channels * kernel) % 100).astype(np.int8).reshape(1, channels, kernel)
    panels, packed = pack_weights(weights, quads)
    assert packed.dtype == (np.int8 if MATRICES else kind)
    widths = panels[:, 0].tolist()
    assert sum(widths) == MAX_VECTORS + 1
    assert max(widths) - min(widths) <= 1
    assert panels[:, 1].tolist() == [0, widths[0] * LANES]
    steps, copies = steps_of(kernel, quads), 1 if quads or not MATRICES else 2
    assert panels[:, 2].tolist() == [0, copies * steps * widths[0] * LANES * 4]
    first = packed[0].view(np.int8)[: panels[1, 2]].view(kind)
    if MATRICES:  # a vector after the other of each two, those for lower bytes beside those for upper ones
        pairs = np.split(first, range(2 * LANES * steps * values, len(first), 2 * LANES * steps * values))
        found = [pair.reshape(steps // DEPTH, -1, DEPTH, LANES, values).swapaxes(1, 2) for pair in pairs]
        first = np.concatenate([pair.reshape(steps, -1, LANES, values) for pair in found], axis=1)
        if not quads:
            np.testing.assert_array_equal(first[:, 1::2], first[:, ::2] << 8)
        first = first[:, ::copies]
    first = first.reshape(steps, widths[0] * LANES, values)
    assert not first[2:].any()
    np.testing.assert_array_equal(first[0], weights[0, : widths[0] * LANES, :values])
    np.testing.assert_array_equal(first[1, :, 0], weights[0, : widths[0] * LANES, values])
    assert not first[1, :, 1:].any()


def stage(**lists: Any) -> dict[str, Any]:
    defaults = {"right_shift": [0], "scale": [1], "out_shift": [0], "use_sumin": 0, "e_scale": [], "e_shift": []}
    return {name: value if name == "use_sumin" else np.array(value) for name, value in (defaults | lists).items()}


def test_parameters_fill_32_bit_lanes() -> None:
    given = stage(right_shift=[40], scale=[-2], out_shift=[3], use_sumin=1, e_scale=[5, 6], e_shift=[4, -40])
    params = convolution_parameters(np.array([2**31, -1]), given, 2)
    assert params[BIAS, :2].tolist() == [-(2**31), -1]
    assert params[RIGHT_SHIFT, :2].tolist() == [31, 31]
    assert params[SCALE, :2].tolist() == [0xFFFE] * 2
    assert params[OUT_SHIFT, :2].tolist() == [3, 3]
    assert params[E_LEFT, :2].tolist() == [4, 0]
    assert params[E_RIGHT, :2].tolist() == [0, 31]
    assert params.shape[1] % LANES == 0
    assert not params[:, 2:].any()


@pytest.mark.parametrize(
    ("lists", "lowered"),
    [
        ({"right_shift": [-1]}, False),
        ({"out_shift": [-1]}, False),
        ({"scale": [32767]}, True),
        ({"scale": [32768]}, False),
        ({"use_sumin": 1, "e_scale": [65535], "e_shift": [31]}, True),
        ({"use_sumin": 1, "e_scale": [65536], "e_shift": [0]}, False),
        ({"use_sumin": 1, "e_scale": [1], "e_shift": [32]}, False),
    ],
)
def test_parameters_that_no_lane_holds(lists: dict[str, Any], lowered: bool) -> None:
    if lowered:
        convolution_parameters(np.zeros(2, np.int64), stage(**lists), 2)
    else:
        with pytest.raises(NotLowered, match="lies outside what the machine takes"):
            convolution_parameters(np.zeros(2, np.int64), stage(**lists), 2)


def test_what_does_not_belong_together_is_left_to_the_definition() -> None:
    program = Assembler()
    x = program.input((1, 2, 2, 3), np.int8)
    with pytest.raises(NotLowered, match=r"weights \(4, 1, 1, 2\) do not belong to the input's 3 channels"):
        lower_convolution(call(OP, x, *constants(4, 2), kernel_shape=[1, 1]), program)
    with pytest.raises(NotLowered, match=r"results of shape \(1, 0, 0, 4\)"):
        lower_convolution(call(OP, x, *constants(4, 3, 3, 3), kernel_shape=[3, 3]), program)
    e = np.zeros((1, 2, 2, 3), np.int8)
    sums = {"kernel_shape": [1, 1], "use_sumin": 1, "e_scale": [1], "e_shift": [0]}
    with pytest.raises(NotLowered, match=r"an operand of int8 and shape \(1, 2, 2, 3\) is added"):
        lower_convolution(call(OP, x, *constants(4, 3), e, **sums), program)


def test_an_image_is_a_convolution_of_one_tap() -> None:
    compute(lower_preprocess, "HzSQuantizedPreprocess", [ramp(1, 2, 3, 3), *constants(3, 1)], channel_group=3)
    compute(lower_preprocess, "HzSQuantizedPreprocess", [ramp(1, 2, 3, 3), *constants(3, 3)])


@pytest.mark.parametrize(
    ("depthwise", "height", "pads"), [(True, 4, 0), (False, 4, 0), (True, convolution.KEPT_FROM, 1)]
)
def test_units_are_computed_alike_in_any_pieces(depthwise: bool, height: int, pads: int) -> None:
    """Whatever parts threads take of few rows and many channels; each piece gathers or pads what it reads."""
    channels = 5 * LANES + 3
    program = Assembler()
    x = program.input((1, height, 6, channels), np.int8)
    group, inside = (channels, 1) if depthwise else (1, channels)
    attributes = {"kernel_shape": [3, 3], "group": group, "output_bit": 32, "high_precision_output": 1}
    attributes["pads"] = [pads] * 4
    y = lower_convolution(call(OP, x, *constants(channels, inside, 3, 3), **attributes), program)
    program.keep(y)
    finished = program.finish()
    (part,) = finished.parts
    assert isinstance(part, np.ndarray)
    (record,) = link(part).table
    units = int(record["units"])
    assert (record["kept"] > 0) == (pads > 0)
    assert record["splits"] > 1 or record["kept"]
    kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)(int(record["kernel"]))
    scratch = aligned_zeros(finished.scratch_bytes)

    def results(cuts: Sequence[int]) -> NDArray[Any]:
        arena = finished.new_arena()
        x.view(arena)[...] = ramp(*x.shape)
        for begin, end in pairwise([0, *cuts, units]):
            kernel(part.ctypes.data, arena.ctypes.data, scratch.ctypes.data, begin, end)
        return y.view(arena).copy()

    whole = results([])
    assert np.unique(whole).size > 2
    for cuts in [*([cut] for cut in range(1, units)), range(1, units)]:
        np.testing.assert_array_equal(results(cuts), whole)


def test_samples_are_computed_side_by_side_where_they_share_many_weights() -> None:
    """Some of them at once, the last fewer; each as by itself."""
    program, rng = Assembler(), np.random.default_rng(5)
    x = program.input((1, 5, 4, 32), np.int8)
    window = {"kernel_shape": [3, 3], "pads": [1] * 4, "scale": [16384], "out_shift": [22]}

    def layer(given: Tensor, inside: int, channels: int) -> Tensor:
        weights = rng.integers(-128, 128, (channels, 3, 3, inside)).astype(np.int8)
        bias = [rng.integers(-9000, 9000, channels).astype(np.int32), np.zeros(channels, np.int8)]
        return lower_convolution(call(OP, given, weights, *bias, **window), program)

    many = layer(layer(x, 32, 16), 16, 520)
    y = layer(layer(many, 520, 40), 40, 8)
    program.keep(y)
    finished = program.finish()
    marks = [
        step.fields["together"] for step in finished.steps if isinstance(step, Instruction) and step.fields.get("steps")
    ]
    assert marks == [0, 1, 1, 0]
    assert finished.samples_together == MOST_TOGETHER
    (part,) = finished.parts
    assert not isinstance(part, PythonStep)
    given = rng.integers(-128, 128, (11, *x.shape)).astype(np.int8)
    found, expected = (np.zeros((11, *y.shape), np.int8) for _ in range(2))
    arenas, scratch = finished.new_arenas(4), aligned_zeros(finished.scratch_bytes)
    for sample in range(11):
        x.view(arenas[0])[...] = given[sample]
        run_machine(link(part), arenas.ctypes.data, scratch.ctypes.data)
        expected[sample] = y.view(arenas[0])
    ends = [(given.ctypes.data, x.offset, x.size, COPIED), (found.ctypes.data, y.offset, y.size, RESULT)]
    samples = np.array([(0, 11, len(ends), 4), (arenas.strides[0], 0, 0, 0), *ends], np.int64)
    run_machine(link(part), arenas.ctypes.data, scratch.ctypes.data, samples.ctypes.data)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) > 50
