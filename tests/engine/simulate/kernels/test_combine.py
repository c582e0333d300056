"""Rows of sums and products in registers: every length, one element of the second operand, what stays outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.simulate.kernels.registers import LANES
from engine.simulate.lowering.elementwise import lower_difference, lower_product, lower_sum
from tests.engine.simulate.machine import compute

STAGE = {"output_right_shift": [9], "output_scale": [181], "accu_right_shift": [1]}
SUM = {**STAGE, "x_shift": [3], "e_scale": [77]}


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-128, 128, shape).astype(np.int8)


@pytest.mark.parametrize("length", [1, LANES - 1, LANES, LANES + 1, 3 * LANES + 2, 2000])
@pytest.mark.parametrize("bits", [8, 16])
def test_rows_of_every_length(length: int, bits: int) -> None:
    x = noise(1, 5, 3, length)
    for e in (noise(1, 5, 3, length + 1)[..., 1:].copy(), noise(1, 5, 3, 1), noise(1, 1, 3, length), noise(1, 1, 1, 1)):
        more: dict[str, Any] = {"output_bit": bits}
        compute(lower_product, "HzSElementwiseMul", [x, e], **STAGE, **more)
        compute(lower_sum, "HzSElementwiseAdd", [x, e], **SUM, **more)
        compute(lower_difference, "HzSElementwiseSub", [x, e], **SUM, **more)


@pytest.mark.parametrize("rounding", ["FLOOR", "ROUND"])
def test_extreme_values_and_both_roundings(rounding: str) -> None:
    x = np.resize(np.array([-128, 127, 0, -1], np.int8), (1, 2, 2, 2 * LANES))
    for scale, shift in ((65535, 15), (1, 0), (32768, 16)):
        stage = {"output_right_shift": [shift], "output_scale": [scale], "accu_right_shift": [0]}
        compute(lower_product, "HzSElementwiseMul", [x, x[..., ::-1].copy()], **stage, rounding_method=rounding)
