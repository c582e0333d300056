"""Removing nodes from the ends of a compiled model: what the board's program does itself instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.compile.compiler import CompiledModel, compile_model
from engine.compile.records import RemovedNode
from engine.ir import attribute, constant_of, shape_of

INPUT_TYPES = ("Quantize", "Transpose")
"""Types that may be removed behind an input."""
OUTPUT_TYPES = ("Transpose", "Dequantize", "Cast", "Reshape", "Softmax")
"""Types that may be removed before an output."""


@dataclass(frozen=True)
class Removal:
    """Outcome of a removal.

    Attributes:
        model: the compiled model that is left.
        removed: in the order of removal.
        skipped: names that stand at no end, or are none of the model's.
        absent: types of which no node stood at an end.
    """

    model: CompiledModel
    removed: tuple[RemovedNode, ...]
    skipped: tuple[str, ...]
    absent: tuple[str, ...]


def removable(compiled: CompiledModel) -> tuple[str, ...]:
    """Names of the nodes at inputs and outputs that may be removed now."""
    graph = compiled.model.graph
    return tuple(str(node.name) for node in graph if _at_input(node) or _at_output(node))


@dataclass(frozen=True)
class Named:
    """Remove one node.

    Attributes:
        name: of the node.
    """

    name: str


@dataclass(frozen=True)
class OfTypes:
    """Remove every node at an end that has one of these types, from the ends inwards until none is left.

    Attributes:
        types: as users write them, ``Dequantize``.
    """

    types: frozenset[str]


def remove_nodes(compiled: CompiledModel, steps: Sequence[Named | OfTypes]) -> Removal:
    """Remove nodes one after the other; each must stand at an end when its turn comes.

    Args:
        compiled: the model; it is left as it is.
        steps: what to remove, in this order.

    Returns:
        The model without them, compiled anew.
    """
    model = compiled.model.clone()
    removed: list[RemovedNode] = []
    skipped: list[str] = []
    absent: list[str] = []
    for step in steps:
        if isinstance(step, Named):
            node = next((node for node in model.graph if node.name == step.name), None)
            if node is None or not (_at_input(node) or _at_output(node)):
                skipped.append(step.name)
            else:
                removed.append(_remove(model.graph, node))
        else:
            found = [*_remove_types(model.graph, step.types)]
            absent += sorted(step.types - {record.type for record in found})
            removed += found
    left = compile_model(model, compiled.march, compiled.options, compiled.name)
    left = replace(left, parameters=compiled.parameters, removed=(*compiled.removed, *removed))
    return Removal(left, tuple(removed), tuple(skipped), tuple(absent))


def _remove_types(graph: ir.Graph, types: frozenset[str]) -> Iterator[RemovedNode]:
    while ends := [node for node in graph if type_of(node) in types and (_at_input(node) or _at_output(node))]:
        yield _remove(graph, ends[0])


def type_of(node: ir.Node) -> str:
    """Operator type as users of these tools write it."""
    return node.op_type.removeprefix("Hz")


def dequantized(compiled: CompiledModel, results: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """``results`` of a run with the outputs whose Dequantize node was removed times its scale, float32."""
    scales = {node.input_name: node for node in compiled.removed if node.type == "Dequantize"}
    return {name: _times_scale(array, scales[name]) if name in scales else array for name, array in results.items()}


def _times_scale(array: NDArray[Any], node: RemovedNode) -> NDArray[np.float32]:
    scale = np.asarray(node.scales, np.float32)
    shape = [1] * array.ndim
    if scale.size > 1:
        shape[node.axis] = scale.size
    return array.astype(np.float32) * scale.reshape(shape)


def _at_input(node: ir.Node) -> bool:
    """Whether ``node`` alone reads an input, and may be removed there."""
    value = node.inputs[0] if node.inputs else None
    return (
        type_of(node) in INPUT_TYPES
        and value is not None
        and value.is_graph_input()
        and len(value.uses()) == 1
        and not value.is_graph_output()
        and not node.outputs[0].is_graph_output()
    )


def _at_output(node: ir.Node) -> bool:
    """Whether ``node`` gives an output that nothing else reads, and may be removed there."""
    source = node.inputs[0] if node.inputs else None
    return (
        type_of(node) in OUTPUT_TYPES
        and source is not None
        and source.producer() is not None
        and node.outputs[0].is_graph_output()
        and not node.outputs[0].uses()
        and not source.is_graph_output()
    )


def _remove(graph: ir.Graph, node: ir.Node) -> RemovedNode:
    source, result = node.inputs[0], node.outputs[0]
    if source is None:
        raise ValueError(f"node {node.name} reads nothing")
    record = RemovedNode(
        name=str(node.name),
        type=type_of(node),
        input_shape=shape_of(source),
        output_shape=shape_of(result),
        input_name=str(source.name),
        scales=_scales(node),
        axis=int(attribute(node, "axis", 1)),
    )
    if _at_input(node):
        stand_in = ir.Value(name=result.name, shape=result.shape, type=result.type)
        result.replace_all_uses_with(stand_in)
        graph.inputs[list(graph.inputs).index(source)] = stand_in
    else:
        graph.outputs[list(graph.outputs).index(result)] = source
    graph.remove(node, safe=True)
    return record


def _scales(node: ir.Node) -> tuple[float, ...]:
    """Scales of a Quantize or Dequantize node: its second input."""
    array = constant_of(node.inputs[1]) if type_of(node) in ("Quantize", "Dequantize") else None
    return () if array is None else tuple(float(value) for value in array.reshape(-1))
