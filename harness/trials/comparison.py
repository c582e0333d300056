"""Outputs of a quantised model against the float model's, sample by sample and without labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass
class FidelityMeter:
    """Takes in batches of outputs; memory grows by one number per sample and output only.

    Attributes:
        peak: greatest ``|f - q|`` of two values so far.
    """

    peak: float = 0.0
    _signal: float = 0.0
    _noise: float = 0.0
    _equal: int = 0
    _decisions: int = 0
    _cosines: list[NDArray[np.float64]] = field(default_factory=list)

    def update(self, ours: Sequence[Array], floats: Sequence[Array]) -> None:
        """Take in one batch.

        Args:
            ours, floats: one array per output, samples in the first dimension.
        """
        columns = []
        for quantized, reference in zip(ours, floats, strict=True):
            q, f = _rows(quantized), _rows(reference)
            error = f - q
            self._signal += float(np.square(f).sum())
            self._noise += float(np.square(error).sum())
            self.peak = max(self.peak, float(np.abs(error).max(initial=0.0)))
            columns.append(cosines(q, f))
        self._cosines.append(np.stack(columns, axis=1))
        if _decides(floats):
            equal = ours[0].argmax(axis=1) == floats[0].argmax(axis=1)
            self._equal += int(equal.sum())
            self._decisions += equal.size

    @property
    def cosines(self) -> NDArray[np.float64]:
        """Cosine per sample and output, float64, shape (samples, outputs)."""
        return np.concatenate(self._cosines)

    @property
    def sqnr_db(self) -> float | None:
        """``10 log10(sum f^2 / sum (f - q)^2)`` over all values, in decibels; None without signal or without noise."""
        return float(10 * np.log10(self._signal / self._noise)) if self._signal and self._noise else None

    @property
    def agreement(self) -> float | None:
        """Share of equal decisions (argmax over axis 1, the first of equal values); None where nothing is decided.

        Classifiers decide once per sample, segmenters once per pixel; with several outputs, or without a class axis of
        at least two, an argmax decides nothing.
        """
        return self._equal / self._decisions if self._decisions else None


def cosines(ours: NDArray[np.float64], floats: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cosine of every pair of rows, shape (rows,); two rows of zeros count as equal (1), one alone as unlike (0)."""
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(floats, axis=1)
    both_zero = ~ours.any(axis=1) & ~floats.any(axis=1)
    products = np.einsum("ij,ij->i", ours, floats)
    cosine: NDArray[np.float64] = np.asarray(both_zero, np.float64)
    np.divide(products, norms, out=cosine, where=norms > 0)
    # Rounding may carry the cosine of equal vectors beyond 1.
    return np.clip(cosine, -1.0, 1.0, out=cosine)


def _decides(outputs: Sequence[Array]) -> bool:
    return len(outputs) == 1 and outputs[0].ndim >= 2 and outputs[0].shape[1] >= 2


def _rows(array: Array) -> NDArray[np.float64]:
    """float64, shape (samples, values)."""
    return array.reshape(len(array), -1).astype(np.float64)
