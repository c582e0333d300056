"""From a trial's spec to its figures: the engine's stages, each result computed once and kept by content.

Two pure functions run in workers. :func:`prepare` does what all trials of one model on one march share: optimisation,
one pass over the calibration data for all their settings, the float model's outputs. :func:`run_trial` does the rest.
All they exchange is in the cache, so that either may run anywhere that sees the working directory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from engine.convert.items import PLACEMENT
from engine.convert.runner import Run
from engine.errors import PtqlabError
from engine.rulebook.known import Known
from harness.backends.bundled import Network
from harness.backends.items import (
    BROKEN,
    DATA_DIGESTS,
    DATASET,
    DOUBTS,
    FLOAT_DIGESTS,
    FOOTPRINT,
    MODEL_DIGESTS,
    NODES,
    SCORED,
)
from harness.backends.pipeline import fingerprints, results_for
from harness.backends.values import Scored
from harness.bench.peak_memory import current_peak, reset_peak
from harness.cards.folders import CardFolders
from harness.datasets import Dataset, Images, picture_of
from harness.datasets.base import sha256_of
from harness.execution.elsewhere import refuse_other_inputs
from harness.report.trial_page import render_trial
from harness.suites.settings import Engine
from harness.trials.artefacts import DIGITS, Artefact
from harness.trials.figures import Footprint
from harness.trials.files import TRIAL_PAGE, trial_files
from harness.trials.tasks import Bench, Preparation, Prepared, StageClock
from harness.trials.trial import (
    Outcome,
    TrialResult,
    TrialSpec,
    UnmetRequest,
)
from harness.zoo.cards import ModelCard

__all__ = ["fingerprints", "keep_float_outputs", "prepare", "run_trial"]


def prepare(preparation: Preparation, bench: Bench) -> Prepared:
    """Compute what the trials share: optimised model, statistics for all settings, float outputs.

    Settings that the engine refuses are left out; their own trials report them.
    """
    clock = StageClock(bench.journal(preparation.key))
    network = Network(preparation.specs[0], bench, clock)
    try:
        refuse_other_inputs(preparation.specs[0], bench)
        key = network.collect_statistics(preparation.settings)
        network.float_outputs()
        prepared = Prepared(statistics=key, seconds=clock.seconds)
    except PtqlabError as error:
        prepared = Prepared(failure=clock.failure(error, bench.worker), seconds=clock.seconds)
    clock.close()
    return prepared


def keep_float_outputs(specs: Iterable[TrialSpec], bench: Bench, outputs: Sequence[NDArray[Any]]) -> list[TrialSpec]:
    """Keep outputs of the float model that are known already, so that no preparation computes them.

    Args:
        specs: trials of one model.
        bench: where they will be computed.
        outputs: for the first evaluation samples, as :func:`~harness.zoo.float_baseline.float_outputs` gives them.

    Returns:
        A trial of each group that takes them; none of those that evaluate more samples.
    """
    groups = {(spec.card, spec.data, spec.evaluation_samples): spec for spec in specs}
    known = [spec for spec in groups.values() if spec.evaluation_samples <= len(outputs[0])]
    for spec in known:
        first = [output[: spec.evaluation_samples] for output in outputs]
        Network(spec, bench, StageClock(bench.journal(spec.key))).keep_float_outputs(first)
    return known


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
        refuse_other_inputs(spec, bench)
        outcome = _outcome(spec, statistics, Network(spec, bench, clock))
    except PtqlabError as error:
        failure = clock.failure(error, bench.worker)
        outcome = Outcome(TrialResult(spec=spec, failure=failure, seconds=clock.seconds, cards=_cards(bench)))
    bench.store.put(outcome)
    clock.close()
    return outcome.result


def _outcome(spec: TrialSpec, statistics: str, network: Network) -> Outcome:
    run, nodes = network.trial(statistics)
    engine = spec.settings.engine
    results = results_for(engine)
    placement = run[PLACEMENT] if engine is Engine.BUNDLED else None  # refuses what a conversion refuses
    scored = run[SCORED]
    unmet = () if placement is None else placement.refusals
    footprint = run[FOOTPRINT] if FOOTPRINT in results else None
    rows = run[NODES] if NODES in results else ()
    result = TrialResult(
        spec=spec,
        accuracy=scored.accuracy,
        fidelity=scored.fidelity,
        footprint=footprint,
        int16_nodes=nodes,
        unmet=tuple(UnmetRequest(node=each.node, request=each.request, reason=each.reason) for each in unmet),
        doubts=run[DOUBTS],
        broken=run[BROKEN],
        known=Known.of((row.node, row.doubt) for row in rows) if rows else None,
        artefacts=_artefacts(run, results, scored, footprint),
        seconds=network.clock.seconds,
        peak_memory_mb=current_peak() / 1e6,
        cards=_cards(network.bench),
    )
    files = trial_files(network.card, spec, nodes, scored.predictions, partial(_picture, run[DATASET], network.card))
    files[TRIAL_PAGE] = render_trial(result, rows, files)
    return Outcome(result, rows, scored.predictions, files)


def _cards(bench: Bench) -> CardFolders:
    return bench.cards or CardFolders.here()


def _picture(dataset: Dataset, card: ModelCard, index: int) -> Images | None:
    """The evaluation image with this number; None where samples have none."""
    split = dataset.split(card.dataset.evaluation.split)
    found = picture_of(split.take(index, index + 1), dataset.parts)
    return None if found is None else found[0]


def _artefacts(run: Run, results: tuple[Any, ...], scored: Scored, footprint: Footprint | None) -> dict[Artefact, str]:
    """Digests of all that the trial's stages hand on, in order."""
    found = {
        Artefact.OUTPUTS.value: sha256_of(*(scored.predictions[name] for name in sorted(scored.predictions)))[:DIGITS]
    }
    if footprint is not None:
        found[Artefact.FOOTPRINT.value] = hashlib.sha256(footprint.model_dump_json().encode()).hexdigest()[:DIGITS]
    for item in (DATA_DIGESTS, FLOAT_DIGESTS, MODEL_DIGESTS):
        if item in results:
            found |= run[item]
    return {name: found[name.value] for name in Artefact if name.value in found}
