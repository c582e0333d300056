"""The stages that score outputs by the card's metric: the float model's, and a trial's beside these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.convert.runner import Stage, Work
from harness.backends.items import (
    CARD,
    DATASET,
    EVALUATION_SAMPLES,
    FLOAT_JUDGED,
    FLOAT_OUTPUTS,
    OUTPUTS,
    SCORED,
)
from harness.backends.values import FloatJudged, Scored
from harness.metrics import Score, read_only
from harness.metrics.resampling import draws_of, spread
from harness.trials.comparison import FidelityMeter, mean_cosines
from harness.trials.figures import Accuracy, Fidelity
from harness.trials.worst import decisions_of_worst, worst_samples
from harness.zoo.cards import Labels

Array = NDArray[Any]


def paired_accuracy(
    outputs: Sequence[Array], floats: FloatJudged, *, by_float: bool = False
) -> tuple[Accuracy, dict[str, Array]]:
    """The metric on both models' outputs for the same images, and the scores that a trial keeps.

    Args:
        outputs: of the quantised model.
        floats: the float model's.
        by_float: whether the float model's decisions are the targets.
    """
    metric, reference = floats.metric, floats.score
    ours = metric.score(outputs, floats.targets)
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


def fidelity_of(meter: FidelityMeter, names: Sequence[str], outputs: Sequence[Array], floats: FloatJudged) -> Fidelity:
    """What ``meter`` has seen, and what the metric makes of the same outputs, which are called ``names``."""
    by_output = dict(zip(names, meter.cosines.mean(axis=0).tolist(), strict=True)) if len(names) > 1 else {}
    metric = floats.metric
    return Fidelity(
        cosine=float(meter.cosines.mean()),
        cosine_min=float(meter.cosines.min()),
        sqnr_db=meter.sqnr_db,
        max_abs=meter.peak,
        agreement=metric.agreement(outputs, floats.outputs),
        parts=by_output | mean_cosines(metric.parts(outputs), metric.parts(floats.outputs)),
    )


def _predictions(
    outputs: Sequence[Array], floats: FloatJudged, meter: FidelityMeter, scores: Mapping[str, Array]
) -> dict[str, Array]:
    """What is kept besides figures."""
    targets = floats.targets
    predictions: dict[str, Array] = {**scores, "per_sample_cosine": meter.cosines.mean(axis=1)}
    classes = floats.metric.labels(outputs)
    given = {"classes": classes, "float_classes": floats.labels, "targets": targets}
    if all(isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind == "i" for array in given.values()):
        predictions |= {name: np.asarray(array) for name, array in given.items()}
    by_class = floats.metric.by_class(outputs, targets)
    if by_class is not None and floats.by_class is not None:
        predictions |= {"by_class": by_class, "float_by_class": floats.by_class}
    return predictions | decisions_of_worst(classes, floats.labels, targets, worst_samples(predictions))


def _judge(work: Work) -> None:
    card, floats = work[CARD], read_only(work[FLOAT_OUTPUTS])
    split = work[DATASET].split(card.dataset.evaluation.split)
    targets = card.targets(split, work[EVALUATION_SAMPLES], floats)
    work.give(FLOAT_JUDGED, FloatJudged(card.open_metric(), floats, targets))


def _score(work: Work) -> None:
    card, floats, (given, meter) = work[CARD], work[FLOAT_JUDGED], work[OUTPUTS]
    outputs = read_only(given)
    accuracy, scores = paired_accuracy(outputs, floats, by_float=card.metric.labels is Labels.FLOAT)
    fidelity = fidelity_of(meter, card.output_names(), outputs, floats)
    work.give(SCORED, Scored(accuracy, fidelity, _predictions(outputs, floats, meter, scores)))


JUDGE = Stage(name="judge", run=_judge, reads=(CARD, DATASET, EVALUATION_SAMPLES, FLOAT_OUTPUTS), gives=(FLOAT_JUDGED,))
SCORE = Stage(name="score", run=_score, reads=(CARD, FLOAT_JUDGED, OUTPUTS), gives=(SCORED,))
