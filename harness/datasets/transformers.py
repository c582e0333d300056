"""Image preprocessing as the guides of the toolchain describe it: one small class per step, two ways to read.

``opencv`` reads BGR, 0..255, and resizes with OpenCV; ``skimage`` reads RGB, 0..1, and resizes with scikit-image. Their
results differ slightly, which is why the guides tell users to stay with the one that the model was trained with. Images
are float32 on the way; each transformer maps an array to an array. The packages come with the extra ``images``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, PositiveInt

from engine.errors import CalibrationDataError, MissingError
from engine.frontend.colour import convert_colour
from engine.terms import InputType
from harness.extras import how_to_install
from harness.files.strict_yaml import StrictModel, parse, unknown
from harness.terms import ReadMode

Image = NDArray[np.float32]
"""float32, shape (height, width, 3) or, behind :class:`HWC2CHW`, (3, height, width)."""

DataFormat = Literal["HWC", "CHW"]
Size = tuple[PositiveInt, PositiveInt]
"""Height and width in pixels."""


_DAMAGED = "it is damaged, or no image: copy it again, or take it out of the folder"


def read_image(path: Path, mode: ReadMode) -> Image:
    """An image file: ``opencv`` BGR 0..255, ``skimage`` RGB 0..1; gray images get three equal channels.

    Raises:
        CalibrationDataError: the file is no image.
        ConfigError: the package behind ``mode`` is not installed.
    """
    if mode is ReadMode.OPENCV:
        cv2 = _require("cv2")
        try:
            found = cv2.imdecode(np.frombuffer(_bytes_of(path), np.uint8), cv2.IMREAD_COLOR)
        except cv2.error as error:  # an empty file, or more pixels than it takes
            raise CalibrationDataError(f"{path}: cannot be read as an image: {error.err}; {_DAMAGED}") from error
        if found is None:
            raise CalibrationDataError(f"{path}: cannot be read as an image; {_DAMAGED}")
        image: Image = np.asarray(found, np.float32)
        return image
    io, util = _require("skimage.io"), _require("skimage.util")
    _bytes_of(path)
    try:
        pixels = util.img_as_float32(io.imread(path))
    except Exception as error:  # Pillow's readers raise what damaged content leads to
        raise CalibrationDataError(f"{path}: cannot be read as an image: {error}; {_DAMAGED}") from error
    if pixels.ndim not in (2, 3):
        raise CalibrationDataError(f"{path}: holds an array of {pixels.shape}, expected one image")
    if pixels.ndim == 2:
        pixels = pixels[..., np.newaxis]
    return np.asarray(pixels[..., :3] if pixels.shape[2] >= 3 else pixels[..., :1].repeat(3, axis=2), np.float32)


class Transformer(StrictModel):
    """One step."""

    @abstractmethod
    def __call__(self, image: Image, mode: ReadMode = ReadMode.SKIMAGE) -> Image:
        """``image`` after this step; ``mode`` says what resizes: the documents' samples read with scikit-image."""


class Resize(Transformer):
    """To ``target_size`` (height, width), bilinear, whatever the proportions."""

    target_size: Size

    def __call__(self, image: Image, mode: ReadMode = ReadMode.SKIMAGE) -> Image:
        """Resized, HWC."""
        return resize(image, self.target_size, mode)


class ShortSideResize(Transformer):
    """The shorter side to ``short_size``, the other in proportion, rounded to nearest."""

    short_size: int = Field(ge=1)

    def __call__(self, image: Image, mode: ReadMode = ReadMode.SKIMAGE) -> Image:
        """Resized, HWC."""
        factor = self.short_size / min(image.shape[:2])
        height, width = (max(self.short_size, int(side * factor + 0.5)) for side in image.shape[:2])
        return resize(image, (height, width), mode)


class PadResize(Transformer):
    """Into ``target_size`` (height, width), in proportion, the rest filled with ``pad_value``, evenly on both sides."""

    target_size: Size
    pad_value: FiniteFloat = 127.0

    def __call__(self, image: Image, mode: ReadMode = ReadMode.SKIMAGE) -> Image:
        """Resized and padded, HWC; ``pad_value`` is on the image's own scale."""
        factor = min(want / have for want, have in zip(self.target_size, image.shape[:2], strict=True))
        inner = (max(1, int(image.shape[0] * factor + 0.5)), max(1, int(image.shape[1] * factor + 0.5)))
        return Pad(target_size=self.target_size, pad_value=self.pad_value)(resize(image, inner, mode), mode)


class LineResize(Transformer):
    """A line of text into ``target_size``, in proportion to the height, filled with ``pad_value`` on the right.

    Lines that are too long are squeezed (PaddleOCR, ``resize_norm_img``).
    """

    target_size: Size
    pad_value: FiniteFloat = 127.0

    def __call__(self, image: Image, mode: ReadMode = ReadMode.SKIMAGE) -> Image:
        """Resized and padded, HWC; ``pad_value`` is on the image's own scale."""
        height, width = self.target_size
        inner = line_width((image.shape[0], image.shape[1]), self.target_size)
        resized = resize(image, (height, inner), mode)
        return np.pad(resized, [(0, 0), (0, width - inner), (0, 0)], constant_values=self.pad_value)


def line_width(original: tuple[int, int], size: tuple[int, int]) -> int:
    """Columns that a line of ``original`` height and width has in one of ``size``."""
    return min(size[1], math.ceil(size[0] * original[1] / original[0]))


class Pad(Transformer):
    """To ``target_size`` (height, width) with ``pad_value`` around the image; an odd remainder goes right and below."""

    target_size: Size
    pad_value: FiniteFloat = 127.0

    def __call__(self, image: Image, mode: ReadMode = ReadMode.SKIMAGE) -> Image:
        """Padded, HWC."""
        missing = [want - have for want, have in zip(self.target_size, image.shape[:2], strict=True)]
        if min(missing) < 0:
            raise CalibrationDataError(f"Pad: image of {image.shape[:2]} is larger than {self.target_size}")
        if not any(missing):
            return image
        padded = np.full((*self.target_size, *image.shape[2:]), self.pad_value, image.dtype)
        top, left = (size // 2 for size in missing)
        padded[top : top + image.shape[0], left : left + image.shape[1]] = image
        return padded


class CenterCrop(Transformer):
    """The middle ``crop_size`` x ``crop_size`` pixels; an odd remainder leaves more right and below."""

    crop_size: int = Field(ge=1)

    def __call__(self, image: Image, mode: ReadMode = ReadMode.SKIMAGE) -> Image:
        """Cropped, HWC."""
        top, left = ((side - self.crop_size) // 2 for side in image.shape[:2])
        if min(top, left) < 0:
            raise CalibrationDataError(f"CenterCrop: image of {image.shape[:2]} is smaller than {self.crop_size}")
        return image[top : top + self.crop_size, left : left + self.crop_size]


class HWC2CHW(Transformer):
    """Channels first."""

    def __call__(self, image: Image, mode: ReadMode = ReadMode.SKIMAGE) -> Image:
        """CHW."""
        return np.ascontiguousarray(np.moveaxis(image, 2, 0))


class CHW2HWC(Transformer):
    """Channels last."""

    def __call__(self, image: Image, mode: ReadMode = ReadMode.SKIMAGE) -> Image:
        """HWC."""
        return np.ascontiguousarray(np.moveaxis(image, 0, 2))


class RGB2BGR(Transformer):
    """Channels in the opposite order; the other way round it is the same step, ``BGR2RGB``."""

    data_format: DataFormat = "CHW"

    def __call__(self, image: Image, mode: ReadMode = ReadMode.SKIMAGE) -> Image:
        """Same layout."""
        return image[..., ::-1] if self.data_format == "HWC" else image[::-1]


class Scale(Transformer):
    """Times ``scale_value``."""

    scale_value: FiniteFloat

    def __call__(self, image: Image, mode: ReadMode = ReadMode.SKIMAGE) -> Image:
        """Same layout."""
        return image * np.float32(self.scale_value)


class Mean(Transformer):
    """Minus ``means``, one per channel."""

    means: tuple[FiniteFloat, FiniteFloat, FiniteFloat]
    data_format: DataFormat = "CHW"

    def __call__(self, image: Image, mode: ReadMode = ReadMode.SKIMAGE) -> Image:
        """Same layout."""
        means = np.array(self.means, np.float32)
        return image - (means if self.data_format == "HWC" else means[:, np.newaxis, np.newaxis])


class RGB2GRAY(Transformer):
    """Luma of BT.601, one channel."""

    data_format: DataFormat = "CHW"
    weights: ClassVar[tuple[float, float, float]] = (0.299, 0.587, 0.114)

    def __call__(self, image: Image, mode: ReadMode = ReadMode.SKIMAGE) -> Image:
        """Same layout, one channel."""
        axis = 2 if self.data_format == "HWC" else 0
        luma: Image = np.tensordot(np.moveaxis(image, axis, 2), np.array(self.weights, np.float32), 1)
        return np.expand_dims(luma, axis)


class BGR2GRAY(RGB2GRAY):
    """Luma of an image whose channels are blue, green, red."""

    weights = RGB2GRAY.weights[::-1]


class RGB2NV12(Transformer):
    """NV12 as a camera delivers it, of an image in 0..255 with even sides, rounded to nearest before."""

    data_format: DataFormat = "CHW"
    source: ClassVar[InputType] = InputType.RGB

    def __call__(self, image: Image, mode: ReadMode = ReadMode.SKIMAGE) -> Image:
        """Shape (height * 3 / 2, width): luma, then chroma of every second pixel of every second row."""
        pixels = to_uint8(image if self.data_format == "HWC" else np.moveaxis(image, 0, 2))
        if any(side % 2 for side in pixels.shape[:2]):
            raise CalibrationDataError(f"{type(self).__name__}: sides of {pixels.shape[:2]} must be even")
        return np.asarray(convert_colour(pixels[np.newaxis], self.source, InputType.NV12)[0], np.float32)


class BGR2NV12(RGB2NV12):
    """NV12 of an image whose channels are blue, green, red."""

    source = InputType.BGR


TRANSFORMERS: Mapping[str, type[Transformer]] = MappingProxyType(
    {
        **{
            kind.__name__: kind
            for kind in (
                *(Resize, ShortSideResize, PadResize, Pad, CenterCrop, HWC2CHW, CHW2HWC, RGB2BGR, Scale, Mean),
                *(RGB2GRAY, BGR2GRAY, RGB2NV12, BGR2NV12),
            )
        },
        "BGR2RGB": RGB2BGR,
    }
)
"""Transformer by the name that YAML uses; the guides' names with ``Transformer`` behind them are taken too, and may be
imported from here: ``for step in steps: image = step(image)`` reads as in the guides, with scikit-image."""


ResizeTransformer, ShortSideResizeTransformer, PadResizeTransformer = Resize, ShortSideResize, PadResize
PadTransformer, CenterCropTransformer, MeanTransformer, ScaleTransformer = Pad, CenterCrop, Mean, Scale
HWC2CHWTransformer, CHW2HWCTransformer = HWC2CHW, CHW2HWC
RGB2BGRTransformer = BGR2RGBTransformer = RGB2BGR
RGB2GRAYTransformer, BGR2GRAYTransformer = RGB2GRAY, BGR2GRAY
RGB2NV12Transformer, BGR2NV12Transformer = RGB2NV12, BGR2NV12


def parse_chain(steps: Sequence[Any]) -> tuple[Transformer, ...]:
    """Transformers from YAML: ``[{ShortSideResize: {short_size: 256}}, HWC2CHW]``.

    Raises:
        ConfigError: a name, key or value is wrong.
    """
    chain = []
    for index, step in enumerate(steps):
        ((name, options),) = step.items() if isinstance(step, Mapping) and len(step) == 1 else ((step, {}),)
        key = str(name).removesuffix("Transformer")
        if key not in TRANSFORMERS:
            raise unknown("transformer", key, TRANSFORMERS)
        chain.append(parse(options or {}, TRANSFORMERS[key], f"transformers.{index}.{name}"))
    return tuple(chain)


def apply(chain: Sequence[Transformer], image: Image, mode: ReadMode) -> Image:
    """``image`` after all steps."""
    for step in chain:
        image = step(image, mode)
    return image


def to_uint8(image: Image) -> NDArray[np.uint8]:
    """Rounded to nearest and limited to 0..255; ``astype(uint8)`` alone would turn 2.9999998 into 2."""
    rounded = np.rint(image)
    return np.clip(rounded, 0, 255, out=rounded).astype(np.uint8)


def reversed_colours(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """BGR, uint8, HWC, as RGB; OpenCV, which read it, does so ten times as fast as numpy."""
    cv2 = _require("cv2")
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), np.uint8)


def resize(image: Image, size: Size, mode: ReadMode) -> Image:
    """``image``, HWC, to ``size`` (height, width), bilinear without smoothing."""
    if mode is ReadMode.OPENCV:
        if image.shape[:2] == tuple(size):
            return image
        cv2 = _require("cv2")
        return np.asarray(cv2.resize(image, size[::-1], interpolation=cv2.INTER_LINEAR), np.float32)
    transform = _require("skimage.transform")
    return np.asarray(transform.resize(image, size, order=1, anti_aliasing=False, preserve_range=True), np.float32)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CalibrationDataError(f"{path}: cannot be read: {error.strerror}") from error


def _require(module: str) -> Any:
    """A module of the extra ``images``."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingError(f"{module.partition('.')[0]} is not installed: {how_to_install('images')}") from error
