"""Images of one folder with labels as they are, cut into splits by a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from engine.errors import CalibrationDataError
from harness.datasets.annotations import Annotated, LabelFormat, read_annotations
from harness.datasets.base import (
    NO_LABEL,
    Colour,
    ImageFormat,
    Images,
    KeptImages,
    SceneTarget,
    Split,
    SplitDataset,
    Targets,
    stacked,
)
from harness.datasets.files import as_rgb
from harness.datasets.fitting import GRAY, fit_steps, placement
from harness.datasets.mask_annotations import IGNORED, read_mask
from harness.datasets.transformers import BGR2GRAY, RGB2GRAY, Scale, apply, read_image, to_uint8
from harness.files import paths
from harness.files.strict_yaml import StrictModel
from harness.terms import Fit, ReadMode


class OwnImagesOptions(StrictModel):
    """Where the images are, what their labels are, and how they become the size of an input.

    Attributes:
        folder: of the images; absolute, relative to the card, or to the folder of external data (``PTQLAB_DATA``).
        format: what the labels are.
        labels: file or folder of the labels, absolute or below ``folder``; none where they lie among the images.
        label_column: of a table: headline of the labels or texts; empty to look for it.
        height, width, colour: of every image at the end.
        fit: how images become that size.
        read_mode: what reads and resizes.
        first_class: added to every class: 1 where output 0 of the network is the background, -1 where labels count
            from 1; of masks 0 is not counted then.
        seed: of the shuffle before the cut.
        calibration: images of this split, classes in rotation.
        evaluation: images of this split, classes in rotation.
    """

    folder: Path
    format: LabelFormat = LabelFormat.NONE
    labels: Path | None = None
    label_column: str = ""
    height: int = Field(ge=1)
    width: int = Field(ge=1)
    colour: Colour = Colour.RGB
    fit: Fit = Fit.CROP
    read_mode: ReadMode = ReadMode.OPENCV
    first_class: int = Field(default=0, ge=-1)
    seed: int = Field(default=0, ge=0, lt=2**32)
    calibration: int = Field(ge=1)
    evaluation: int = Field(ge=1)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of every image at the end."""
        return self.height, self.width


class OwnImages(SplitDataset):
    """Images of one folder, with labels as they are: class folders, a table, boxes, masks, texts, or none.

    Nothing has to be sorted into folders of splits: ``calibration`` and ``evaluation`` are drawn by the seed, classes
    in rotation. Only images that are drawn are part of the digest.
    """

    Options = OwnImagesOptions
    version = 2

    def __init__(self, options: OwnImagesOptions) -> None:
        root = paths.external_data(options.folder)
        if not root.is_dir():
            raise CalibrationDataError(f"no folder {root}: put the images there, or set PTQLAB_DATA")
        labels = None if options.labels is None else root / options.labels
        listed = read_annotations(options.format, root, labels, options.label_column)
        self.classes = listed.classes
        self.image_format = ImageFormat(height=options.height, width=options.width, colour=options.colour)
        order = [listed.images[index] for index in drawn_order(listed.images, options.seed)]
        wanted = {"calibration": options.calibration, "evaluation": options.evaluation}
        if sum(wanted.values()) > len(order):
            raise CalibrationDataError(
                f"{root}: {options.calibration} + {options.evaluation} images requested, but it holds {len(order)}"
            )
        self._splits: dict[str, Split] = {}
        found, start = {}, 0
        for name, count in wanted.items():
            images = order[start : start + count]
            self._splits[name] = _OwnSplit(name, images, options)
            found[name] = [listed_fingerprint(image, root) for image in images]
            start += count
        # Where files lie on this machine, and what their folder is called, is no part of what the data are.
        portable = options.model_copy(update={"folder": Path(), "labels": None})
        self.digest = self._digest(portable, {"classes": list(listed.classes), "files": found})


class _OwnSplit(Split):
    def __init__(self, name: str, images: Sequence[Annotated], options: OwnImagesOptions) -> None:
        super().__init__(name, len(images))
        self._listed, self._options = tuple(images), options
        self._original_sizes: dict[Path, tuple[int, int]] = {}
        self._kept = KeptImages()

    def file_of(self, index: int) -> Path:
        return self._listed[index].path

    def _images(self, indices: range) -> Images:
        shape = ImageFormat(height=self._options.height, width=self._options.width, colour=self._options.colour)
        return stacked((self._kept.get(at, partial(self._fitted, at)) for at in indices), len(indices), shape)

    def _fitted(self, index: int) -> Images:
        return fitted(self._read(self._listed[index]), self._options)

    def _read(self, image: Annotated) -> NDArray[np.float32]:
        """The file, with its height and width noted, which labels refer to."""
        found = read_image(image.path, self._options.read_mode)
        self._original_sizes[image.path] = (found.shape[0], found.shape[1])
        return found

    def _targets(self, indices: range) -> Targets:
        options = self._options

        def scene(image: Annotated) -> SceneTarget:
            if image.path not in self._original_sizes:
                self._read(image)
            original = self._original_sizes[image.path]
            return scene_on(image, original, options.size, options.fit, options.first_class)

        return targets_of([self._listed[index] for index in indices], options.first_class, scene)


def targets_of(images: Sequence[Annotated], first_class: int, scene: Callable[[Annotated], SceneTarget]) -> Targets:
    """Labels of samples as metrics take them: texts, scenes, or int64 classes of shape (samples,).

    Args:
        images: the samples with their labels.
        first_class: added to every class.
        scene: gives the boxes or mask of one sample.

    Raises:
        CalibrationDataError: a sample has no label, or its class becomes negative.
    """
    if any(image.text is not None for image in images):
        return [image.text or "" for image in images]
    if any(image.boxes is not None or image.mask is not None for image in images):
        return [scene(image) for image in images]
    for image in images:
        if image.label == NO_LABEL:
            raise CalibrationDataError(
                f"{image.path}: has no label; score against the float model: metric: {{labels: float}} in the "
                "model card"
            )
        if image.label + first_class < 0:
            raise CalibrationDataError(f"{image.path}: class {image.label}: first_class -1 needs labels from 1")
    return np.array([image.label + first_class for image in images], np.int64)


def fitted(image: NDArray[np.float32], options: OwnImagesOptions) -> NDArray[np.uint8]:
    """One image, as ``options.read_mode`` reads it, in the size and colours of the data set.

    Returns:
        uint8, (height, width, channels).
    """
    mode = options.read_mode
    gray = GRAY if mode is ReadMode.OPENCV else GRAY / 255
    image = apply(fit_steps(options.fit, options.size, gray), image, mode)
    if options.colour is Colour.RGB:
        return as_rgb(image, mode)
    if mode is ReadMode.OPENCV:
        return to_uint8(BGR2GRAY(data_format="HWC")(image))
    return to_uint8(Scale(scale_value=255)(RGB2GRAY(data_format="HWC")(image)))


def scene_on(
    image: Annotated, original: tuple[int, int], size: tuple[int, int], fit: Fit, first_class: int
) -> SceneTarget:
    """Objects where they are on the fitted image; those outside a crop are left out.

    Args:
        image: with boxes or a mask.
        original: height and width in pixels that its labels refer to.
        size: height and width of the fitted image.
        fit: how it became that size.
        first_class: added to every class.
    """
    factor, offset = placement(fit, original, size)
    limits = np.array(size[::-1], np.float64)
    mask = np.zeros(size, np.uint8)
    if image.mask is not None:
        mask = _fitted_mask(image.mask, original, factor, offset, size, first_class)
    boxes, classes = [], []
    for found in image.boxes or ():
        ends = np.clip(found.in_pixels(*original) * factor + offset, 0, limits)
        if (ends[1] > ends[0]).all():
            boxes.append(ends.reshape(4))
            classes.append(found.label + first_class)
    return SceneTarget(
        boxes=np.array(boxes, np.float32).reshape(-1, 4),
        classes=np.array(classes, np.int64),
        mask=mask,
    )


def _fitted_mask(
    path: Path,
    original: tuple[int, int],
    factor: NDArray[np.float64],
    offset: NDArray[np.float64],
    size: tuple[int, int],
    first_class: int,
) -> NDArray[np.uint8]:
    """Class of the nearest pixel of the mask for every pixel of the fitted image; 255 outside the image."""
    values = read_mask(path)
    if first_class:
        moved = values.astype(np.int64) + first_class
        values = np.where((values == IGNORED) | (moved < 0), IGNORED, moved).astype(np.uint8)
    scale = np.array(values.shape[::-1]) / np.array(original[::-1])  # a mask may be smaller than its image
    columns, rows = (
        np.floor((np.arange(length) + 0.5 - offset[axis]) / factor[axis] * scale[axis]).astype(np.int64)
        for axis, length in enumerate(size[::-1])
    )
    is_inside = ((rows >= 0) & (rows < values.shape[0]))[:, np.newaxis] & (columns >= 0) & (columns < values.shape[1])
    nearest = values[np.ix_(rows.clip(0, values.shape[0] - 1), columns.clip(0, values.shape[1] - 1))]
    return np.where(is_inside, nearest, np.uint8(IGNORED))


def drawn_order(images: Sequence[Annotated], seed: int) -> list[int]:
    """Indices of all images, shuffled, the classes in rotation as long as each has images left."""
    random = np.random.RandomState(seed)
    labels = np.array([image.label for image in images], np.int64)
    places = []
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        places += [(place, int(label), int(index)) for place, index in enumerate(members)]
    if len(np.unique(labels)) > 1:
        places.sort()
    return [index for _, _, index in places]


def listed_fingerprint(image: Annotated, root: Path) -> list[Any]:
    """Place, labels and digest of the content."""
    content = _content(image.path)
    boxes = [] if image.boxes is None else [[list(box) for box in image.boxes]]
    found = [image.path.relative_to(root).as_posix(), image.label, hashlib.sha256(content).hexdigest(), *boxes]
    if image.mask is not None:
        found.append(hashlib.sha256(_content(image.mask)).hexdigest())
    return found if image.text is None else [*found, image.text]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CalibrationDataError(f"{path}: cannot be read: {error}") from error
