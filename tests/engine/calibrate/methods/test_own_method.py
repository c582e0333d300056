"""Thresholds of a calibration by a registered method, and what a method must have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.calibrate import CalibrationOptions, Method
from engine.calibrate.methods.methods import method_of
from engine.calibrate.statistics.distribution import Distribution
from engine.extensions import CALIBRATION_METHODS
from tests.engine.calibrate.models import calibrated_residual, thresholds_of
from tests.registered import registered


class TwoThirds(Method):
    """Two thirds of the 99th percentile."""

    def threshold(self, distribution: Distribution, options: CalibrationOptions) -> float:
        return distribution.percentile(0.99) * 2 / 3

    def percentiles(self, options: CalibrationOptions) -> tuple[float, ...]:
        return (0.99,)

    def log_name(self, options: CalibrationOptions) -> str:
        return "two_thirds"


class Nameless(Method):
    """Says no name for the log."""

    def threshold(self, distribution: Distribution, options: CalibrationOptions) -> float:
        return 1.0


@pytest.fixture(autouse=True, scope="module")
def _extensions() -> Iterator[None]:
    with registered(CALIBRATION_METHODS, two_thirds_of_tests=TwoThirds):
        yield


def test_thresholds_of_a_calibration_are_those_of_the_method() -> None:
    largest = thresholds_of(calibrated_residual())
    percentile = thresholds_of(calibrated_residual(max_percentile=0.99))
    own = thresholds_of(calibrated_residual(calibration_type="two_thirds_of_tests"))
    activations = {name for name in own if percentile[name] != largest[name]}
    assert activations
    for name in activations:
        assert own[name] == pytest.approx([value * 2 / 3 for value in percentile[name]], rel=1e-6)
    weights = own.keys() - activations
    assert {name: own[name] for name in weights} == {name: largest[name] for name in weights}
    options = CalibrationOptions.model_validate({"calibration_type": "two_thirds_of_tests", "per_channel": True})
    assert isinstance(method_of(options), TwoThirds)
    assert options.log_name == "two_thirds:per_channel"
    assert CalibrationOptions.model_validate_json(options.model_dump_json()) == options


def test_what_a_method_leaves_out_is_named() -> None:
    with pytest.raises(TypeError, match=r"Nameless.*log_name"):
        Nameless()  # type: ignore[abstract]
