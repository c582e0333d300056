"""Figures of a quantised model: run on the evaluation images, scored by the card's metric, compared with float."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.data.sources import as_fed
from engine.compile import CompiledModel
from engine.config import InputSpec
from engine.perf import estimate
from engine.simulate import Session
from harness.cache import Codec, load_arrays, save_arrays
from harness.datasets.base import Split
from harness.metrics import Metric
from harness.strict_yaml import StrictModel
from harness.trials.comparison import FidelityMeter
from harness.trials.trial import Accuracy, Fidelity, Footprint, NodeRow, delta_stderr

Array = NDArray[Any]

IMAGES_AT_ONCE = 32
"""Evaluation images simulated and compared at a time."""


class Evaluation(StrictModel):
    """Figures of one calibrated model; trials with equal thresholds share it."""

    accuracy: Accuracy
    fidelity: Fidelity
    footprint: Footprint | None
    nodes: tuple[NodeRow, ...]


def _save_evaluation(pair: tuple[Evaluation, Mapping[str, Array]], path: Path) -> None:
    evaluation, predictions = pair
    text = np.frombuffer(evaluation.model_dump_json().encode(), np.uint8)
    save_arrays({**predictions, "evaluation": text}, path)


def _load_evaluation(path: Path) -> tuple[Evaluation, Mapping[str, Array]]:
    arrays = load_arrays(path)
    return Evaluation.model_validate_json(arrays.pop("evaluation").tobytes()), arrays


EVALUATION = Codec(".npz", _save_evaluation, _load_evaluation)


def integer_feed(session: Session, images: Array, spec: InputSpec) -> dict[str, Array]:
    """Images in the training format as the quantised model's input: run-time colours minus 128, its type and layout.

    Args:
        session: of the quantised model.
        images: uint8, in ``type_train`` and ``layout_train``.
        spec: the input.
    """
    (wanted,) = session.inputs
    fed = as_fed(images, spec)
    if fed.shape[1:] != wanted.shape[1:] and fed.transpose(0, 2, 3, 1).shape[1:] == wanted.shape[1:]:
        fed = fed.transpose(0, 2, 3, 1)  # nv12 is channels-last in the quantised stage (reference/calibration.md 5)
    if np.issubdtype(wanted.dtype, np.integer):
        limits = np.iinfo(wanted.dtype)
        fed = np.clip(np.rint(fed), limits.min, limits.max)
    return {wanted.name: np.ascontiguousarray(fed, wanted.dtype)}


def footprint_of(compiled: CompiledModel) -> Footprint:
    """Estimated cost of a compiled model."""
    performance = estimate(compiled)
    return Footprint(
        latency_ms=performance.latency_us / 1e3,
        ddr_mb=performance.ddr_bytes / 1e6,
        cpu_nodes=len(compiled.cpu_nodes),
        subgraphs=len(performance.subgraphs),
    )


def run_compared(
    run: Callable[[Array], list[Array]], split: Split, count: int, floats: Sequence[Array]
) -> tuple[list[Array], FidelityMeter]:
    """Outputs of ``run`` on the first ``count`` images, compared with the float model's on the way."""
    meter = FidelityMeter()
    collected: list[list[Array]] = []
    for start in range(0, count, IMAGES_AT_ONCE):
        stop = min(start + IMAGES_AT_ONCE, count)
        outputs = run(split.images(start, stop))
        meter.update(outputs, [output[start:stop] for output in floats])
        collected.append(outputs)
    return [np.concatenate(parts) for parts in zip(*collected, strict=True)], meter


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


def predictions_of(outputs: Sequence[Array], per_sample: NDArray[np.float64], meter: FidelityMeter) -> dict[str, Array]:
    """What a trial keeps per sample; see :attr:`harness.trials.trial.Outcome.predictions`."""
    predictions: dict[str, Array] = {"per_sample": per_sample, "per_sample_cosine": meter.cosines.mean(axis=1)}
    if meter.agreement is not None and outputs[0].size == len(outputs[0]) * outputs[0].shape[1]:
        predictions["classes"] = outputs[0].argmax(axis=1).reshape(-1)
    return predictions
