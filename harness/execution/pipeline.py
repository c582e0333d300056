"""From a trial's spec to its figures: the engine's stages, each result computed once and kept by content.

Two pure functions run in workers. :func:`prepare` does what all trials of one model on one march share: optimisation,
one pass over the calibration data for all their settings, the float model's outputs. :func:`run_trial` does the rest.
All they exchange is in the cache, so that either may run anywhere that sees the working directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from engine.errors import PtqlabError
from harness.backends.bundled import Network
from harness.bench.peak_memory import current_peak, reset_peak
from harness.suites.settings import Engine
from harness.trials.scoring import Evaluation
from harness.trials.stage_options import int16_requests
from harness.trials.tasks import Bench, Preparation, Prepared, StageClock
from harness.trials.trial import (
    Outcome,
    TrialResult,
    TrialSpec,
    UnmetRequest,
)

Array = NDArray[Any]


def prepare(preparation: Preparation, bench: Bench) -> Prepared:
    """Compute what the trials share: optimised model, statistics for all settings, float outputs.

    Settings that the engine refuses are left out; their own trials report them.
    """
    clock = StageClock(bench.journal(preparation.key))
    network = Network(preparation.specs[0], bench, clock)
    try:
        key = network.collect_statistics(preparation.settings)
        network.float_outputs()
        prepared = Prepared(statistics=key, seconds=clock.seconds)
    except PtqlabError as error:
        prepared = Prepared(failure=clock.failure(error), seconds=clock.seconds)
    clock.close()
    return prepared


def run_trial(spec: TrialSpec, statistics: str, bench: Bench) -> TrialResult:
    """Run one trial and keep its outcome in the store.

    Args:
        spec: the trial.
        statistics: key from :func:`prepare`.
        bench: where to work.

    Returns:
        Figures, or the failure of a stage that refused.
    """
    clock = StageClock(bench.journal(spec.key))
    reset_peak()
    try:
        outcome = _outcome(spec, statistics, Network(spec, bench, clock))
    except PtqlabError as error:
        outcome = Outcome(TrialResult(spec=spec, failure=clock.failure(error), seconds=clock.seconds))
    bench.store.put(outcome)
    clock.close()
    return outcome.result


def _outcome(spec: TrialSpec, statistics: str, network: Network) -> Outcome:
    if spec.settings.engine is Engine.ONNXRUNTIME:
        evaluation, predictions = network.evaluate_onnxruntime()
        return _finished(spec, network, evaluation, predictions)
    settings = network.resolved(spec.settings, statistics)
    placement = network.place(settings)
    nodes = tuple(int16_requests(network.optimized, settings.int16))
    if spec.settings.engine is Engine.HB_MAPPER:
        evaluation, predictions = network.evaluate_hb_mapper(nodes)
        return _finished(spec, network, evaluation, predictions, int16_nodes=nodes)
    calibrated = network.calibrate(placement.model, spec.settings, statistics)
    evaluation, predictions = network.evaluate(calibrated)
    unmet = tuple(UnmetRequest(node=r.node, request=r.request, reason=r.reason) for r in placement.refusals)
    return _finished(spec, network, evaluation, predictions, int16_nodes=nodes, unmet=unmet)


def _finished(
    spec: TrialSpec, network: Network, evaluation: Evaluation, predictions: Mapping[str, Array], **more: Any
) -> Outcome:
    result = TrialResult(
        spec=spec,
        accuracy=evaluation.accuracy,
        fidelity=evaluation.fidelity,
        footprint=evaluation.footprint,
        seconds=network.clock.seconds,
        peak_memory_mb=current_peak() / 1e6,
        **more,
    )
    return Outcome(result, evaluation.nodes, predictions)
