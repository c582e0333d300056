"""Statistics kept between conversions in a folder, under the hash of all that determines them."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path

import onnx_ir as ir

from engine.calibrate.data.sources import CalibrationData
from engine.calibrate.statistics.collection import StatisticsOptions, collect
from engine.calibrate.statistics.outputs import FloatOutputs
from engine.calibrate.statistics.progress import Progress
from engine.calibrate.statistics.statistics import FORMAT, Statistics
from engine.errors import CalibrationDataError, OutputError
from engine.ir import to_bytes

logger = logging.getLogger(__name__)

FOLDER_VARIABLE = "PTQLAB_STATISTICS"
"""Environment variable that names the folder; nothing is kept where it is not set."""

_RUNNING_OPTIONS = frozenset({"batch", "threads"})
"""Options that do not change results."""


def collect_once(
    optimized: ir.Model,
    tensors: Collection[str],
    data: CalibrationData,
    options: StatisticsOptions,
    outputs: FloatOutputs | None = None,
) -> Statistics:
    """:func:`collect`, or what an earlier call collected of the same content.

    Files ``<key>.npz`` are written as by :func:`collect_into`, so that many processes may share the folder. A damaged
    file is collected and written anew; where nothing can be written, a warning says so.

    Args:
        optimized: see :func:`collect`.
        tensors: see :func:`collect`.
        data: see :func:`collect`; its files are read once for their digest.
        options: see :func:`collect`.
        outputs: see :func:`collect`; they stay away where nothing is collected.

    Raises:
        CalibrationDataError: the data do not fit the model.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return collect(optimized, tensors, data, options, outputs=outputs)
    path = Path(folder) / f"{statistics_key(optimized, tensors, data, options)}.npz"
    if os.path.isfile(path):
        try:
            found = Statistics.load(path)
        except CalibrationDataError as error:
            logger.warning("%s; collected anew", error)
        else:
            logger.info("Calibration statistics: read from %s.", path)
            return found
    progress = _progress_of(path)
    statistics = collect(optimized, tensors, data, options, progress, outputs)
    try:
        statistics.save(path)
    except OutputError as error:
        logger.warning("%s; the statistics are not saved", error)
    progress.discard()
    return statistics


def collect_into(
    path: Path, optimized: ir.Model, tensors: Collection[str], data: CalibrationData, options: StatisticsOptions
) -> Statistics:
    """:func:`collect`, kept in ``path``; a pass goes on from where an earlier one towards the same file was cut off.

    Args:
        path: file ``.npz`` to write, whole or not at all; its name must determine all that follows. How far the pass
            has come is noted beside it, in ``.partial.npz``.
        optimized: see :func:`collect`.
        tensors: see :func:`collect`.
        data: see :func:`collect`.
        options: see :func:`collect`.

    Raises:
        CalibrationDataError: the data do not fit the model.
        OutputError: the folder cannot be written.
    """
    progress = _progress_of(path)
    statistics = collect(optimized, tensors, data, options, progress)
    statistics.save(path)
    progress.discard()
    return statistics


def _progress_of(path: Path) -> Progress:
    return Progress(path.with_suffix(".partial.npz"))


def statistics_key(
    optimized: ir.Model, tensors: Collection[str], data: CalibrationData, options: StatisticsOptions
) -> str:
    """SHA-256, hexadecimal, of all that determines statistics.

    Args:
        optimized: the float model.
        tensors: names of the tensors; their order does not count.
        data: calibration samples.
        options: what is collected; options that only say how (threads, memory) do not count.
    """
    parts = {
        "format": FORMAT,
        "onnxruntime": version("onnxruntime"),
        "model": hashlib.sha256(to_bytes(optimized)).hexdigest(),
        "tensors": sorted(tensors),
        "data": data.digest(),
        "options": options.model_dump(mode="json", exclude=set(_RUNNING_OPTIONS)),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
