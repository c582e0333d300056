"""The stage that chooses thresholds: its options, its reference, and what stands in for it without data."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.calibrate import ArrayData
from engine.convert.stages.calibrate import CALIBRATE, FIX_THRESHOLDS, calibration_options
from engine.errors import ConfigError
from engine.ir import constant_of, node_by_name
from engine.place import place
from tests.engine.calibrate.models import DATA, residual, thresholds_of
from tests.engine.convert.work import configured, ran


def test_options_are_those_of_the_configuration() -> None:
    options = calibration_options(
        configured(
            calibration__max_percentile=0.99,
            calibration__per_channel=True,
            calibration__optimization="asymmetric; set_model_output_int8; run_fast",
            model__compatibility="clean",
        )
    )
    assert options.model_dump(exclude_defaults=True) == {
        "max_percentile": 0.99,
        "per_channel": True,
        "asymmetric": True,
        "compatibility": "clean",
    }


def test_options_that_exclude_each_other_are_an_error_of_the_configuration() -> None:
    config = configured(calibration__calibration_type="mix", calibration__optimization="mse_thresholds")
    with pytest.raises(
        ConfigError, match=r"^calibration_parameters.optimization: mse_thresholds need calibration_type"
    ):
        calibration_options(config)


def test_an_order_of_biases_that_is_no_file_is_named_before_anything_is_computed(tmp_path: Path) -> None:
    config = configured(calibration__bias_correction_order=str(tmp_path / "theirs.onnx"))
    with pytest.raises(
        ConfigError, match=r"^calibration_parameters.bias_correction_order: .*theirs.onnx: no such file"
    ):
        calibration_options(config)


@pytest.mark.parametrize(("word", "changes"), [("bias_correction", True), ("mean_bias_correction", False)])
def test_the_reference_has_the_biases_that_the_original_corrected(word: str, changes: bool) -> None:
    placement = place(residual(), "bayes-e")
    found = ran(
        CALIBRATE,
        configured(calibration__optimization=word),
        optimized_float=residual(),
        placement=placement,
        data=ArrayData(DATA),
    )
    bias, corrected, before = (
        constant_of(node_by_name(model, ["conv0"])["conv0"].inputs[2])
        for model in (found["reference"], found["thresholds"], residual())
    )
    assert (bias.tolist() == corrected.tolist()) == changes
    assert (bias.tolist() == before.tolist()) != changes


def test_without_data_every_threshold_of_an_activation_is_one() -> None:
    optimized = residual()
    found = ran(FIX_THRESHOLDS, configured(), optimized_float=optimized, placement=place(residual(), "bayes-e"))
    thresholds = {name: values for name, values in thresholds_of(found["thresholds"]).items() if name[0] != "w"}
    assert set(map(tuple, thresholds.values())) == {(1.0,)}
    assert found["reference"] is optimized


def test_what_the_stage_reads_of_the_configuration() -> None:
    assert "calibration_parameters.optimization:asymmetric" in CALIBRATE.parameters
    assert "calibration_parameters.calibration_type" in CALIBRATE.parameters
    assert FIX_THRESHOLDS.parameters == ("model_parameters.march",)
