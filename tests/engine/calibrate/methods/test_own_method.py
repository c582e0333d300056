"""The worked example of CONTRIBUTING.md: a calibration method is one class and one entry of ``METHODS``."""

from __future__ import annotations

import pytest

from engine.calibrate.methods import methods
from engine.calibrate.methods.methods import METHODS, CalibrationOptions, Method
from engine.calibrate.statistics.distribution import Distribution
from engine.terms import CalibrationType
from tests.engine.calibrate.models import calibrated_residual, thresholds_of


class TwoThirds(Method):
    """Two thirds of the 99th percentile."""

    def threshold(self, distribution: Distribution, options: CalibrationOptions) -> float:
        return distribution.percentile(0.99) * 2 / 3

    def percentiles(self, options: CalibrationOptions) -> tuple[float, ...]:
        return (0.99,)

    def log_name(self, options: CalibrationOptions) -> str:
        return "two-thirds"


class Nameless(Method):
    """Says no name for the log."""

    def threshold(self, distribution: Distribution, options: CalibrationOptions) -> float:
        return 1.0


def test_thresholds_of_a_calibration_are_those_of_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = thresholds_of(calibrated_residual())
    percentile = thresholds_of(calibrated_residual(max_percentile=0.99))
    monkeypatch.setattr(methods, "METHODS", {**METHODS, CalibrationType.MAX: TwoThirds()})
    own = thresholds_of(calibrated_residual())
    activations = {name for name in own if percentile[name] != largest[name]}
    assert activations
    for name in activations:
        assert own[name] == pytest.approx([value * 2 / 3 for value in percentile[name]], rel=1e-6)
    weights = own.keys() - activations
    assert {name: own[name] for name in weights} == {name: largest[name] for name in weights}
    assert CalibrationOptions().log_name == "two-thirds"


def test_what_a_method_leaves_out_is_named() -> None:
    with pytest.raises(TypeError, match=r"Nameless.*log_name"):
        Nameless()  # type: ignore[abstract]
