"""Samples for the debugger: the folder that ``debug_mode: dump_calibration_data`` writes, or arrays.

The folder holds one folder per input, named after it, with one ``.npy`` file per sample: what the models are fed with
("after color space conversion and preprocessing ... fed directly into the model", ptq_guide_rdk). Every sample must
have the shape and kind of type of its input, and the input of a preprocessing node holds pixels minus 128: neither the
raw images of ``cal_data_dir`` nor normalised ones.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.data.sources import CalibrationData, shaped
from engine.errors import CalibrationDataError
from engine.ir import FileNames, file_name, file_names, shape_of
from engine.simulate.session import image_inputs
from engine.untrusted import read_npy

logger = logging.getLogger(__name__)

Array = NDArray[Any]
Samples: TypeAlias = "str | os.PathLike[str] | Mapping[str, Array] | CalibrationData | CalibrationDataSet"
"""Calibration data in every form that the debugger takes."""


class CalibrationDataSet:
    """Calibration data as an object, as the vendor's guide names it beside a folder; it says no more of it.

    Args:
        data: a folder with one folder of ``.npy`` files per input, or arrays by input name.

    Raises:
        CalibrationDataError: it is neither.
    """

    def __init__(self, data: str | os.PathLike[str] | Mapping[str, Array]) -> None:
        if isinstance(data, str | os.PathLike) and not Path(data).is_dir():
            raise CalibrationDataError(f"calibration data: no folder {data}")
        if not isinstance(data, str | os.PathLike | Mapping):
            raise CalibrationDataError(f"calibration data: a {type(data).__name__}; {_EXPECTED}")
        self.data = data


_EXPECTED = "give a folder, or arrays in a dictionary by input name"


@dataclass(frozen=True)
class _Input:
    """What the samples of one input must be.

    Attributes:
        name: of the input.
        shape: of one sample.
        dtype: of the model's input.
        is_image: whether a preprocessing node reads it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_image: bool


def read_samples(model: ir.Model, data: Samples, count: int | None = None, most: int | None = None) -> dict[str, Array]:
    """The first ``count`` samples, all if it is None, by input name, joined along the first dimension.

    Args:
        model: whose inputs they are for.
        data: a folder, arrays by input name (any number of samples along the first dimension), or calibration data.
        count: from 1 to the number of samples there are.
        most: where ``count`` is None: as many at most; how many are left out is logged.

    Returns:
        Arrays of the shape of each input except for the first dimension, in the type that they were given in.

    Raises:
        CalibrationDataError: data are missing, are fewer than ``count``, or are not what the inputs take: another
            shape, integers for an input of floats, or images that are raw, normalised or without contrast. An input
            is a scalar, along which no samples can be joined.
    """
    images = image_inputs(model)
    inputs = [
        _Input(str(value.name), shape_of(value), _numpy_type(value), value.name in images)
        for value in model.graph.inputs
    ]
    scalars = [wanted.name for wanted in inputs if not wanted.shape]
    if scalars:
        raise CalibrationDataError(
            f"inputs {scalars} are scalars: samples are joined along the first dimension, which they do not have"
        )
    data = data.data if isinstance(data, CalibrationDataSet) else data
    if not isinstance(data, (CalibrationData, Mapping, str, os.PathLike)):
        kind = type(data).__name__
        raise CalibrationDataError(f"calibration data: a {kind}; {_EXPECTED}")
    if isinstance(data, CalibrationData):
        count = _counted(count, most, len(data), "calibration data")
        return data.read(0, count)
    if isinstance(data, Mapping):
        return _from_arrays(inputs, data, count, most)
    names = file_names([wanted.name for wanted in inputs])
    files = {wanted.name: _sample_files(Path(data), wanted.name, names[wanted.name], len(inputs)) for wanted in inputs}
    counts = {str(found[0].parent): len(found) for found in files.values()}
    if len(set(counts.values())) > 1:
        raise CalibrationDataError(f"every input needs the same number of samples; found {counts}")
    count = _counted(count, most, min(counts.values()), str(data))
    arrays = {}
    for wanted in inputs:
        chosen = files[wanted.name][:count]
        arrays[wanted.name] = np.concatenate([_read(file, wanted) for file in chosen])
        _check_pixels(arrays[wanted.name], wanted, str(chosen[0].parent))
    return arrays


def sample_names(model: ir.Model, data: Samples, count: int) -> list[str]:
    """Names of the first ``count`` samples: of their files without suffix, else ``0``, ``1``, ...

    Raises:
        CalibrationDataError: a folder holds none.
    """
    data = data.data if isinstance(data, CalibrationDataSet) else data
    if isinstance(data, (CalibrationData, Mapping)):
        return [str(index) for index in range(count)]
    name, inputs = str(model.graph.inputs[0].name), len(model.graph.inputs)
    return [file.stem for file in _sample_files(Path(data), name, file_name(name), inputs)[:count]]


def dump_samples(data: CalibrationData, folder: str | os.PathLike[str]) -> Path:
    """Write ``data`` as ``folder/INPUT/INDEX.npy``, one sample per file; an earlier dump is replaced as a whole.

    Returns:
        The folder.
    """
    folder = Path(folder)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    names = FileNames()
    try:
        for index in range(len(data)):
            for name, array in data.read(index, index + 1).items():
                file = temporary / names[name] / f"{index}.npy"
                file.parent.mkdir(parents=True, exist_ok=True)
                np.save(file, array, allow_pickle=False)
        if folder.exists():
            shutil.rmtree(folder)
        temporary.replace(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _numpy_type(value: ir.Value) -> np.dtype[Any]:
    return np.dtype(np.float32 if value.dtype is None else value.dtype.numpy())


def _from_arrays(
    inputs: Sequence[_Input], data: Mapping[str, Array], count: int | None, most: int | None
) -> dict[str, Array]:
    missing = sorted({wanted.name for wanted in inputs} - set(data))
    if missing:
        raise CalibrationDataError(f"no data for the inputs {missing}; given are {sorted(data)}")
    arrays = {}
    for wanted in inputs:
        array, where = np.asarray(data[wanted.name]), f"input {wanted.name!r}"
        rows = wanted.shape[0]
        if array.shape[1:] != wanted.shape[1:] or len(array) % rows:
            raise CalibrationDataError(
                f"{where}: given are arrays of shape {array.shape}; the input takes {wanted.shape}, samples are joined "
                "along the first dimension"
            )
        wanted_samples = _counted(count, most, len(array) // rows, where)
        _check_numbers(array, wanted, where)
        arrays[wanted.name] = array[: wanted_samples * rows]
        _check_pixels(arrays[wanted.name], wanted, where)
    return arrays


def _counted(count: int | None, most: int | None, available: int, where: str) -> int:
    """How many of ``available`` samples are taken."""
    if not available:
        raise CalibrationDataError(f"{where}: holds no samples")
    if count is None:
        taken = available if most is None else min(most, available)
        if taken < available:
            logger.info("the first %d of %d samples; all: --data_num all", taken, available)
        return taken
    if not isinstance(count, int) or not 1 <= count <= available:
        raise CalibrationDataError(f"data_num is {count!r}; allowed is 1 to {available}, the samples in {where}")
    return count


def _check_numbers(array: Array, wanted: _Input, where: str) -> None:
    """Refuse what is no number, and integers for an input of floats: raw images, mostly."""
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise CalibrationDataError(f"{where}: holds values that are not finite numbers")
    if wanted.dtype.kind == "f" and array.dtype.kind != "f":
        raise CalibrationDataError(
            f"{where}: holds {array.dtype}; the input {wanted.name!r} takes {wanted.dtype}{_image_range(wanted)}. "
            f"{_FOLDER_TO_GIVE}"
        )
    if wanted.dtype.kind == "f":
        return
    with np.errstate(invalid="ignore"):
        cast = array.astype(wanted.dtype)
    if not np.array_equal(array, cast):
        raise CalibrationDataError(f"{where}: holds values that the input {wanted.name!r}, {wanted.dtype}, cannot hold")


_FOLDER_TO_GIVE = (
    "Give the folder calibration_data that a conversion with debug_mode: dump_calibration_data writes into "
    "working_dir; the files of cal_data_dir are not what the model takes"
)
LARGEST_PIXEL, LARGEST_NORMALISED = 256, 8
"""Magnitudes that pixels minus 128 stay below (enlarging in floats overshoots 128), and normalised images too."""


def _image_range(wanted: _Input) -> str:
    return " images, pixels minus 128 (-128..127)" if wanted.is_image else ""


def _check_pixels(array: Array, wanted: _Input, where: str) -> None:
    """Refuse images from which 128 was not subtracted, or that are normalised: all figures would be wrong.

    Pixels that all lie near 128 cannot be told from normalised ones.
    """
    if not wanted.is_image or wanted.dtype.kind != "f" or not array.size:
        return
    low, high = float(array.min()), float(array.max())
    is_raw = low >= 0 and high > 128
    largest = max(-low, high)
    if is_raw or not LARGEST_NORMALISED < largest <= LARGEST_PIXEL:
        raise CalibrationDataError(
            f"{where}: holds values from {low:.6g} to {high:.6g}; the input {wanted.name!r} takes"
            f"{_image_range(wanted)}, neither raw (0..255) nor normalised or without contrast. {_FOLDER_TO_GIVE}"
        )


def _sample_files(folder: Path, name: str, file: str, inputs: int) -> list[Path]:
    """Sample files of an input in the order of their numbers; with one input they may lie in ``folder`` itself.

    Args:
        folder: of all inputs.
        name: of the input; a folder may also be called so, with ``_`` for ``/``.
        file: file name of the input.
        inputs: how many there are.
    """
    own = folder / file
    called = (own, folder / name.replace("/", "_"))
    place = next((path for path in called if os.path.isdir(path)), folder if inputs == 1 else own)
    files = sorted(place.glob("*.npy"), key=_number)
    if not files:
        raise CalibrationDataError(
            f"{place}: no .npy files for the input {name!r}; expected {own}/0.npy, 1.npy, ...{_others(place)}"
        )
    return files


def _number(file: Path) -> tuple[int, str]:
    return (int(file.stem), "") if file.stem.isdecimal() else (1 << 62, file.stem)


def _others(folder: Path) -> str:
    """What a folder without samples holds instead: raw images of a conversion, mostly."""
    found = sorted(path.name for path in folder.glob("*.*") if path.is_file())
    return f". Its {len(found)} other files, such as {found[0]}, are not read. {_FOLDER_TO_GIVE}" if found else ""


def _read(file: Path, wanted: _Input) -> Array:
    try:
        array = read_npy(file)
    except ValueError as error:
        raise CalibrationDataError(f"{file}: {error}") from error
    _check_numbers(array, wanted, str(file))
    return shaped(array, wanted.shape, file)
