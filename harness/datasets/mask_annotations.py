"""Masks beside images, one class per pixel: where VOC, Cityscapes and ADE20K put them, and how they are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from engine.errors import CalibrationDataError
from engine.untrusted import opened_image
from harness.datasets.label_files import instead_of_images, pictures, samples_in

IGNORED = 255
"""Value of pixels that are not counted."""
MASK_FOLDERS = (
    "masks", "mask", "labels", "label", "annotations", "SegmentationClass", "SegmentationClassPNG", "gtFine", "gt",
    "segmentation", "targets",
)  # fmt: skip
"""Names of folders of masks, beside the folder of the images or in it."""
_ENDINGS = (
    "",
    "_gtFine_labelTrainIds",
    "_labelTrainIds",
    "_gtFine_labelIds",
    "_mask",
    "_label",
    "_labels",
    "-mask",
    "_seg",
)
"""Endings that the name of a mask has after the name of its image, the best first."""
_IMAGE_ENDINGS = ("_leftImg8bit",)
_CITYSCAPES_IDS = MappingProxyType(
    {
        number: place
        for place, number in enumerate((7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33))
    }
)
"""Class by ``labelIds``; the others are not counted (cityscapesScripts, ``helpers/labels.py``)."""


def mask_folder(folder: Path) -> Path | None:
    """Where the masks of the images in ``folder`` are: a folder of masks beside it, or at the same path; else None."""
    beside = [place / name for place in (folder, folder.parent) for name in MASK_FOLDERS]
    swapped = [instead_of_images(folder, name) for name in MASK_FOLDERS]
    beside = [place for place in swapped if place is not None] + beside
    images = [path for path in pictures(folder) if not _lies_in(path, folder, MASK_FOLDERS)][:_TRIED]
    for place in beside:
        if place.is_dir() and place != folder and any(mask_of(path, folder, place) for path in images):
            return place
    return None


_TRIED = 50
"""Images for which a mask is looked for before a folder is taken for no folder of masks."""


def mask_listing(folder: Path, labels: Path | None) -> tuple[list[tuple[Path, Path]], int]:
    """Images with their masks, and the number of images that have none.

    Raises:
        CalibrationDataError: no image has a mask.
    """
    place = labels or mask_folder(folder)
    if place is None or not place.is_dir():
        raise CalibrationDataError(f"{place or folder}: no folder of masks; expected one of {', '.join(MASK_FOLDERS)}")
    images = samples_in(folder, place)
    found = [(path, mask_of(path, folder, place)) for path in images]
    masked = [(path, mask) for path, mask in found if mask is not None]
    if not masked:
        raise CalibrationDataError(f"{place}: holds no mask named as one of the {len(images)} images of {folder}")
    return masked, len(images) - len(masked)


def mask_of(path: Path, folder: Path, place: Path) -> Path | None:
    """The mask of the image ``path`` of ``folder``, below ``place`` at the same path, or in it; None without one."""
    stem = path.stem
    for ending in _IMAGE_ENDINGS:
        stem = stem.removesuffix(ending)
    below = place / path.relative_to(folder).parent
    for ending in _ENDINGS:
        for parent in dict.fromkeys((below, place)):
            for suffix in (".png", ".PNG", ".bmp", ".tif", ".tiff"):
                mask = parent / f"{stem}{ending}{suffix}"
                if mask != path and mask.is_file():
                    return mask
    return None


def _lies_in(path: Path, folder: Path, names: tuple[str, ...]) -> bool:
    return any(part in names for part in path.relative_to(folder).parts[:-1])


def read_mask(path: Path) -> NDArray[np.uint8]:
    """Class of every pixel, (height, width), as the file has it; 255 is not counted.

    Gray images hold the numbers of the classes, as do the entries of a palette. Three channels are the colours of
    PASCAL VOC, unless all three are equal. ``labelIds`` of Cityscapes become the 19 classes that its benchmark scores.

    Raises:
        CalibrationDataError: it is no image, or holds numbers above 255 or colours that are not VOC's.
    """
    try:
        with opened_image(path) as image:
            values = np.asarray(image)
            mode = image.mode
    except ValueError as error:
        raise CalibrationDataError(f"{path}: cannot be read as a mask: {error}") from error
    if values.dtype == bool:
        values = values.astype(np.uint8)
    if values.ndim == 3:
        colours = values[..., : 3 if values.shape[2] >= 3 else 1]
        is_gray = bool((colours == colours[..., :1]).all())
        values = colours[..., 0] if is_gray else _of_voc_colours(path, colours)
    if (
        values.ndim != 2
        or values.dtype.kind not in "iu"
        or (values.size and values.max() > IGNORED)
        or values.min() < 0
    ):
        raise CalibrationDataError(
            f"{path}: mode {mode}, values up to {values.max()}: expected a class 0..254 per pixel, or 255 for none"
        )
    if path.stem.endswith("_labelIds"):
        table = np.full(256, IGNORED, np.uint8)
        for number, place in _CITYSCAPES_IDS.items():
            table[number] = place
        found: NDArray[np.uint8] = table[values]
        return found
    return values.astype(np.uint8)


def voc_palette() -> NDArray[np.uint8]:
    """Colours of PASCAL VOC by class, (256, 3): the bits of the class from the top of each channel down (VOCdevkit)."""
    numbers = np.arange(256)
    colours = np.zeros((256, 3), np.int64)
    for bit in range(8):
        for channel in range(3):
            colours[:, channel] |= ((numbers >> (3 * bit + channel)) & 1) << (7 - bit)
    return colours.astype(np.uint8)


def _of_voc_colours(path: Path, colours: NDArray[np.uint8]) -> NDArray[np.uint8]:
    palette = voc_palette()
    number = {tuple(colour): index for index, colour in reversed(list(enumerate(palette.tolist())))}
    number[(224, 224, 192)] = IGNORED  # the border of objects
    different, places = np.unique(colours.reshape(-1, 3), axis=0, return_inverse=True)
    found = [number.get(tuple(colour)) for colour in different.tolist()]
    for colour, index in zip(different.tolist(), found, strict=True):
        if index is None:
            raise CalibrationDataError(
                f"{path}: holds the colour {tuple(colour)}, which is none of PASCAL VOC's: expected a class per pixel"
            )
    return np.array(found, np.uint8)[places.reshape(-1)].reshape(colours.shape[:2])


def classes_in(masks: Iterator[Path]) -> tuple[int, int]:
    """Smallest and largest class of some masks; (0, 0) where they hold none."""
    found: set[int] = set()
    for path in masks:
        found |= set(np.unique(read_mask(path)).tolist())
    found -= {IGNORED}
    return (min(found), max(found)) if found else (0, 0)
