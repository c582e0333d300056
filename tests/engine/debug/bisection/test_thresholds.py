"""Noise of thresholds, on values whose best threshold is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.debug.bisection.thresholds import noise, threshold_losses
from tests.engine.calibrate.models import add_calibration, identity, residual


@pytest.mark.parametrize(
    ("magnitudes", "threshold", "qtype", "expected"),
    [
        ([1.0, 2.0], 127.0, "int8", 2 / 12),
        ([0.1, 2.0], 127.0, "int8", 0.01 + 1 / 12),
        ([127.0, 130.0], 127.0, "int8", 1 / 12 + 9.0),
        ([200.0], 255.0, "uint8", 1 / 12),
        ([200.0], 32767.0, "int16", 1 / 12),
    ],
)
def test_noise_is_a_twelfth_of_a_step_or_the_excess(
    magnitudes: list[float], threshold: float, qtype: str, expected: float
) -> None:
    assert noise(np.asarray(magnitudes), threshold, qtype) == pytest.approx(expected)


def losses(thresholds: list[float], values: np.ndarray, **attributes: object) -> list:
    model = identity(values.shape)
    add_calibration(model, "t", thresholds=thresholds, scales=[each / 127 for each in thresholds], axis=1, **attributes)
    return list(threshold_losses(model, {"t": values}))


def test_a_loss_is_the_ratio_to_the_best_candidate_in_decibel() -> None:
    values = np.full((1, 1, 100), 127.0)
    (found,) = losses([254.0], values)
    assert (found.node, found.tensor, found.threshold, found.best) == ("t_HzCalibration", "t", 254.0, 127.0)
    assert found.decibel == pytest.approx(20 * math.log10(2))
    assert losses([127.0], values)[0].decibel == pytest.approx(0)


def test_candidates_are_half_octaves() -> None:
    values = np.full((1, 1, 1000), 1.0)
    values[0, 0, 0] = 1.0 * 2**0.5
    (found,) = losses([100.0], values)
    assert found.best in (pytest.approx(2**0.5), pytest.approx(1.0))


def test_the_worst_channel_counts() -> None:
    values = np.asarray([[[127.0] * 50, [127.0] * 50]])
    (found,) = losses([127.0, 508.0], values)
    assert (found.threshold, found.decibel) == (508.0, pytest.approx(20 * math.log10(4)))


def test_zeros_lose_nothing() -> None:
    assert losses([5.0], np.zeros((1, 1, 4)))[0].decibel == 0.0


def test_what_is_off_or_not_given_is_left_out() -> None:
    values = np.ones((1, 1, 4))
    assert losses([1.0], values, switch="OFF") == []
    model = identity((1, 1, 4))
    add_calibration(model, "t", thresholds=[1.0], scales=[1.0])
    assert list(threshold_losses(model, {})) == []


def test_weights_need_no_values() -> None:
    model = residual()
    add_calibration(model, "w1", thresholds=[100.0] * 4, scales=[100 / 127] * 4)
    (found,) = threshold_losses(model, {})
    assert (found.tensor, found.decibel > 20) == ("w1", True)
