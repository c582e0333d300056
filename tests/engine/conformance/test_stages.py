"""What of two models is compared: types, thresholds, integers."""

from __future__ import annotations

import numpy as np
import pytest

from engine.conformance.stages import (
    activation_thresholds,
    calibrated_tensors,
    integers,
    same_thresholds,
    weight_thresholds,
)
from tests.engine.calibrate.models import add_calibration, graph, residual


def test_tensors_thresholds_and_types_by_name() -> None:
    model = residual()
    add_calibration(model, "r0", thresholds=[2.0], scales=[1.0], qtype="int16")
    add_calibration(model, "w1", thresholds=[1.0] * 4, scales=[1.0] * 4)
    add_calibration(model, "c0", switch="OFF", thresholds=[3.0], scales=[1.0])
    assert calibrated_tensors(model) == {"w1": "int8", "c0": "int8 off", "r0": "int16"}
    assert {name: values.tolist() for name, values in activation_thresholds(model).items()} == {
        "c0": [3.0],
        "r0": [2.0],
    }
    assert {name: values.tolist() for name, values in weight_thresholds(model).items()} == {"w1": [1.0] * 4}


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ([1.0], [1.0 + 9e-7], True),
        ([1.0], [1.0 + 1.2e-6], False),
        ([0.0], [1e-30], False),
        ([1.0], [1.0, 1.0], False),
        ([1e-20], [1.0000005e-20], True),
    ],
)
def test_thresholds_are_equal_up_to_a_relative_millionth(first: list[float], second: list[float], same: bool) -> None:
    assert same_thresholds(np.float32(first), np.float32(second)) is same


def test_only_integer_constants_are_integers() -> None:
    constants = {"f": np.float32([1]), "i": np.int8([2]), "u": np.uint8([3]), "b": np.asarray([True])}
    model = graph([], {"x": (1,)}, [], constants)
    assert {name: array.tolist() for name, array in integers(model).items()} == {"i": [2], "u": [3]}
