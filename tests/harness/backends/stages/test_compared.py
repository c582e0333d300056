"""Running on images in parts, compared on the way."""

from __future__ import annotations

import numpy as np
import pytest

from harness.backends.stages.compared import run_compared
from harness.datasets.base import ArraySplit, Samples

SPLIT = ArraySplit("evaluation", np.arange(70, dtype=np.uint8).reshape(70, 1, 1, 1), np.zeros(70, np.int64))
FLOATS = [np.stack([np.arange(70.0), np.ones(70)], axis=1), np.arange(70.0)[:, np.newaxis] ** 2]


def test_fewer_images_run_at_once_where_outputs_are_large() -> None:
    parts: list[int] = []
    floats = [np.ones((5, 2, 1_000_000), np.float32)]

    def run(samples: Samples) -> list[np.ndarray]:
        parts.append(len(samples["image"]))
        return [np.ones((len(samples["image"]), 2, 1_000_000), np.int8)]

    (outputs,), meter = run_compared(run, SPLIT, 5, floats)
    assert parts == [2, 2, 1]
    assert (outputs.shape, outputs.dtype, meter.peak) == ((5, 2, 1_000_000), np.int8, 0.0)


def test_images_run_32_at_a_time_beside_their_own_float_outputs() -> None:
    parts: list[int] = []

    def run(samples: Samples) -> list[np.ndarray]:
        images = samples["image"]
        parts.append(len(images))
        values = images.reshape(-1, 1).astype(np.float64)
        return [np.concatenate([values, np.ones_like(values)], axis=1), values**2 + 3]

    outputs, meter = run_compared(run, SPLIT, 69, FLOATS)
    assert parts == [32, 32, 5]
    np.testing.assert_array_equal(outputs[0], FLOATS[0][:69])
    np.testing.assert_array_equal(outputs[1], FLOATS[1][:69] + 3)
    assert meter.cosines.shape == (69, 2)
    assert meter.peak == 3
    signal = np.square(FLOATS[0][:69]).sum() + np.square(FLOATS[1][:69]).sum()
    assert meter.sqnr_db == pytest.approx(10 * np.log10(signal / (9 * 69)))
