"""Which nodes of a quantised graph run together: connected BPU regions, and the CPU nodes between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from engine.chips import Chip
from engine.errors import ModelError
from engine.ops.registry import has_bpu_operator
from engine.terms import Device

CPU_OPS = frozenset({"HzQuantize", "HzDequantize"})
"""Operators at the borders of subgraphs, which the runtime executes on the CPU."""

_INTEGERS = frozenset({ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32})
_LAYOUT_NAME = "_LayoutConvert"
"""Part of the names of layout changes, as the original writes them."""
_LAYOUT_PERMUTATIONS = ((0, 2, 3, 1), (0, 3, 1, 2))
_BORDER_COPIES = frozenset({"Transpose", "Reshape"})
"""What layout changes are; one that a Dense layer's Reshape was merged with is a Reshape (golden ``b2_gemm``)."""


@dataclass(frozen=True)
class Segment:
    """Nodes that run together on one device, in topological order.

    Attributes:
        device: where they run.
        nodes: the nodes of the quantised graph.
    """

    device: Device
    nodes: tuple[ir.Node, ...]


def partition(graph: ir.Graph, march: Chip) -> tuple[Segment, ...]:
    """Split ``graph`` into segments in an order in which they can run one after the other.

    A node's level is the greatest number of changes of device on any way from the inputs to it. Connected BPU nodes of
    one level form a subgraph: no way between two of them can lead over the CPU, for that would raise the level. What
    only later subgraphs read joins the first of them. All CPU nodes of one level form one segment. The original's
    tables have the same subgraphs in the same order in 112 of 112 recorded cases that are not held out.

    Raises:
        ModelError: a tensor's type is unknown, or no node runs on the BPU (the model is not a quantised one).
    """
    nodes = list(graph)
    devices = {node: device_of(node, march) for node in nodes}
    _move_bare_layout_changes(nodes, devices)
    if Device.BPU not in devices.values():
        raise ModelError(f"graph {graph.name}: no node runs on the BPU; compile takes a quantized model")
    levels = _levels(nodes, devices)
    _join_readers(nodes, devices, levels)
    segments = []
    for level in range(max(levels.values()) + 1):
        at_level = [node for node in nodes if levels[node] == level]
        device = Device.BPU if level % 2 else Device.CPU
        regions = _connected(at_level) if device is Device.BPU else [at_level] if at_level else []
        segments += [Segment(device, tuple(region)) for region in regions]
    return tuple(segments)


def device_of(node: ir.Node, march: Chip) -> Device:
    """The device of ``node``: the BPU if it computes on quantised integers only, and the BPU has its operator.

    bernoulli2 has no Transpose, not even between two layouts (``swin_b``, 2 of 2; one network).

    Raises:
        ModelError: a tensor that it reads or computes has no known type.
    """
    kinds = {attribute.type for attribute in node.attributes.values()}
    if node.op_type == "Transpose" and not march.transposes_integers:
        return Device.CPU
    if kinds & {ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS}:
        return Device.CPU
    if not node.domain and not is_border_copy(node) and ir.DataType.INT32 in map(_dtype, _activations(node)):
        return Device.CPU  # what moves int32 results (Slice of yolo11 and yolov8_decode)
    on_integers = {_dtype(value) for value in _activations(node)} <= _INTEGERS
    return Device.BPU if on_integers and has_bpu_operator(node) else Device.CPU


def is_layout_change(node: ir.Node) -> bool:
    """Whether ``node`` only turns NCHW into NHWC or back: free inside a subgraph, a copy at its border."""
    perm = node.attributes.get("perm")
    return node.op_type == "Transpose" and perm is not None and tuple(perm.as_ints()) in _LAYOUT_PERMUTATIONS


def is_border_copy(node: ir.Node) -> bool:
    """Whether the converter put ``node`` in to change the layout: no operator of the network."""
    return node.op_type in _BORDER_COPIES and _LAYOUT_NAME in (node.name or "")


def _activations(node: ir.Node) -> list[ir.Value]:
    inputs = [value for value in node.inputs if value is not None and value.const_value is None]
    return [*inputs, *(value for value in node.outputs if value.name)]


def _dtype(value: ir.Value) -> ir.DataType:
    if value.dtype is None:
        raise ModelError(f"tensor {value.name}: its element type is unknown")
    return value.dtype


def _move_bare_layout_changes(nodes: Sequence[ir.Node], devices: dict[ir.Node, Device]) -> None:
    """A region of nothing but layout changes is no work for the BPU: the runtime copies on the CPU."""
    for region in _connected([node for node in nodes if devices[node] is Device.BPU]):
        if all(is_layout_change(node) for node in region):
            devices.update(dict.fromkeys(region, Device.CPU))


def _levels(nodes: Sequence[ir.Node], devices: dict[ir.Node, Device]) -> dict[ir.Node, int]:
    """Levels of all nodes; BPU nodes are at odd levels and CPU nodes at even ones."""
    levels: dict[ir.Node, int] = {}
    for node in nodes:
        level = 1 if devices[node] is Device.BPU else 0
        for before in _predecessors(node):
            level = max(level, levels[before] + (devices[before] is not devices[node]))
        levels[node] = level
    return levels


def _join_readers(nodes: Sequence[ir.Node], devices: dict[ir.Node, Device], levels: dict[ir.Node, int]) -> None:
    """Let a region whose results only later subgraphs read run with the first of these, not earlier and alone.

    The values of attention are brought into shape before the CPU has computed the scores (``swin_a``, 4 of 4; one
    network), and a mask before the scores that it is added to.
    """
    for level in range(max(levels.values()) - 1, 0, -1):
        at_level = [node for node in nodes if levels[node] == level and devices[node] is Device.BPU]
        for region in _connected(at_level):
            inside, results = set(region), [value for node in region for value in node.outputs]
            readers = [reader for value in results for reader in value.consumers() if reader not in inside]
            is_read_before = any(devices[reader] is Device.CPU for reader in readers)
            if readers and not is_read_before and not any(value.is_graph_output() for value in results):
                levels.update(dict.fromkeys(region, min(levels[reader] for reader in readers)))


def _predecessors(node: ir.Node) -> Iterable[ir.Node]:
    for value in node.inputs:
        producer = None if value is None else value.producer()
        if producer is not None:
            yield producer


def _connected(nodes: Sequence[ir.Node]) -> list[list[ir.Node]]:
    """Groups of ``nodes`` that tensors connect, each in the order of ``nodes``, ordered by their first node.

    Two nodes that read the same tensor are connected too: it is loaded once.
    """
    parent = {node: node for node in nodes}
    readers: dict[ir.Value, ir.Node] = {}

    def root(node: ir.Node) -> ir.Node:
        while parent[node] is not node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for node in nodes:
        for before in _predecessors(node):
            if before in parent:
                parent[root(node)] = root(before)
        for value in node.inputs:
            if value is not None and value.const_value is None:
                parent[root(node)] = root(readers.setdefault(value, node))
    groups: dict[ir.Node, list[ir.Node]] = {}
    for node in nodes:
        groups.setdefault(root(node), []).append(node)
    return list(groups.values())
