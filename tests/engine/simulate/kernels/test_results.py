"""Results of convolutions, stored a vector or packed four vectors at a time: rests of tiles, panels and windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.native.registers import LANES
from engine.simulate.kernels.results import ROWS_1, ROWS_2
from engine.simulate.kernels.tiles import LEAST_SHIFT, PACKS, SHIFTS_WORDS
from engine.simulate.lowering.convolution import lower_convolution
from engine.simulate.program import Assembler
from tests.cpu import needs_cpu
from tests.engine.simulate.kernels.test_convolution import OP, WORD_STAGE, noise
from tests.engine.simulate.machine import call, compute, instructions


def stage(channels: int) -> dict[str, Any]:
    """Scales and shifts of each channel's own, of either sign, so small that many results are at a bound."""
    return {
        "right_shift": [k % 3 for k in range(channels)],
        "scale": [(16384 + 97 * k) * (-1) ** k for k in range(channels)],
        "out_shift": [LEAST_SHIFT + (5 * k) % 6 for k in range(channels)],
    }


@pytest.mark.parametrize("channels", [LANES - 1, LANES, 2 * LANES - 4, 2 * LANES, 3 * LANES, 4 * LANES, 5 * LANES + 1])
@pytest.mark.parametrize("pixels", [1, 2, 3, 4, 5, ROWS_1 - 1, ROWS_1, ROWS_1 + 1, 2 * ROWS_2 + 1, 50, 131])
@pytest.mark.parametrize("added", [None, np.int8, np.int16])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_rows_and_tiles_with_rests(channels: int, pixels: int, added: type | None, kind: type) -> None:
    constants = [noise(channels, 1, 1, 6), np.arange(channels, dtype=np.int32) * 300 - 900]
    inputs = [noise(1, 1, pixels, 6, kind=kind), *constants, np.zeros(channels, np.int8)]
    sums: dict[str, Any] = {}
    if added is not None:
        inputs.append(noise(1, 1, pixels, channels, kind=added))
        sums = {"use_sumin": 1, "e_scale": [40], "e_shift": [1]}
    for activation in ("none", "relu"):
        compute(lower_convolution, OP, inputs, kernel_shape=[1, 1], activation=activation, **stage(channels), **sums)


@pytest.mark.parametrize("channels", [LANES, 2 * LANES - 4, 3 * LANES, 3 * LANES + 2])
@pytest.mark.parametrize("columns", [5, 8, 21])
@pytest.mark.parametrize("strides", [[1, 1], [2, 2]])
@pytest.mark.parametrize("group", ["all", "one", "two"])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_windows(channels: int, columns: int, strides: list[int], group: str, kind: type) -> None:
    """Of depthwise, dense and grouped convolutions, those of few products included."""
    groups = {"all": channels, "one": 1, "two": 2 if channels % 2 == 0 else 1}[group]
    inside = channels // groups
    constants = [noise(channels, 3, 3, inside), np.arange(channels, dtype=np.int32) * 30, np.zeros(channels, np.int8)]
    window = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": strides, "group": groups}
    compute(lower_convolution, OP, [noise(1, 7, columns, channels, kind=kind), *constants], **window, **stage(channels))


@needs_cpu(PACKS, "results of others are packed in registers or not at all")
@pytest.mark.parametrize(("shift", "packs"), [(LEAST_SHIFT - 1, 0), (LEAST_SHIFT, 1), (31, 1)])
@pytest.mark.parametrize("bits", [8, 16])
def test_small_shifts_and_int16_are_computed_a_vector_at_a_time(shift: int, packs: int, bits: int) -> None:
    program, constants = Assembler(), [noise(16, 1, 1, 8), np.zeros(16, np.int32), np.zeros(16, np.int8)]
    x = program.input((1, 4, 4, 8), np.int8)
    changed = WORD_STAGE | {"out_shift": [shift]}
    lower_convolution(call(OP, x, *constants, kernel_shape=[1, 1], output_bit=bits, **changed), program)
    assert instructions(program)[-1].fields["packs"] == packs * (bits == 8)
    assert not SHIFTS_WORDS


@needs_cpu(PACKS, "others stream the weights of panels in their own way")
@pytest.mark.parametrize(("size", "inside"), [(1, 640), (3, 112)])
def test_many_weights_are_fetched_ahead(size: int, inside: int) -> None:
    """The last page that is fetched lies behind the weights."""
    channels = 448
    constants = [noise(channels, size, size, inside), np.zeros(channels, np.int32), np.zeros(channels, np.int8)]
    window = {"kernel_shape": [size, size], "pads": [size // 2] * 4}
    program, x = Assembler(), noise(1, 5, 5, inside)
    attributes = window | WORD_STAGE | {"right_shift": [6]}
    lower_convolution(call(OP, program.input(x.shape, np.int8), *constants, **attributes), program)
    fields = instructions(program)[-1].fields
    assert (fields["streams"], bool(fields.get("across"))) == (1, size == 3)
    compute(lower_convolution, OP, [x, *constants], **attributes)
