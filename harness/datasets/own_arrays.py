"""Arrays of the user's own, as they are, with or without labels, cut into splits by a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pydantic import Field, field_validator

from engine.errors import CalibrationDataError
from harness.datasets.annotations import Annotated, LabelFormat, read_annotations
from harness.datasets.base import NO_LABEL, ArrayFormat, SceneTarget, Targets
from harness.datasets.input_folders import FileParts, InputSplit, files_of_parts
from harness.datasets.label_files import ARRAY_SUFFIX
from harness.datasets.mask_annotations import read_mask
from harness.datasets.own_images import drawn_order, listed_fingerprint, scene_on, targets_of
from harness.files import paths
from harness.files.strict_yaml import StrictModel
from harness.terms import Fit

NO_IMAGE = (0, 0)
_COLOURS = (1, 3)


class OwnArraysOptions(StrictModel):
    """Where the arrays are, what they hold, and what their labels are.

    Attributes:
        folder: of the arrays; absolute, relative to the card, or to the folder of external data (``PTQLAB_DATA``).
        parts: of every sample by name: an array (``shape`` without the dimension that counts samples, ``dtype``).
        format: what the labels are, anything but ``class_folders``; boxes and masks in pixels of the arrays.
        labels: file or folder of the labels, absolute or below ``folder``.
        label_column: of a table: headline of the labels or texts; empty to look for it.
        first_class: added to every class: 1 where output 0 of the network is the background, -1 where labels count
            from 1; of masks 0 is not counted then.
        seed: of the shuffle before the cut.
        calibration: samples of this split.
        evaluation: samples of this split.
    """

    folder: Path
    parts: Mapping[str, ArrayFormat] = Field(min_length=1)
    format: LabelFormat = LabelFormat.NONE
    labels: Path | None = None
    label_column: str = ""
    first_class: int = Field(default=0, ge=-1)
    seed: int = Field(default=0, ge=0, lt=2**32)
    calibration: int = Field(ge=1)
    evaluation: int = Field(ge=1)

    @field_validator("format")
    @classmethod
    def _in_one_folder(cls, value: LabelFormat) -> LabelFormat:
        if value is LabelFormat.CLASS_FOLDERS:
            raise ValueError("arrays lie in one folder, not in one per class; use csv, a table of file and class")
        return value


class OwnArrays(FileParts):
    """``.npy`` files of one folder, a sample each, as a converter takes calibration data: ready for the network.

    A network with several inputs needs a sub-folder per input, in it files of the same names. ``calibration`` and
    ``evaluation`` are drawn by the seed, classes in rotation. Labels name the files (of the first input); samples
    without one are left out. Without labels, outputs are scored against the float model (``metric: {labels: float}``
    in a model card).
    """

    Options = OwnArraysOptions
    version = 2

    def __init__(self, options: OwnArraysOptions) -> None:
        root = paths.external_data(options.folder)
        if not root.is_dir():
            raise CalibrationDataError(f"no folder {root}: put the arrays there, or set PTQLAB_DATA")
        folders = array_folders(root, list(options.parts))
        files = files_of_parts(folders, ARRAY_SUFFIX)
        first = next(iter(options.parts))
        place = {path: index for index, path in enumerate(files[first])}
        listed, self.classes = _listed(options, root, folders[first], files[first])
        wanted = {"calibration": options.calibration, "evaluation": options.evaluation}
        if sum(wanted.values()) > len(listed):
            raise CalibrationDataError(
                f"{root}: {options.calibration} + {options.evaluation} samples requested, but it holds {len(listed)}"
            )
        order = drawn_order(listed, options.seed)
        self._formats = MappingProxyType(dict(options.parts))
        splits, found, start = {}, {}, 0
        for name, size in wanted.items():
            drawn = [listed[index] for index in order[start : start + size]]
            chosen = {part: [paths_of[place[each.path]] for each in drawn] for part, paths_of in files.items()}
            splits[name] = _OwnArraySplit(name, chosen, drawn, options)
            found[name] = splits[name].fingerprints()
            if options.format is not LabelFormat.NONE:
                found[name] = [*found[name], *([listed_fingerprint(each, root) for each in drawn])]
            start += size
        self._splits = MappingProxyType(splits)
        # Where files lie on this machine, and what their folder is called, is no part of what the data are.
        portable = options.model_copy(update={"folder": Path(), "labels": None})
        self.digest = self._digest(portable, {"files": found})


def _listed(
    options: OwnArraysOptions, root: Path, folder: Path, files: Sequence[Path]
) -> tuple[Sequence[Annotated], tuple[str, ...]]:
    """The samples with their labels, and the names of the classes.

    Raises:
        CalibrationDataError: the labels are wrong, or are of files that are not among ``files``.
    """
    if options.format is LabelFormat.NONE:
        return [Annotated(path) for path in files], ()
    labels = None if options.labels is None else root / options.labels
    found = read_annotations(options.format, folder, labels, options.label_column)
    there = set(files)
    others = [image.path for image in found.images if image.path not in there]
    if others:
        raise CalibrationDataError(
            f"{folder}: {len(others)} labelled file(s), such as {others[0].relative_to(folder)}, are not read: expected"
            " are .npy files in the folder itself, without images beside them or in sub-folders"
        )
    return found.images, found.classes


class _OwnArraySplit(InputSplit):
    def __init__(
        self, name: str, files: Mapping[str, Sequence[Path]], listed: Sequence[Annotated], options: OwnArraysOptions
    ) -> None:
        super().__init__(name, files, options.parts, [NO_LABEL] * len(listed))
        self._listed, self._options = tuple(listed), options

    def _targets(self, indices: range) -> Targets:
        size, first_class = image_size(list(self._options.parts.values())), self._options.first_class

        def scene(sample: Annotated) -> SceneTarget:
            _check_in_pixels(sample, size)
            return scene_on(sample, size, size, Fit.STRETCH, first_class)

        return targets_of([self._listed[index] for index in indices], first_class, scene)


def _check_in_pixels(sample: Annotated, size: tuple[int, int]) -> None:
    """Refuse boxes and masks that are not of the array itself."""
    if size == NO_IMAGE:
        raise CalibrationDataError(f"{sample.path}: boxes and masks need one input with the shape of an image")
    height, width = size
    for box in sample.boxes or ():
        (left, top), (right, bottom) = box.in_pixels(height, width)
        if min(left, top) < -1 or right > width + 1 or bottom > height + 1:
            raise CalibrationDataError(
                f"{sample.path}: a box ({left:g}, {top:g}, {right:g}, {bottom:g}) lies outside the array of "
                f"{height}x{width}: boxes are in pixels of the arrays, not of the images that they were made of"
            )
    if sample.mask is not None and (found := read_mask(sample.mask).shape) != size:
        raise CalibrationDataError(
            f"{sample.mask}: is {found[0]}x{found[1]}, the array {sample.path.name} {height}x{width}: expected a class "
            "per pixel of the array"
        )


def array_folders(folder: Path, parts: list[str]) -> dict[str, Path]:
    """Folder of every part: the sub-folder of its name; of a single part without one, ``folder`` itself."""
    if len(parts) == 1 and not (folder / parts[0]).is_dir():
        return {parts[0]: folder}
    return {part: folder / part for part in parts}


def image_size(parts: Sequence[ArrayFormat]) -> tuple[int, int]:
    """Height and width of the only part if it has the shape of an image, 1 or 3 channels, else :data:`NO_IMAGE`."""
    if len(parts) != 1 or len(parts[0].shape) != 3:
        return NO_IMAGE
    first, second, third = parts[0].shape
    if first in _COLOURS:
        return second, third
    return (first, second) if third in _COLOURS else NO_IMAGE
