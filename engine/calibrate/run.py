"""The calibration of a conversion from data to thresholds, with the log lines that users look for."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import onnx_ir as ir

from engine.calibrate.bias import BIAS_SAMPLES, correct_biases
from engine.calibrate.collection import StatisticsOptions, collect
from engine.calibrate.data import CalibrationData
from engine.calibrate.forward import Kernels
from engine.calibrate.methods import CalibrationOptions, method_of
from engine.calibrate.search import SEARCHES, Subject, candidates_of
from engine.calibrate.statistics import Statistics
from engine.calibrate.thresholds import apply_thresholds, calibrate, calibration_tensors
from engine.config import CalibrationType

logger = logging.getLogger(__name__)


def run_calibration(
    optimized: ir.Model,
    placed: ir.Model,
    data: CalibrationData | None,
    options: CalibrationOptions,
    *,
    statistics: Statistics | None = None,
    threads: int | None = None,
) -> ir.Model:
    """The calibrated model for ``options``, searches and corrections included.

    Float sums run in the original's order (:attr:`Kernels.PLAIN`), so that thresholds are the original's.

    Args:
        optimized: float model.
        placed: the same with ``HzCalibration`` nodes.
        data: calibration data; None where the method needs none (:func:`needs_data`).
        options: what to do.
        statistics: of the data, from :func:`collect_for`, where they are there already; None to collect them.
        threads: CPU threads; None for all.

    Raises:
        CalibrationDataError: the data do not fit the model.
    """
    _log_method(options)
    if data is None or not needs_data(options):
        return apply_thresholds(placed, None, keep=options.calibration_type is CalibrationType.LOAD)
    if statistics is None or not statistics.tensors.keys() >= set(calibration_tensors(placed)):
        statistics = collect_for(optimized, [placed], data, options, threads=threads)
    search = SEARCHES.get(options.calibration_type)
    if search is None:
        calibrated = calibrate(placed, statistics, options)
    else:
        calibrated = search.run(Subject(optimized, placed, statistics, data, threads), options)
    if options.bias_correction:
        samples = min(BIAS_SAMPLES, len(data))
        logger.info("Run calibration model with bias correction method with bias samples: %d.", samples)
        calibrated = correct_biases(calibrated, data, samples, threads=threads)
    return calibrated


def collect_for(
    optimized: ir.Model,
    placements: Sequence[ir.Model],
    data: CalibrationData,
    options: CalibrationOptions,
    *,
    threads: int | None = None,
) -> Statistics:
    """Statistics that serve ``options`` on every one of the placed models ``placements``."""
    wanted = StatisticsOptions.covering(candidates_of(options), kernels=Kernels.PLAIN, threads=threads)
    tensors = dict.fromkeys(name for placed in placements for name in calibration_tensors(placed))
    return collect(optimized, tensors, data, wanted)


def needs_data(options: CalibrationOptions) -> bool:
    """Whether thresholds come from calibration data."""
    return options.calibration_type in SEARCHES or method_of(options).needs_data


def _log_method(options: CalibrationOptions) -> None:
    search = SEARCHES.get(options.calibration_type)
    logger.info("Run calibration model with %s method.", options.log_name if search is None else search.log_name)
    if options.per_channel and search is not None:
        logger.warning(
            "per_channel has no effect with calibration_type %s: %s.",
            options.calibration_type.value,
            search.about_per_channel,
        )
    elif options.per_channel:
        logger.info("Perchannel quantization is enabled.")
    if options.asymmetric:
        logger.info("Asymmetric quantization is enabled.")
