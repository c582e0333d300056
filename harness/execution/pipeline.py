"""From a trial's spec to its figures: the engine's stages, each result computed once and kept by content.

Two pure functions run in workers. :func:`prepare` does what all trials of one model on one march share: optimisation,
one pass over the calibration data for all their settings, the float model's outputs. :func:`run_trial` does the rest.
All they exchange is in the cache, so that either may run anywhere that sees the working directory.
"""

from __future__ import annotations

from engine.convert.items import PLACEMENT
from engine.errors import PtqlabError
from harness.backends.bundled import Network
from harness.backends.items import FOOTPRINT, NODES, SCORED
from harness.backends.pipeline import RESULTS, fingerprints
from harness.bench.peak_memory import current_peak, reset_peak
from harness.suites.settings import Engine
from harness.trials.tasks import Bench, Preparation, Prepared, StageClock
from harness.trials.trial import (
    Outcome,
    TrialResult,
    TrialSpec,
    UnmetRequest,
)

__all__ = ["fingerprints", "prepare", "run_trial"]


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
    run, nodes = network.trial(statistics)
    engine = spec.settings.engine
    results = RESULTS[engine]
    placement = run[PLACEMENT] if engine is Engine.BUNDLED else None  # refuses what a conversion refuses
    scored = run[SCORED]
    unmet = () if placement is None else placement.refusals
    result = TrialResult(
        spec=spec,
        accuracy=scored.accuracy,
        fidelity=scored.fidelity,
        footprint=run[FOOTPRINT] if FOOTPRINT in results else None,
        int16_nodes=nodes,
        unmet=tuple(UnmetRequest(node=each.node, request=each.request, reason=each.reason) for each in unmet),
        seconds=network.clock.seconds,
        peak_memory_mb=current_peak() / 1e6,
    )
    return Outcome(result, run[NODES] if NODES in results else (), scored.predictions)
