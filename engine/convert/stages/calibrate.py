"""The stage that chooses thresholds, and fixed thresholds where there are no data."""

from __future__ import annotations

import onnx_ir as ir
from pydantic import ValidationError

from engine.calibrate.methods.methods import CalibrationOptions
from engine.calibrate.methods.thresholds import apply_thresholds
from engine.calibrate.statistics.outputs import FloatOutputs
from engine.chips import load_chip
from engine.config import Config
from engine.convert.items import DATA, OPTIMIZED, PLACEMENT, REFERENCE, SEEN_OUTPUTS, STATISTICS, THREADS, THRESHOLDS
from engine.convert.runner import Stage, Work
from engine.errors import ConfigError
from engine.place.sums import sums_as_convolutions


def calibration_options(config: Config) -> CalibrationOptions:
    """How ``config`` wants thresholds to be chosen.

    Raises:
        ConfigError: options exclude each other, or a file that one names is missing.
    """
    given = config.calibration_parameters
    example = given.bias_correction_order
    if example is not None and not example.is_file():
        raise ConfigError(
            f"calibration_parameters.bias_correction_order: {example}: no such file; give the *_calibrated_model.onnx "
            "that the original's hb_mapper left in a working_dir"
        )
    try:
        return CalibrationOptions(
            calibration_type=given.calibration_type,
            max_percentile=given.max_percentile,
            per_channel=given.per_channel,
            bias_correction_order=given.bias_correction_order,
            corrections=given.corrections,
            compatibility=config.model_parameters.compatibility,
            **{name: True for name in given.optimization if name in CalibrationOptions.model_fields},
        )
    except ValidationError as error:
        reasons = "; ".join(str(detail["msg"]).removeprefix("Value error, ") for detail in error.errors())
        raise ConfigError(f"calibration_parameters.optimization: {reasons}") from error


def _calibrate(work: Work) -> None:
    from engine.calibrate.corrections.bias import with_biases_of  # these two take 0.04 s that a check does not need
    from engine.calibrate.run import run_calibration

    options, optimized, outputs = calibration_options(work.config), work[OPTIMIZED], FloatOutputs()
    placed, statistics = work[PLACEMENT].model, work[STATISTICS]
    calibrated = run_calibration(
        optimized, placed, work[DATA], options, statistics=statistics, threads=work[THREADS], outputs=outputs
    )
    work.give(SEEN_OUTPUTS, outputs)
    work.give(REFERENCE, with_biases_of(calibrated, optimized) if options.corrects_biases_in_turn else optimized)
    _give_thresholds(work, calibrated)


def _fix(work: Work) -> None:
    _give_thresholds(work, apply_thresholds(work[PLACEMENT].model, None))
    work.give(SEEN_OUTPUTS, FloatOutputs())
    work.give(REFERENCE, work[OPTIMIZED])


def _give_thresholds(work: Work, calibrated: ir.Model) -> None:
    sums_as_convolutions(calibrated, load_chip(work.config.march.value))
    work.give(THRESHOLDS, calibrated)


CALIBRATE = Stage(
    name="calibrate",
    run=_calibrate,
    reads=(OPTIMIZED, PLACEMENT, DATA, STATISTICS, THREADS),
    gives=(THRESHOLDS, REFERENCE, SEEN_OUTPUTS),
    parameters=(
        "model_parameters.march",
        "calibration_parameters.calibration_type",
        "calibration_parameters.max_percentile",
        "calibration_parameters.per_channel",
        "calibration_parameters.bias_correction_order",
        "calibration_parameters.corrections",
        "model_parameters.compatibility",
        *(f"calibration_parameters.optimization:{name}" for name in CalibrationOptions.model_fields),
    ),
)
FIX_THRESHOLDS = Stage(
    name="calibrate",
    run=_fix,
    reads=(OPTIMIZED, PLACEMENT),
    gives=(THRESHOLDS, REFERENCE, SEEN_OUTPUTS),
    parameters=("model_parameters.march",),
)
"""For a check without data: the same threshold everywhere."""
