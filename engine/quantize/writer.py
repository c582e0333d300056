"""What a quantised graph is written with: nodes in order, constants once, every name once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import HORIZON_DOMAIN, HORIZON_VERSION, MARK_MARCH, shape_of, typed_attribute
from engine.rulebook.name import NamedKind, NamedPart, NameSite, Naming

DTYPES = {8: ir.DataType.INT8, 16: ir.DataType.INT16, 32: ir.DataType.INT32}
"""Types of integers by their width."""

IR_VERSION = 6
PRODUCER = "ptqlab"


class GraphWriter:
    """A quantised graph as far as it is written.

    Args:
        names: names what would have the name of something else.
    """

    def __init__(self, names: Naming) -> None:
        self._stretches: list[list[ir.Node]] = [[]]
        self._places: dict[str, list[ir.Node]] = {}
        self._open = self._stretches[0]
        self._waiting: dict[ir.Value, ir.Node] = {}
        self._initializers: dict[str, ir.Value] = {}
        self._names = names
        self._taken: set[tuple[NamedKind, str]] = set()

    @property
    def nodes(self) -> list[ir.Node]:
        """In running order."""
        return list(chain.from_iterable(self._stretches))

    def mark(self, place: str) -> None:
        """Call what is written next ``place``, if nothing is: nodes can be written there later on."""
        if place in self._places:
            return
        self._places[place], self._open = [], []
        self._stretches += [self._places[place], self._open]

    @contextmanager
    def standing_at(self, place: str) -> Iterator[None]:
        """Write at the place of that name, if there is one."""
        before = self._open
        self._open = self._places.get(place, before)
        try:
            yield
        finally:
            self._open = before

    def write(self, node: ir.Node) -> None:
        """Append ``node``, and directly in front of it what :meth:`input_transpose` made for it."""
        for value in node.inputs:
            if value in self._waiting:
                self.write(self._waiting.pop(value))
        self._open.append(node)

    def initializer(self, name: str, array: NDArray[Any]) -> ir.Value:
        """The constant ``name``, made at the first call; ``model`` leaves out those that no node reads.

        It gets another name where another node's constant of that name holds something else.
        """
        array = np.asarray(array, order="C")  # numbers without axes stay so
        wanted, number = name, 0
        while (held := self._initializers.get(name)) is not None and not _holds(held, array):
            number += 1
            name = self._names.of(NameSite(NamedPart.TAKEN_CONSTANT, wanted=wanted, number=number))
        if held is None:
            tensor = ir.Tensor(array, name=name)
            self._initializers[name] = ir.Value(
                name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor
            )
        return self._initializers[name]

    def transpose(self, value: ir.Value, perm: Sequence[int], name: str, output: str) -> ir.Value:
        """``value`` with its axes in the order ``perm``, by the node ``name``."""
        shape = transposed(shape_of(value), perm)
        return self.append("Transpose", name, [value], {"perm": perm}, output, value.type, shape, "")

    def input_transpose(self, value: ir.Value, perm: Sequence[int], name: str, output: str) -> ir.Value:
        """The same, written directly in front of the node that reads it first."""
        moved = self.value(output, value.type, transposed(shape_of(value), perm))
        self._waiting[moved] = self._node("Transpose", name, [value], {"perm": perm}, [moved], "")
        return moved

    def append(
        self,
        op_type: str,
        name: str,
        inputs: Sequence[ir.Value],
        attributes: Mapping[str, Any],
        output: str,
        kind: ir.TypeProtocol | None,
        shape: Sequence[int],
        domain: str = HORIZON_DOMAIN,
    ) -> ir.Value:
        """A node with one output, called ``output`` if that name is free."""
        value = self.value(output, kind, shape)
        self.add(op_type, name, inputs, attributes, [value], domain)
        return value

    def value(self, name: str, kind: ir.TypeProtocol | None, shape: Sequence[int]) -> ir.Value:
        """A tensor called ``name`` if that is free."""
        return ir.Value(name=self.unique(name), type=kind, shape=ir.Shape(shape))

    def add(
        self,
        op_type: str,
        name: str,
        inputs: Sequence[ir.Value],
        attributes: Mapping[str, Any],
        outputs: Sequence[ir.Value],
        domain: str,
    ) -> None:
        """A node called ``name`` if no other node is; attributes that are None are left out."""
        self.write(self._node(op_type, name, inputs, attributes, outputs, domain))

    def _node(
        self,
        op_type: str,
        name: str,
        inputs: Sequence[ir.Value],
        attributes: Mapping[str, Any],
        outputs: Sequence[ir.Value],
        domain: str,
    ) -> ir.Node:
        unique = self.unique(name, NamedKind.NODE)
        typed = [typed_attribute(key, item) for key, item in attributes.items() if item is not None]
        return ir.Node(domain, op_type, inputs, typed, outputs=outputs, name=unique)

    def unique(self, name: str, kind: NamedKind = NamedKind.TENSOR) -> str:
        """``name``, or another one where it was given to something else of its ``kind`` before."""
        part = NamedPart.TAKEN_NODE if kind is NamedKind.NODE else NamedPart.TAKEN
        candidate, count = name, 1
        while (kind, candidate) in self._taken:
            candidate, count = self._names.of(NameSite(part, wanted=name, number=count)), count + 1
        self._taken.add((kind, candidate))
        return candidate

    def model(self, source: ir.Model, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], march: str) -> ir.Model:
        """The model of what was written, with the metadata of ``source``."""
        nodes = self.nodes
        used = {id(value) for node in nodes for value in node.inputs if value is not None}
        kept = [value for value in self._initializers.values() if id(value) in used]
        graph = ir.Graph(
            inputs,
            outputs,
            nodes=nodes,
            initializers=kept,
            opset_imports={**source.graph.opset_imports, HORIZON_DOMAIN: HORIZON_VERSION},
            name=source.graph.name,
        )
        metadata = {**source.metadata_props, MARK_MARCH: march}
        return ir.Model(graph, ir_version=IR_VERSION, producer_name=PRODUCER, metadata_props=metadata)


def transposed(shape: Sequence[int], perm: Sequence[int]) -> tuple[int, ...]:
    """``shape`` of a map with its axes in the order ``perm``; other ranks have no layout and stay."""
    return tuple(shape[axis] for axis in perm) if len(shape) == 4 else tuple(shape)


def _holds(constant: ir.Value, array: NDArray[Any]) -> bool:
    """Whether ``constant`` is ``array``, bit for bit."""
    held = None if constant.const_value is None else constant.const_value.numpy()
    if held is None or held.dtype != array.dtype or held.shape != array.shape:
        return False
    return bool(held.tobytes() == array.tobytes())
