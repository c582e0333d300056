"""Pooling: windows, padding, and what is left to the definition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.pooling import (
    lower_average_pool,
    lower_global_average,
    lower_global_max_pool,
    lower_max_pool,
    lower_whole_average_pool,
)
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import call, compute, kinds, ramp

X = ramp(1, 5, 6, 3, first=-100)


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
@pytest.mark.parametrize(
    "window",
    [
        {"kernel_shape": [2, 3]},
        {"kernel_shape": [3, 3], "pads": [1, 0, 2, 1], "strides": [2, 1]},
        {"kernel_shape": [2, 2], "strides": [3, 4], "ceil_mode": 1},
        {"kernel_shape": [2, 2], "dilations": [3, 2]},
    ],
)
def test_windows_of_maxima(window: dict[str, Any], dtype: type) -> None:
    compute(lower_max_pool, "HzQuantizedMaxPool", [X.astype(dtype)], **window)


@pytest.mark.parametrize("channels", [3, 4, 7, 8, 11, 16, 23, 64, 70, 129])
def test_maxima_of_any_number_of_channels(channels: int) -> None:
    x = np.random.default_rng(channels).integers(-128, 128, (1, 5, 6, channels)).astype(np.int8)
    compute(lower_max_pool, "HzQuantizedMaxPool", [x], kernel_shape=[3, 2], pads=[1, 1, 0, 0])


@pytest.mark.parametrize(("pads", "signed"), [([1, 1, 1, 1], False), ([2, 0, 0, 0], True), ([0, 0, 0, 2], True)])
def test_windows_of_the_border_alone_are_negative(pads: list[int], signed: bool) -> None:
    program = Assembler()
    x = replace(program.input((1, 4, 4, 3), np.int8), signed=False)
    y = lower_max_pool(call("HzQuantizedMaxPool", x, kernel_shape=[2, 2], pads=pads), program)
    assert y.signed == signed


def test_a_border_is_the_least_integer() -> None:
    x = np.full((1, 1, 1, 1), -128, np.int8)
    found = compute(lower_max_pool, "HzQuantizedMaxPool", [x], kernel_shape=[2, 2], pads=[1, 1, 0, 0])
    assert found.item() == -128


def test_a_global_maximum_is_one_window() -> None:
    assert compute(lower_global_max_pool, "HzQuantizedGlobalMaxPool", [X]).ravel().tolist() == [-13, -12, -11]


def test_averages_are_multiplied_by_a_reciprocal_and_floored() -> None:
    ones = np.full((1, 3, 3, 1), 100, np.int8)
    assert compute(lower_average_pool, "HzQuantizedAveragePool", [ones], kernel_shape=[3, 3]).item() == (56 * 900) >> 9
    window = {"kernel_shape": [2, 3], "pads": [1, 1, 0, 1], "strides": [1, 2], "scale": 31}
    compute(lower_average_pool, "HzQuantizedAveragePool", [X], **window)


def test_an_average_of_the_whole_map_is_one_window() -> None:
    found = compute(lower_whole_average_pool, "HzQuantizedGlobalAveragePool", [X], scale=11)
    assert found.ravel().tolist() == ((X.astype(int).sum(axis=(1, 2)) * (2048 // 30)) >> 11).ravel().tolist()


def test_means_over_the_map_round_twice() -> None:
    x = ramp(1, 1, 2, 2, first=1)
    lists = {"accu_right_shift": [1, 0], "output_scale": [3, 5], "output_right_shift": [1, 2]}
    found = compute(lower_global_average, "HzSQuantizedGlobalAveragePool", [x], **lists)
    assert found.ravel().tolist() == [3, 8]
    large = np.full((1, 30, 30, 1), 127, np.int8)
    assert compute(lower_global_average, "HzSQuantizedGlobalAveragePool", [large], output_bit=32).item() == 900 * 127


def test_only_padded_maps_are_padded_first() -> None:
    program = Assembler()
    x = program.input(X.shape, np.int8)
    lower_max_pool(call("HzQuantizedMaxPool", x, kernel_shape=[2, 2]), program)
    assert kinds(program) == [InstructionKind.MAX_POOL]
    lower_max_pool(call("HzQuantizedMaxPool", x, kernel_shape=[2, 2], pads=[1, 0, 0, 0]), program)
    assert kinds(program)[1:] == [InstructionKind.PAD, InstructionKind.MAX_POOL]


@pytest.mark.parametrize(
    ("lowering", "op_type", "shape", "dtype", "attributes", "message"),
    [
        (
            lower_max_pool,
            "HzQuantizedMaxPool",
            (1, 2, 2, 1),
            np.int8,
            {"kernel_shape": [3, 1]},
            "no window fits a map of 2x2",
        ),
        (lower_max_pool, "HzQuantizedMaxPool", (2, 2, 2, 1), np.int8, {"kernel_shape": [1, 1]}, "holds 2 maps"),
        (
            lower_average_pool,
            "HzQuantizedAveragePool",
            (1, 2, 2, 1),
            np.int16,
            {"kernel_shape": [1, 1]},
            "a map of int16",
        ),
        (lower_global_average, "HzSQuantizedGlobalAveragePool", (1, 2, 2, 1), np.int16, {}, "a map of int16"),
        (
            lower_global_average,
            "HzSQuantizedGlobalAveragePool",
            (1, 2, 2, 1),
            np.int8,
            {"accu_right_shift": [32]},
            "a shift",
        ),
        (
            lower_global_average,
            "HzSQuantizedGlobalAveragePool",
            (1, 2, 2, 1),
            np.int8,
            {"output_scale": [65536]},
            "a shift",
        ),
    ],
)
def test_what_is_left_to_the_definition(
    lowering: Any, op_type: str, shape: tuple[int, ...], dtype: type, attributes: dict[str, Any], message: str
) -> None:
    program = Assembler()
    with pytest.raises(NotLowered, match=message):
        lowering(call(op_type, program.input(shape, dtype), **attributes), program)
