"""A calibration method per tensor, chosen by its effect on the outputs of the model; not in the original."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import onnx_ir as ir

from engine.calibrate.data.samples import evenly_spread, finite_samples
from engine.calibrate.methods.methods import CalibrationOptions
from engine.calibrate.methods.search import Subject
from engine.calibrate.methods.sensitivity import calibrations_by_node, local_similarities, similarity
from engine.calibrate.methods.thresholds import apply_thresholds, threshold_sources, unsigned_of
from engine.floats.float_model import FloatSession

logger = logging.getLogger(__name__)

TRIALS = 80
"""Most models to try; every one is run on :data:`SAMPLES` samples."""

SAMPLES = 8

_LEAST_CHANGE = 1e-3
"""Thresholds that differ by less, as a share, are the same choice."""


def choose_per_tensor(
    subject: Subject, base: CalibrationOptions, others: Sequence[CalibrationOptions], trials: int = TRIALS
) -> ir.Model:
    """The model with the thresholds of ``base`` and, for every tensor that gains by it, those of one of ``others``.

    Tensors are tried one after the other, those that the least similar nodes read first; a change stays if it makes the
    outputs more similar to the float ones in the mean over :data:`SAMPLES` evenly spread samples, as far as finite.

    Args:
        subject: model, statistics for all methods, data.
        base: method to begin with.
        others: methods to try.
        trials: most models to try.
    """
    thresholds = dict(subject.statistics.thresholds(base))
    alternatives = {other: subject.statistics.thresholds(other) for other in others}
    judge = _Judge(subject, base)
    model = judge.model(thresholds)
    best, left = judge.score(model), trials
    for name in _tensors_by_need(model, subject):
        for other, values in alternatives.items():
            old = thresholds.get(name)
            if old is None or left == 0 or _are_alike(old, values[name]):
                continue
            left -= 1
            thresholds[name] = values[name]
            candidate = judge.model(thresholds)
            score = judge.score(candidate)
            if score > best:
                best, model = score, candidate
                logger.info("%s: %s, mean cosine similarity %.6f", name, other.log_name, score)
            else:
                thresholds[name] = old
    return model


class _Judge:
    """Scores thresholds by the outputs of the calibrated model."""

    def __init__(self, subject: Subject, base: CalibrationOptions) -> None:
        self._subject, self._unsigned = subject, unsigned_of(subject.placed, base)
        indices = evenly_spread(len(subject.data), SAMPLES)
        samples = list(finite_samples(subject.data, indices)) or [subject.data.read(0, 1)]
        self._feed = {name: np.concatenate([sample[name] for sample in samples]) for name in samples[0]}
        self._expected = FloatSession(subject.optimized, threads=subject.threads).run(self._feed)

    def model(self, thresholds: dict[str, tuple[float, ...]]) -> ir.Model:
        """The placed model with ``thresholds``."""
        return apply_thresholds(self._subject.placed, thresholds, unsigned=self._unsigned)

    def score(self, model: ir.Model) -> float:
        """Mean cosine of the outputs."""
        return similarity(FloatSession(model, threads=self._subject.threads).run(self._feed), self._expected)


def _tensors_by_need(calibrated: ir.Model, subject: Subject) -> Iterator[str]:
    """Names of the tensors that nodes read, those of the least similar nodes first, each once."""
    sources = threshold_sources(calibrated)
    readers = calibrations_by_node(calibrated)
    found = local_similarities(calibrated, subject.data.read(0, 1), threads=subject.threads)
    names = [
        sources[calibration]
        for node in sorted(found, key=lambda node: found[node])
        for calibration in readers[node]
        if calibration in sources
    ]
    yield from dict.fromkeys(names)


def _are_alike(first: Sequence[float], second: Sequence[float]) -> bool:
    return len(first) == len(second) and all(
        abs(a - b) <= _LEAST_CHANGE * abs(a) for a, b in zip(first, second, strict=True)
    )
