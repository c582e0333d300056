"""The stage that corrects biases by what the integer model computes, for ``integer_bias_correction``."""

from __future__ import annotations

import logging

from engine.config import Config
from engine.convert.items import CALIBRATED, DATA, OPTIMIZED, THREADS, THRESHOLDS
from engine.convert.runner import Stage, Work

logger = logging.getLogger("engine.convert")

OPTION = "integer_bias_correction"


def _correct(work: Work) -> None:
    data, calibrated = work[DATA], work[THRESHOLDS]
    if data is not None:
        logger.info("Correcting biases on the integer simulator: %s.", OPTION)
        from engine.evaluate.integer_bias import correct_integer_biases  # brings the simulator

        march = work.config.march.value
        calibrated = correct_integer_biases(calibrated, work[OPTIMIZED], march, data, threads=work[THREADS])
    work.give(CALIBRATED, calibrated)


def _is_asked(config: Config) -> bool:
    return OPTION in config.calibration_parameters.optimization


CORRECT = Stage(
    name="correct",
    run=_correct,
    reads=(THRESHOLDS, OPTIMIZED, DATA, THREADS),
    gives=(CALIBRATED,),
    parameters=("model_parameters.march", f"calibration_parameters.optimization:{OPTION}"),
    passes={CALIBRATED: THRESHOLDS},
    asked=_is_asked,
)
