"""Which corrections options ask for, and in which order they run."""

from __future__ import annotations

from typing import Any

import pytest

from engine.calibrate.corrections.builtin import CORRECTIONS
from engine.calibrate.methods.methods import CalibrationOptions


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, []),
        ({"adaptive_rounding": True, "mean_bias_correction": True}, ["adaptive_rounding", "mean_bias_correction"]),
        ({"bias_correction": True}, ["bias_correction"]),
        ({"bias_correction": True, "compatibility": "clean"}, ["bias_correction", "mean_bias_correction"]),
        ({"bias_correction": True, "mean_bias_correction": True}, ["bias_correction", "mean_bias_correction"]),
    ],
)
def test_options_ask_for_corrections_in_the_order_of_the_table(options: dict[str, Any], asked: list[str]) -> None:
    given = CalibrationOptions.model_validate(options)
    assert [name for name, correction in CORRECTIONS.items() if correction.is_asked(given)] == asked
