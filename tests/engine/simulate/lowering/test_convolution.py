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
from engine.simulate.lowering import choice, convolution
from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.convolution import lower_convolution, lower_preprocess
from engine.simulate.program import MOST_TOGETHER, Assembler, Instruction, PythonStep, Tensor, aligned_zeros
from tests.engine.simulate.machine import arena_of, call, compute, kinds, ramp

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


def test_neighbours_in_one_window_are_added_to_what_they_are_added_to() -> None:
    x, e = ramp(1, 3, 8, 1, first=-9), ramp(1, 1, 6, 4, first=-12)
    sums = {"kernel_shape": [3, 3], "use_sumin": 1, "e_scale": [3, 5, 7, 9], "e_shift": [2, -1, 0, -3]}
    stage = {"right_shift": [1, 2, 0, 1], "scale": [3, 4, 5, 6], "out_shift": [1, 0, 2, 1]}
    compute(lower_convolution, OP, [x, *constants(4, 1, 3, 3), e], **stage, **sums)


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


@pytest.mark.parametrize("channels", [1, 2, 3, LANES - 1, LANES + 1, 2 * LANES - 4])
@pytest.mark.parametrize(("kernel", "pads"), [(1, 0), (3, 1)])
@pytest.mark.parametrize("signed", [True, False])
def test_units_write_nothing_that_belongs_to_others(channels: int, kernel: int, pads: int, signed: bool) -> None:
    """Backwards, which a unit that wrote behind its last pixel would not survive."""
    program = Assembler()
    x = replace(program.input((1, 40, 40, 2 * LANES), np.int8), signed=signed)
    stage = {"right_shift": [2], "scale": [23170], "out_shift": [18], "pads": [pads] * 4}
    own = constants(channels, 2 * LANES, kernel, kernel)
    y = lower_convolution(call(OP, x, *own, kernel_shape=[kernel, kernel], **stage), program)
    program.keep(y)
    finished = program.finish()
    (part,) = finished.parts
    assert isinstance(part, np.ndarray)
    table = link(part).table
    scratch = aligned_zeros(finished.scratch_bytes)

    def results(step: int) -> NDArray[Any]:
        arena = arena_of(finished)
        x.view(arena)[...] = ramp(*x.shape) & 127
        for index, record in enumerate(table):
            kernel_of = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)(int(record["kernel"]))
            at = part.ctypes.data + index * part.itemsize
            for unit in range(int(record["units"]))[::step]:
                kernel_of(at, arena.ctypes.data, scratch.ctypes.data, unit, unit + 1)
        return y.view(arena).copy()

    assert int(table[-1]["units"]) > 1
    np.testing.assert_array_equal(results(-1), results(1))


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
        arena = arena_of(finished)
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
