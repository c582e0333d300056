"""The stage that makes integers of a calibrated model."""

from __future__ import annotations

from engine.convert.items import CALIBRATED, QUANTIZED
from engine.convert.runner import Stage, Work
from engine.quantize import quantize


def _quantize(work: Work) -> None:
    work.give(QUANTIZED, quantize(work[CALIBRATED], work.config.march.value))


QUANTIZE = Stage(
    name="quantize", run=_quantize, reads=(CALIBRATED,), gives=(QUANTIZED,), parameters=("model_parameters.march",)
)
