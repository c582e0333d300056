"""The stage that scores outputs by the card's metric, beside the float model's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.convert.runner import Stage, Work
from harness.backends.items import CARD, DATASET, EVALUATION_SAMPLES, FLOAT_OUTPUTS, OUTPUTS, SCORED
from harness.datasets import Targets
from harness.metrics import Metric
from harness.trials.comparison import FidelityMeter, mean_cosines
from harness.trials.figures import Accuracy, Fidelity, HalfScore, delta_stderr
from harness.trials.halves import selection_samples
from harness.trials.worst import decisions_of_worst, worst_samples

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
    metric: Metric, outputs: Sequence[Array], floats: Sequence[Array], targets: Targets
) -> tuple[Accuracy, NDArray[np.float64]]:
    """The metric on both models' outputs for the same images, and the quantised model's score per sample."""
    ours, reference = metric.score(outputs, targets), metric.score(floats, targets)
    selection, test = _halves(metric, outputs, floats, targets)
    accuracy = Accuracy(
        metric=metric.name,
        float_value=reference.value,
        value=ours.value,
        stderr=ours.stderr,
        delta_stderr=delta_stderr(ours.per_sample, reference.per_sample),
        higher_is_better=metric.higher_is_better,
        selection=selection,
        test=test,
    )
    return accuracy, ours.per_sample


def _halves(
    metric: Metric, outputs: Sequence[Array], floats: Sequence[Array], targets: Targets
) -> tuple[HalfScore | None, HalfScore | None]:
    """The metric on the samples that settings are chosen on, and on the others; None where there are too few."""
    selection = selection_samples(len(targets))
    if not selection.any():
        return None, None
    first, second = (
        HalfScore(
            float_value=metric.score([output[part] for output in floats], _of(targets, part)).value,
            value=metric.score([output[part] for output in outputs], _of(targets, part)).value,
        )
        for part in (selection, ~selection)
    )
    return first, second


def _of(targets: Targets, part: NDArray[np.bool_]) -> Targets:
    """The targets of a part of the samples."""
    if isinstance(targets, np.ndarray):
        return targets[part]
    chosen: Sequence[Any] = list(targets)
    return [chosen[index] for index in np.flatnonzero(part).tolist()]


def fidelity_of(
    meter: FidelityMeter, metric: Metric, names: Sequence[str], outputs: Sequence[Array], floats: Sequence[Array]
) -> Fidelity:
    """What ``meter`` has seen, and what ``metric`` makes of the same outputs, which are called ``names``."""
    by_output = dict(zip(names, meter.cosines.mean(axis=0).tolist(), strict=True)) if len(names) > 1 else {}
    return Fidelity(
        cosine=float(meter.cosines.mean()),
        cosine_min=float(meter.cosines.min()),
        sqnr_db=meter.sqnr_db,
        max_abs=meter.peak,
        agreement=metric.agreement(outputs, floats),
        parts=by_output | mean_cosines(metric.parts(outputs), metric.parts(floats)),
    )


def _predictions(
    metric: Metric,
    outputs: Sequence[Array],
    floats: Sequence[Array],
    targets: Targets,
    meter: FidelityMeter,
    per_sample: Array,
) -> dict[str, Array]:
    """What is kept besides figures."""
    predictions: dict[str, Array] = {"per_sample": per_sample, "per_sample_cosine": meter.cosines.mean(axis=1)}
    classes, float_classes = metric.labels(outputs), metric.labels(floats)
    given = {"classes": classes, "float_classes": float_classes, "targets": targets}
    if all(isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind == "i" for array in given.values()):
        predictions |= {name: np.asarray(array) for name, array in given.items()}
    by_class, float_by_class = metric.by_class(outputs, targets), metric.by_class(floats, targets)
    if by_class is not None and float_by_class is not None:
        predictions |= {"by_class": by_class, "float_by_class": float_by_class}
    return predictions | decisions_of_worst(classes, float_classes, targets, worst_samples(predictions))


def _score(work: Work) -> None:
    card, (outputs, meter), floats = work[CARD], work[OUTPUTS], work[FLOAT_OUTPUTS]
    metric = card.open_metric()
    split = work[DATASET].split(card.dataset.evaluation.split)
    targets = card.targets(split, work[EVALUATION_SAMPLES], floats)
    accuracy, per_sample = paired_accuracy(metric, outputs, floats, targets)
    fidelity = fidelity_of(meter, metric, card.output_names(), outputs, floats)
    predictions = _predictions(metric, outputs, floats, targets, meter, per_sample)
    work.give(SCORED, Scored(accuracy, fidelity, predictions))


SCORE = Stage(
    name="score",
    run=_score,
    reads=(CARD, DATASET, EVALUATION_SAMPLES, FLOAT_OUTPUTS, OUTPUTS),
    gives=(SCORED,),
)
