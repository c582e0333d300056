"""Outputs of a quantised model against the float model's, sample by sample and without labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelError

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
    _cosines: list[NDArray[np.float64]] = field(default_factory=list)

    def update(self, ours: Sequence[Array], floats: Sequence[Array]) -> None:
        """Take in one batch.

        Args:
            ours, floats: one array per output, samples in the first dimension.

        Raises:
            ModelError: values are NaN or infinite.
        """
        columns = []
        for quantized, reference in zip(ours, floats, strict=True):
            q, f = _rows(quantized), _rows(reference)
            for rows, of in ((f, "float"), (q, "quantised")):
                if not np.isfinite(rows).all():
                    raise ModelError(
                        f"the outputs of the {of} model hold NaN or infinite values on the evaluation samples: nothing "
                        "can be compared; look at its weights and at the data"
                    )
            error = f - q
            self._signal += float(np.square(f).sum())
            self._noise += float(np.square(error).sum())
            self.peak = max(self.peak, float(np.abs(error).max(initial=0.0)))
            columns.append(cosines(q, f))
        self._cosines.append(np.stack(columns, axis=1))

    @property
    def cosines(self) -> NDArray[np.float64]:
        """Cosine per sample and output, float64, shape (samples, outputs)."""
        return np.concatenate(self._cosines)

    @property
    def sqnr_db(self) -> float | None:
        """``10 log10(sum f^2 / sum (f - q)^2)`` over all values, in decibels; None without signal or without noise."""
        return float(10 * np.log10(self._signal / self._noise)) if self._signal and self._noise else None


def cosines(ours: NDArray[np.float64], floats: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cosine of every pair of rows, shape (rows,); two rows of zeros count as equal (1), one alone as unlike (0).

    Infinite and undefined values give NaN.
    """
    both_zero = ~ours.any(axis=1) & ~floats.any(axis=1)
    cosine: NDArray[np.float64] = np.asarray(both_zero, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite and undefined values give NaN
        norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(floats, axis=1)
        products = np.einsum("ij,ij->i", ours, floats)
        np.divide(products, norms, out=cosine, where=norms != 0)
    # Rounding may carry the cosine of equal vectors beyond 1.
    return np.clip(cosine, -1.0, 1.0, out=cosine)


def _rows(array: Array) -> NDArray[np.float64]:
    """float64, shape (samples, values)."""
    return array.reshape(len(array), -1).astype(np.float64)


def mean_cosines(ours: Mapping[str, Sequence[Array]], floats: Mapping[str, Sequence[Array]]) -> dict[str, float]:
    """Mean cosine over samples of each named group of arrays, which count as one vector per sample."""
    return {name: float(cosines(_joined(ours[name]), _joined(reference)).mean()) for name, reference in floats.items()}


def _joined(arrays: Sequence[Array]) -> NDArray[np.float64]:
    return np.concatenate([_rows(array) for array in arrays], axis=1)
