"""Which corrections options ask for, and in which order they run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from engine.calibrate import ArrayData, run_calibration
from engine.calibrate.corrections.bias import correct_in_turn
from engine.calibrate.corrections.builtin import CORRECTIONS
from engine.calibrate.corrections.turns import biases_of
from engine.calibrate.methods.methods import CalibrationOptions
from engine.errors import ConfigError
from engine.ir import save_model
from engine.place import place
from tests.engine.calibrate.corrections.test_turns import DATA, calibrated_chain, chain


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


def corrected_like(example: Path) -> ir.Model:
    """The chain of convolutions, its biases corrected in the order that ``example`` shows."""
    options = CalibrationOptions(bias_correction=True, bias_correction_order=example)
    return run_calibration(chain(), place(chain(), "bayes-e").model, ArrayData(DATA), options)


def renamed(model: ir.Model, *names: str) -> ir.Model:
    for node in model.graph:
        if node.name in names:
            node.name = f"other_{node.name}"
    return model


def test_biases_are_corrected_in_the_order_of_another_conversion(tmp_path: Path) -> None:
    order = ["conv1", "conv3", "conv0", "conv2"]
    theirs = correct_in_turn(chain(), calibrated_chain(chain()), ArrayData(DATA), order=order)
    save_model(theirs, tmp_path / "theirs.onnx")
    found = biases_of(corrected_like(tmp_path / "theirs.onnx"))
    for name, bias in biases_of(theirs).items():
        np.testing.assert_array_equal(found[name], bias)
    alone = run_calibration(
        chain(), place(chain(), "bayes-e").model, ArrayData(DATA), CalibrationOptions(bias_correction=True)
    )
    assert any(np.any(found[name] != bias) for name, bias in biases_of(alone).items())


def test_another_network_shows_no_order(tmp_path: Path) -> None:
    save_model(renamed(chain(), "conv0", "conv1", "conv2", "conv3"), tmp_path / "other.onnx")
    with pytest.raises(ConfigError, match=r"other.onnx has none of the convolutions of this network \(conv0, ...\)"):
        corrected_like(tmp_path / "other.onnx")


def test_convolutions_that_are_not_shown_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save_model(renamed(chain(), "conv2"), tmp_path / "part.onnx")
    with caplog.at_level(logging.WARNING):
        corrected_like(tmp_path / "part.onnx")
    assert "part.onnx has not conv2" in caplog.text
