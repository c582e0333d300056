"""Weights and parameters as kernels read them: panels of steps, lanes of 32 bits, words of two vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.native.registers import LANES
from engine.simulate.kernels.tiles import (
    BIAS,
    DEPTH,
    E_LEFT,
    E_RIGHT,
    LEAST_SHIFT,
    MATRICES,
    MAX_VECTORS,
    OUT_SHIFT,
    RIGHT_SHIFT,
    SCALE,
    SHIFTS_WORDS,
    WORD,
    WORD_SCALE,
    WORD_SHIFT,
    steps_of,
)
from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.constants import convolution_parameters, pack_weights, with_words


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


@pytest.mark.skipif(LANES < 8, reason="words are packed within 128 bits, of which a vector has two at least")
def test_words_of_two_vectors_lie_as_packs_leave_them() -> None:
    """The last shift is a number with AVX-512, and the factor of another product with AVX2."""
    params = np.zeros((7, 2 * LANES), np.int32)
    params[SCALE], params[OUT_SHIFT] = np.arange(2 * LANES) + 1, LEAST_SHIFT + np.arange(2 * LANES) % 3
    found = with_words(params)
    first = np.concatenate([np.r_[k : k + 4, LANES + k : LANES + k + 4] for k in range(0, LANES, 4)])
    assert found[WORD_SCALE, :LANES].view(np.int16).tolist() == (first + 1).tolist()
    left = LEAST_SHIFT - WORD + first % 3
    expected = left if SHIFTS_WORDS else 1 << (WORD - left)
    assert found[WORD_SHIFT, :LANES].view(np.int16).tolist() == expected.tolist()
    own = found[WORD_SCALE, LANES:].view(np.int16).reshape(-1, 2, 4)
    assert own[:, 0].ravel().tolist() == list(range(LANES + 1, 2 * LANES + 1))
    assert not own[:, 1].any()
