"""How alike the outputs of two models are, where nothing is known of what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from engine.errors import InferenceError
from harness.datasets import Targets
from harness.files.strict_yaml import StrictModel
from harness.metrics.base import Array, Metric, Score


class Agreement(StrEnum):
    """What the ``agreement`` of a trial counts.

    Attributes:
        COSINE: the metric itself.
        TOP1: the share of images whose largest value is at the same place of every output: 1 less the top-1 flips.
    """

    COSINE = "cosine"
    TOP1 = "top1"


class CosineOptions(StrictModel):
    """How outputs are compared.

    Attributes:
        agreement: what the ``agreement`` of a trial counts; ``top1`` for outputs that are class scores.
    """

    agreement: Agreement = Agreement.COSINE


class OutputCosine(Metric):
    """Mean over images of the cosine with the float model's outputs, 0..1; negative ones and NaN count 0.

    For networks whose outputs the other metrics do not know: with ``labels: float`` it needs no meaning of them. Every
    output counts alike, whatever its size; one that is zero in both models counts 1. The standard error is that of a
    mean.
    """

    name = "cosine"
    Options = CosineOptions

    def __init__(self, options: CosineOptions) -> None:
        self._agreement = options.agreement

    def score(self, outputs: Sequence[Array], targets: Targets) -> Score:
        """Any outputs; targets are what :meth:`labels` gives, float32, (images, values)."""
        ours = _directions(outputs)
        if not isinstance(targets, np.ndarray) or targets.shape != ours.shape:
            raise InferenceError(
                f"{self.name} compares with the float model's outputs; set labels: float in the model card"
            )
        products = np.einsum("ij,ij->i", ours.astype(np.float64), targets.astype(np.float64))
        products += _both_zero(ours, targets, [output[0].size for output in outputs])
        return Score.mean(np.clip(np.nan_to_num(products), 0.0, 1.0))

    def labels(self, outputs: Sequence[Array]) -> Targets:
        """The outputs of every image as one vector of length 1."""
        return _directions(outputs)

    def agreement(self, ours: Sequence[Array], floats: Sequence[Array]) -> float | None:
        """As the option says; 0..1."""
        if self._agreement is Agreement.COSINE:
            return super().agreement(ours, floats)
        return float(np.all([_top1(a) == _top1(b) for a, b in zip(ours, floats, strict=True)], axis=0).mean())


def _top1(output: Array) -> NDArray[np.int64]:
    """Place of the largest value of every image, shape (images,)."""
    places: NDArray[np.int64] = output.reshape(len(output), -1).argmax(axis=1)
    return places


def _both_zero(ours: Array, floats: Array, sizes: Sequence[int]) -> NDArray[np.float64]:
    """Share of the outputs of each image that are zero throughout in both models, shape (images,)."""
    ends = np.cumsum([0, *sizes])
    zero = [~(ours[:, a:b].any(axis=1) | floats[:, a:b].any(axis=1)) for a, b in pairwise(ends)]
    return np.asarray(np.mean(zero, axis=0), np.float64)


def _directions(outputs: Sequence[Array]) -> NDArray[np.float32]:
    """Each output of each image at length ``1 / sqrt(outputs)``, one behind the other; zeros stay zeros."""
    parts = [output.reshape(len(output), -1).astype(np.float64) for output in outputs]
    lengths = [np.linalg.norm(part, axis=1, keepdims=True) * np.sqrt(len(parts)) for part in parts]
    scaled = [
        np.divide(part, length, out=np.zeros_like(part), where=length > 0)
        for part, length in zip(parts, lengths, strict=True)
    ]
    return np.concatenate(scaled, axis=1).astype(np.float32)
