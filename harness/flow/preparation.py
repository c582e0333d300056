"""Image files as a float model's input expects them: size, layout and colours of its configuration, not normalised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.config import Config, InputSpec, load_config, load_yaml
from engine.errors import CalibrationDataError, ConfigError
from engine.frontend import parse
from engine.frontend.colour import convert_colour
from engine.ir import shape_of
from engine.terms import InputType, Layout
from harness.datasets.fitting import fit_steps
from harness.datasets.transformers import (
    Image,
    Transformer,
    apply,
    parse_chain,
    read_image,
    to_uint8,
)
from harness.terms import Fit, ReadMode

T = TypeVar("T")


@dataclass(frozen=True)
class ImageInput:
    """An image input of a float model.

    Attributes:
        spec: what the configuration says of it.
        index: its position among the entries of the configuration.
        shape: of the float model's input, with the batch.
    """

    spec: InputSpec
    index: int
    shape: tuple[int, ...]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        height, width = self.shape[1:3] if self.spec.layout_train is Layout.NHWC else self.shape[2:4]
        return height, width


@dataclass(frozen=True)
class Preparation:
    """What is done to every image.

    Attributes:
        target: the input.
        mode: what reads and resizes.
        fit: steps in front of the conversion to the input's colours and layout.
        chain: all steps, where the user gave them; they end in the input's own format, and ``fit`` is not used.
    """

    target: ImageInput
    mode: ReadMode = ReadMode.OPENCV
    fit: Fit = Fit.CROP
    chain: tuple[Transformer, ...] = ()

    def __call__(self, path: Path) -> NDArray[np.float32]:
        """The image in ``path``: float32, 0..255, the shape of the input without its batch.

        Raises:
            CalibrationDataError: the file is no image, or the steps do not end in that shape.
        """
        image = read_image(path, self.mode)
        wanted = self.target.shape[1:]
        if self.chain:
            done = apply(self.chain, image, self.mode)
            if done.shape != wanted:
                raise CalibrationDataError(
                    f"{path}: the transformers end in shape {list(done.shape)}, input {self.target.spec.name} takes "
                    f"{list(wanted)}"
                )
            _check_range(done, path)
            return done
        fitted = apply(fit_steps(self.fit, self.target.size), image, self.mode)
        rgb = fitted[..., ::-1] if self.mode is ReadMode.OPENCV else fitted * np.float32(255)
        coloured = _coloured(rgb, self.target.spec.type_train)
        return (
            coloured
            if self.target.spec.layout_train is Layout.NHWC
            else np.ascontiguousarray(coloured.transpose(2, 0, 1))
        )


def _check_range(image: Image, path: Path) -> None:
    """Refuse what is no image in 0..255: a chain for the other reader, whose images are in 0..1 or BGR, gives that."""
    low, high = float(image.min()), float(image.max())
    fractions = 0 < high <= 1 and not np.array_equal(image, np.rint(image))
    if low < -0.5 or high > 255.5 or fractions:
        raise CalibrationDataError(
            f"{path}: the transformers give values from {low:.4g} to {high:.4g}, samples are in 0..255; --read-mode "
            "opencv reads BGR in 0..255, skimage RGB in 0..1, which ScaleTransformer(255) follows"
        )


def read_chain(path: Path | None) -> tuple[Transformer, ...]:
    """Transformers from a YAML file that holds a list of them; none without a file.

    Raises:
        ConfigError: the file, a name, a key or a value is wrong.
    """
    if path is None:
        return ()
    content = load_yaml(path)
    if not isinstance(content, Sequence) or isinstance(content, str):
        raise ConfigError(
            f"{path}: must hold a list of transformers, such as [{{ShortSideResize: {{short_size: 256}}}}, ...]"
        )
    return parse_chain(content)


def open_input(config_file: Path, name: str | None) -> tuple[Config, ImageInput]:
    """The image input ``name`` of a conversion; without a name the only one.

    Raises:
        ConfigError: the configuration is wrong, there is no such input, or several and none is named.
    """
    config = load_config(config_file)
    source, specs = parse(config)
    images = [ImageInput(spec, index, _shape(source, spec)) for index, spec in enumerate(specs) if spec.is_image]
    known = ", ".join(each.spec.name for each in images)
    if name is None and len(images) > 1:
        raise ConfigError(f"{config_file}: several image inputs; name one with --input: {known}")
    found = [each for each in images if name in (None, each.spec.name)]
    if not found:
        wanted = "an image input" if name is None else f"image input {name!r}"
        raise ConfigError(f"{config_file}: {wanted} is needed; there is {known or 'none; feature maps are not images'}")
    return config, found[0]


def _shape(source: ir.Model, spec: InputSpec) -> tuple[int, ...]:
    return shape_of(next(value for value in source.graph.inputs if value.name == spec.name))


def _coloured(rgb: Image, wanted: InputType) -> NDArray[np.float32]:
    """RGB, HWC, 0..255, in the colours that a network was trained on."""
    if wanted is InputType.RGB:
        return rgb
    if wanted is InputType.BGR:
        return rgb[..., ::-1]
    if wanted is InputType.YUV444:
        return np.asarray(convert_colour(to_uint8(rgb)[np.newaxis], InputType.RGB, InputType.YUV444)[0], np.float32)
    luma: NDArray[np.float32] = rgb @ np.array(_LUMA, np.float32)
    return luma[..., np.newaxis]


_LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in gray, BT.601."""

IMAGE_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".webp")


def image_files(folder: Path, recursive: bool = False) -> list[Path]:
    """The images of ``folder``, by name; ``recursive``: of the folders in it too.

    Raises:
        CalibrationDataError: there is none.
    """
    seen = folder.rglob("*") if recursive else folder.iterdir()
    found = sorted(path for path in seen if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file())
    if not found:
        raise CalibrationDataError(f"{folder}: holds no images ({', '.join(IMAGE_SUFFIXES)})")
    return found


def chosen(items: Sequence[T], count: int | None, seed: int) -> list[T]:
    """``count`` of ``items`` drawn without replacement, in their order; all of them where ``count`` is None.

    Raises:
        CalibrationDataError: there are fewer.
    """
    if count is None:
        return list(items)
    if count > len(items):
        raise CalibrationDataError(f"{count} images requested, but there are {len(items)}")
    drawn = np.random.default_rng(seed).choice(len(items), count, replace=False)
    return [items[index] for index in sorted(drawn.tolist())]
