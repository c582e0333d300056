"""Pages with words drawn with Pillow: what text detection is scored on, without a file from outside."""

from __future__ import annotations

from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray
from PIL import ImageDraw, ImageFont
from pydantic import Field, model_validator

from harness.datasets.base import Colour, ImageFormat, Images, SceneTarget, Split, SplitDataset, Targets, stacked
from harness.datasets.text_lines import draw_probe, draw_word, paper
from harness.files.strict_yaml import StrictModel

_GAP = 8
"""Pixels between two words at least, so that regions of text do not touch."""

_PLACES = 20
"""Places that are tried for a word."""


class TextPagesOptions(StrictModel):
    """Size and number of the pages.

    Attributes:
        height, width: in pixels.
        words: most on a page.
        smallest, largest: size of the font in pixels.
        seed: of texts, places, sizes and colours.
        calibration, evaluation: pages.
    """

    height: int = Field(default=320, ge=64, le=2048)
    width: int = Field(default=320, ge=64, le=2048)
    words: int = Field(default=6, ge=1, le=50)
    smallest: int = Field(default=18, ge=8)
    largest: int = Field(default=40, ge=8)
    seed: int = Field(default=2024, ge=0, lt=2**32)
    calibration: int = Field(default=50, ge=1)
    evaluation: int = Field(default=100, ge=1)

    @model_validator(mode="after")
    def _sizes_are_a_range(self) -> Self:
        if self.smallest > self.largest:
            raise ValueError(f"smallest {self.smallest} <= largest {self.largest} must hold")
        return self


class TextPages(SplitDataset):
    """Words of letters and digits, dark on a light noisy ground; the target is a box of class 0 around each word."""

    Options = TextPagesOptions
    version = 1

    def __init__(self, options: TextPagesOptions) -> None:
        self.image_format = ImageFormat(height=options.height, width=options.width, colour=Colour.RGB)
        self._splits = {
            "calibration": _PageSplit("calibration", options, 0, options.calibration),
            "evaluation": _PageSplit("evaluation", options, options.calibration, options.evaluation),
        }
        self.digest = self._digest(options, {"probe": draw_probe()})


class _PageSplit(Split):
    """Pages ``first`` .. ``first + count - 1`` of the endless sequence that the options determine."""

    def __init__(self, name: str, options: TextPagesOptions, first: int, count: int) -> None:
        super().__init__(name, count)
        self._options, self._first = options, first
        self._format = ImageFormat(height=options.height, width=options.width, colour=Colour.RGB)

    def _images(self, indices: range) -> Images:
        drawn = (_draw_page(self._options, self._first + index)[0] for index in indices)
        return stacked(drawn, len(indices), self._format)

    def _targets(self, indices: range) -> Targets:
        return [_draw_page(self._options, self._first + index)[1] for index in indices]


@lru_cache(maxsize=256)
def _draw_page(options: TextPagesOptions, index: int) -> tuple[NDArray[np.uint8], SceneTarget]:
    """Image, uint8 (height, width, 3), and boxes of page ``index``."""
    random = np.random.RandomState((options.seed * 100_003 + index) % 2**32)
    image = paper(random, options.height, options.width)
    draw = ImageDraw.Draw(image)
    boxes: list[tuple[float, float, float, float]] = []
    for _ in range(random.randint(1, options.words + 1)):
        text = draw_word(random)
        font = ImageFont.load_default(random.randint(options.smallest, options.largest + 1))
        ink = tuple(int(value) for value in random.randint(0, 90, 3))
        for _ in range(_PLACES):
            place = (random.randint(0, options.width), random.randint(0, options.height))
            box = draw.textbbox(place, text, font)
            inside = min(box[:2]) >= 0 and box[2] <= options.width and box[3] <= options.height
            if inside and not any(_near(box, other) for other in boxes):
                draw.text(place, text, ink, font)
                boxes.append(box)
                break
    mask = np.zeros((options.height, options.width), np.uint8)
    for left, top, right, bottom in boxes:
        mask[round(top) : round(bottom), round(left) : round(right)] = 1
    shape = np.array(boxes, np.float32).reshape(-1, 4)
    return np.asarray(image), SceneTarget(shape, np.zeros(len(boxes), np.int64), mask)


def _near(box: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    """Whether there are less than :data:`_GAP` pixels between two boxes."""
    return all(box[axis] - _GAP < other[axis + 2] and other[axis] - _GAP < box[axis + 2] for axis in (0, 1))
