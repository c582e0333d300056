"""What an ONNX file and a folder of arrays say of the inputs of a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.errors import CalibrationDataError, ConfigError
from engine.untrusted import read_npy
from harness.datasets import ArrayFormat
from harness.datasets.input_folders import files_of_parts
from harness.datasets.label_files import ARRAY_SUFFIX, samples_in
from harness.datasets.own_arrays import array_folders, image_size
from harness.onboarding.convertible import read_float_model
from harness.onboarding.fixed_inputs import inputs_of, next_steps, shape_words
from harness.onboarding.network_file import (
    OutputTensor,
    Runner,
    dims_of,
    measured_outputs,
    other_shapes,
)

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class ArrayNetwork:
    """A network whose inputs are fed with arrays.

    Attributes:
        path: the file.
        inputs: shape of one sample without its batch, and type, by name in the order of the file.
        size: height and width of the only input if it has the shape of an image, else (0, 0).
        outputs: in its order, with the shapes that they have for one sample.
        metadata: of the file.
        seconds: that one sample takes in ONNX Runtime.
        samples: number in the folder.
        remarks: what the file declares and ONNX Runtime does otherwise.
    """

    path: Path
    inputs: Mapping[str, ArrayFormat]
    size: tuple[int, int]
    outputs: tuple[OutputTensor, ...]
    metadata: Mapping[str, str]
    seconds: float
    samples: int
    remarks: tuple[str, ...] = ()


def holds_arrays(folder: Path, labels: Path | None = None) -> bool:
    """Whether ``folder`` or its sub-folders hold arrays and no images, those below ``labels`` apart."""
    found = samples_in(folder.resolve(), None if labels is None else labels.resolve())
    return bool(found) and found[0].suffix.lower() == ARRAY_SUFFIX


def read_array_network(path: Path, folder: Path) -> ArrayNetwork:
    """The network in ``path`` with the shapes of the arrays in ``folder``.

    Raises:
        ModelError: it is no ONNX model, or does not run on the first sample.
        UnsupportedError: it is quantised already.
        ConfigError: an input has a batch other than 1, or a type that cards do not have.
        CalibrationDataError: arrays of an input are missing, or have another shape than the input.
    """
    model = read_float_model(path)
    values = inputs_of(model)
    for value in values:
        _check_batch(path, value, values)
    files = files_of_parts(array_folders(folder, [value.name for value in values]), ARRAY_SUFFIX)
    first = {name: _read(found[0]) for name, found in files.items()}
    inputs = {value.name: _format(path, value, files[value.name][0], first[value.name]) for value in values}
    runner = Runner(path)
    sample = {
        name: array.reshape(1, *inputs[name].shape).astype(inputs[name].dtype, copy=False)
        for name, array in first.items()
    }
    words = ", ".join(f"{name} of shape {array.shape}" for name, array in sample.items())
    outputs, seconds = measured_outputs(model, runner.names, lambda: runner.feed(sample, words))
    return ArrayNetwork(
        path=path,
        inputs=inputs,
        size=image_size(list(inputs.values())),
        outputs=outputs,
        metadata={entry.key: entry.value for entry in model.metadata_props},
        seconds=seconds,
        samples=len(next(iter(files.values()))),
        remarks=other_shapes(model, outputs),
    )


def _read(path: Path) -> NDArray[Any]:
    try:
        return read_npy(path)
    except (OSError, EOFError, ValueError) as error:
        raise CalibrationDataError(f"{path}: cannot be read as an array: {error}") from error


def _check_batch(path: Path, value: onnx.ValueInfoProto, values: Sequence[onnx.ValueInfoProto]) -> None:
    """Refuse an input that does not begin with the sample, such as a state, or of which there is nothing."""
    dims = value.type.tensor_type.shape.dim
    given = f"{path}: input {value.name} has shape {shape_words(value)} (?: open)"
    steps = next_steps(values, as_arrays=False)
    if not dims or dims_of(value)[0] not in (0, 1):
        raise ConfigError(f"{given}; expected a first dimension of 1, one sample at a time. {steps}")
    if any(dim.HasField("dim_value") and dim.dim_value == 0 for dim in dims):
        raise ConfigError(f"{given}: of size 0 there is nothing to feed. {steps}")


def _format(path: Path, value: onnx.ValueInfoProto, file: Path, array: NDArray[Any]) -> ArrayFormat:
    """Shape and type of one sample of an input; open dimensions are those of the array."""
    import onnx

    dims = dims_of(value)
    given = f"{path}: input {value.name} has shape {shape_words(value)} (?: open)"
    kinds: Mapping[int, Literal["float32", "int32", "int64"]] = {
        onnx.TensorProto.FLOAT: "float32",
        onnx.TensorProto.FLOAT16: "float32",  # as which the network is computed
        onnx.TensorProto.DOUBLE: "float32",
        onnx.TensorProto.INT32: "int32",
        onnx.TensorProto.INT64: "int64",
    }
    kind = value.type.tensor_type.elem_type
    if kind not in kinds:
        name = onnx.TensorProto.DataType.Name(kind)
        raise ConfigError(
            f"{path}: input {value.name} has type {name}, expected FLOAT, FLOAT16, DOUBLE, INT32 or INT64"
        )
    shape = array.shape[1:] if array.ndim == len(dims) and array.shape[0] == 1 else array.shape
    fits = len(shape) == len(dims) - 1 and all(want in (0, has) for want, has in zip(dims[1:], shape, strict=True))
    if not fits or not shape:
        raise CalibrationDataError(
            f"{file}: holds shape {array.shape}, but {given}; expected one sample per file, ready for the network"
        )
    if array.dtype.kind != np.dtype(kinds[kind]).kind:
        raise CalibrationDataError(
            f"{file}: holds {array.dtype}, but input {value.name} takes {kinds[kind]}: arrays are fed as they are, so "
            "they must hold what the network takes, with mean and scale applied"
        )
    return ArrayFormat(shape=shape, dtype=kinds[kind])
