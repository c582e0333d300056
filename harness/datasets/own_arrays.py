"""Arrays of the user's own, as they are, cut into splits by a seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
from pydantic import Field

from engine.errors import CalibrationDataError
from harness import paths
from harness.datasets.base import NO_LABEL, ArrayFormat
from harness.datasets.input_folders import FileParts, InputSplit, files_of_parts
from harness.strict_yaml import StrictModel

ARRAY_SUFFIX = ".npy"


class OwnArraysOptions(StrictModel):
    """Where the arrays are, and what they hold.

    Attributes:
        folder: of the arrays; absolute, or relative to the folder of external data (``PTQLAB_DATA``).
        parts: of every sample by name: an array (``shape`` without the dimension that counts samples, ``dtype``).
        seed: of the shuffle before the cut.
        calibration: samples of this split.
        evaluation: samples of this split.
    """

    folder: Path
    parts: Mapping[str, ArrayFormat] = Field(min_length=1)
    seed: int = Field(default=0, ge=0, lt=2**32)
    calibration: int = Field(ge=1)
    evaluation: int = Field(ge=1)


class OwnArrays(FileParts):
    """``.npy`` files of one folder, a sample each, as a converter takes calibration data: ready for the network.

    A network with several inputs needs a sub-folder per input, in it files of the same names. ``calibration`` and
    ``evaluation`` are drawn by the seed. There are no labels: outputs are scored against the float model
    (``metric: {labels: float}`` in a model card).
    """

    Options = OwnArraysOptions
    version = 1

    def __init__(self, options: OwnArraysOptions) -> None:
        root = paths.external_data(options.folder)
        if not root.is_dir():
            raise CalibrationDataError(f"no folder {root}: put the arrays there, or set PTQLAB_DATA")
        files = files_of_parts(array_folders(root, list(options.parts)), ARRAY_SUFFIX)
        count = len(next(iter(files.values())))
        wanted = {"calibration": options.calibration, "evaluation": options.evaluation}
        if sum(wanted.values()) > count:
            raise CalibrationDataError(
                f"{root}: {options.calibration} + {options.evaluation} samples requested, but it holds {count}"
            )
        order = np.random.RandomState(options.seed).permutation(count)
        self._formats = MappingProxyType(dict(options.parts))
        splits, start = {}, 0
        for name, size in wanted.items():
            drawn = order[start : start + size]
            chosen = {part: [paths_of[index] for index in drawn] for part, paths_of in files.items()}
            splits[name] = InputSplit(name, chosen, self._formats, [NO_LABEL] * size)
            start += size
        self._splits = MappingProxyType(splits)
        portable = options.model_copy(update={"folder": Path(options.folder.name)})
        self.digest = self._digest(portable, {"files": {name: split.fingerprints() for name, split in splits.items()}})


def array_folders(folder: Path, parts: list[str]) -> dict[str, Path]:
    """Folder of every part: the sub-folder of its name; of a single part without one, ``folder`` itself."""
    if len(parts) == 1 and not (folder / parts[0]).is_dir():
        return {parts[0]: folder}
    return {part: folder / part for part in parts}
