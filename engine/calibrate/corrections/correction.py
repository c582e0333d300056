"""What a correction is: a change of weights and biases of a calibrated model, whose thresholds stand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import onnx_ir as ir

from engine.calibrate.data.sources import CalibrationData
from engine.calibrate.methods.methods import CalibrationOptions


@dataclass(frozen=True)
class CorrectionWork:
    """What corrections look at.

    Attributes:
        optimized: the float model.
        origin: the calibrated model before any correction.
        data: calibration data.
        options: of the calibration.
        threads: CPU threads; None for all.
    """

    optimized: ir.Model
    origin: ir.Model
    data: CalibrationData
    options: CalibrationOptions
    threads: int | None = None


class Correction(ABC):
    """One correction; stateless."""

    def is_asked(self, options: CalibrationOptions) -> bool:
        """Whether ``options`` ask for it; of a registered one, ``corrections`` names it."""
        del options
        return True

    @abstractmethod
    def correct(self, calibrated: ir.Model, work: CorrectionWork) -> ir.Model:
        """The corrected model.

        Args:
            calibrated: with thresholds and the corrections so far; not to be changed (``calibrated.clone()``).
            work: what it was made of.
        """
