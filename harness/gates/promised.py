"""The float score that a card promises against the one that was measured: a wrong preprocessing shows there first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import hypot

from harness.gates.verdicts import Check, Verdict
from harness.trials.origins import ModelOrigin
from harness.trials.trial import TrialResult

CHECK = "accuracy.float"
"""Name of the check in a verdict."""

_ROUNDING = 2e-3
"""Difference that float sums in another order explain, besides one image that flips."""
_FLIPPED_IMAGES = 1.5
"""Images that may flip between two builds of ONNX Runtime."""
_STDERRS = 4.0
"""Standard errors by which the score on a part of the images may differ from that on all of them."""


def float_checks(results: Iterable[TrialResult], models: Mapping[str, ModelOrigin]) -> dict[str, Check]:
    """A check by trial id for each trial whose float model scores otherwise than its card says."""
    found = {}
    for result in results:
        origin, accuracy = models.get(result.spec.model), result.accuracy
        if origin is None or accuracy is None:
            continue
        count = result.spec.evaluation_samples
        allowed = _ROUNDING + _FLIPPED_IMAGES / count
        if count != origin.evaluation_count:
            allowed += _STDERRS * hypot(accuracy.stderr, origin.float_stderr)
        if abs(accuracy.float_value - origin.float_score) > allowed:
            text = (
                f"the float model scores {accuracy.float_value:.4f}, its card says {origin.float_score:.4f} "
                f"(± {allowed:.4f} on {count} images): look at the card's preprocessing (colour order of "
                "input_type_train, mean_value, scale_value, layout) and data, then at its float_score"
            )
            found[result.spec.id] = Check(CHECK, Verdict.REGRESSION, text)
    return found
