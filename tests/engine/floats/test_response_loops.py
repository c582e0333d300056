"""Compiled response normalisation: what it computes, and that sums move along the channels."""

from __future__ import annotations

import numpy as np
import pytest

from engine.floats import response_loops
from engine.floats.compiled import LRN

ALPHA, BETA, BIAS = (np.float32(number) for number in (0.02, 0.6, 1.5))


@pytest.mark.parametrize(("channels", "reach"), [(1, 2), (3, 1), (3, 2), (9, 2)])
def test_windows_reach_to_either_side(channels: int, reach: int) -> None:
    source = np.random.default_rng(7).normal(scale=4, size=(channels, 10)).astype(np.float32)
    result = np.empty_like(source)
    LRN(source, np.asarray([ALPHA, BETA, BIAS], np.float32), reach, result)
    squares = np.pad(source.astype(np.float64) ** 2, ((reach, reach), (0, 0)))
    sums = np.stack([squares[channel : channel + 2 * reach + 1].sum(axis=0) for channel in range(channels)])
    np.testing.assert_allclose(result, source * (float(BIAS) + float(ALPHA) * sums) ** -float(BETA), rtol=1e-5)


def test_a_sum_takes_in_one_channel_and_lets_one_go() -> None:
    source = np.full((4, 1), 5e3, np.float32)
    source[2:] = 1e-3
    result = np.empty_like(source)
    LRN(source, np.asarray([1, 1, 3], np.float32), 0, result)
    np.testing.assert_allclose(result[2], source[2] / 4, rtol=1e-6)  # 3 and 2.5e7 were rounded to 2.5e7 and 4


def test_the_loop_is_of_this_module() -> None:
    assert LRN.function is response_loops.response_normalisation
