"""Samples for the debugger: the folder that ``debug_mode: dump_calibration_data`` writes, or arrays.

The folder holds one folder per input, named after it, with one ``.npy`` file per sample: what the models are fed with.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.data.sources import CalibrationData
from engine.errors import CalibrationDataError
from engine.ir import FileNames, file_name, file_names, shape_of
from engine.untrusted import read_npy

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


def read_samples(model: ir.Model, data: Samples, count: int | None = None) -> dict[str, Array]:
    """The first ``count`` samples, all if it is None, by input name, joined along the first dimension.

    Args:
        model: whose inputs they are for.
        data: a folder, arrays by input name (any number of samples along the first dimension), or calibration data.
        count: from 1 to the number of samples there are.

    Raises:
        CalibrationDataError: data are missing, do not fit the inputs, or are fewer than ``count``.
    """
    shapes = {str(value.name): shape_of(value) for value in model.graph.inputs}
    data = data.data if isinstance(data, CalibrationDataSet) else data
    if not isinstance(data, (CalibrationData, Mapping, str, os.PathLike)):
        kind = type(data).__name__
        raise CalibrationDataError(f"calibration data: a {kind}; {_EXPECTED}")
    if isinstance(data, CalibrationData):
        _check_count(count, len(data), "calibration data")
        return data.read(0, count or len(data))
    if isinstance(data, Mapping):
        return _from_arrays(shapes, data, count)
    names = file_names(shapes)
    folders = {name: _sample_files(Path(data), name, names[name], len(shapes)) for name in shapes}
    counts = {str(files[0].parent): len(files) for files in folders.values()}
    if len(set(counts.values())) > 1:
        raise CalibrationDataError(f"every input needs the same number of samples; found {counts}")
    _check_count(count, min(counts.values()), str(data))
    return {
        name: np.concatenate([_read(file, shapes[name]) for file in files[:count]]) for name, files in folders.items()
    }


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


def _from_arrays(
    shapes: Mapping[str, tuple[int, ...]], data: Mapping[str, Array], count: int | None
) -> dict[str, Array]:
    missing = sorted(set(shapes) - set(data))
    if missing:
        raise CalibrationDataError(f"no data for the inputs {missing}; given are {sorted(data)}")
    arrays = {}
    for name, shape in shapes.items():
        array = np.asarray(data[name])
        _check_count(count, len(array) // shape[0], f"input {name!r}")
        _check_numbers(array, f"input {name!r}")
        arrays[name] = array[: (count or len(array)) * shape[0]]
    return arrays


def _check_count(count: int | None, available: int, where: str) -> None:
    if not available:
        raise CalibrationDataError(f"{where}: holds no samples")
    if count is not None and (not isinstance(count, int) or not 1 <= count <= available):
        raise CalibrationDataError(f"data_num is {count!r}; allowed is 1 to {available}, the samples in {where}")


def _check_numbers(array: Array, where: str) -> None:
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise CalibrationDataError(f"{where}: holds values that are not finite numbers")


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
        raise CalibrationDataError(f"{place}: no .npy files for the input {name!r}; expected {own}/0.npy, 1.npy, ...")
    return files


def _number(file: Path) -> tuple[int, str]:
    return (int(file.stem), "") if file.stem.isdecimal() else (1 << 62, file.stem)


def _read(file: Path, shape: tuple[int, ...]) -> Array:
    try:
        array = read_npy(file)
    except ValueError as error:
        raise CalibrationDataError(f"{file}: {error}") from error
    if array.size != int(np.prod(shape)):
        raise CalibrationDataError(f"{file}: has shape {np.shape(array)}; the input takes {shape}")
    _check_numbers(array, str(file))
    return array.reshape(shape)
