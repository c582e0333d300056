"""The stage that scores outputs by the card's metric, beside the float model's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.convert.runner import Stage, Work
from harness.backends.items import CARD, DATASET, EVALUATION_SAMPLES, FLOAT_OUTPUTS, OUTPUTS, SCORED
from harness.backends.values import Scored
from harness.datasets import Targets
from harness.metrics import Metric, Score, read_only
from harness.metrics.resampling import draws_of, spread
from harness.trials.comparison import FidelityMeter, mean_cosines
from harness.trials.figures import Accuracy, Fidelity
from harness.trials.worst import decisions_of_worst, worst_samples
from harness.zoo.cards import Labels

Array = NDArray[Any]


def paired_accuracy(
    metric: Metric, outputs: Sequence[Array], floats: Sequence[Array], targets: Targets, *, by_float: bool = False
) -> tuple[Accuracy, dict[str, Array]]:
    """The metric on both models' outputs for the same images, and the scores that a trial keeps.

    Args:
        metric: of the card.
        outputs, floats: of the quantised and the float model.
        targets: of the images.
        by_float: whether the float model's decisions are the targets.
    """
    ours, reference = metric.score(outputs, targets), metric.score(floats, targets)
    accuracy = Accuracy(
        metric=metric.name,
        float_value=reference.value,
        value=ours.value,
        stderr=ours.stderr,
        delta_stderr=_error_of_difference(ours, reference),
        higher_is_better=metric.higher_is_better,
        informative=None if ours.informative is None else int(ours.informative.sum()),
        sought=metric.sought,
        by_float=by_float,
    )
    kept: dict[str, Array] = {"per_sample": ours.per_sample, "float_per_sample": reference.per_sample}
    if ours.informative is not None:
        kept["informative"] = ours.informative
    if ours.resampled is not None and reference.resampled is not None:
        kept["resampled"] = ours.resampled.astype(np.float32)
        kept["float_resampled"] = reference.resampled.astype(np.float32)
    return accuracy, kept


def _error_of_difference(ours: Score, floats: Score) -> float:
    """Standard error of the paired difference of the metric."""
    if ours.resampled is not None and floats.resampled is not None:
        return spread(draws_of(ours.resampled) - draws_of(floats.resampled))
    return Score.mean(ours.per_sample - floats.per_sample).stderr


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
    scores: Mapping[str, Array],
) -> dict[str, Array]:
    """What is kept besides figures."""
    predictions: dict[str, Array] = {**scores, "per_sample_cosine": meter.cosines.mean(axis=1)}
    classes, float_classes = metric.labels(outputs), metric.labels(floats)
    given = {"classes": classes, "float_classes": float_classes, "targets": targets}
    if all(isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind == "i" for array in given.values()):
        predictions |= {name: np.asarray(array) for name, array in given.items()}
    by_class, float_by_class = metric.by_class(outputs, targets), metric.by_class(floats, targets)
    if by_class is not None and float_by_class is not None:
        predictions |= {"by_class": by_class, "float_by_class": float_by_class}
    return predictions | decisions_of_worst(classes, float_classes, targets, worst_samples(predictions))


def _score(work: Work) -> None:
    card, (given, meter) = work[CARD], work[OUTPUTS]
    outputs, floats = read_only(given), read_only(work[FLOAT_OUTPUTS])
    metric = card.open_metric()
    split = work[DATASET].split(card.dataset.evaluation.split)
    targets = card.targets(split, work[EVALUATION_SAMPLES], floats)
    by_float = card.metric.labels is Labels.FLOAT
    accuracy, scores = paired_accuracy(metric, outputs, floats, targets, by_float=by_float)
    fidelity = fidelity_of(meter, metric, card.output_names(), outputs, floats)
    predictions = _predictions(metric, outputs, floats, targets, meter, scores)
    work.give(SCORED, Scored(accuracy, fidelity, predictions))


SCORE = Stage(
    name="score",
    run=_score,
    reads=(CARD, DATASET, EVALUATION_SAMPLES, FLOAT_OUTPUTS, OUTPUTS),
    gives=(SCORED,),
)
