"""What each node's quantisation alone does to the outputs of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.floats.compare import cosine
from engine.floats.float_model import FloatSession, Kernels
from engine.floats.switched import Cosines, SwitchedModel
from engine.ir import before_calibration, calibration_nodes, is_calibration, read_calibration

Array = NDArray[Any]


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
    groups = calibrations_by_node(calibrated)
    names = list(nodes or groups)
    calibrations = {str(node.name): read_calibration(node) for node in calibration_nodes(calibrated)}
    tried = {each for name in names for each in groups[name]}
    choices = [{each: calibrations[each] for each in groups[name]} for name in names]
    samples = [sample.cosines(choices) for sample in SwitchedModel(calibrated, tried, threads=threads).on(feed)]
    return {name: mean_cosine(found) for name, found in zip(names, zip(*samples, strict=True), strict=True)}


def mean_cosine(samples: Sequence[Cosines]) -> float:
    """Mean over all outputs; a sample is a row of each."""
    return float(np.mean([value for rows in zip(*samples, strict=True) for row in rows for value in row]))


def similarity(actual: Mapping[str, Array], expected: Mapping[str, Array]) -> float:
    """Mean cosine over all outputs; a sample is a row of each."""
    return float(
        np.mean(
            [cosine(row, other) for name in expected for row, other in zip(actual[name], expected[name], strict=True)]
        )
    )


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
