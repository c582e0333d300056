"""The stage that scales channels alike, for ``cross_layer_equalization``."""

from __future__ import annotations

import logging

from engine.calibrate.corrections.equalize import equalize
from engine.config import Config
from engine.convert.items import EQUALIZED, FOLDED
from engine.convert.runner import Stage, Work

logger = logging.getLogger("engine.convert")

OPTION = "cross_layer_equalization"


def _equalize(work: Work) -> None:
    equalized, pairs = equalize(work[FOLDED])
    logger.info("Equalizing channels of %d pairs of convolutions: %s.", pairs, OPTION)
    work.give(EQUALIZED, equalized)


def _is_asked(config: Config) -> bool:
    return OPTION in config.calibration_parameters.optimization


EQUALIZE = Stage(
    name="equalize",
    run=_equalize,
    reads=(FOLDED,),
    gives=(EQUALIZED,),
    parameters=(f"calibration_parameters.optimization:{OPTION}",),
    passes={EQUALIZED: FOLDED},
    asked=_is_asked,
)
