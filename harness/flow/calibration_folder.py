"""``ptqlab prepare``: a calibration folder from a folder of images."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.data.sources import default_raw_type
from engine.chips import HB_COMPILE_MARCHES
from engine.config import Config
from engine.errors import ConfigError
from engine.ir import file_name, write_atomically
from harness.datasets.transformers import to_uint8
from harness.flow.preparation import Preparation


def write_folder(config: Config, prepare: Preparation, images: list[Path], to: Path | None = None) -> Path:
    """Write every image as one calibration sample of the input that ``prepare`` is for.

    The files are what ``config`` reads: ``.npy`` for the marches of ``hb_compile``, else raw float32 or uint8 by
    ``cal_data_type`` or the folder's name.

    Args:
        config: the conversion.
        prepare: what is done to each image.
        images: the files.
        to: the folder; None for that of ``cal_data_dir``.

    Returns:
        The folder; it appears with all samples in it, or not at all.

    Raises:
        ConfigError: no folder is named, or it holds files already.
        CalibrationDataError: a file is no image.
        OutputError: a file cannot be written.
    """
    index, calibration = prepare.target.index, config.calibration_parameters
    if to is None and len(calibration.cal_data_dir) <= index:
        raise ConfigError(f"cal_data_dir has no folder for input {prepare.target.spec.name}; give one with --output")
    folder = calibration.cal_data_dir[index] if to is None else to
    if folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir()):
        raise ConfigError(f"{folder}: is not empty; a calibration folder must hold only its samples")
    given = calibration.cal_data_type[index] if calibration.cal_data_type else None
    raw_type = given or default_raw_type(prepare.target.spec, folder)
    batch = prepare.target.shape[0]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
        made = Path(temporary) / folder.name
        _write(made, config, prepare, images, raw_type, batch)
        if folder.is_dir():
            shutil.rmtree(folder)  # empty but for hidden files
        made.rename(folder)
    return folder


def _write(
    folder: Path, config: Config, prepare: Preparation, images: Sequence[Path], raw_type: str, batch: int
) -> None:
    for number, path in enumerate(images):
        sample = np.broadcast_to(prepare(path), (batch, *prepare.target.shape[1:]))
        name = f"{number:05d}_{file_name(path.stem)}"
        if config.march in HB_COMPILE_MARCHES:
            write_atomically(folder / f"{name}.npy", _npy(sample))
        else:
            array = to_uint8(sample) if raw_type == "uint8" else sample
            write_atomically(folder / f"{name}.{prepare.target.spec.type_train.value}", array.tobytes())


def _npy(array: NDArray[np.float32]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()
