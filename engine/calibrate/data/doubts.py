"""What is legal about calibration data and hardly meant: one message each, with the evidence and what to do.

The one place where they are looked at, for ``makertbin``, ``bisect`` and the trials of sweeps alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.data.sources import FolderData, InputFolder, image_pixels
from engine.calibrate.statistics.distribution import FLOAT32_MAX
from engine.config import InputSpec
from engine.errors import CalibrationDataError
from engine.terms import Layout, NormType

Array = NDArray[Any]

ADVISED_SAMPLES = 20
"""Fewer calibration samples than this raise a warning."""

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp")
_LARGEST_UNIT = 1.5
"""Largest value of pixels that were divided by 255, and a little more."""
_LARGEST_NORMALISED = 32.0
"""Largest magnitude of pixels that were normalised with a mean and a scale."""
_COMPARED = 3
"""Samples whose images are looked for."""
_SAME_IMAGE = 2.0
"""Pixel levels of mean difference from which on the order of channels is doubted."""
_BARS = "▁▂▃▄▅▆▇█"
_BINS = 16
_OTHER = 0.25
"""Largest difference of two cumulative distributions (Kolmogorov-Smirnov) that are the same, of many samples."""
_CRITICAL = 1.36
"""Factor of that test's critical value at five percent, ``_CRITICAL * sqrt(1 / n + 1 / m)`` for n and m samples.

Values of one image belong together, so that samples are counted rather than values."""


def folder_doubts(data: FolderData) -> Iterator[str]:
    """What is doubtful about samples in folders. Reads every file once; of images (``preprocess_on``) the head alone.

    Raises:
        CalibrationDataError: a file cannot be read as the input that it is for.
    """
    yield from _few(len(data))
    for folder in data.folders:
        look = _Look(folder.spec, alone=len(data.folders) == 1)
        for index, file in enumerate(folder.files):
            if folder.images:
                folder.check_image(index)
                look.count(file.read_bytes(), str(file))
                continue
            sample = folder.read(index) if folder.dtype.kind == "f" else folder.feed(index)
            problem = _of_sample(sample)
            if problem is not None:
                yield f"{file}: {problem}"
            look.add(sample, str(file))
        yield from look.doubts()
        if not folder.images and folder.spec.is_image:
            yield from _order_of_channels(folder)


def array_doubts(arrays: Mapping[str, Array], inputs: Sequence[InputSpec]) -> Iterator[str]:
    """What is doubtful about samples in memory, along the first dimension of ``arrays``, as :func:`folder_doubts`."""
    specs = {spec.name: spec for spec in inputs}
    yield from _few(min(map(len, arrays.values()), default=0))
    for name, array in arrays.items():
        look = _Look(specs.get(name, InputSpec(name=name)), alone=len(arrays) == 1)
        for index in range(len(array)):
            look.add(array[index], f"sample {index}")
        yield from look.doubts()


def _few(count: int) -> Iterator[str]:
    if count < ADVISED_SAMPLES:
        counted = "1 calibration sample is" if count == 1 else f"{count} calibration samples are"
        yield f"{counted} few: {ADVISED_SAMPLES} or more are advised, about 100 are best"


@dataclass
class _Look:
    """What the samples of one input have in common.

    Attributes:
        spec: of the input.
        alone: whether it is the network's only one. Beside others a feature map may be a mask or a state, which is one
            value throughout and the same in all samples.
    """

    spec: InputSpec
    alone: bool
    count_of: dict[str, str] = field(default_factory=dict)
    samples: int = 0
    constant: list[tuple[str, float]] = field(default_factory=list)
    copies: list[tuple[str, str]] = field(default_factory=list)
    least: float = np.inf
    most: float = -np.inf
    whole: bool = True

    def count(self, content: bytes, name: str) -> None:
        """A sample whose values are not looked at."""
        self.samples += 1
        first = self.count_of.setdefault(hashlib.sha256(content).hexdigest(), name)
        if first != name:
            self.copies.append((name, first))

    def add(self, sample: Array, name: str) -> None:
        """A sample with its values."""
        if not sample.size:
            return
        self.count(np.ascontiguousarray(sample).tobytes(), name)
        with np.errstate(all="ignore"):
            least, most = float(np.fmin.reduce(sample, axis=None)), float(np.fmax.reduce(sample, axis=None))
        if least == most and sample.size > 1 and most:
            self.constant.append((name, most))
        self.least, self.most = min(self.least, least), max(self.most, most)
        self.whole = self.whole and sample.dtype.kind != "f"

    def doubts(self) -> Iterator[str]:
        """Over all samples."""
        where = f"input {self.spec.name!r}"
        if not self.alone and not self.spec.is_image:
            return
        if self.constant and self.samples > 1:
            name, value = self.constant[0]
            yield (
                f"{where}: {len(self.constant)} of {self.samples} samples hold one value throughout ({name}: "
                f"{value:.4g}), from which no range can be measured: give data as the network meets them"
            )
        if self.copies:
            name, first = self.copies[0]
            yield (
                f"{where}: {len(self.copies)} of {self.samples} samples are copies of others ({name} of {first}), "
                "which tell nothing new: give different ones"
            )
        if self.spec.is_image and not self.whole and np.isfinite([self.least, self.most]).all() and self.most > 0:
            yield from self._scaled(where)

    def _scaled(self, where: str) -> Iterator[str]:
        """Images of floats that were normalised before, which the converted model does again."""
        evidence = f"{where}: all samples lie between {self.least:.4g} and {self.most:.4g}"
        kind = self.spec.norm_type
        applied = "" if kind is NormType.NONE else f" and applies norm_type {kind.value} itself"
        again = f"the converted model takes pixels of 0 to 255{applied}"
        if self.least >= 0 and self.most <= _LARGEST_UNIT:
            yield (
                f"{evidence}, as pixels divided by 255; {again}: multiply the samples by 255, or make the input a "
                "featuremap if the application feeds such numbers"
            )
        elif self.least < 0:
            done = "normalised" if max(-self.least, self.most) <= _LARGEST_NORMALISED else "less a mean"
            yield (
                f"{evidence}, as pixels {done}; {again}: give the pixels as they were, or make the input a featuremap "
                "if the application feeds such numbers"
            )


def _of_sample(array: Array) -> str | None:
    """What is doubtful about one sample."""
    if array.dtype.kind == "f":
        if np.isnan(array).any():
            return "holds NaN, which the statistics ignore (is cal_data_type right?)"
        if (np.abs(array) > FLOAT32_MAX).any():
            return "holds infinity, which becomes a threshold of 3.4028235e38 (is cal_data_type right?)"
    return None if array.any() else "holds only zeros"


def _order_of_channels(folder: InputFolder) -> Iterator[str]:
    """Whether samples are the images beside them with red and blue swapped."""
    axis = 1 if folder.spec.layout_train is Layout.NCHW else -1
    found: list[str] = []
    for index, file in enumerate(folder.files[:_COMPARED]):
        image = _image_of(file)
        if image is None or folder.shape[axis] != 3:
            return
        try:
            pixels = image_pixels(image, folder.spec, folder.shape).astype(np.float32)
        except CalibrationDataError:
            return
        sample = folder.read(index).astype(np.float32).reshape(pixels.shape)
        straight, swapped = (float(np.abs(sample - other).mean()) for other in (pixels, np.flip(pixels, axis)))
        if straight < _SAME_IMAGE or swapped > straight / 2:
            return
        found.append(
            f"{file.name} differs from {image} by {straight:.1f} levels, with its channels reversed by {swapped:.1f}"
        )
    if found:
        yield (
            f"input {folder.spec.name!r}: the channels are in reverse order: {found[0]}; input_type_train is "
            f"{folder.spec.type_train.value}: write the samples in that order"
        )


def _image_of(file: Path) -> Path | None:
    """The image of the same name beside the folder of ``file``, or in a folder beside it."""
    parent = file.parent.parent
    try:
        places = [parent, *sorted(path for path in parent.iterdir() if path.is_dir() and path != file.parent)]
    except OSError:
        return None
    candidates = (place / f"{file.stem}{suffix}" for place in places for suffix in IMAGE_SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


def other_distribution(calibration: Array, evaluation: Array, name: str) -> str | None:
    """Whether the values of an input differ between calibration and evaluation, with both histograms; None if not.

    Args:
        calibration, evaluation: samples of one input, in the same units, along the first dimension.
        name: of the input.
    """
    first, second = (np.sort(_thinned(array)) for array in (calibration, evaluation))
    if not first.size or not second.size:
        return None
    points = np.concatenate([first, second])
    ranks = [np.searchsorted(values, points, side="right") / values.size for values in (first, second)]
    apart = float(np.abs(ranks[0] - ranks[1]).max())
    if apart <= max(_OTHER, _CRITICAL * (1 / len(calibration) + 1 / len(evaluation)) ** 0.5):
        return None
    ends = float(points.min()), float(points.max())
    return (
        f"input {name!r}: calibration and evaluation data are distributed differently, Kolmogorov-Smirnov {apart:.2f} "
        f"({ends[0]:.4g} {_histogram(first, ends)} {ends[1]:.4g} and {_histogram(second, ends)}), so thresholds do not "
        "fit what is evaluated: take calibration samples from the same source, prepared in the same way"
    )


def _thinned(array: Array, most: int = 100_000) -> NDArray[np.float64]:
    flat = array.reshape(-1)
    finite = np.isfinite(flat) if array.dtype.kind == "f" else None
    flat = flat if finite is None or finite.all() else flat[finite]
    return flat[:: max(1, flat.size // most)].astype(np.float64)


def _histogram(values: Array, ends: tuple[float, float]) -> str:
    counts, _ = np.histogram(values, _BINS, ends)
    return "".join(_BARS[round(count / max(counts.max(), 1) * (len(_BARS) - 1))] for count in counts)
