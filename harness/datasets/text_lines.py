"""Lines of text drawn with Pillow: what text recognition and direction are scored on, without a file from outside."""

from __future__ import annotations

import string
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from pydantic import Field

from harness.datasets.base import Colour, ImageFormat, Images, Split, SplitDataset, Targets, sha256_of, stacked
from harness.files.strict_yaml import StrictModel

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
"""Characters of the words."""

SHORTEST = 4

LONGEST = 12


class TextTarget(StrEnum):
    """What the target of a line is.

    Attributes:
        DIRECTION: class 0 upright, 1 upside down; every second line is.
        TEXT: its characters; no line is upside down.
    """

    DIRECTION = "direction"
    TEXT = "text"


class TextLinesOptions(StrictModel):
    """Size and number of the lines.

    Attributes:
        height, width: in pixels.
        target: what is asked.
        seed: of texts, sizes and colours.
        calibration, evaluation: lines.
    """

    height: int = Field(default=48, ge=16, le=512)
    width: int = Field(default=192, ge=32, le=4096)
    target: TextTarget = TextTarget.DIRECTION
    seed: int = Field(default=2024, ge=0, lt=2**32)
    calibration: int = Field(default=100, ge=1)
    evaluation: int = Field(default=500, ge=1)


class TextLines(SplitDataset):
    """Words of 4 to 12 letters and digits, dark on a light noisy ground, in Pillow's own font."""

    Options = TextLinesOptions
    version = 2

    def __init__(self, options: TextLinesOptions) -> None:
        self.image_format = ImageFormat(height=options.height, width=options.width, colour=Colour.RGB)
        self._splits = {
            "calibration": TextSplit("calibration", options, 0, options.calibration),
            "evaluation": TextSplit("evaluation", options, options.calibration, options.evaluation),
        }
        self.digest = self._digest(options, {"probe": draw_probe()})


class TextSplit(Split):
    """Lines ``first`` .. ``first + count - 1`` of the endless sequence that the options determine."""

    def __init__(self, name: str, options: TextLinesOptions, first: int, count: int) -> None:
        super().__init__(name, count)
        self._options, self._first = options, first
        self._format = ImageFormat(height=options.height, width=options.width, colour=Colour.RGB)

    def _images(self, indices: range) -> Images:
        drawn = (_draw_line(self._options, self._first + index)[0] for index in indices)
        return stacked(drawn, len(indices), self._format)

    def _targets(self, indices: range) -> Targets:
        lines = [self._first + index for index in indices]
        if self._options.target is TextTarget.DIRECTION:
            return np.array([index % 2 for index in lines], np.int64)
        return [_draw_line(self._options, index)[1] for index in lines]


def draw_word(random: np.random.RandomState) -> str:
    """The next word of ``random``."""
    return "".join(random.choice(list(ALPHABET), random.randint(SHORTEST, LONGEST + 1)))


def paper(random: np.random.RandomState, height: int, width: int) -> Image.Image:
    """A light ground with noise, RGB."""
    ground = np.clip(random.normal(random.uniform(190, 240), 6, (height, width, 3)), 0, 255)
    return Image.fromarray(ground.astype(np.uint8))


def draw_probe() -> str:
    """Digest of all characters as Pillow draws them: its font and rasteriser are part of what the images are."""
    image = Image.new("L", (1600, 80))
    ImageDraw.Draw(image).text((4, 4), ALPHABET, 255, ImageFont.load_default(32))
    return sha256_of(np.asarray(image))


@lru_cache(maxsize=2048)
def _draw_line(options: TextLinesOptions, index: int) -> tuple[NDArray[np.uint8], str]:
    """Image, uint8 (height, width, 3), and text of line ``index``."""
    random = np.random.RandomState((options.seed * 100_003 + index) % 2**32)
    text = draw_word(random)
    image = paper(random, options.height, options.width)
    draw = ImageDraw.Draw(image)
    size = options.height * random.uniform(0.55, 0.8)
    while draw.textlength(text, ImageFont.load_default(size)) > options.width - 8:
        size *= 0.9
    font = ImageFont.load_default(size)
    ink = tuple(int(value) for value in random.randint(0, 90, 3))
    draw.text((options.width / 2, options.height / 2), text, ink, font, anchor="mm")
    if options.target is TextTarget.DIRECTION and index % 2:
        image = image.rotate(180)
    return np.asarray(image), text
