"""All tensors of a stage that depend on its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.forward import FloatSession, Kernels, to_standard
from engine.debug.variants import dynamic_values
from engine.errors import InferenceError
from engine.ir import shape_of
from engine.simulate import Session
from engine.simulate.tensors import graph_inputs

Array = NDArray[Any]
Feed = Mapping[str, Array]


def float_tensors(model: ir.Model, feed: Feed) -> dict[str, Array]:
    """Every float tensor of a float stage that depends on its inputs, by name."""
    standard = to_standard(model)
    dynamic = {value.name for value in dynamic_values(standard.graph) if value is not None}
    names = [
        str(value.name)
        for node in model.graph
        for value in node.outputs
        if value.dtype in (None, ir.DataType.FLOAT) and value.name in dynamic
    ]
    return FloatSession(model, names, kernels=Kernels.PLAIN, threads=1, max_batch=1).run(feed)


def integer_tensors(model: ir.Model, feed: Feed) -> dict[str, Array]:
    """Every tensor of a quantised model that depends on its inputs, by name.

    Args:
        model: quantised; not changed.
        feed: by input name, float32 as the original_float model takes it; rounded where the model takes integers.

    Raises:
        InferenceError: an input is missing.
    """
    probe = model.clone()
    dynamic = dynamic_values(probe.graph)
    kept = {str(value.name) for value in probe.graph.outputs}
    for node in probe.graph:
        for value in node.outputs:
            if value in dynamic and value.name and value.name not in kept and value.shape is not None:
                probe.graph.outputs.append(value)
    return Session(probe, mode="reference").run(fed(probe, feed))


def fed(model: ir.Model, feed: Feed) -> dict[str, Array]:
    """``feed`` in the types and layouts that the inputs of ``model`` have.

    Raises:
        InferenceError: an input is missing.
    """
    rows = {}
    for value in graph_inputs(model):
        name = str(value.name)
        if name not in feed:
            raise InferenceError(f"no data for the input {name!r}; there are {sorted(feed)}")
        kind = np.dtype((value.dtype or ir.DataType.FLOAT).numpy())
        array = _in_layout(np.asarray(feed[name]), shape_of(value))
        rows[name] = as_integers(array, kind) if np.issubdtype(kind, np.integer) else array.astype(kind)
    return rows


def _in_layout(array: Array, shape: tuple[int, ...]) -> Array:
    """``array`` with its axes moved where a model takes NHWC for NCHW, or the other way round."""
    if array.ndim == len(shape) == 4 and array.shape[1:] != shape[1:]:
        for order in ((0, 2, 3, 1), (0, 3, 1, 2)):
            if tuple(array.shape[axis] for axis in order[1:]) == shape[1:]:
                return np.ascontiguousarray(array.transpose(order))
    return array


def as_integers(array: Array, kind: np.dtype[Any]) -> Array:
    """``array`` rounded half to even and clipped to an integer type."""
    limits = np.iinfo(kind)
    return np.clip(np.rint(array), limits.min, limits.max).astype(kind)
