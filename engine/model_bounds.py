"""Checks of an ONNX file before a model is built from it: the number of nodes, and valid names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx

from engine.errors import ModelError, UnsupportedError
from engine.limits import beyond, limit

FunctionKey = tuple[str, str, str]
"""Domain, name and overload of a function."""


def check_bounds(proto: onnx.ModelProto, path: Path) -> None:
    """Refuse files that would exhaust time or memory, or crash a library.

    Args:
        proto: as it was parsed.
        path: what messages name.

    Raises:
        ModelError: a name holds a NUL or is longer than the bound ``NAME_LENGTH``.
        UnsupportedError: there are more nodes than the bound ``NODES``, functions written out; or a sparse tensor.
    """
    for name in _names(proto):
        if "\0" in name:
            raise ModelError(f"{path}: not an ONNX model: the name {name[:40]!r} holds a NUL character")
        if len(name) > limit("NAME_LENGTH"):
            raise ModelError(f"{path}: the name {name[:40]!r}… has {beyond('NAME_LENGTH')}")
    if node_count(proto) > limit("NODES"):
        raise UnsupportedError(f"{path}: the model has {beyond('NODES')}")
    if _holds_sparse(proto.graph):
        raise UnsupportedError(f"{path}: the model holds a sparse tensor; export it with dense ones")


def _names(proto: onnx.ModelProto) -> Iterator[str]:
    graph = proto.graph
    yield from (value.name for value in (*graph.input, *graph.output, *graph.value_info))
    yield from (tensor.name for tensor in graph.initializer)
    for node in (*_nodes(graph.node), *(node for function in proto.functions for node in _nodes(function.node))):
        yield from (node.name, node.op_type, node.domain, *node.output)


def node_count(proto: onnx.ModelProto) -> int:
    """Nodes of a model, those of subgraphs too, every call of a function as the nodes that it stands for.

    Functions that call themselves count as one node there.
    """
    functions = {(item.domain, item.name, item.overload): item for item in proto.functions}
    counts: dict[FunctionKey, int] = {}
    for root in functions:
        waiting = [root]
        begun: set[FunctionKey] = set()
        while waiting:  # no recursion: a chain of calls may be longer than Python's stack
            key = waiting[-1]
            called = [name for name in map(_key, _nodes(functions[key].node)) if name in functions]
            if key not in begun:
                begun.add(key)
                waiting.extend(name for name in called if name not in counts and name not in begun)
                continue
            waiting.pop()
            counts.setdefault(key, _count(functions[key].node, counts))
    return _count(proto.graph.node, counts)


def _count(nodes: Iterable[onnx.NodeProto], counts: dict[FunctionKey, int]) -> int:
    return sum(counts.get(_key(node), 1) for node in _nodes(nodes))


def _key(node: onnx.NodeProto) -> FunctionKey:
    return (node.domain, node.op_type, node.overload)


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """``nodes`` and those of the graphs that they hold."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nodes(graph.node)


def _holds_sparse(graph: onnx.GraphProto) -> bool:
    if graph.sparse_initializer:
        return True
    return any(
        attribute.type in (onnx.AttributeProto.SPARSE_TENSOR, onnx.AttributeProto.SPARSE_TENSORS)
        for node in _nodes(graph.node)
        for attribute in node.attribute
    )
