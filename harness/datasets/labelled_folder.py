"""Folders of image files with a ``labels.csv`` each: one folder per split, outside the project."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import Field

from engine.errors import CalibrationDataError
from engine.untrusted import opened_image
from harness.datasets.base import NO_LABEL, Colour, ImageFormat, Images, Split, SplitDataset, Targets, stacked
from harness.files import paths
from harness.files.strict_yaml import StrictModel


class LabelledFolderOptions(StrictModel):
    """Where the images are and what is cut out of them.

    Attributes:
        folder: absolute, or relative to the folder of external data (``PTQLAB_DATA``).
        folders: sub-folder by split.
        crop: height and width, in pixels, of the centre crop; no image may be smaller.
        classes: number of classes; labels are 0 .. classes - 1.
    """

    folder: Path
    folders: Mapping[str, str] = Field(min_length=1)
    crop: int = Field(ge=1)
    classes: int = Field(ge=2)


@dataclass(frozen=True)
class LabelledFile:
    """A file with its class, or :data:`NO_LABEL`."""

    path: Path
    label: int


class LabelledFolder(SplitDataset):
    """Image files, RGB, centre crop without resizing; classes from column ``label`` of ``labels.csv``."""

    Options = LabelledFolderOptions
    version = 1

    def __init__(self, options: LabelledFolderOptions) -> None:
        root = paths.external_data(options.folder)
        if not root.is_dir():
            raise CalibrationDataError(
                f"no folder {root}: unpack the data set there, or set PTQLAB_DATA to the folder that holds "
                f"{options.folder}"
            )
        self.image_format = ImageFormat(height=options.crop, width=options.crop, colour=Colour.RGB)
        samples = {name: read_labels(root / folder, options.classes) for name, folder in options.folders.items()}
        self._splits = {name: _FileSplit(name, listed, options.crop) for name, listed in samples.items()}
        # Where the folder lies on this machine is no part of what the data are.
        portable = options.model_copy(update={"folder": Path(options.folder.name)})
        self.digest = self._digest(
            portable,
            {"files": {name: [fingerprint(sample) for sample in listed] for name, listed in samples.items()}},
        )


class _FileSplit(Split):
    def __init__(self, name: str, samples: Sequence[LabelledFile], crop: int) -> None:
        super().__init__(name, len(samples))
        self._samples, self._crop = samples, crop

    def file_of(self, index: int) -> Path:
        return self._samples[index].path

    def _images(self, indices: range) -> Images:
        cropped = (_centre_crop(self._samples[index].path, self._crop) for index in indices)
        return stacked(cropped, len(indices), ImageFormat(height=self._crop, width=self._crop, colour=Colour.RGB))

    def _targets(self, indices: range) -> Targets:
        return classes_of([self._samples[index] for index in indices])


def classes_of(samples: Sequence[LabelledFile]) -> Targets:
    """Class per sample.

    Raises:
        CalibrationDataError: a sample has none.
    """
    unlabelled = [sample for sample in samples if sample.label == NO_LABEL]
    if unlabelled:
        raise CalibrationDataError(
            f"{unlabelled[0].path}: has no label; give labels (a sub-folder per class, or labels.csv), or score "
            "against the float model: metric: {labels: float} in the model card"
        )
    return np.array([sample.label for sample in samples], np.int64)


def read_labels(folder: Path, classes: int) -> list[LabelledFile]:
    """Samples of ``labels.csv`` in ``folder``, in the file's order, each checked.

    Raises:
        CalibrationDataError: the table is missing or wrong, or names a file that is not in ``folder``.
    """
    table = folder / "labels.csv"
    try:
        with table.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if not {"file", "label"} <= set(reader.fieldnames or ()):
                raise CalibrationDataError(f"{table}: columns {reader.fieldnames}, expected file and label among them")
            return [_sample(folder, f"{table}:{reader.line_num}", row, classes) for row in reader]
    except (OSError, ValueError, csv.Error) as error:
        raise CalibrationDataError(f"{table}: cannot be read: {error}") from error


def _sample(folder: Path, where: str, row: Mapping[str, str | None], classes: int) -> LabelledFile:
    name, label = row["file"] or "", row["label"] or ""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        raise CalibrationDataError(f"{where}: {name!r} is not a file in {folder}")
    if not label.isdecimal() or int(label) >= classes:
        raise CalibrationDataError(f"{where}: label {label!r}, expected an integer 0..{classes - 1}")
    return LabelledFile(path, int(label))


def _centre_crop(path: Path, size: int) -> Images:
    """Middle ``size`` x ``size`` pixels, RGB, shape (size, size, 3); an odd remainder leaves more right and below."""
    try:
        with opened_image(path) as file:
            image = file.convert("RGB")
    except ValueError as error:
        raise CalibrationDataError(f"{path}: {error}") from error
    if min(image.size) < size:
        raise CalibrationDataError(f"{path}: {image.width} x {image.height} pixels, expected at least {size} a side")
    left, top = (image.width - size) // 2, (image.height - size) // 2
    return np.asarray(image.crop((left, top, left + size, top + size)))


def fingerprint(sample: LabelledFile) -> list[str | int]:
    """Name, class and digest of the content."""
    try:
        content = sample.path.read_bytes()
    except OSError as error:
        raise CalibrationDataError(f"{sample.path}: cannot be read: {error}") from error
    return [sample.path.name, sample.label, hashlib.sha256(content).hexdigest()]
