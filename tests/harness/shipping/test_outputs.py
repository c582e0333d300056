"""Outputs of two models, compared bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engine.config import load_config
from engine.convert.items import QUANTIZED
from engine.convert.pipeline import conversion
from harness.shipping.outputs import equal_samples, on_calibration_samples
from tests.engine.conformance.models import write_network


def test_a_sample_is_equal_where_all_its_outputs_are() -> None:
    first, second = np.zeros((3, 2, 2), np.float32), np.ones((3, 1), np.float32)
    assert str(equal_samples([first, second], [first.copy(), second.copy()])) == "3 of 3"
    other = first.copy()
    other[1, 0, 0] = 1e-7
    assert str(equal_samples([first, second], [other, second])) == "2 of 3"


def test_nan_equals_nan() -> None:
    array = np.array([[np.nan], [1.0]], np.float32)
    assert str(equal_samples([array], [array.copy()])) == "2 of 2"


def test_other_shapes_are_never_equal() -> None:
    array = np.zeros((2, 3), np.float32)
    assert equal_samples([array], [array, array]).equal == 0
    assert equal_samples([array], [np.zeros((2, 4), np.float32)]).equal == 0


def test_a_conversion_runs_on_its_calibration_samples(tmp_path: Path) -> None:
    run = conversion(load_config(write_network(tmp_path)))
    found = on_calibration_samples(run, run[QUANTIZED])
    assert str(found) == "outputs of 3 calibration samples equal"
