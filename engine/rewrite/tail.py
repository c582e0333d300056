"""The decode tail of a network cut off: what follows its last layers and does not run on the BPU."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from engine.rewrite.dfl import is_expectation_layer

LAYERS = frozenset(
    {"AveragePool", "Conv", "ConvTranspose", "GRU", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "LSTM", "MatMul"}
    | {"MaxPool", "RNN", "Resize", "Upsample"}
)
"""Operators that belong to the network itself, not to what decodes its outputs."""

NAME = "tail"
SAYS = (
    "The decode tail behind the last layers is cut off: the network gives the raw heads, and the application computes "
    "the tail, which is written as an ONNX file of its own."
)


@dataclass(frozen=True)
class TailCut:
    """A network in two.

    Attributes:
        head: gives the raw heads, and those outputs that the tail does not compute.
        tail: gives the other outputs of the network, from the raw heads.
        names: of the nodes of the tail.
    """

    head: ir.Model
    tail: ir.Model
    names: tuple[str, ...]


def cut_tail(model: ir.Model, on_cpu: Collection[str]) -> TailCut | None:
    """``model`` without its decode tail; None where it has none that the CPU would compute.

    Args:
        model: not changed.
        on_cpu: names of the nodes that the CPU computes.
    """
    names = tail_nodes(model, on_cpu)
    if not names:
        return None
    head, tail = model.clone(), model.clone()
    wanted = set(names)
    given = _given_to(model, wanted)
    kept = [str(value.name) for value in model.graph.outputs if _maker(value) not in wanted]
    values = _values(head)
    head.graph.outputs[:] = [values[name] for name in dict.fromkeys((*given, *kept))]
    RemoveUnusedNodesPass()(head)
    _keep_only(tail, wanted, given)
    return TailCut(head, tail, names)


def tail_nodes(model: ir.Model, on_cpu: Collection[str]) -> tuple[str, ...]:
    """Names of the nodes of the decode tail, in running order.

    They are the nodes that no layer follows, of those parts that are connected and hold a node of ``on_cpu``.
    """
    last: set[ir.Node] = set()
    for node in reversed(model.graph):
        readers = [use.node for value in node.outputs for use in value.uses()]
        if not _is_layer(node) and all(reader in last for reader in readers):
            last.add(node)
    parts = _connected(last)
    found = {node for part in parts for node in part if not {str(each.name) for each in part}.isdisjoint(on_cpu)}
    names = tuple(str(node.name) for node in model.graph if node in found)
    return names if len(names) < len(model.graph) else ()


def _is_layer(node: ir.Node) -> bool:
    return node.op_type in LAYERS and not is_expectation_layer(node)


def _connected(nodes: set[ir.Node]) -> list[set[ir.Node]]:
    """``nodes`` by what is connected through tensors that one of them gives and another reads."""
    left, parts = set(nodes), []
    while left:
        pending, part = [left.pop()], set()
        while pending:
            node = pending.pop()
            part.add(node)
            near = [use.node for value in node.outputs for use in value.uses()]
            near += [maker for value in node.inputs if value is not None and (maker := value.producer()) is not None]
            fresh = [other for other in near if other in left]
            left.difference_update(fresh)
            pending += fresh
        parts.append(part)
    return parts


def _maker(value: ir.Value) -> str:
    node = value.producer()
    return "" if node is None else str(node.name)


def _given_to(model: ir.Model, names: set[str]) -> list[str]:
    """Tensors that other nodes compute and those called ``names`` read, in the order in which they are computed."""
    read = {value for node in model.graph if node.name in names for value in node.inputs if value is not None}
    return [
        str(value.name) for node in model.graph if node.name not in names for value in node.outputs if value in read
    ]


def _values(model: ir.Model) -> dict[str, ir.Value]:
    return {str(value.name): value for node in model.graph for value in node.outputs}


def _keep_only(model: ir.Model, names: set[str], given: list[str]) -> None:
    """Keep the nodes called ``names``; ``given`` become inputs, inputs that they do not read go."""
    graph = model.graph
    values = _values(model)
    graph.outputs[:] = [value for value in graph.outputs if _maker(value) in names]
    for name in given:
        old = values[name]
        value = ir.Value(name=name, type=old.type, shape=old.shape)
        old.replace_all_uses_with(value)
        old.name = f"{name}_before"
        graph.inputs.append(value)
    RemoveUnusedNodesPass()(model)
    graph.inputs[:] = [value for value in graph.inputs if value.uses()]
