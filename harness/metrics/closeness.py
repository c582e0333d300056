"""How alike the outputs of two models are, where nothing is known of what they mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.errors import InferenceError
from harness.datasets import Targets
from harness.metrics.base import Array, Metric, NoOptions, Score


class OutputCosine(Metric):
    """Mean over images of the cosine with the float model's outputs, 0..1; negative ones and NaN count 0.

    For networks whose outputs the other metrics do not know: with ``labels: float`` it needs no meaning of them. Every
    output counts alike, whatever its size. The standard error is that of a mean.
    """

    name = "cosine"

    def __init__(self, options: NoOptions) -> None:
        del options

    def score(self, outputs: Sequence[Array], targets: Targets) -> Score:
        """Any outputs; targets are what :meth:`labels` gives, float32, (images, values)."""
        ours = _directions(outputs)
        if not isinstance(targets, np.ndarray) or targets.shape != ours.shape:
            raise InferenceError(
                f"{self.name} compares with the float model's outputs; set labels: float in the model card"
            )
        products = np.einsum("ij,ij->i", ours.astype(np.float64), targets.astype(np.float64))
        cosines = np.clip(np.nan_to_num(products), 0.0, 1.0)
        spread = cosines.std(ddof=1) if len(cosines) > 1 else 0.0
        return Score(float(cosines.mean()), float(spread / np.sqrt(len(cosines))), cosines)

    def labels(self, outputs: Sequence[Array]) -> Targets:
        """The outputs of every image as one vector of length 1."""
        return _directions(outputs)


def _directions(outputs: Sequence[Array]) -> NDArray[np.float32]:
    """Each output of each image at length ``1 / sqrt(outputs)``, one behind the other; zeros stay zeros."""
    parts = [output.reshape(len(output), -1).astype(np.float64) for output in outputs]
    lengths = [np.linalg.norm(part, axis=1, keepdims=True) * np.sqrt(len(parts)) for part in parts]
    scaled = [
        np.divide(part, length, out=np.zeros_like(part), where=length > 0)
        for part, length in zip(parts, lengths, strict=True)
    ]
    return np.concatenate(scaled, axis=1).astype(np.float32)
