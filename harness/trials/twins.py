"""Trials whose settings led to the same integers: the later one takes the evaluation of the first."""

from __future__ import annotations

from collections.abc import Iterable

from harness.trials.artefacts import Artefact
from harness.trials.trial import TrialResult


def twins(results: Iterable[TrialResult]) -> dict[str, str]:
    """Id of the first trial with the same quantised model, by key of the later ones.

    They have one model, march and samples, and other settings, as ``per_channel`` where no tensor can have it. What
    follows from the quantised model is computed once and kept by content, so that their figures are the same ones.
    """
    first: dict[tuple[object, ...], str] = {}
    found = {}
    for result in results:
        digest = result.artefacts.get(Artefact.QUANTIZED)
        if digest is None:
            continue
        spec = result.spec
        same = (spec.model, spec.march, spec.data, spec.evaluation_samples, digest)
        earlier = first.setdefault(same, spec.id)
        if earlier != spec.id:
            found[spec.key] = earlier
    return found
