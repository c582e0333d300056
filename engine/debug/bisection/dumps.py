"""Tensors that a board dumped: the files of ``hrt_model_exec infer``.

``--enable_dump`` writes ``model_infer_output_INDEX_NAME.bin`` per output, ``--dump_intermediate`` ``NAME.bin`` per
tensor (or ``.txt``), all of one frame. NAME is that of the tensor, where everything but letters, digits, ``-``, ``_``
and ``.`` became ``_``. Dumps of several samples lie in folders ``0``, ``1``, ...
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import InferenceError
from engine.ir import file_names, shape_of

Array = NDArray[Any]

SUFFIXES = (".bin", ".txt")


def read_dumps(folder: Path, model: ir.Model) -> dict[str, Array]:
    """Every tensor of ``model`` that ``folder`` has a dump of, by name, samples along the first dimension.

    Args:
        folder: of the dumps of one sample, or of folders ``0``, ``1``, ... with one sample each.
        model: what the ``.bin`` file of the board holds: shapes and types are its.

    Raises:
        InferenceError: there are none, one does not fit its tensor, or samples have different ones.
    """
    values = {value.name: value for node in model.graph for value in node.outputs if value.name}
    numbered = sorted((path for path in folder.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))
    if [int(path.name) for path in numbered] != list(range(len(numbered))):
        raise InferenceError(f"{folder}: expected the folders 0, 1, ... without a gap, one per sample")
    samples = [_read_sample(path, values) for path in numbered or [folder]]
    for path, sample in zip(numbered, samples, strict=False):
        if sample.keys() != samples[0].keys():
            other = sorted(sample.keys() ^ samples[0].keys())
            raise InferenceError(f"{path}: holds dumps of other tensors than {numbered[0]}: {other}")
    if not samples[0]:
        raise InferenceError(
            f"{folder}: no dump of a tensor of the model, as NAME.bin or model_infer_output_0_NAME.bin"
        )
    return {name: np.concatenate([sample[name] for sample in samples]) for name in samples[0]}


def _read_sample(folder: Path, values: Mapping[str, ir.Value]) -> dict[str, Array]:
    files = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in SUFFIXES:
            files[re.sub(r"^model_infer_output_\d+_", "", path.stem)] = path
    wanted = {file: values[name] for name, file in file_names(values).items()}
    return {str(wanted[stem].name): _read(path, wanted[stem]) for stem, path in files.items() if stem in wanted}


def _read(path: Path, value: ir.Value) -> Array:
    kind, shape = np.dtype((value.dtype or ir.DataType.FLOAT).numpy()), shape_of(value)
    try:
        if path.suffix == ".txt":
            array = np.array(path.read_text(encoding="utf-8").replace(",", " ").split(), np.float64).astype(kind)
        else:
            array = np.fromfile(path, kind)
    except (OSError, ValueError) as error:
        raise InferenceError(f"{path}: not a dump: {error}") from error
    if array.size != int(np.prod(shape)) or (path.suffix == ".bin" and path.stat().st_size != array.nbytes):
        raise InferenceError(
            f"{path}: {path.stat().st_size} bytes, {array.size} values; {value.name} has the shape {shape} and type "
            f"{kind}. Dump valid (not aligned) data, without --hybrid_dequantize_process"
        )
    return array.reshape(shape)
