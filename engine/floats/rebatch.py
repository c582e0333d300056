"""``input_batch``: the network that a conversion calibrated on single samples, for several at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import ConfigError, ModelError, UnsupportedError
from engine.floats.batching import computes_samples_apart
from engine.floats.fake_quantization import lower_calibration
from engine.floats.float_model import FloatSession
from engine.frontend.shapes import infer_shapes
from engine.ir import calibration_nodes, constant_of, is_calibration, shape_of
from engine.ops.foreign.custom import is_custom, with_batch

Array = NDArray[Any]

_SHAPE_INPUTS = {"Reshape": 1, "Resize": 3}
"""Input that holds the shape of the output, by operator."""

_TOLERANCE = 1e-3
"""Largest difference of equal outputs, as a share of the largest value: float kernels sum in another order for
another batch."""


def rebatch(calibrated: ir.Model, count: int) -> ir.Model:
    """A copy of ``calibrated`` that takes ``count`` samples in place of one, with all shapes.

    Shapes that operators are given as constants begin with ``count`` times what they began with.

    Args:
        calibrated: model from :func:`engine.calibrate.calibrate`, whose inputs have a first dimension of 1.
        count: samples, at least 1.

    Raises:
        ConfigError: an input has another first dimension.
        UnsupportedError: the network does not compute every sample by itself; tried on two random samples.
    """
    for value in calibrated.graph.inputs:
        shape = shape_of(value)
        if not shape or shape[0] != 1:
            raise ConfigError(
                f"input_parameters.input_batch {count}: input {value.name!r} has shape {list(shape)}, the first "
                "dimension of every input must be 1"
            )
    if not computes_samples_apart(lower_calibration(_without_quantisation(calibrated))):
        _check_apart(_without_quantisation(calibrated), count)
    return _resized(calibrated, count)


def _resized(model: ir.Model, count: int) -> ir.Model:
    """``model`` for ``count`` samples.

    Raises:
        UnsupportedError: its shapes contradict each other then.
    """
    model = model.clone()
    for value in model.graph.inputs:
        value.shape = ir.Shape((count, *shape_of(value)[1:]))
    for node in tuple(model.graph):
        if is_custom(node):
            with_batch(node, count)
        elif node.op_type in _SHAPE_INPUTS and not node.domain:
            _multiply_shape(model.graph, node, _SHAPE_INPUTS[node.op_type], count)
    standard = lower_calibration(model)
    for node in standard.graph:
        for value in node.outputs:
            value.shape = None
    try:
        shaped = infer_shapes(standard, Path(model.graph.name or "model"))
    except ModelError as error:
        raise _refusal(count, str(error)) from error
    known = {value.name: value for node in shaped.graph for value in node.outputs}
    for node in model.graph:
        for value in node.outputs:
            found = node.inputs[0] if is_calibration(node) else known.get(value.name)
            if found is not None:
                value.shape = found.shape
    return model


def _multiply_shape(graph: ir.Graph, node: ir.Node, index: int, count: int) -> None:
    """Let the constant shape that ``node`` is given begin with ``count`` times as many; -1 and 0 say nothing."""
    target = constant_of(node.inputs[index]) if len(node.inputs) > index else None
    if target is None or not target.size or target[0] < 1:
        return
    name = f"{node.name}_batch_shape"
    tensor = ir.tensor(np.concatenate([[count * target[0]], target[1:]]).astype(target.dtype), name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(target.shape), const_value=tensor)
    graph.register_initializer(value)
    node.replace_input_with(index, value)


def _without_quantisation(calibrated: ir.Model) -> ir.Model:
    model = calibrated.clone()
    for node in calibration_nodes(model):
        node.attributes["switch"] = ir.AttrString("switch", "OFF")
    return model


def _check_apart(model: ir.Model, count: int) -> None:
    """Compare two samples at once with one at a time."""
    rng = np.random.default_rng(0)
    feed: dict[str, Array] = {}
    for value in model.graph.inputs:
        shape, kind = (2, *shape_of(value)[1:]), (value.dtype or ir.DataType.FLOAT).numpy()
        integers = np.issubdtype(kind, np.integer)
        feed[str(value.name)] = (rng.integers(0, 2, shape) if integers else rng.standard_normal(shape)).astype(kind)
    alone = FloatSession(model, max_batch=1).run(feed)
    together = FloatSession(_resized(model, 2), max_batch=1).run(feed)
    for name, expected in alone.items():
        found = together[name]
        scale = float(np.abs(expected, where=np.isfinite(expected), out=np.zeros_like(expected)).max(initial=0))
        if found.shape != expected.shape or not np.allclose(
            found, expected, rtol=_TOLERANCE, atol=_TOLERANCE * scale, equal_nan=True
        ):
            raise _refusal(count, f"output {name!r} of a sample depends on the others, or on its place among them")


def _refusal(count: int, reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"input_parameters.input_batch {count}: the model does not support batches: {reason}; export it for "
        f"{count} samples instead"
    )
