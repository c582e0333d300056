"""Options that can be varied by themselves: which there are, and which fit together."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from engine.config.options import ORIGINAL_OPTIMIZATIONS, OWN_OPTIMIZATIONS, CalibrationChoice, ConversionOptions


def test_the_words_of_optimization() -> None:
    own = ["adaptive_rounding", "cross_layer_equalization", "integer_bias_correction", "mean_bias_correction"]
    own += ["mse_thresholds", "nodewise_methods", "order_independent_kl"]
    assert ORIGINAL_OPTIMIZATIONS == ("asymmetric", "bias_correction")
    assert sorted(OWN_OPTIMIZATIONS) == own
    assert "per_channel" not in ConversionOptions.switches(), "a parameter by itself"


def test_every_switch_is_off_where_nobody_says() -> None:
    options = ConversionOptions()
    assert not any(getattr(options, name) for name in (*ConversionOptions.switches(), "per_channel"))
    assert (options.calibration_type, options.max_percentile, options.compatibility) == ("max", 1.0, "original")


@pytest.mark.parametrize("option", ["mse_thresholds", "nodewise_methods"])
@pytest.mark.parametrize(
    ("kind", "fits"), [("max", True), ("kl", True), ("default", False), ("mix", False), ("load", False)]
)
def test_methods_of_ours_go_with_methods_only(option: str, kind: str, fits: bool) -> None:
    content = {option: True, "calibration_type": kind}
    if fits:
        assert getattr(CalibrationChoice.model_validate(content), option)
    else:
        with pytest.raises(ValidationError, match=f"{option} need calibration_type max or kl; it is '{kind}'"):
            CalibrationChoice.model_validate(content)


@pytest.mark.parametrize(("value", "fits"), [(0.0, True), (1.0, True), (-0.01, False), (1.01, False)])
def test_a_percentile_is_a_fraction(value: float, fits: bool) -> None:
    if fits:
        assert CalibrationChoice(max_percentile=value).max_percentile == value
    else:
        with pytest.raises(ValidationError, match="avaliable range: 0~1"):
            CalibrationChoice(max_percentile=value)


def test_options_are_closed_and_frozen() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        CalibrationChoice.model_validate({"kl": True})
    with pytest.raises(ValidationError, match="frozen"):
        ConversionOptions().per_channel = True
