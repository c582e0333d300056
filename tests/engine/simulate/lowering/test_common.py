"""What lowerings ask of a node, and how they describe layouts."""

from __future__ import annotations

import numpy as np
import pytest

from engine.simulate.lowering.common import (
    NotLowered,
    broadcast_strides,
    check_window,
    dense_strides,
    half_of,
    integer_limits,
    integer_output,
    joined,
    per_channel,
    tap_fields,
    window_fields,
)
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import call


def test_inputs_are_activations_maps_or_constants() -> None:
    program, table = Assembler(), np.zeros(256, np.int8)
    image, two = program.input((1, 2, 2, 4), np.int8), program.input((2, 2, 2, 4), np.int16)
    wide, rows = program.input((1, 2, 2, 4), np.int32), program.input((1, 4), np.int8)
    assert call("HzLut", image, table).image() is image
    assert call("HzLut", two, table).images() is two
    assert call("HzLut", image, table).constants(1)[0] is table
    refusals = {
        "input 0 is no activation": lambda: call("HzLut", table).tensor(),
        "input 0 holds 2 maps": lambda: call("HzLut", two).image(),
        "input 0 is no map in int8 or int16": lambda: call("HzLut", wide).images(),
        "inputs 1, 2 are not all constants": lambda: call("HzLut", image, table, image).constants(1, 2),
    }
    for message, refused in refusals.items():
        with pytest.raises(NotLowered, match=message):
            refused()
    with pytest.raises(NotLowered, match="no map"):
        call("HzLut", rows).images()


@pytest.mark.parametrize(
    "wrong",
    [
        {"kernel_shape": [3]},
        {"kernel_shape": [0, 1]},
        {"strides": [1, 0]},
        {"pads": [0, -1, 0, 0]},
        {"dilations": [0, 1]},
    ],
)
def test_windows_have_two_dimensions_and_nothing_negative(wrong: dict[str, list[int]]) -> None:
    window = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0, 0, 0, 0]}
    check_window({name: np.array(value) for name, value in window.items()})
    with pytest.raises(NotLowered, match="its window is not one of two dimensions"):
        check_window({name: np.array(value) for name, value in (window | wrong).items()})


def test_results_are_int8_or_int16() -> None:
    assert [integer_output(bits) for bits in (8, 16)] == [np.int8, np.int16]
    with pytest.raises(NotLowered, match="its results have 32 bits"):
        integer_output(32)
    assert [integer_limits(bits) for bits in (8, 16)] == [{"low": -128, "high": 127}, {"low": -32768, "high": 32767}]


def test_half_rounds_a_shift_up() -> None:
    assert half_of(np.array([0, 1, 2, 31])).tolist() == [0, 1, 2, 1 << 30]


def test_lists_hold_one_value_or_one_per_channel() -> None:
    assert per_channel(np.array([7]), 3).tolist() == [7, 7, 7]
    assert per_channel(np.array([[1, 2, 3]]), 3).tolist() == [1, 2, 3]
    with pytest.raises(NotLowered, match="a list of 2 values for 3 channels"):
        per_channel(np.array([1, 2]), 3)


def test_strides_in_elements() -> None:
    assert dense_strides((2, 3, 4)) == (12, 4, 1)
    assert broadcast_strides((3, 1), (2, 3, 4)) == (0, 1, 0)
    assert broadcast_strides((2, 1, 4), (2, 3, 4)) == (4, 0, 1)


def test_neighbouring_axes_are_joined_where_all_strides_go_on() -> None:
    assert joined((2, 3, 4), (12, 4, 1)) == [(24, 1)]
    assert joined((2, 1, 4), (12, 4, 1)) == [(2, 12), (4, 1)]
    assert joined((2, 3, 4), (12, 4, 1), (0, 4, 1)) == [(2, 12, 0), (12, 1, 1)]
    assert joined((1, 1), (1, 1)) == []


def test_fields_of_a_window() -> None:
    program = Assembler()
    x, y = program.input((1, 5, 6, 7), np.int16), program.input((1, 2, 3, 7), np.int16)
    attributes = {"kernel_shape": np.array([2, 2]), "strides": np.array([2, 1]), "dilations": np.array([1, 3])}
    assert window_fields(x, y, attributes) == {
        "in_h": 5, "in_w": 6, "in_c": 7, "out_h": 2, "out_w": 3, "out_c": 7, "stride_h": 2, "stride_w": 1,
    }  # fmt: skip
    assert tap_fields(x, attributes, program)["taps"] == 4
    (offsets,) = program.finish().constants
    assert offsets.tolist() == [0, 3 * 7 * 2, 6 * 7 * 2, (6 + 3) * 7 * 2]
