"""All tensors of a stage that depend on its inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.debug.analysis.variants import dynamic_values
from engine.errors import InferenceError
from engine.floats.fake_quantization import lower_calibration
from engine.floats.float_model import FloatSession, Kernels
from engine.ir import attribute, shape_of, static_shape
from engine.simulate import Session
from engine.simulate.tensors import graph_inputs

Array = NDArray[Any]
Feed = Mapping[str, Array]


def float_tensors(model: ir.Model, feed: Feed) -> dict[str, Array]:
    """Every float tensor of a float stage that depends on what its inputs hold, by name.

    What depends on their shapes alone, as the grid that an exported detector computes, is no result to compare, and its
    own shape need not be known. Neither is a single number for all samples, or what has as many rows as the data say.
    """
    standard = lower_calibration(model)
    dynamic = {value.name for value in _values_of_data(standard.graph) if value is not None}
    names = [
        str(value.name)
        for node in model.graph
        for value in node.outputs
        if value.dtype in (None, ir.DataType.FLOAT) and value.name in dynamic and _has_rows(value)
    ]
    return FloatSession(model, names, kernels=Kernels.PLAIN, threads=1, max_batch=1).run(feed)


def _values_of_data(graph: ir.Graph) -> set[ir.Value | None]:
    """The values that depend on what the inputs hold; the size of a tensor of static shape does not."""
    found: set[ir.Value | None] = set(graph.inputs)
    for node in graph:
        if node.op_type not in _OF_SHAPES and any(value in found for value in node.inputs if value is not None):
            found.update(node.outputs)
    return found


_OF_SHAPES = frozenset({"Shape", "Size"})


def _has_rows(value: ir.Value) -> bool:
    """Whether its shape is known and has dimensions."""
    return bool(static_shape(value))


def with_rearranged(model: ir.Model, expected: Mapping[str, Array], actual: Mapping[str, Array]) -> dict[str, Array]:
    """``expected`` with the tensors of ``model`` that it holds rearranged, under another name.

    An optimisation may compute a tensor under another name and in another shape, and rearrange it afterwards; the node
    that computes it is then the wrong one. If only the order of the values is wrong, it is the one that rearranges.

    Args:
        model: float stage.
        expected: values by name, samples along the first dimension.
        actual: what ``model`` computes, likewise.
    """
    found = dict(expected)
    found |= {name: value for name, value in _reshaped(expected, actual).items() if name not in found}
    for node in reversed(model.graph):
        source, result = node.inputs[0] if node.inputs else None, str(node.outputs[0].name)
        if node.op_type not in _REARRANGING or source is None or str(source.name) in found:
            continue
        if result in found and result in actual and not _is_reordered(actual[result], found[result]):
            samples = len(found[result]) // shape_of(node.outputs[0])[0]
            parts = [_undone(node, part, shape_of(source)) for part in np.split(found[result], samples)]
            found[str(source.name)] = np.concatenate(parts)
    return found


def _reshaped(expected: Mapping[str, Array], actual: Mapping[str, Array]) -> dict[str, Array]:
    """Tensors that a pass computes in another shape, nothing behind them undoing it: found by their names.

    Such a tensor's name is that of the one it stands for, with what the optimiser writes around it. It counts where
    both shapes differ in dimensions of 1 alone, so that the order of the values is the same.
    """
    found = {}
    for name, value in actual.items():
        plain = _AROUND.sub("", name)
        if name not in expected and plain in expected and _without_ones(value) == _without_ones(expected[plain]):
            found[name] = expected[plain].reshape(value.shape)
    return found


_AROUND = re.compile(r"^(?:transposed_|replaced_|4dim_)+|(?:_reshape)+$")
"""What passes that change shapes write before and behind the name of a tensor (:mod:`engine.optimize`)."""


def _without_ones(array: Array) -> tuple[int, ...]:
    return tuple(size for size in array.shape if size != 1)


_REARRANGING = frozenset({"Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def _is_reordered(actual: Array, expected: Array) -> bool:
    return actual.size == expected.size and np.allclose(np.sort(actual, None), np.sort(expected, None), rtol=1e-4)


def _undone(node: ir.Node, result: Array, shape: tuple[int, ...]) -> Array:
    """What ``node`` reads, of ``shape``, if it makes ``result`` of it."""
    if node.op_type == "Transpose":
        return result.transpose(np.argsort(attribute(node, "perm", tuple(reversed(range(len(shape)))))))
    return result.reshape(shape)


def integer_tensors(model: ir.Model, feed: Feed) -> dict[str, Array]:
    """Every tensor of a quantised model that depends on its inputs, by name.

    A model that takes several samples at once is given the last one again where there are too few to fill it up.

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
    rows = fed(probe, feed)
    values = graph_inputs(probe)
    runs = max((-(-len(rows[str(value.name)]) // (shape_of(value) or (1,))[0]) for value in values), default=0)
    filled = {str(value.name): _filled(rows[str(value.name)], runs * (shape_of(value) or (1,))[0]) for value in values}
    found = Session(probe, mode="reference").run(filled)
    first = str(values[0].name)
    return {name: _without_fill(array, len(rows[first]), len(filled[first])) for name, array in found.items()}


def _filled(array: Array, rows: int) -> Array:
    return array if len(array) == rows else np.concatenate([array, array[-1:].repeat(rows - len(array), 0)])


def _without_fill(array: Array, rows: int, filled: int) -> Array:
    """``array`` without what follows from rows that only fill up; its first dimension goes by samples."""
    return array if rows == filled else array[: len(array) * rows // filled]


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
    """``array`` rounded half to even and clipped to an integer type; NaN is 0."""
    limits = np.iinfo(kind)
    whole: Array = np.nan_to_num(np.rint(array), nan=0.0)
    return np.clip(whole, limits.min, limits.max).astype(kind)
