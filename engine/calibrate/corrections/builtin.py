"""The corrections that options ask for by their names, in the order in which they run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import onnx_ir as ir

from engine.calibrate.corrections.bias import BIAS_SAMPLES, correct_biases, correct_in_turn
from engine.calibrate.corrections.correction import Correction, CorrectionWork
from engine.calibrate.corrections.rounding import round_weights
from engine.calibrate.corrections.turns import convolutions
from engine.calibrate.methods.methods import CalibrationOptions
from engine.errors import ConfigError
from engine.ir import load_model

logger = logging.getLogger("engine.calibrate.run")


class AdaptiveRounding(Correction):
    """``adaptive_rounding``."""

    def is_asked(self, options: CalibrationOptions) -> bool:
        """Where the option is on."""
        return options.adaptive_rounding

    def correct(self, calibrated: ir.Model, work: CorrectionWork) -> ir.Model:
        """See :func:`round_weights`."""
        logger.info("Rounding weights by the error of the results: adaptive_rounding.")
        return round_weights(calibrated, work.data, threads=work.threads)


class BiasCorrection(Correction):
    """``bias_correction``, the original's."""

    def is_asked(self, options: CalibrationOptions) -> bool:
        """Where the option is on."""
        return options.bias_correction

    def correct(self, calibrated: ir.Model, work: CorrectionWork) -> ir.Model:
        """See :func:`correct_in_turn`."""
        logger.info("Run calibration model with bias correction method with bias samples: 1.")
        logger.warning("bias_correction %s.", _about_bias_correction(work.options))
        if not work.options.corrects_biases_in_turn:
            return calibrated
        example = work.options.bias_correction_order
        order_of = None if example is None else _example_of(calibrated, example)
        return correct_in_turn(work.optimized, calibrated, work.data, order_of=order_of, threads=work.threads)


def _example_of(calibrated: ir.Model, path: Path) -> ir.Model:
    """The calibrated model at ``path``, whose biases show an order for the convolutions of ``calibrated``.

    Raises:
        ConfigError: it is of another network, or no calibrated model.
        ModelError: it cannot be read.
    """
    example, wanted = load_model(path), convolutions(calibrated)
    shown = convolutions(example)
    missing = [name for name in wanted if name not in shown]
    if wanted and len(missing) == len(wanted):
        raise ConfigError(
            f"bias_correction_order: {path} has none of the convolutions of this network ({missing[0]}, ...); give the "
            "*_calibrated_model.onnx that the original's hb_mapper left in the working_dir when it converted the same "
            "network for the same march, or leave the parameter out"
        )
    if missing:
        logger.warning(
            "bias_correction_order: %s has not %s; these are taken to keep their biases.", path, ", ".join(missing)
        )
    return example


class MeanBiasCorrection(Correction):
    """``mean_bias_correction``, and ``bias_correction`` where the original is not imitated."""

    def is_asked(self, options: CalibrationOptions) -> bool:
        """Where mean errors are to be taken."""
        return options.takes_mean_errors

    def correct(self, calibrated: ir.Model, work: CorrectionWork) -> ir.Model:
        """See :func:`correct_biases`."""
        samples = min(BIAS_SAMPLES, len(work.data))
        logger.info("Correcting biases by the mean errors on %d samples: mean_bias_correction.", samples)
        return correct_biases(calibrated, work.data, samples, origin=work.origin, threads=work.threads)


CORRECTIONS: Mapping[str, Correction] = MappingProxyType(
    {
        "adaptive_rounding": AdaptiveRounding(),
        "bias_correction": BiasCorrection(),
        "mean_bias_correction": MeanBiasCorrection(),
    }
)
"""By the word of ``optimization``."""


def _about_bias_correction(options: CalibrationOptions) -> str:
    if options.mean_bias_correction:
        return "has no effect together with mean_bias_correction, which replaces it"
    if options.takes_mean_errors:
        return "is computed like mean_bias_correction, because compatibility is clean"
    return (
        "follows the original toolchain, which leaves the order of convolutions to chance (bias_correction_order gives "
        "one): it fits the last sample, and the similarities of the calibrated model are to a float model with the "
        "same biases. mean_bias_correction is more accurate"
    )
