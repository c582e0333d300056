"""Data for models with several inputs, or with inputs that are no images: a folder of arrays per part of a sample."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from engine.errors import CalibrationDataError
from engine.untrusted import read_npy
from harness.datasets.base import (
    NO_LABEL,
    ImageFormat,
    Images,
    PartFormat,
    Samples,
    Split,
    SplitDataset,
    Targets,
    picture_of,
)
from harness.datasets.files import FolderOptions, portable
from harness.datasets.labelled_folder import LabelledFile, classes_of, fingerprint

LABELS_FILE = "labels.csv"


class InputFoldersOptions(FolderOptions):
    """Where the files are, and what they hold.

    Attributes:
        parts: of every sample by name: an image (``height``, ``width``, ``colour``) or an array (``shape`` without the
            dimension that counts samples, ``dtype``).
        classes: number of classes; labels are 0 .. classes - 1. None without labels.
    """

    parts: Mapping[str, PartFormat] = Field(min_length=1)
    classes: int | None = Field(default=None, ge=2)


class FileParts(SplitDataset):
    """Samples whose parts are files: ``_formats`` and ``_splits`` are set by the data set."""

    _formats: Mapping[str, PartFormat]
    _splits: Mapping[str, InputSplit]

    @property
    def parts(self) -> Mapping[str, PartFormat]:
        """As the options say."""
        return self._formats


class InputFolders(FileParts):
    """A folder per split, in it one per part of a sample: ``calibration/left/0.npy``, ``calibration/right/0.npy``.

    Files of a sample have the same name in every part; samples come in the order of the names. ``.npy`` files name
    their type, raw files hold the part's: uint8 (height, width, channels) of an image, else ``dtype``. A ``labels.csv``
    beside the folders of a split (columns ``file`` and ``label``) gives classes; without it outputs are scored against
    the float model (``metric: {labels: float}`` in a model card).
    """

    Options = InputFoldersOptions
    version = 1

    def __init__(self, options: InputFoldersOptions) -> None:
        root = options.root
        self._formats = MappingProxyType(dict(options.parts))
        self._splits = {
            name: _labelled_split(name, root / folder, self._formats, options.classes)
            for name, folder in options.folders.items()
        }
        files = {name: split.fingerprints() for name, split in self._splits.items()}
        self.digest = self._digest(portable(options), {"files": files})


def _labelled_split(name: str, folder: Path, formats: Mapping[str, PartFormat], classes: int | None) -> InputSplit:
    files = files_of_parts({part: folder / part for part in formats})
    names = [path.stem for path in next(iter(files.values()))]
    labels = {} if classes is None else _labels(folder / LABELS_FILE, names, classes)
    return InputSplit(name, files, formats, [labels.get(stem, NO_LABEL) for stem in names])


class InputSplit(Split):
    """Samples whose parts are files, read on access.

    Args:
        name: of the split.
        files: of every part, in the order of the samples.
        formats: of every part.
        labels: class per sample, or :data:`NO_LABEL`.
    """

    def __init__(
        self, name: str, files: Mapping[str, Sequence[Path]], formats: Mapping[str, PartFormat], labels: Sequence[int]
    ) -> None:
        self._files, self._formats = files, formats
        first = next(iter(files.values()))
        self._labelled = [LabelledFile(path, label) for path, label in zip(first, labels, strict=True)]
        super().__init__(name, len(first))

    def file_of(self, index: int) -> Path:
        """The file of the first part."""
        return self._labelled[index].path

    def fingerprints(self) -> list[list[str | int]]:
        """Part, name, class and digest of every file."""
        return [
            [part, *fingerprint(LabelledFile(path, sample.label))]
            for part, paths in self._files.items()
            for path, sample in zip(paths, self._labelled, strict=True)
        ]

    def _parts(self, indices: range) -> Samples:
        return {
            part: _stacked([_read(self._files[part][index], wanted) for index in indices], wanted)
            for part, wanted in self._formats.items()
        }

    def _images(self, indices: range) -> Images:
        found = picture_of(self._parts(indices), self._formats)
        if found is None:
            raise CalibrationDataError(
                f"split {self.name!r}: its samples hold no image; their parts are {', '.join(self._formats)}"
            )
        return found

    def _targets(self, indices: range) -> Targets:
        return classes_of([self._labelled[index] for index in indices])


def files_of_parts(folders: Mapping[str, Path], suffix: str = "") -> dict[str, list[Path]]:
    """Files by part, sorted by name; those of a sample have the same name.

    Args:
        folders: of every part.
        suffix: of the files, lower case; empty for all.

    Raises:
        CalibrationDataError: a folder is missing or holds no such files, or a sample lacks a part.
    """
    found: dict[str, list[Path]] = {}
    for part, folder in folders.items():
        if not folder.is_dir():
            raise CalibrationDataError(f"no folder {folder}: expected one per part of a sample: {', '.join(folders)}")
        listed = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
        found[part] = sorted(
            (path for path in listed if path.suffix.lower().endswith(suffix)), key=lambda path: path.stem
        )
    first, *others = folders
    stems = [path.stem for path in found[first]]
    if not stems:
        raise CalibrationDataError(f"{folders[first]}: holds no {f'{suffix} ' if suffix else ''}files")
    for part in others:
        its_stems = [path.stem for path in found[part]]
        if its_stems != stems:
            odd = sorted(set(stems) ^ set(its_stems))
            raise CalibrationDataError(
                f"{folders[part].parent}: every sample needs a file in every part; {first} has {len(stems)}, {part} "
                f"{len(its_stems)}, and {', '.join(odd[:3]) or 'names twice'} not in both"
            )
    return found


def _labels(table: Path, names: Sequence[str], classes: int) -> dict[str, int]:
    """Class by sample; none where there is no table."""
    if not table.is_file():
        return {}
    try:
        with table.open(encoding="utf-8", newline="") as file:
            rows = {Path(str(row.get("file"))).stem: str(row.get("label")) for row in csv.DictReader(file)}
    except (OSError, ValueError, csv.Error) as error:
        raise CalibrationDataError(f"{table}: cannot be read: {error}") from error
    for name in names:
        label = rows.get(name, "")
        if not label.isdecimal() or int(label) >= classes:
            raise CalibrationDataError(
                f"{table}: sample {name}: label {label!r}, expected an integer 0..{classes - 1} in columns file, label"
            )
    return {name: int(rows[name]) for name in names}


def _read(path: Path, wanted: PartFormat) -> NDArray[Any]:
    """One sample's part, shape and type as its format says."""
    image = isinstance(wanted, ImageFormat)
    dtype = np.dtype(np.uint8 if isinstance(wanted, ImageFormat) else wanted.dtype)
    try:
        values = read_npy(path) if path.suffix == ".npy" else np.fromfile(path, dtype)
    except (OSError, EOFError, ValueError) as error:
        raise CalibrationDataError(f"{path}: cannot be read as an array: {error}") from error
    fits = values.shape in (wanted.shape, (1, *wanted.shape)) or (
        path.suffix != ".npy" and values.size == _size(wanted)
    )
    same_kind = values.dtype == dtype if image else values.dtype.kind == dtype.kind
    if not fits or not same_kind:
        raise CalibrationDataError(
            f"{path}: holds {values.dtype} of shape {values.shape}, expected {dtype} of shape {wanted.shape}"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        array = values.reshape(wanted.shape).astype(dtype, copy=False)
    if np.isinf(array).sum() > np.isinf(values).sum() or (
        dtype.kind != "f" and (array != values.reshape(array.shape)).any()
    ):
        raise CalibrationDataError(f"{path}: holds values beyond the range of {dtype}")
    return array


def _size(wanted: PartFormat) -> int:
    return int(np.prod(wanted.shape))


def _stacked(arrays: Sequence[NDArray[Any]], wanted: PartFormat) -> NDArray[Any]:
    if arrays:
        return np.stack(arrays)
    return np.empty((0, *wanted.shape), np.uint8 if isinstance(wanted, ImageFormat) else wanted.dtype)
