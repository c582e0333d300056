"""Weights and parameters as kernels read them: panels of steps, lanes of 32 bits, words of two vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.native.registers import LANES
from engine.simulate.kernels.tiles import (
    BIAS,
    CHAIN,
    DEPTH,
    E_LEFT,
    E_RIGHT,
    LEAST_SHIFT,
    MATRICES,
    MAX_VECTORS,
    OUT_SHIFT,
    QUAD,
    RIGHT_SHIFT,
    SCALE,
    SHIFTS_WORDS,
    WORD,
    WORD_SCALE,
    WORD_SHIFT,
    steps_of,
)
from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.constants import convolution_parameters, pack_weights, surplus_of_chains, with_words
from tests.cpu import needs_cpu


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
    first_bytes = copies * steps * widths[0] * LANES * 4
    number_of_own_steps = 8 if quads and CHAIN > 1 else 0
    assert panels[:, 2].tolist() == [0, first_bytes + number_of_own_steps]
    first = packed[0].view(np.int8)[:first_bytes].view(kind)
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


@needs_cpu(CHAIN != 1, "an instruction sums four products of bytes")
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 40), st.floats(0.05, 1.0))
def test_steps_by_themselves_have_what_would_not_fit_a_chain(seed: int, groups: int, kernel: int, share: float) -> None:
    """All weights are in either, and the sums of a chain are int16 whatever the activations."""
    rng, channels = np.random.default_rng(seed), LANES + 3
    weights = np.where(rng.random((groups, channels, kernel)) < share, rng.choice([-128, 127], ()), 3).astype(np.int8)
    steps = steps_of(kernel, quads=True)
    places = np.arange(steps) * 100 + 7
    panels, packed = pack_weights(weights, quads=True, places=places)
    assert panels.tolist() == [[2, 0, 0]]
    for group in range(groups):
        chains, rest = np.split(packed[group], [steps * 2 * LANES * QUAD])
        count = int(rest[:8].view(np.int64)[0])
        found, own = rest[8 : 8 + 8 * count].view(np.int64), rest[8 + 8 * count :].reshape(count, 2 * LANES, QUAD)
        summed = chains.reshape(steps, 2 * LANES, QUAD).copy()
        assert not surplus_of_chains(summed.transpose(1, 0, 2)).any()
        for place, values in zip(found, own, strict=True):
            if values.any():
                summed[places.tolist().index(place)] += values
        columns = summed.transpose(1, 0, 2).reshape(2 * LANES, -1)
        np.testing.assert_array_equal(columns[:channels, :kernel], weights[group])
        assert not columns[channels:].any()


def test_a_chain_fits_up_to_its_most() -> None:
    """127 times the sum of weights of one sign that meet in an int16."""
    most = np.zeros((1, CHAIN, QUAD), np.int8)
    most[0, :, :2] = [127, 2] if CHAIN == 2 else [127, 127]
    assert not surplus_of_chains(most).any()
    most[0, -1, 1] += 1 if CHAIN == 2 else 0
    assert surplus_of_chains(most).ravel().tolist() == [CHAIN == 2, False]


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


@needs_cpu(LANES >= 8, "words are packed within 128 bits, of which a vector has two at least")
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
