"""The options of a conversion that can be varied by themselves, each stated once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from engine.extensions import Calibration, Corrections
from engine.terms import CalibrationType, Compatibility


class CalibrationChoice(BaseModel):
    """How thresholds are chosen.

    Attributes:
        calibration_type: the method; one that is registered too (:data:`engine.extensions.CALIBRATION_METHODS`).
        max_percentile: of method ``max``: fraction of ``|x|`` that the threshold covers; below 0.5 it counts as 0.5.
        per_channel: one threshold per channel for the tensors that
            :func:`engine.calibrate.methods.channels.tensors_per_channel` names.
        asymmetric: unsigned integers for the tensors that
            :func:`engine.calibrate.methods.asymmetric.unsigned_tensors` names.
        bias_correction: the original's correction of biases
            (:func:`engine.calibrate.corrections.bias.correct_in_turn`).
        order_independent_kl: not in the original: histograms over the range of all samples instead of the first 8.
        mse_thresholds: not in the original: thresholds of least squared error instead of the method's.
        nodewise_methods: not in the original: one method per tensor
            (:func:`engine.calibrate.methods.nodewise.choose_per_tensor`).
        adaptive_rounding: not in the original: weights rounded by
            :func:`engine.calibrate.corrections.rounding.round_weights`.
        mean_bias_correction: not in the original: correct biases by mean errors
            (:func:`engine.calibrate.corrections.bias.correct_biases`).
        corrections: registered ones (:data:`engine.extensions.CORRECTIONS`), behind those above.
        compatibility: whether rules of the original that cost accuracy are followed (docs/rules.md).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    calibration_type: Calibration = CalibrationType.MAX
    max_percentile: float = 1.0
    per_channel: bool = False
    asymmetric: bool = False
    bias_correction: bool = False
    order_independent_kl: bool = False
    mse_thresholds: bool = False
    nodewise_methods: bool = False
    adaptive_rounding: bool = False
    mean_bias_correction: bool = False
    corrections: Corrections = ()
    compatibility: Compatibility = Compatibility.ORIGINAL

    @field_validator("max_percentile")
    @classmethod
    def _in_range(cls, value: float) -> float:
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"Invalid max_percentile: {value}, avaliable range: 0~1")
        return value

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        chosen = [name for name in ("mse_thresholds", "nodewise_methods") if getattr(self, name)]
        if chosen and self.calibration_type not in (CalibrationType.MAX, CalibrationType.KL):
            kind = self.calibration_type.value
            raise ValueError(f"{' and '.join(chosen)} need calibration_type max or kl; it is {kind!r}")
        return self


class ConversionOptions(CalibrationChoice):
    """How thresholds are chosen, and options that have stages of their own.

    Attributes:
        cross_layer_equalization: not in the original: scale the channels of neighbouring convolutions alike
            (:mod:`engine.convert.stages.equalize`).
        integer_bias_correction: not in the original: correct biases by what the integer model computes
            (:mod:`engine.convert.stages.correct`).
    """

    cross_layer_equalization: bool = False
    integer_bias_correction: bool = False

    @classmethod
    def switches(cls) -> Iterator[str]:
        """Options that are words of ``calibration_parameters.optimization``."""
        for name, field in ConversionOptions.model_fields.items():
            if field.annotation is bool and name != _PARAMETER:
                yield name


_PARAMETER = "per_channel"
"""The option that is a parameter by itself."""

WORDS = (*ConversionOptions.model_fields, "none")
"""Names that a registered correction cannot have, because labels would say two things."""

ORIGINAL_OPTIMIZATIONS = ("asymmetric", "bias_correction")
"""Words that the original has too."""
OWN_OPTIMIZATIONS = tuple(name for name in ConversionOptions.switches() if name not in ORIGINAL_OPTIMIZATIONS)
"""Options that the original does not have."""
