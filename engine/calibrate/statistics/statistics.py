"""Statistics: what one pass over the calibration data leaves for all calibration methods, as a value and as a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.methods.methods import FIXED_THRESHOLD, CalibrationOptions, method_of
from engine.calibrate.statistics.archive import DAMAGED, Arrays, arrays_digest, read_archive, write_archive
from engine.calibrate.statistics.distribution import Distribution, Histogram
from engine.errors import CalibrationDataError, ConfigError

FORMAT = 5
"""Version of the file format of :meth:`Statistics.save`."""


@dataclass(frozen=True, eq=False)
class TensorStatistics:
    """Statistics of one tensor.

    Attributes:
        channel_max: ``max|x|`` per channel, float32, shape (channels,).
        pooled: all values together.
        equalized: all values together, every channel multiplied by its factor; ``None`` where all factors are 1.
        factors: what ``per_channel`` multiplies every channel by
            (:meth:`engine.calibrate.methods.channels.ChannelReaders.factors`), float32, shape (channels,); ``None``
            where it does not apply or was not requested.
    """

    channel_max: NDArray[np.float32]
    pooled: Distribution
    equalized: Distribution | None = None
    factors: NDArray[np.float32] | None = None

    def thresholds(self, options: CalibrationOptions) -> tuple[float, ...]:
        """One threshold, or one per channel: float32 values, never 0.

        Raises:
            ConfigError: the statistics were not collected for these options.
        """
        common = _not_zero(method_of(options).threshold(self._distribution(options), options))
        if not options.per_channel or self.factors is None:
            return (common,)
        return tuple(float(value) for value in np.float32(common) / self.factors)

    def rule(self, options: CalibrationOptions) -> str | None:
        """Id of the rule of the original that decided :meth:`thresholds`; None where there is none.

        Raises:
            ConfigError: as there.
        """
        return method_of(options).rule(self._distribution(options), options)

    def _distribution(self, options: CalibrationOptions) -> Distribution:
        return self.equalized if options.per_channel and self.equalized is not None else self.pooled


@dataclass(frozen=True, eq=False)
class Statistics:
    """Statistics of all tensors that a model's calibration needs.

    Attributes:
        tensors: by name of the float tensor.
        samples: number of calibration samples.
        per_channel: whether equalised distributions were collected.
        similarities: what searches found with these tensors, so that settings that try the same do it once: by digest
            of the model, of which the last is kept, and by digest of a sample and what was tried on it. No file has it.
    """

    tensors: Mapping[str, TensorStatistics]
    samples: int
    per_channel: bool = False
    similarities: dict[str, dict[str, float]] = field(default_factory=dict, repr=False)

    def thresholds(self, options: CalibrationOptions) -> dict[str, tuple[float, ...]]:
        """Threshold (or thresholds per channel, axis 1) of every tensor.

        Raises:
            ConfigError: the statistics were not collected for these options.
            UnsupportedError: there is no such method.
        """
        method = method_of(options)
        if options.per_channel and method.needs_data and not self.per_channel:
            raise ConfigError("per_channel needs equalised statistics, which were not collected")
        return {name: tensor.thresholds(options) for name, tensor in self.tensors.items()}

    def digest(self) -> str:
        """SHA-256 of the content, hexadecimal: equal for equal statistics, however they came about."""
        return arrays_digest(_to_arrays(self))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write an ``.npz`` file, atomically."""
        return write_archive(path, _to_arrays(self), compress=True)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Statistics:
        """Read what :meth:`save` wrote.

        Raises:
            CalibrationDataError: the file is missing, damaged, or of another version.
        """
        try:
            return _from_arrays(read_archive(path))
        except DAMAGED as error:
            raise CalibrationDataError(f"{os.fspath(path)}: not a readable statistics file ({error})") from error


def _not_zero(threshold: float) -> float:
    """``threshold`` as float32; a tensor that is zero everywhere gets 1.0 (reference/calibration.md 2)."""
    value = float(np.float32(threshold))
    return value if value > 0 else FIXED_THRESHOLD


def _to_arrays(statistics: Statistics) -> Arrays:
    names = sorted(statistics.tensors)
    arrays: Arrays = {
        "header": np.asarray([FORMAT, statistics.samples, int(statistics.per_channel)], np.int64),
        "names": np.asarray(names, np.str_),
    }
    for index, name in enumerate(names):
        tensor = statistics.tensors[name]
        arrays[f"{index}.channel_max"] = tensor.channel_max
        _put(arrays, f"{index}.pooled", tensor.pooled)
        if tensor.factors is not None:
            arrays[f"{index}.factors"] = tensor.factors
        if tensor.equalized is not None:
            _put(arrays, f"{index}.equalized", tensor.equalized)
    return arrays


def _put(arrays: Arrays, prefix: str, distribution: Distribution) -> None:
    fractions = sorted(distribution.percentiles)
    arrays[f"{prefix}.maximum"] = np.asarray(distribution.maximum, np.float64)
    arrays[f"{prefix}.fractions"] = np.asarray(fractions, np.float64)
    arrays[f"{prefix}.values"] = np.asarray([distribution.percentiles[f] for f in fractions], np.float64)
    if distribution.histogram is not None:
        arrays[f"{prefix}.width"] = np.asarray(distribution.histogram.width, np.float64)
        arrays[f"{prefix}.counts"] = distribution.histogram.counts


def _from_arrays(arrays: Arrays) -> Statistics:
    version, samples, per_channel = (int(value) for value in arrays["header"])
    if version != FORMAT:
        raise ValueError(f"version {version}; this release reads {FORMAT}")
    tensors = {
        str(name): TensorStatistics(
            channel_max=arrays[f"{index}.channel_max"],
            pooled=_take(arrays, f"{index}.pooled"),
            equalized=_take(arrays, f"{index}.equalized") if f"{index}.equalized.maximum" in arrays else None,
            factors=arrays.get(f"{index}.factors"),
        )
        for index, name in enumerate(arrays["names"])
    }
    return Statistics(tensors, samples, bool(per_channel))


def _take(arrays: Arrays, prefix: str) -> Distribution:
    pairs = zip(arrays[f"{prefix}.fractions"], arrays[f"{prefix}.values"], strict=True)
    counts = arrays.get(f"{prefix}.counts")
    return Distribution(
        maximum=float(arrays[f"{prefix}.maximum"]),
        percentiles={float(fraction): float(value) for fraction, value in pairs},
        histogram=None if counts is None else Histogram(counts, float(arrays[f"{prefix}.width"])),
    )
