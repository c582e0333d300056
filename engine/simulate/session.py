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

from engine.errors import ConfigError
from engine.ir import CALIBRATION_OP, HORIZON_DOMAIN
from engine.ops.foreign.composite import COMPOSITES, reads_integers
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


def image_inputs(model: ir.Model) -> tuple[str, ...]:
    """Names of the inputs that a preprocessing node reads, straight or behind a transpose or calibration node."""
    return tuple(value.name or "" for value in graph_inputs(model) if _is_preprocessed(value))


def is_quantized(model: ir.Model) -> bool:
    """Whether ``model`` holds quantised operators."""
    return any(_is_quantized(node) for node in model.graph)


def _is_quantized(node: ir.Node) -> bool:
    """Whether ``node`` is a quantised operator; one that float models have under the same name is, on integers."""
    if node.domain != HORIZON_DOMAIN or node.op_type not in OPERATORS:
        return False
    return node.op_type not in COMPOSITES or reads_integers(node)


def _is_preprocessed(value: ir.Value) -> bool:
    readers = [usage.node for usage in value.uses()]
    return any(
        node.op_type in PREPROCESS_OPS or (node.op_type in TRANSPARENT_OPS and _is_preprocessed(node.outputs[0]))
        for node in readers
    )


def _simulator(model: ir.Model, mode: Mode, threads: int | None) -> Simulator:
    if not is_quantized(model):
        from engine.simulate.float_simulator import FloatSimulator  # needs ONNX Runtime, which quantised models do not

        return FloatSimulator(model, threads)
    return ReferenceSimulator(model) if mode is Mode.REFERENCE else FastSimulator(model, threads)


def _mode(mode: Mode | str) -> Mode:
    try:
        return Mode(mode)
    except ValueError as error:
        raise ConfigError(f"mode is {mode!r}; allowed: {', '.join(Mode)}") from error
