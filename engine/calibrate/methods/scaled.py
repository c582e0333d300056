"""Runs of a calibrated model with any thresholds of its activations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.methods.thresholds import Thresholds, activation_scales, apply_thresholds
from engine.floats.float_model import FloatSession
from engine.ir import node_by_name

Arrays = Mapping[str, NDArray[Any]]


class ScaledSession:
    """Runs a placed model with any thresholds per tensor, without building it anew: to the bit what a model of each
    would compute.

    The scales of activations are inputs of the graph; weights do not depend on the thresholds of activations as long as
    those are per tensor.

    Args:
        placed: model with ``HzCalibration`` nodes; not changed.
        unsigned: tensors of type ``uint8``.
        threads: CPU threads; None for all. They take a sample each.
    """

    def __init__(self, placed: ir.Model, unsigned: Collection[str] = (), *, threads: int | None = None) -> None:
        self._model = apply_thresholds(placed, None, unsigned=unsigned)
        nodes = node_by_name(self._model, list(activation_scales(self._model, None)))
        self._inputs = {name: _open_scale(self._model.graph, node) for name, node in nodes.items()}
        self._session = FloatSession(self._model, threads=threads, max_batch=1)

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
