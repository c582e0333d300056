"""Inputs that are settings, such as a sampling rate, and inputs of no elements: constants of the source model."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import ConfigError, hint

logger = logging.getLogger(__name__)


def fix_settings(
    model: ir.Model,
    fixed: Mapping[str, Sequence[float]],
    input_shapes: Mapping[str, Sequence[int]],
    path: Path,
) -> None:
    """Make constants of the inputs that ``fixed`` names, and of those without elements, in place.

    Args:
        model: its initializers are no inputs.
        fixed: per input as many values as it has elements, or one for all of them.
        input_shapes: shapes of dynamic inputs.
        path: what messages name.

    Raises:
        ConfigError: there is no such input, its shape is not known, the number of values does not fit, or none is left.
    """
    names = [str(value.name) for value in model.graph.inputs]
    for name in fixed:
        if name not in names:
            raise ConfigError(
                f"{path}: fixed_inputs names {name!r}, the inputs of the model are {names}{hint(name, names)}"
            )
    if names and set(names) <= set(fixed):
        raise ConfigError(f"{path}: fixed_inputs fixes all inputs ({', '.join(names)}); one at least must be left")
    for value in list(model.graph.inputs):
        shape = _shape(value, input_shapes.get(str(value.name)))
        if shape is not None and 0 in shape and len(model.graph.inputs) > 1:
            logger.info("%s: input %r has no elements; it becomes a constant", path, value.name)
            _make_constant(model, value, np.zeros(shape))
        elif value.name in fixed:
            given = np.asarray(fixed[str(value.name)], np.float64)
            _make_constant(model, value, _filled(given, shape, value, path))


def _shape(value: ir.Value, given: Sequence[int] | None) -> tuple[int, ...] | None:
    """The shape of an input: that of the file, or the one ``given``; None where it is not known."""
    own = value.shape
    if own is not None and own.is_static():
        return tuple(own.numpy())
    return None if given is None else tuple(given)


def _filled(
    given: NDArray[np.float64], shape: tuple[int, ...] | None, value: ir.Value, path: Path
) -> NDArray[np.float64]:
    if shape is None:
        rank = None if value.shape is None else len(value.shape)
        if rank in (0, 1):
            return given.reshape(() if rank == 0 else -1)
        raise ConfigError(f"{path}: fixed_inputs: input {value.name!r} is dynamic; give its shape in input_shape too")
    size = int(np.prod(shape))
    if given.size not in (1, size):
        raise ConfigError(
            f"{path}: fixed_inputs gives {given.size} values for {value.name!r}, whose shape {list(shape)} has {size}: "
            "give as many, or one for all of them"
        )
    return np.broadcast_to(given.reshape(()) if given.size == 1 else given.reshape(shape), shape)


def _make_constant(model: ir.Model, value: ir.Value, array: NDArray[np.float64]) -> None:
    dtype = (value.dtype or ir.DataType.FLOAT).numpy()
    model.graph.inputs.remove(value)
    value.const_value = ir.tensor(np.array(array, dtype), name=value.name)
    value.shape = ir.Shape(array.shape)
    model.graph.register_initializer(value)
