"""The stage that scores outputs by the card's metric, beside the float model's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.convert.runner import Stage, Work
from harness.backends.items import CARD, DATASET, EVALUATION_SAMPLES, FLOAT_OUTPUTS, OUTPUTS, SCORED
from harness.metrics import Metric
from harness.trials.comparison import FidelityMeter
from harness.trials.figures import Accuracy, Fidelity, delta_stderr

Array = NDArray[Any]


@dataclass(frozen=True)
class Scored:
    """Figures of a quantised model's outputs.

    Attributes:
        accuracy, fidelity: see there.
        predictions: see :attr:`harness.trials.trial.Outcome.predictions`.
    """

    accuracy: Accuracy
    fidelity: Fidelity
    predictions: Mapping[str, Array]


def paired_accuracy(
    metric: Metric, outputs: Sequence[Array], floats: Sequence[Array], targets: Any
) -> tuple[Accuracy, NDArray[np.float64]]:
    """The metric on both models' outputs for the same images, and the quantised model's score per sample."""
    ours, reference = metric.score(outputs, targets), metric.score(floats, targets)
    accuracy = Accuracy(
        metric=metric.name,
        float_value=reference.value,
        value=ours.value,
        stderr=ours.stderr,
        delta_stderr=delta_stderr(ours.per_sample, reference.per_sample),
        higher_is_better=metric.higher_is_better,
    )
    return accuracy, ours.per_sample


def fidelity_of(meter: FidelityMeter) -> Fidelity:
    """What ``meter`` has seen."""
    return Fidelity(
        cosine=float(meter.cosines.mean()),
        cosine_min=float(meter.cosines.min()),
        sqnr_db=meter.sqnr_db,
        max_abs=meter.peak,
        agreement=meter.agreement,
    )


def _predictions(outputs: Sequence[Array], per_sample: NDArray[np.float64], meter: FidelityMeter) -> dict[str, Array]:
    predictions: dict[str, Array] = {"per_sample": per_sample, "per_sample_cosine": meter.cosines.mean(axis=1)}
    if meter.agreement is not None and outputs[0].size == len(outputs[0]) * outputs[0].shape[1]:
        predictions["classes"] = outputs[0].argmax(axis=1).reshape(-1)
    return predictions


def _score(work: Work) -> None:
    card, (outputs, meter) = work[CARD], work[OUTPUTS]
    targets = work[DATASET].split(card.dataset.evaluation.split).targets(0, work[EVALUATION_SAMPLES])
    accuracy, per_sample = paired_accuracy(card.open_metric(), outputs, work[FLOAT_OUTPUTS], targets)
    work.give(SCORED, Scored(accuracy, fidelity_of(meter), _predictions(outputs, per_sample, meter)))


SCORE = Stage(
    name="score",
    run=_score,
    reads=(CARD, DATASET, EVALUATION_SAMPLES, FLOAT_OUTPUTS, OUTPUTS),
    gives=(SCORED,),
)
