"""Runs of a calibrated model with any thresholds of its activations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.methods.thresholds import Thresholds, activation_scales, apply_thresholds
from engine.floats.float_model import FloatSession, Kernels
from engine.ir import before_calibration, node_by_name, shape_of

Arrays = Mapping[str, NDArray[Any]]


class ScaledSession:
    """Runs a placed model with any thresholds per tensor, without building it anew: to the bit what a model of each
    would compute.

    The scales of activations are inputs of the graph; weights do not depend on the thresholds of activations as long as
    those are per tensor.

    Args:
        placed: model with ``HzCalibration`` nodes; not changed.
        unsigned: tensors of type ``uint8``.
        factors: what every channel of a tensor is multiplied by before it is quantised, and divided by behind that;
            float32, shape (channels,), by name of the tensor. Weights stay as they are.
        kernels: see :class:`engine.floats.float_model.Kernels`.
        threads: CPU threads; None for all. They take a sample each.
    """

    def __init__(
        self,
        placed: ir.Model,
        unsigned: Collection[str] = (),
        *,
        factors: Mapping[str, NDArray[np.float32]] | None = None,
        kernels: Kernels = Kernels.FAST,
        threads: int | None = None,
    ) -> None:
        self._model = apply_thresholds(placed, None, unsigned=unsigned)
        model = self._model.clone()
        nodes = node_by_name(model, list(activation_scales(self._model, None)))
        multiplied = {
            node: (factors or {}).get(str(before_calibration(node.outputs[0]).name)) for node in nodes.values()
        }
        self._inputs = {name: _open_scale(model.graph, node) for name, node in nodes.items()}
        for node, values in multiplied.items():
            if values is not None and not node.outputs[0].is_graph_output():
                _multiply_around(model.graph, node, values)
        self._session = FloatSession(model, kernels=kernels, threads=threads, max_batch=1)

    def run(self, feed: Arrays, samples: int, thresholds: Thresholds) -> dict[str, NDArray[Any]]:
        """The outputs for ``feed`` with its number of samples, with ``thresholds``, one per tensor."""
        scales = activation_scales(self._model, thresholds)
        return self._session.run(
            {**feed, **{name: np.repeat(scales[node], samples) for node, name in self._inputs.items()}}
        )


def _open_scale(graph: ir.Graph, node: ir.Node) -> str:
    """Let ``node`` take its scale from a graph input, whose name is returned."""
    name = f"{node.name}_scale"
    scale = ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1]))
    graph.inputs.append(scale)
    node.resize_inputs(2)
    node.replace_input_with(1, scale)
    return name


def _multiply_around(graph: ir.Graph, node: ir.Node, factors: NDArray[np.float32]) -> None:
    """Multiply the channels of what ``node`` reads by ``factors``, and let its readers read them divided again."""
    source, result = node.inputs[0], node.outputs[0]
    if source is None:
        return
    readers = tuple(result.uses())
    before = _product(graph, f"{node.name}_multiplied", source, factors)
    behind = _product(graph, f"{node.name}_divided", result, np.float32(1) / factors)
    graph.insert_before(node, before)
    graph.insert_after(node, behind)
    node.replace_input_with(0, before.outputs[0])
    for usage in readers:
        usage.node.replace_input_with(usage.idx, behind.outputs[0])


def _product(graph: ir.Graph, name: str, value: ir.Value, factors: NDArray[np.float32]) -> ir.Node:
    """A Mul of ``value`` by one number per channel, of which ``graph`` holds the numbers only."""
    shape = [1, -1, *(1 for _ in shape_of(value)[2:])]
    tensor = ir.Tensor(np.asarray(factors, np.float32).reshape(shape), name=f"{name}_factors")
    numbers = ir.Value(name=tensor.name, type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
    graph.register_initializer(numbers)
    given = ir.Value(name=name, type=value.type, shape=value.shape)
    return ir.node("Mul", [value, numbers], outputs=[given], name=name)
