"""Integers of PRelu on bayes and bayes-e."""

from __future__ import annotations

import numpy as np

from engine.ir import Calibration
from engine.ops.sprelu import sprelu_integers


def test_one_slope_is_spread_over_the_channels() -> None:
    threshold = np.asarray([2.0], np.float32)
    output = Calibration(threshold, threshold / np.float32(127))
    integers, attributes = sprelu_integers(np.asarray([0.25], np.float32), 8, output.scales, output)
    assert integers.shape == (1, 1, 1, 8)
    assert set(integers.ravel().tolist()) == {32767}
    assert attributes["negative_scale"] == [16384]
