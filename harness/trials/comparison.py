"""Outputs of a quantised model against the float model's, sample by sample and without labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import reduce
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
            ModelError: values are NaN or infinite, or the two differ in their number.
        """
        columns = []
        for quantized, reference in zip(ours, floats, strict=True):
            sums = _sums(quantized, reference)
            for rows, squares, of in ((reference, sums.floats, "float"), (quantized, sums.ours, "quantised")):
                if not np.isfinite(squares).all() and not np.isfinite(rows).all():
                    raise ModelError(
                        f"the outputs of the {of} model hold NaN or infinite values on the evaluation samples: nothing "
                        "can be compared; look at its weights and at the data"
                    )
            self._signal += float(sums.floats.sum())
            self._noise += float(sums.errors.sum())
            self.peak = max(self.peak, float(sums.peaks.max(initial=0.0)))
            columns.append(_cosines(sums))
        self._cosines.append(np.stack(columns, axis=1))

    @property
    def cosines(self) -> NDArray[np.float64]:
        """Cosine per sample and output, float64, shape (samples, outputs)."""
        return np.concatenate(self._cosines)

    @property
    def sqnr_db(self) -> float | None:
        """``10 log10(sum f^2 / sum (f - q)^2)`` over all values, in decibels; None without signal or without noise."""
        return float(10 * np.log10(self._signal / self._noise)) if self._signal and self._noise else None


def mean_cosines(ours: Mapping[str, Sequence[Array]], floats: Mapping[str, Sequence[Array]]) -> dict[str, float]:
    """Mean cosine over samples of each named group of arrays, which count as one vector per sample."""
    return {name: float(_cosines(_joined(ours[name], reference)).mean()) for name, reference in floats.items()}


_BLOCK = 1 << 15
"""Values compared at a time: three float64 arrays of them stay in a core's cache."""


@dataclass(frozen=True)
class _Sums:
    """Of a pair of vectors per sample, float64, shape (samples,).

    Attributes:
        products: sum of ``q f``.
        ours, floats, errors: sums of ``q^2``, ``f^2`` and ``(f - q)^2``.
        peaks: greatest ``|f - q|``.
    """

    products: NDArray[np.float64]
    ours: NDArray[np.float64]
    floats: NDArray[np.float64]
    errors: NDArray[np.float64]
    peaks: NDArray[np.float64]

    def joined(self, other: _Sums) -> _Sums:
        """Those of the vectors with ``other``'s appended."""
        return _Sums(
            self.products + other.products,
            self.ours + other.ours,
            self.floats + other.floats,
            self.errors + other.errors,
            np.maximum(self.peaks, other.peaks),
        )


def _sums(ours: Array, floats: Array) -> _Sums:
    """Of two arrays of any type and layout, samples in the first dimension; float64 copies are made of blocks alone."""
    samples = len(floats)
    values = floats[:1].size
    if ours.size != floats.size:
        raise ModelError(
            f"an output of the quantised model has shape {ours.shape}, the float model's {floats.shape}: they "
            "cannot be compared; quantise the model that the card names"
        )
    rows = max(1, _BLOCK // max(values, 1))
    parts = []
    for first in range(0, samples, rows):
        q, f = (array[first : first + rows] for array in (ours, floats))
        q, f = q.reshape(len(q), -1), f.reshape(len(f), -1)
        blocks = (slice(start, start + _BLOCK) for start in range(0, max(values, 1), _BLOCK))
        parts.append(reduce(_Sums.joined, (_sums_of_block(q[:, block], f[:, block]) for block in blocks)))
    return _Sums(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(_Sums)))


def _sums_of_block(ours: Array, floats: Array) -> _Sums:
    q, f = ours.astype(np.float64), floats.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite and undefined values give NaN
        error = f - q
        return _Sums(
            products=np.einsum("ij,ij->i", q, f),
            ours=np.einsum("ij,ij->i", q, q),
            floats=np.einsum("ij,ij->i", f, f),
            errors=np.einsum("ij,ij->i", error, error),
            peaks=np.abs(error, out=error).max(axis=1, initial=0.0),
        )


def _joined(ours: Sequence[Array], floats: Sequence[Array]) -> _Sums:
    return reduce(_Sums.joined, (_sums(q, f) for q, f in zip(ours, floats, strict=True)))


def _cosines(sums: _Sums) -> NDArray[np.float64]:
    """Cosine of every pair, shape (samples,); two vectors of zeros count as equal (1), one alone as unlike (0).

    Infinite and undefined values give NaN.
    """
    cosine: NDArray[np.float64] = np.asarray((sums.ours == 0) & (sums.floats == 0), np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.sqrt(sums.ours) * np.sqrt(sums.floats)
        np.divide(sums.products, norms, out=cosine, where=norms != 0)
    # Rounding may carry the cosine of equal vectors beyond 1.
    return np.clip(cosine, -1.0, 1.0, out=cosine)
