"""What distinguishes two quantised models: structure, names, attributes, integers, scales."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.ir import HORIZON_DOMAIN, constant_of


class Aspect(Enum):
    """What a :class:`Difference` is about."""

    STRUCTURE = "structure"
    TYPE = "type"
    NAME = "name"
    ATTRIBUTE = "attribute"
    INTEGERS = "integers"
    FLOATS = "floats"


UNPAIRED = "unpaired node"
"""What of a node that the other model has no counterpart of differs."""


@dataclass(frozen=True)
class Difference:
    """One difference between two models.

    Attributes:
        aspect: what differs.
        where: the node (its name in the first model) or graph input or output.
        what: attribute, constant or tensor that differs; empty where it is the whole node.
        first: what the first model has, as text.
        second: what the second model has.
        elements: number of elements that differ, for constants and lists; else 1.
        total: number of elements compared.
    """

    aspect: Aspect
    where: str
    what: str
    first: str
    second: str
    elements: int = 1
    total: int = 1

    def __str__(self) -> str:
        count = f" ({self.elements} of {self.total})" if self.total > 1 else ""
        return f"{self.aspect.value}: {self.where} {self.what}: {self.first} | {self.second}{count}"


def diff(first: ir.Model, second: ir.Model) -> list[Difference]:
    """Compare two quantised models from their outputs backwards.

    Nodes are paired by position in the graph, not by name: both graphs are walked from outputs to inputs, and where the
    operators of a pair differ the walk stops. Constants are compared element by element. Order of nodes and of
    attributes, documentation and metadata do not matter.

    Args:
        first: a model of domain ``horizon``.
        second: the model to compare it with.

    Returns:
        All differences, graph borders first, then nodes from outputs to inputs; empty where the models are equal.
    """
    found = [*_borders("input", first.graph.inputs, second.graph.inputs)]
    found += _borders("output", first.graph.outputs, second.graph.outputs)
    found += _Walk().compare(first, second)
    return found


def _borders(kind: str, first: Any, second: Any) -> Iterator[Difference]:
    if len(first) != len(second):
        yield Difference(Aspect.STRUCTURE, f"graph {kind}s", "count", str(len(first)), str(len(second)))
    for a, b in zip(first, second, strict=False):
        yield from _tensor_differences(f"graph {kind} {a.name}", "", a, b)


def _tensor_differences(where: str, what: str, a: ir.Value, b: ir.Value) -> Iterator[Difference]:
    if a.name != b.name:
        yield Difference(Aspect.NAME, where, what, str(a.name), str(b.name))
    if _type_text(a) != _type_text(b):
        yield Difference(Aspect.TYPE, where, what, _type_text(a), _type_text(b))


def _type_text(value: ir.Value) -> str:
    kind = "?" if value.type is None else value.dtype.name if value.dtype is not None else "?"
    return (
        f"{kind}{'?' if value.shape is None else list(value.shape.numpy()) if value.shape.is_static() else value.shape}"
    )


_Pair = tuple[ir.Value | None, ir.Value | None, str]
"""A value of each model at the same place, and the name of who reads them."""


def _is_unread(node: ir.Node) -> bool:
    """Whether nothing reads ``node``, and no result is an output: a cast of positions that nobody asked for."""
    return not any(value.uses() or value.is_graph_output() for value in node.outputs)


class _Walk:
    """Pairs the values of two graphs from outputs backwards; what nobody reads, by the names of nodes."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()
        self._paired: tuple[set[int], set[int]] = (set(), set())
        self._found: list[Difference] = []

    def compare(self, first: ir.Model, second: ir.Model) -> list[Difference]:
        outputs = zip(first.graph.outputs, second.graph.outputs, strict=False)
        pending: list[_Pair] = [(a, b, f"graph output {a.name}") for a, b in outputs]
        self._walk(pending)
        unread = {node.name: node for node in second.graph if _is_unread(node)}
        ends = [(node, unread[node.name]) for node in first.graph if _is_unread(node) and node.name in unread]
        self._walk([(node.outputs[0], other.outputs[0], str(node.name)) for node, other in ends])
        for node in first.graph:
            if id(node) not in self._paired[0]:
                self._add(Aspect.STRUCTURE, str(node.name), UNPAIRED, node.op_type, "-")
        for node in second.graph:
            if id(node) not in self._paired[1]:
                self._add(Aspect.STRUCTURE, str(node.name), UNPAIRED, "-", node.op_type)
        return self._found

    def _walk(self, pending: list[_Pair]) -> None:
        """Pair what is read by what is paired."""
        while pending:
            pending += self._step(*pending.pop(0))

    def _step(self, a: ir.Value | None, b: ir.Value | None, reader: str) -> list[_Pair]:
        """Compare the producers of one pair; the pairs of values that they read."""
        if a is None or b is None:
            if a is not b:
                self._add(Aspect.STRUCTURE, reader, "input", str(a and a.name), str(b and b.name))
            return []
        if (id(a), id(b)) in self._seen:
            return []
        self._seen.add((id(a), id(b)))
        node, other = a.producer(), b.producer()
        if node is None or other is None:
            self._compare_sources(a, b, node, other, reader)
            return []
        return self._compare_nodes(node, other, reader)

    def _compare_sources(
        self, a: ir.Value, b: ir.Value, node: ir.Node | None, other: ir.Node | None, reader: str
    ) -> None:
        """Constants and graph inputs."""
        left, right = constant_of(a), constant_of(b)
        if left is None or right is None or node is not other:
            texts = [_source_text(a, node), _source_text(b, other)]
            if texts[0] != texts[1]:
                self._add(Aspect.STRUCTURE, reader, "input", *texts)
            return
        if a.name != b.name:
            self._add(Aspect.NAME, reader, "constant", str(a.name), str(b.name))
        self._compare_arrays(reader, str(a.name), left, right)

    def _compare_arrays(self, where: str, what: str, left: Any, right: Any) -> None:
        if left.shape != right.shape or left.dtype != right.dtype:
            texts = [f"{array.dtype}{list(array.shape)}" for array in (left, right)]
            self._add(Aspect.TYPE, where, what, *texts)
            return
        different = left != right
        if different.any():
            aspect = Aspect.FLOATS if left.dtype.kind == "f" else Aspect.INTEGERS
            samples = [str(array[different][:3].tolist()) for array in (left, right)]
            self._add(aspect, where, what, *samples, elements=int(different.sum()), total=left.size)

    def _compare_nodes(self, node: ir.Node, other: ir.Node, reader: str) -> list[_Pair]:
        where = str(node.name)
        if (node.domain, node.op_type) != (other.domain, other.op_type):
            texts = [f"{item.op_type} {item.name}" for item in (node, other)]
            self._add(Aspect.STRUCTURE, reader, "input", *texts)
            return []
        if id(node) in self._paired[0] and id(other) in self._paired[1]:
            return []
        self._paired[0].add(id(node))
        self._paired[1].add(id(other))
        if node.name != other.name:
            self._add(Aspect.NAME, where, "node", where, str(other.name))
        self._compare_attributes(node, other)
        for a, b in zip(node.outputs, other.outputs, strict=False):
            self._found += _tensor_differences(where, "output", a, b)
        inputs, others = _inputs(node), _inputs(other)
        if len(inputs) != len(others):
            self._add(Aspect.STRUCTURE, where, "number of inputs", str(len(inputs)), str(len(others)))
        return [(a, b, where) for a, b in zip(inputs, others, strict=False)]

    def _compare_attributes(self, node: ir.Node, other: ir.Node) -> None:
        for name in sorted({*node.attributes, *other.attributes}):
            values = [item.attributes[name].value if name in item.attributes else None for item in (node, other)]
            left, right = (_as_array(value) for value in values)
            if left is None or right is None or left.shape != right.shape or left.dtype.kind != right.dtype.kind:
                self._add(Aspect.ATTRIBUTE, str(node.name), name, _attribute_text(left), _attribute_text(right))
            elif (different := left != right).any():
                samples = [str(np.atleast_1d(v)[np.atleast_1d(different)][:3].tolist()) for v in (left, right)]
                elements, total = int(different.sum()), int(different.size)
                self._add(Aspect.ATTRIBUTE, str(node.name), name, *samples, elements=elements, total=total)

    def _add(
        self, aspect: Aspect, where: str, what: str, first: str, second: str, *, elements: int = 1, total: int = 1
    ) -> None:
        self._found.append(Difference(aspect, where, what, first, second, elements, total))


def _inputs(node: ir.Node) -> list[ir.Value | None]:
    """What ``node`` reads; empty places of integer operators are left out, for attributes say what is there.

    A convolution with a summand and without bias has two of them in files of the original, none in ours.
    """
    return [value for value in node.inputs if value is not None or node.domain != HORIZON_DOMAIN]


def _as_array(value: Any) -> Any:
    """An attribute's value as an array; ``None`` where it is absent."""
    if value is None:
        return None
    return value.numpy() if isinstance(value, ir.TensorProtocol) else np.asarray(value)


def _attribute_text(value: Any) -> str:
    return "-" if value is None else str(value.tolist() if value.size <= 8 else [*value.ravel()[:8].tolist(), "..."])


def _source_text(value: ir.Value, producer: ir.Node | None) -> str:
    if producer is not None:
        return f"{producer.op_type} {producer.name}"
    return "constant" if constant_of(value) is not None else f"graph input {value.name}"
