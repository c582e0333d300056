"""Sessions: run any file of a conversion, ours or the original toolchain's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike, NDArray

from engine.errors import ConfigError, InferenceError
from engine.ir import CALIBRATION_OP, HORIZON_DOMAIN
from engine.ops.registry import OPERATORS
from engine.simulate.fast import FastSimulator
from engine.simulate.loaders import open_model
from engine.simulate.reference import ReferenceSimulator
from engine.simulate.tensors import TensorInfo, graph_inputs

Array = NDArray[Any]

PREPROCESS_OPS = ("HzPreprocess", "HzSQuantizedPreprocess")
TRANSPARENT_OPS = ("Transpose", CALIBRATION_OP)
"""What may stand between an image input and its preprocessing node."""


class Mode(StrEnum):
    """How a quantised model is computed; the results are the same."""

    FAST = "fast"
    REFERENCE = "reference"


class Simulator(Protocol):
    """What runs a graph."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]

    def run(self, feed: Mapping[str, Array], output_names: Sequence[str] | None = None) -> dict[str, Array]:
        """Outputs by name for any number of samples."""


class Session:
    """Runs a model of any stage: source, original_float, optimized_float, calibrated, quantized, or a ``.bin`` file.

    The first dimension of every input may be any multiple of the model's own; the outputs' grows along. Results do not
    depend on how samples are grouped into calls.

    Args:
        model: a path or a model in memory.
        mode: ``fast`` or ``reference`` simulator of quantised models (both give the same bits); float models always run
            in ONNX Runtime.
        threads: CPU threads to use; None for all.

    Raises:
        ModelError: the file is not a model.
        UnsupportedError: it holds an operator that is not known.
    """

    def __init__(
        self, model: str | os.PathLike[str] | ir.Model, mode: Mode | str = Mode.FAST, threads: int | None = None
    ) -> None:
        self.model = model if isinstance(model, ir.Model) else open_model(Path(model))
        self._simulator = _simulator(self.model, _mode(mode), threads)

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """What the model takes."""
        return self._simulator.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """What the model gives."""
        return self._simulator.outputs

    def run(self, feed: Mapping[str, ArrayLike], output_names: Sequence[str] | None = None) -> dict[str, Array]:
        """Outputs by name, in the order of ``output_names``, or of the model where it is None.

        Raises:
            InferenceError: a name, shape or type does not fit the model.
        """
        return self._simulator.run({name: np.asarray(value) for name, value in feed.items()}, output_names)


class HB_ONNXRuntime:  # noqa: N801 - the name that users' scripts import
    """Session with the interface of the original toolchain's class of the same name.

    Args:
        model_file: any ``.onnx`` file of a conversion, or a ``.bin`` file.
        mode: see :class:`Session`.
    """

    def __init__(self, model_file: str | os.PathLike[str] | ir.Model, mode: Mode | str = Mode.FAST) -> None:
        self._session = Session(model_file, mode)
        self._images = image_inputs(self._session.model)
        self.hb_session = PlainSession(self._session)

    def get_inputs(self) -> list[TensorInfo]:
        """Inputs with ``name``, ``shape`` and ``type``."""
        return list(self._session.inputs)

    def get_outputs(self) -> list[TensorInfo]:
        """Outputs with ``name``, ``shape`` and ``type``."""
        return list(self._session.outputs)

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, in order."""
        return [info.name for info in self._session.inputs]

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs, in order."""
        return [info.name for info in self._session.outputs]

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, ArrayLike], input_offset: int = 128
    ) -> list[Array]:
        """Run on images: subtracts ``input_offset`` from every image input and casts to the model's input type.

        An image input is one that a preprocessing node reads; other inputs are cast only.

        Raises:
            InferenceError: a name or shape does not fit, or a value does not fit the input's type after subtraction.
        """
        return self._run(output_names, input_feed, dict.fromkeys(self._images, input_offset))

    def run_feature(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, ArrayLike], input_offset: int = 0
    ) -> list[Array]:
        """Run on feature maps: the arrays as they are, minus ``input_offset`` where it is not 0."""
        return self._run(output_names, input_feed, dict.fromkeys(self.input_names, input_offset))

    def _run(
        self, output_names: Sequence[str] | None, feed: Mapping[str, ArrayLike], offsets: Mapping[str, int]
    ) -> list[Array]:
        types = {info.name: info.dtype for info in self._session.inputs}
        prepared = {
            name: cast(name, np.asarray(value), offsets.get(name, 0), types[name]) if name in types else value
            for name, value in feed.items()
        }
        return list(self._session.run(prepared, output_names).values())


class PlainSession:
    """``hb_session`` of :class:`HB_ONNXRuntime`: runs on arrays that already have the model's types."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, ArrayLike]) -> list[Array]:
        """Outputs in the order of ``output_names``."""
        return list(self._session.run(input_feed, output_names).values())


def cast(name: str, array: Array, offset: int, dtype: np.dtype[Any]) -> Array:
    """``array - offset`` as ``dtype``.

    Raises:
        InferenceError: a value does not survive the cast to an integer type.
    """
    if offset == 0 and array.dtype == dtype:
        return array
    if not np.issubdtype(array.dtype, np.number):
        raise InferenceError(f"input {name}: got type {array.dtype}, expected numbers")
    wide = array.astype(np.float64 if np.issubdtype(array.dtype, np.floating) else np.int64) - offset
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        wide = np.trunc(wide)
        if wide.size and not (limits.min <= wide.min() and wide.max() <= limits.max):
            raise InferenceError(
                f"input {name}: values minus input_offset {offset} span {wide.min():g}..{wide.max():g}, expected "
                f"{limits.min}..{limits.max} ({dtype}); pass input_offset=0 for data that are already shifted"
            )
    return wide.astype(dtype)


def image_inputs(model: ir.Model) -> tuple[str, ...]:
    """Names of the inputs that a preprocessing node reads, straight or behind a transpose or calibration node."""
    return tuple(value.name or "" for value in graph_inputs(model) if _is_preprocessed(value))


def is_quantized(model: ir.Model) -> bool:
    """Whether ``model`` holds quantised operators."""
    return any(node.domain == HORIZON_DOMAIN and node.op_type in OPERATORS for node in model.graph)


def _is_preprocessed(value: ir.Value) -> bool:
    readers = [usage.node for usage in value.uses()]
    return any(
        node.op_type in PREPROCESS_OPS or (node.op_type in TRANSPARENT_OPS and _is_preprocessed(node.outputs[0]))
        for node in readers
    )


def _simulator(model: ir.Model, mode: Mode, threads: int | None) -> Simulator:
    if not is_quantized(model):
        from engine.simulate.floats import FloatSimulator  # needs ONNX Runtime, which quantised models do not

        return FloatSimulator(model, threads)
    return ReferenceSimulator(model) if mode is Mode.REFERENCE else FastSimulator(model, threads)


def _mode(mode: Mode | str) -> Mode:
    try:
        return Mode(mode)
    except ValueError as error:
        raise ConfigError(f"mode is {mode!r}; allowed: {', '.join(Mode)}") from error
