"""What each node's quantisation alone does to the outputs of the model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.calibrate.forward.compare import cosine
from engine.calibrate.forward.float_model import FloatSession, Kernels
from engine.errors import ModelError
from engine.ir import before_calibration, calibration_nodes, is_calibration

Array = NDArray[Any]

_WHERE_SINCE_OPSET = 9


class GatedSession:
    """Runs a calibrated model with any choice of its ``HzCalibration`` nodes at work, without building it anew.

    Args:
        calibrated: model with thresholds; not changed. Scales per channel of activations are not folded into weights.
        gated: names of the ``HzCalibration`` nodes to choose from; None for all. The others never quantise, which costs
            nothing: where weights do not, depthwise convolutions are as fast as in the float model.
        threads: CPU threads; None for all.
        kernels: see :class:`Kernels`.

    Raises:
        ModelError: the model's opset has no ``Where``.
    """

    def __init__(
        self,
        calibrated: ir.Model,
        gated: Collection[str] | None = None,
        *,
        threads: int | None = None,
        kernels: Kernels = Kernels.PLAIN,
    ) -> None:
        if calibrated.opset_imports.get("", 0) < _WHERE_SINCE_OPSET:
            raise ModelError(f"opset {calibrated.opset_imports.get('')} has no Where; at least 9 is needed")
        model = calibrated.clone()
        self._gates = {}
        for node in tuple(calibration_nodes(model)):
            if gated is None or node.name in gated:
                self._gates[str(node.name)] = _insert_gate(model.graph, node)
            else:
                node.attributes["switch"] = ir.AttrString("switch", "OFF")
        self._session = FloatSession(model, threads=threads, kernels=kernels, max_batch=1)
        self._names = [str(value.name) for value in calibrated.graph.outputs]

    def run(self, feed: Mapping[str, Array], working: Collection[str]) -> dict[str, Array]:
        """The outputs for ``feed`` where only the ``HzCalibration`` nodes named in ``working`` quantise."""
        samples = len(next(iter(feed.values())))
        gates = {gate: np.full(samples, name in working) for name, gate in self._gates.items()}
        found = self._session.run({**feed, **{key: value for key, value in gates.items() if key in self._inputs}})
        return dict(zip(self._names, found.values(), strict=True))

    @property
    def _inputs(self) -> Collection[str]:
        return self._session.inputs


def calibrations_by_node(calibrated: ir.Model) -> dict[str, tuple[str, ...]]:
    """Names of the ``HzCalibration`` nodes that every node of the model reads, where it reads some, in graph order."""
    found = {}
    for node in calibrated.graph:
        if is_calibration(node):
            continue
        producers = [value.producer() for value in node.inputs if value is not None]
        names = tuple(str(producer.name) for producer in producers if producer is not None and is_calibration(producer))
        if names:
            found[str(node.name)] = names
    return found


def sensitivities(
    calibrated: ir.Model, feed: Mapping[str, Array], nodes: Sequence[str] | None = None, *, threads: int | None = None
) -> dict[str, float]:
    """Cosine similarity of the model's outputs to the float ones where one node alone is quantised.

    Args:
        calibrated: model with thresholds.
        feed: samples by input name.
        nodes: names of the nodes to try; None for all that read calibrated tensors.
        threads: CPU threads; None for all.

    Returns:
        By node: the mean over the outputs.
    """
    session = GatedSession(calibrated, threads=threads)
    groups = calibrations_by_node(calibrated)
    expected = session.run(feed, ())
    return {name: similarity(session.run(feed, groups[name]), expected) for name in (nodes or groups)}


def similarity(actual: Mapping[str, Array], expected: Mapping[str, Array]) -> float:
    """Mean cosine over all outputs; a sample is a row of each."""
    return float(
        np.mean(
            [cosine(row, other) for name in expected for row, other in zip(actual[name], expected[name], strict=True)]
        )
    )


def _insert_gate(graph: ir.Graph, node: ir.Node) -> str:
    """Let the readers of ``node`` take its input where a graph input, whose name is returned, is false."""
    source, result = node.inputs[0], node.outputs[0]
    if source is None:
        raise ModelError(f"node {node.name!r}: HzCalibration has no input")
    name = f"{node.name}_gate"
    gate = ir.Value(name=name, type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([1]))
    graph.inputs.append(gate)
    chosen = ir.node("Where", [gate, result, source], name=f"{node.name}_where")
    chosen.outputs[0].name = f"{result.name}_chosen"
    chosen.outputs[0].type, chosen.outputs[0].shape = source.type, source.shape
    result.replace_all_uses_with(chosen.outputs[0], replace_graph_outputs=True)
    chosen.replace_input_with(1, result)
    graph.insert_after(node, chosen)
    return name


def local_similarities(
    calibrated: ir.Model, feed: Mapping[str, Array], *, threads: int | None = None
) -> dict[str, float]:
    """Cosine similarity of every node's own result where its inputs alone are quantised, all upstream being float.

    Args:
        calibrated: model with thresholds.
        feed: samples by input name.
        threads: CPU threads; None for all.

    Returns:
        By name of the nodes that read calibrated tensors.
    """
    model = calibrated.clone()
    pairs = {}
    for name in calibrations_by_node(calibrated):
        (node,) = (node for node in model.graph if node.name == name)
        pairs[name] = double(model.graph, node)
    session = FloatSession(
        model, [name for pair in pairs.values() for name in pair], threads=threads, kernels=Kernels.PLAIN
    )
    found = session.run(feed)
    return {name: cosine(found[quantized], found[plain]) for name, (plain, quantized) in pairs.items()}


def alone(name: str) -> str:
    """Name of the copy of node ``name`` that :func:`double` makes."""
    return f"{name}_alone"


def double(graph: ir.Graph, node: ir.Node) -> tuple[str, str]:
    """Let ``node`` read float tensors, beside a copy of it that reads quantised ones; names of both results."""
    outputs = [ir.Value(name=f"{value.name}_alone", type=value.type, shape=value.shape) for value in node.outputs]
    copy = ir.Node(
        node.domain, node.op_type, node.inputs, node.attributes.values(), outputs=outputs, name=alone(str(node.name))
    )
    graph.insert_after(node, copy)
    graph.outputs.extend(outputs)
    for index, value in enumerate(node.inputs):
        if value is not None and is_calibration(value.producer()):
            node.replace_input_with(index, before_calibration(value))
    return str(node.outputs[0].name), str(outputs[0].name)
