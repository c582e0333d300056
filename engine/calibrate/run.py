"""The calibration of a conversion from data to thresholds, with the log lines that users look for."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir

from engine.calibrate.corrections.builtin import CORRECTIONS
from engine.calibrate.corrections.correction import CorrectionWork
from engine.calibrate.data.sources import CalibrationData
from engine.calibrate.methods.given import with_given
from engine.calibrate.methods.measured import tensors_for
from engine.calibrate.methods.methods import CalibrationOptions, method_of
from engine.calibrate.methods.nodewise import choose_per_tensor
from engine.calibrate.methods.search import SEARCHES, Subject, candidates_of
from engine.calibrate.methods.thresholds import (
    apply_thresholds,
    calibrated_constants,
    note_rules,
    threshold_sources,
    thresholds_in,
    unsigned_of,
)
from engine.calibrate.methods.wide import widen_results
from engine.calibrate.statistics.cache import collect_once
from engine.calibrate.statistics.collection import HistogramRule, StatisticsOptions, constant_statistics
from engine.calibrate.statistics.outputs import FloatOutputs
from engine.calibrate.statistics.statistics import Statistics
from engine.extensions import CORRECTIONS as OWN_CORRECTIONS
from engine.floats.float_model import Kernels
from engine.floats.overflows import LARGEST_EXPONENT, is_mish
from engine.ir import attribute, calibration_nodes
from engine.rulebook.integers import MISH_OVERFLOW
from engine.terms import CalibrationType

logger = logging.getLogger(__name__)


def run_calibration(
    optimized: ir.Model,
    placed: ir.Model,
    data: CalibrationData | None,
    options: CalibrationOptions,
    *,
    statistics: Statistics | None = None,
    threads: int | None = None,
    outputs: FloatOutputs | None = None,
) -> ir.Model:
    """The calibrated model for ``options``, searches and corrections included.

    Float sums run in the original's order (:attr:`Kernels.PLAIN`), so that thresholds are the original's.

    Args:
        optimized: float model.
        placed: the same with ``HzCalibration`` nodes.
        data: calibration data; None where the method needs none (:func:`needs_data`).
        options: what to do.
        statistics: of the data, from :func:`collect` or :func:`collect_for`, where they are there already; None to
            collect them. Those of constants are added where they lack.
        threads: CPU threads; None for all.
        outputs: see :func:`collect`.

    Raises:
        CalibrationDataError: the data do not fit the model.
    """
    _log_method(options)
    if data is None or not needs_data(options):
        is_load = options.calibration_type is CalibrationType.LOAD
        given = apply_thresholds(with_given(placed) if is_load else placed, None, keep=is_load)
        return widen_results(given) if is_load else given
    if statistics is None or not statistics.tensors.keys() >= set(tensors_for(placed, options)):
        statistics = collect_for(optimized, [placed], data, options, threads=threads, outputs=outputs)
    wanted = _wanted(options, threads)
    statistics = _with_constants(statistics, [placed], wanted)
    if wanted.overflows:
        _tell_overflows(optimized, statistics)
    subject = Subject(optimized, placed, statistics, data, threads)
    calibrated = _choose_thresholds(subject, options)
    note_rules(calibrated, statistics, candidates_of(options))
    return widen_results(_correct(calibrated, subject, options))


def _choose_thresholds(subject: Subject, options: CalibrationOptions) -> ir.Model:
    search = SEARCHES.get(options.calibration_type)
    if search is not None:
        return search.run(subject, options)
    if options.nodewise_methods:
        base, *others = candidates_of(options)
        logger.info("Choosing a calibration method per tensor: nodewise_methods.")
        return choose_per_tensor(subject, base, others)
    thresholds = thresholds_in(subject.placed, subject.statistics, options)
    if method_of(options).is_of_int8:
        sources = threshold_sources(subject.placed)
        wide = [sources.get(str(node.name), "") for node in calibration_nodes(subject.placed) if _is_wide(node)]
        thresholds |= {name: (subject.statistics.tensors[name].pooled.maximum,) for name in wide if name in thresholds}
    return apply_thresholds(subject.placed, thresholds, unsigned=unsigned_of(subject.placed, options))


def _is_wide(node: ir.Node) -> bool:
    return bool(attribute(node, "qtype") == "int16")


def _correct(calibrated: ir.Model, subject: Subject, options: CalibrationOptions) -> ir.Model:
    """What changes weights and biases once thresholds stand."""
    work = CorrectionWork(subject.optimized, calibrated, subject.data, options, subject.threads)
    for correction in CORRECTIONS.values():
        if correction.is_asked(options):
            calibrated = correction.correct(calibrated, work)
    for name in options.corrections:
        logger.info("Correcting by %s.", name)
        calibrated = OWN_CORRECTIONS[name]().correct(calibrated, work)
    return calibrated


def collect_for(
    optimized: ir.Model,
    placements: Sequence[ir.Model],
    data: CalibrationData,
    options: CalibrationOptions,
    *,
    threads: int | None = None,
    outputs: FloatOutputs | None = None,
) -> Statistics:
    """Statistics that serve ``options`` on every one of several placed models; see :func:`collect_once`.

    Args:
        optimized: the float model that all of them come from.
        placements: the placed models; statistics of all their tensors are collected in one pass.
        data: calibration samples.
        options: of the calibration.
        threads: of ONNX Runtime; None for its own choice.
        outputs: see :func:`collect`.

    Raises:
        CalibrationDataError: the data do not fit the model.
    """
    wanted = _wanted(options, threads)
    tensors = dict.fromkeys(name for placed in placements for name in tensors_for(placed, options))
    return _with_constants(collect_once(optimized, tensors, data, wanted, outputs), placements, wanted)


def _wanted(options: CalibrationOptions, threads: int | None) -> StatisticsOptions:
    """The statistics that ``options`` need."""
    rule = HistogramRule.ORDER_INDEPENDENT if options.order_independent_kl else HistogramRule.REFERENCE
    return StatisticsOptions.covering(candidates_of(options), rule, kernels=Kernels.PLAIN, threads=threads)


def _with_constants(found: Statistics, placements: Sequence[ir.Model], wanted: StatisticsOptions) -> Statistics:
    """``found`` and those of the constants that the models quantise as activations, which no pass shows."""
    constants = {name: array for placed in placements for name, array in calibrated_constants(placed).items()}
    missing = {name: array for name, array in constants.items() if name not in found.tensors}
    own = {name: constant_statistics(array, wanted, found.samples) for name, array in missing.items()}
    return replace(found, tensors={**found.tensors, **own}) if own else found


def needs_data(options: CalibrationOptions) -> bool:
    """Whether thresholds come from calibration data."""
    return options.calibration_type in SEARCHES or method_of(options).needs_data


def _tell_overflows(optimized: ir.Model, statistics: Statistics) -> None:
    """Warn of every Mish that reads values whose results, as in the original, are not measured."""
    for node in filter(is_mish, optimized.graph):
        found = statistics.tensors.get(str(node.inputs[0].name)) if node.inputs[0] is not None else None
        if found is not None and found.pooled.maximum > LARGEST_EXPONENT:
            logger.warning(
                "Node %s (Mish) reads values of up to %.4g: as in the original, what it gives for those above %.4g is "
                "not measured, so that its threshold may be too small (rule %s). compatibility: clean measures it.",
                node.name,
                found.pooled.maximum,
                LARGEST_EXPONENT,
                MISH_OVERFLOW,
            )


def _log_method(options: CalibrationOptions) -> None:
    if not needs_data(options):
        logger.info("Run calibration model with %s method.", method_of(options).log_name(options))
        return
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
    if options.order_independent_kl and any(method_of(each).needs_histogram for each in candidates_of(options)):
        logger.info("Histograms cover the range of all samples: order_independent_kl.")
    elif options.order_independent_kl:
        kind = options.calibration_type.value
        logger.warning("order_independent_kl has no effect with calibration_type %s, which uses no histograms.", kind)
