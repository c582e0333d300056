"""Registered calibration methods and corrections as options: what is read, what is refused, and what keys hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from engine.calibrate import Correction, CorrectionWork, Method
from engine.calibrate.methods.methods import CalibrationOptions
from engine.config import parse_config
from engine.convert.runner import asked_of
from engine.convert.stages.calibrate import CALIBRATE, calibration_options
from engine.extensions import CALIBRATION_METHODS, CORRECTIONS, OwnCorrection, OwnMethod, read_corrections, read_method
from engine.terms import CalibrationType
from tests.configurations import FEATUREMAP
from tests.registered import registered


class NeedsNothing(Method):
    """Fixed thresholds."""

    needs_data = False

    def threshold(self, distribution: Any, options: Any) -> float:
        return 1.0

    def log_name(self, options: Any) -> str:
        return "needs_nothing"


class Nothing(Correction):
    """Changes nothing."""

    def correct(self, calibrated: Any, work: CorrectionWork) -> Any:
        return calibrated


@pytest.fixture(autouse=True, scope="module")
def _extensions() -> Iterator[None]:
    with (
        registered(CALIBRATION_METHODS, needs_nothing_of_tests=NeedsNothing),
        registered(CORRECTIONS, nothing_of_tests=Nothing),
    ):
        yield


def test_a_method_is_one_of_ours_or_registered() -> None:
    assert read_method("kl") is CalibrationType.KL
    own = read_method("needs_nothing_of_tests")
    assert isinstance(own, OwnMethod)
    assert (own.value, own.needs_data, own.gives_thresholds, own.needs_histogram) == (
        "needs_nothing_of_tests",
        False,
        False,
        False,
    )
    assert own.what == "calibration method needs_nothing_of_tests"
    with pytest.raises(ValueError, match=r"calibration_type 'maxx' should in list \['default', .*; did you mean 'max'"):
        read_method("maxx")
    with pytest.raises(ValueError, match=r"calibration_type \[None\] should in list"):
        read_method([None])


def test_corrections_are_a_list_of_registered_names() -> None:
    assert read_corrections("none") == ()
    assert read_corrections(None) == ()
    assert read_corrections("nothing_of_tests") == (OwnCorrection("nothing_of_tests"),)
    with pytest.raises(ValueError, match="correction 'nothing_of_tests' is named twice"):
        read_corrections("nothing_of_tests; nothing_of_tests")
    with pytest.raises(ValueError, match="unknown correction 'nothing_of_test'; did you mean 'nothing_of_tests'"):
        read_corrections(["nothing_of_test"])
    with pytest.raises(ValueError, match="3 is no name of a correction"):
        read_corrections([3])
    with pytest.raises(ValidationError, match="unknown correction 'adaptive_rounding'"):
        CalibrationOptions.model_validate({"corrections": "adaptive_rounding"})


def test_a_converter_file_names_them_and_keys_hold_their_sources() -> None:
    content = {group: dict(values) for group, values in FEATUREMAP.items()}
    content["calibration_parameters"] |= {
        "calibration_type": "needs_nothing_of_tests",
        "corrections": "nothing_of_tests",
    }
    config = parse_config(content, "test")
    options = calibration_options(config)
    assert options.calibration_type == OwnMethod("needs_nothing_of_tests")
    assert options.corrections == (OwnCorrection("nothing_of_tests"),)
    asked = asked_of(config, CALIBRATE.parameters)["calibration_parameters"]
    assert asked["calibration_type"] == [
        "needs_nothing_of_tests",
        CALIBRATION_METHODS.entry("needs_nothing_of_tests").digest,
    ]
    assert asked["corrections"] == [["nothing_of_tests", CORRECTIONS.entry("nothing_of_tests").digest]]
