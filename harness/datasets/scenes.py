"""Scenes for detection and segmentation, composed from real MNIST digits on an RGB canvas, from a seed.

A scene is a colour gradient with a coarse texture, one to four coloured digits of random size, shape and place that
contrast with what is behind them, and noise. It depends on options, split and index alone. Only ``RandomState`` (whose
streams numpy guarantees) and element-wise arithmetic with exactly rounded operations go into it, so that it is the same
on every machine.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from pydantic import Field, model_validator

from harness.datasets.base import (
    ArraySplit,
    Colour,
    ImageFormat,
    Images,
    SceneTarget,
    Split,
    SplitDataset,
    Targets,
    sha256_of,
    stacked,
)
from harness.datasets.mnist import Mnist, MnistOptions, load_mnist
from harness.files.strict_yaml import StrictModel

Canvas = NDArray[np.float64]
"""float64, shape (height, width, 3), 0..255."""

_SPLIT_CODES = {"train": 0, "calibration": 1, "evaluation": 2}
_TEXTURE_CELLS = 6
_TEXTURE_AMPLITUDE = 28.0
_NOISE_AMPLITUDE = 9
_CONTRAST = 110.0
"""Least distance of a digit's colour from the canvas behind it: mean over channels of the absolute difference."""
_OVERLAP = 0.1
"""Most of a digit's box that another digit's box may cover."""
_ATTEMPTS = 30
_INK = 128
"""Gray level from which a pixel of a digit counts as ink, in boxes and masks."""


class SceneOptions(StrictModel):
    """How scenes are made and how many there are.

    Attributes:
        seed: of every scene.
        size: height and width of the canvas in pixels.
        smallest, largest: range of the longer side of a digit in pixels.
        most: largest number of digits on a scene.
        train, calibration, evaluation: number of scenes.
        digits: how MNIST is split; a scene takes digits from the split of the same name only.
    """

    seed: int = Field(default=96, ge=0, lt=2**32)
    size: int = Field(default=96, ge=32, le=1024)
    smallest: int = Field(default=22, ge=8)
    largest: int = Field(default=46, ge=8)
    most: int = Field(default=4, ge=1)
    train: int = Field(default=8000, ge=0)
    calibration: int = Field(default=300, ge=1)
    evaluation: int = Field(default=600, ge=1)
    digits: MnistOptions = MnistOptions()

    @model_validator(mode="after")
    def _digits_fit(self) -> Self:
        if not self.smallest <= self.largest < self.size:
            raise ValueError(f"smallest {self.smallest} <= largest {self.largest} < size {self.size} must hold")
        return self


class Scenes(SplitDataset):
    """Coloured digits on textured backgrounds, RGB; targets are :class:`SceneTarget`, classes 0..9."""

    Options = SceneOptions
    version = 1

    def __init__(self, options: SceneOptions) -> None:
        digits = Mnist(options.digits)
        images, classes = load_mnist()
        self.image_format = ImageFormat(height=options.size, width=options.size, colour=Colour.RGB)
        counts = {"train": options.train, "calibration": options.calibration, "evaluation": options.evaluation}
        self._splits = {name: _SceneSplit(name, count, options, digits.splits[name]) for name, count in counts.items()}
        self.digest = self._digest(options, {"source": sha256_of(images, classes), "digits": digits.digest})


class _SceneSplit(Split):
    def __init__(self, name: str, count: int, options: SceneOptions, digits: ArraySplit) -> None:
        super().__init__(name, count)
        self._options, self._digits = options, digits
        self._format = ImageFormat(height=options.size, width=options.size, colour=Colour.RGB)

    def _images(self, indices: range) -> Images:
        return stacked((self._scene(index)[0] for index in indices), len(indices), self._format)

    def _targets(self, indices: range) -> Targets:
        return [self._scene(index)[1] for index in indices]

    def _scene(self, index: int) -> tuple[Images, SceneTarget]:
        random = RandomState([self._options.seed, _SPLIT_CODES[self.name], index])
        canvas = _background(random, self._options.size)
        mask = np.zeros(canvas.shape[:2], np.uint8)
        boxes: list[tuple[int, int, int, int]] = []
        classes: list[int] = []
        for _ in range(random.randint(1, self._options.most + 1)):
            chosen = random.randint(len(self._digits))
            label = int(self._digits.classes[chosen])
            ink = _resized_digit(random, self._digits.pixels[chosen, :, :, 0], self._options)
            box = _free_place(random, ink.shape, canvas.shape, boxes)
            if box is not None:
                _paint(random, canvas, mask, ink, box, label)
                boxes.append(box)
                classes.append(label)
        noise = random.randint(-_NOISE_AMPLITUDE, _NOISE_AMPLITUDE + 1, size=(2, *canvas.shape)).sum(axis=0)
        image = np.clip(np.rint(canvas) + noise, 0, 255).astype(np.uint8)
        target = SceneTarget(np.array(boxes, np.float32).reshape(-1, 4), np.array(classes, np.int64), mask)
        return image, target


def _background(random: RandomState, size: int) -> Canvas:
    """Linear gradient between two colours in a random direction, plus a coarse colour texture."""
    first, second = random.uniform(30, 225, size=(2, 3))
    across, down = random.uniform(-1, 1, size=2)
    ramp = np.linspace(-1, 1, size)
    slope = 0.5 + 0.25 * (across * ramp[np.newaxis, :] + down * ramp[:, np.newaxis])
    texture = random.uniform(-_TEXTURE_AMPLITUDE, _TEXTURE_AMPLITUDE, size=(_TEXTURE_CELLS, _TEXTURE_CELLS, 3))
    gradient = first + slope[..., np.newaxis] * (second - first)
    canvas: Canvas = np.clip(gradient + _resize_bilinear(texture, size, size), 0, 255)
    return canvas


def _resized_digit(random: RandomState, digit: NDArray[np.uint8], options: SceneOptions) -> NDArray[np.float64]:
    """The digit's ink, cut tight, its longer side ``smallest`` .. ``largest`` pixels, sides stretched by up to 15 %."""
    rows, columns = np.flatnonzero((digit >= _INK).any(axis=1)), np.flatnonzero((digit >= _INK).any(axis=0))
    ink = digit[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].astype(np.float64)
    stretch = random.uniform(0.85, 1.15)
    longer = random.randint(options.smallest, options.largest + 1)
    height, width = ink.shape[0] * stretch, ink.shape[1] / stretch
    factor = longer / max(height, width)
    return _resize_bilinear(ink, max(6, round(height * factor)), max(6, round(width * factor)))


def _free_place(
    random: RandomState, shape: tuple[int, ...], canvas: tuple[int, ...], taken: list[tuple[int, int, int, int]]
) -> tuple[int, int, int, int] | None:
    """A random box (left, top, right, bottom) on the canvas; ``None`` where the other digits leave no room."""
    height, width = shape
    for _ in range(_ATTEMPTS):
        left, top = random.randint(canvas[1] - width + 1), random.randint(canvas[0] - height + 1)
        box = (left, top, left + width, top + height)
        if all(_covered(box, other) <= _OVERLAP for other in taken):
            return box
    return None


def _covered(box: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> float:
    """Intersection as a part of the smaller box."""
    width = min(box[2], other[2]) - max(box[0], other[0])
    height = min(box[3], other[3]) - max(box[1], other[1])
    areas = ((b[2] - b[0]) * (b[3] - b[1]) for b in (box, other))
    return max(width, 0) * max(height, 0) / min(areas)


def _paint(
    random: RandomState,
    canvas: Canvas,
    mask: NDArray[np.uint8],
    ink: NDArray[np.float64],
    box: tuple[int, int, int, int],
    label: int,
) -> None:
    """Blend the digit into the canvas with its gray level as opacity, and mark its ink in the mask."""
    left, top, right, bottom = box
    behind = canvas[top:bottom, left:right]
    opacity = np.clip(ink / 255, 0, 1)[..., np.newaxis]
    behind += opacity * (_contrasting_colour(random, behind) - behind)
    mask[top:bottom, left:right][ink >= _INK] = label + 1


def _contrasting_colour(random: RandomState, behind: Canvas) -> NDArray[np.float64]:
    """A random colour, float64 (3,), far enough from all of the canvas behind; the farthest tried where none is."""
    sample = behind[:: max(1, behind.shape[0] // 4), :: max(1, behind.shape[1] // 4)].reshape(-1, 3)
    colours = random.uniform(0, 255, size=(_ATTEMPTS, 3))
    difference = np.abs(colours[:, np.newaxis] - sample)
    distance = ((difference[..., 0] + difference[..., 1] + difference[..., 2]) / 3).min(axis=1)
    enough = np.flatnonzero(distance >= _CONTRAST)
    colour: NDArray[np.float64] = colours[enough[0] if len(enough) else distance.argmax()]
    return colour


def _resize_bilinear(image: NDArray[np.float64], height: int, width: int) -> NDArray[np.float64]:
    """Bilinear samples at half-pixel centres (edge pixels repeated); shape (h, w) or (h, w, channels)."""
    rows, row_weights = _positions(image.shape[0], height)
    columns, column_weights = _positions(image.shape[1], width)
    trailing = (1,) * (image.ndim - 2)
    row_weights = row_weights.reshape(-1, 1, *trailing)
    column_weights = column_weights.reshape(1, -1, *trailing)
    upper, lower = image[rows], image[np.minimum(rows + 1, image.shape[0] - 1)]
    between = upper + row_weights * (lower - upper)
    following = np.minimum(columns + 1, image.shape[1] - 1)
    resized: NDArray[np.float64] = between[:, columns] + column_weights * (between[:, following] - between[:, columns])
    return resized


def _positions(source: int, size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Index of the sample before each output centre, and the weight of the one after it."""
    centres = np.clip((np.arange(size) + 0.5) * (source / size) - 0.5, 0, source - 1)
    before = np.floor(centres).astype(np.int64)
    return before, centres - before
