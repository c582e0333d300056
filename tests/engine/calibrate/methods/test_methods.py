"""From the distribution of a tensor to its threshold."""

from __future__ import annotations

import numpy as np
import pytest

from engine.calibrate import CalibrationOptions
from engine.calibrate.methods.kl import kl_threshold
from engine.calibrate.methods.methods import METHODS, method_of
from engine.calibrate.methods.mse import mse_threshold
from engine.calibrate.statistics.distribution import Distribution, Histogram
from engine.errors import ConfigError, UnsupportedError
from engine.terms import CalibrationType


@pytest.mark.parametrize("option", ["mse_thresholds", "nodewise_methods"])
def test_own_methods_do_not_fit_searches(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} need calibration_type max or kl"):
        CalibrationOptions.model_validate({"calibration_type": "default", option: True})


SEEN = Distribution(4.0, {0.99: 3.0}, Histogram(np.arange(1024), 4 / 1024))


def options(**given: object) -> CalibrationOptions:
    return CalibrationOptions.model_validate(given)


@pytest.mark.parametrize(
    ("given", "threshold", "percentiles", "histogram", "data"),
    [
        ({}, 4.0, (), False, True),
        ({"max_percentile": 0.99}, 3.0, (0.99,), False, True),
        ({"calibration_type": "skip"}, 1.0, (), False, False),
        ({"calibration_type": "load"}, 1.0, (), False, False),
        ({"mse_thresholds": True}, mse_threshold(SEEN.histogram, 4.0), (), True, True),
        ({"calibration_type": "kl", "mse_thresholds": True}, mse_threshold(SEEN.histogram, 4.0), (), True, True),
    ],
)
def test_thresholds_and_what_they_need(
    given: dict[str, object], threshold: float, percentiles: tuple[float, ...], histogram: bool, data: bool
) -> None:
    chosen = options(**given)
    method = method_of(chosen)
    assert method.threshold(SEEN, chosen) == threshold
    assert (method.percentiles(chosen), method.needs_histogram, method.needs_data) == (percentiles, histogram, data)


def test_small_percentiles_are_collected_as_a_half() -> None:
    chosen = options(max_percentile=0.1)
    assert method_of(chosen).percentiles(chosen) == (0.5,)
    assert chosen.log_name == "max-percentile:percentile=0.5"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "max"),
        ({"per_channel": True}, "max:per_channel"),
        ({"per_channel": True, "asymmetric": True}, "max:per_channel,asymmetric"),
        ({"max_percentile": 0.9999, "asymmetric": True}, "max-percentile:percentile=0.9999,asymmetric"),
        ({"calibration_type": "kl"}, "kl:num_bin=1024,max_num_bin=16384"),
        ({"mse_thresholds": True}, "mse"),
        ({"calibration_type": "skip"}, "fixed thresholds"),
    ],
)
def test_the_name_in_the_log(given: dict[str, object], name: str) -> None:
    assert options(**given).log_name == name


@pytest.mark.parametrize("given", [{"calibration_type": "kl"}, {"mse_thresholds": True}])
def test_histograms_that_were_not_collected_are_missed(given: dict[str, object]) -> None:
    chosen = options(**given)
    with pytest.raises(ConfigError, match=r"needs histograms, but the statistics were collected without them"):
        method_of(chosen).threshold(Distribution(1.0, {}), chosen)


def test_kl_counts_decimals_in_the_original_way_only() -> None:
    threshold = METHODS[CalibrationType.KL].threshold
    different = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        counts = (2e4 * np.exp(-0.5 * (np.arange(1024) / rng.uniform(150, 230)) ** 2)).astype(np.int64)
        counts[rng.integers(880, 1020, rng.integers(2, 6))] += 1
        counts[1023] = 1
        seen = Distribution(1024.0, {}, Histogram(counts, 1.0))
        original, clean = (
            threshold(seen, options(calibration_type="kl", compatibility=way)) for way in ("original", "clean")
        )
        assert original == kl_threshold(seen.histogram, decimals=True)
        assert clean == kl_threshold(seen.histogram, decimals=False)
        different += original != clean
    assert different > 0


@pytest.mark.parametrize(
    ("given", "in_turn", "means"),
    [
        ({}, False, False),
        ({"bias_correction": True}, True, False),
        ({"bias_correction": True, "asymmetric": True}, True, False),
        ({"bias_correction": True, "calibration_type": "default"}, True, False),
        ({"bias_correction": True, "calibration_type": "skip"}, False, False),
        ({"bias_correction": True, "mean_bias_correction": True}, False, True),
        ({"bias_correction": True, "compatibility": "clean"}, False, True),
        ({"bias_correction": True, "compatibility": "clean", "asymmetric": True}, False, True),
        ({"bias_correction": True, "compatibility": "clean", "calibration_type": "load"}, False, False),
        ({"compatibility": "clean"}, False, False),
    ],
)
def test_which_way_biases_are_corrected(given: dict[str, object], in_turn: bool, means: bool) -> None:
    chosen = options(**given)
    assert (chosen.corrects_biases_in_turn, chosen.takes_mean_errors) == (in_turn, means)


@pytest.mark.parametrize("kind", ["default", "mix"])
def test_searches_are_no_methods(kind: str) -> None:
    with pytest.raises(
        UnsupportedError, match=rf"'{kind}' is not supported yet; allowed are \['kl', 'load', 'max', 'skip'\]"
    ):
        method_of(options(calibration_type=kind))
