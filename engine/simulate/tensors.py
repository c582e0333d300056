"""Graph inputs and outputs as users see them, and the checks of what they feed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import InferenceError, hint
from engine.ir import shape_of

Array = NDArray[Any]


@dataclass(frozen=True)
class TensorInfo:
    """A graph input or output.

    Attributes:
        name: its name.
        shape: its static shape for one sample of the model.
        dtype: its numpy type.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def type(self) -> str:
        """The type as ONNX Runtime writes it, e.g. ``tensor(int8)``."""
        return f"tensor({'float' if self.dtype == np.float32 else self.dtype.name})"

    def __str__(self) -> str:
        return f"{self.name} ({self.dtype.name}, shape {list(self.shape)})"


def graph_inputs(model: ir.Model) -> list[ir.Value]:
    """Inputs that a user feeds: those that no initializer fills."""
    return [value for value in model.graph.inputs if value.name not in model.graph.initializers]


def describe(values: Sequence[ir.Value]) -> tuple[TensorInfo, ...]:
    """Names, shapes and types of graph inputs or outputs."""
    return tuple(
        TensorInfo(value.name or "", shape_of(value), np.dtype((value.dtype or ir.DataType.FLOAT).numpy()))
        for value in values
    )


def check_feed(feed: Mapping[str, Array], inputs: Sequence[TensorInfo]) -> int:
    """Check ``feed`` against the model's inputs; the number of samples in it.

    A leading dimension may be any multiple of the model's, the same multiple for every input.

    Raises:
        InferenceError: a name, type or shape is not what the model takes.
    """
    if len(feed) != len(inputs) or any(info.name not in feed for info in inputs):
        raise _misnamed(feed, inputs)
    counts = [_samples(feed[info.name], info) for info in inputs]
    if counts.count(counts[0] if counts else 1) != len(counts):
        listed = {info.name: count for info, count in zip(inputs, counts, strict=True)}
        raise InferenceError(f"inputs hold different numbers of samples: {listed}")
    return counts[0] if counts else 1


def _misnamed(feed: Mapping[str, Array], inputs: Sequence[TensorInfo]) -> InferenceError:
    known = {info.name for info in inputs}
    if unknown := set(feed) - known:
        near = hint(min(unknown), known)
        return InferenceError(
            f"unknown input {', '.join(sorted(unknown))}; the model's inputs: {_listed(inputs)}{near}"
        )
    missing = ", ".join(sorted(known - set(feed)))
    return InferenceError(f"input {missing} is missing; the model's inputs: {_listed(inputs)}")


def check_outputs(names: Sequence[str] | None, outputs: Sequence[TensorInfo]) -> tuple[str, ...]:
    """``names``, or all outputs where it is None or empty.

    Raises:
        InferenceError: a name that is not an output.
    """
    known = tuple([info.name for info in outputs])
    if not names:
        return known
    if unknown := set(names) - set(known):
        raise InferenceError(
            f"unknown output {', '.join(sorted(unknown))}; the model's outputs: {', '.join(known)}"
            f"{hint(min(unknown), known)}"
        )
    return tuple(names)


def _listed(inputs: Sequence[TensorInfo]) -> str:
    return ", ".join(map(str, inputs))


def _samples(array: Array, info: TensorInfo) -> int:
    if array.dtype != info.dtype:
        raise InferenceError(f"input {info.name}: got type {array.dtype.name}, expected {info.dtype.name}")
    shape = array.shape
    if shape == info.shape:
        return 1
    if not info.shape:
        if shape:
            raise InferenceError(f"input {info.name}: got shape {list(shape)}, expected a scalar")
        return 1
    fits = len(shape) == len(info.shape) and shape[1:] == info.shape[1:]
    if not fits or shape[0] == 0 or shape[0] % info.shape[0]:
        raise InferenceError(
            f"input {info.name}: got shape {list(shape)}, expected {list(info.shape)}"
            " (the first dimension may be a multiple of this)"
        )
    return int(shape[0] // info.shape[0])


def split_samples(feed: Mapping[str, Array], inputs: Sequence[TensorInfo], index: int) -> dict[str, Array]:
    """Sample ``index`` of a checked ``feed``, in the model's own shapes; inputs of rank 0 are shared by all samples."""
    sample = {}
    for info in inputs:
        rows = info.shape[0] if info.shape else 0
        sample[info.name] = feed[info.name][index * rows : (index + 1) * rows] if info.shape else feed[info.name]
    return sample


def join_samples(results: Sequence[Mapping[str, Array]], names: Sequence[str]) -> dict[str, Array]:
    """Outputs of all samples along the first dimension; a scalar output becomes a vector of one value per sample."""
    if len(results) == 1:
        return {name: results[0][name] for name in names}
    return {name: np.concatenate([np.atleast_1d(result[name]) for result in results]) for name in names}


def random_feed(inputs: Sequence[TensorInfo], batch: int) -> dict[str, Array]:
    """``batch`` samples of noise: integers over their whole range, normally distributed floats."""
    rng = np.random.default_rng(0)
    feed: dict[str, Array] = {}
    for info in inputs:
        shape = (info.shape[0] * batch, *info.shape[1:]) if info.shape else ()
        if np.issubdtype(info.dtype, np.integer):
            limits = np.iinfo(info.dtype)
            feed[info.name] = rng.integers(limits.min, limits.max, shape, info.dtype, endpoint=True)
        else:
            feed[info.name] = rng.standard_normal(shape).astype(info.dtype)
    return feed
