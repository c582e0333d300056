"""What the rewrites share: the base class, and chains of new nodes under names of their own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike, NDArray

from engine.ir import shape_of, static_shape
from engine.optimize.base import NodePass, add_initializer, graph_of, make_node, make_split, substitute

Array = NDArray[Any]
Shape = tuple[int, ...]


class Rewrite(NodePass):
    """A pass that a user may ask for: it writes the same function in operators that the BPU takes.

    It sees constants as initializers and static shapes. What it did is in :attr:`places`.

    Attributes:
        name: as ``--apply`` takes it.
        says: one sentence: what it does, for the user.
        places: names of the nodes that were rewritten.
        requests: names of new nodes that run on the BPU only if ``node_info`` or ``run_on_bpu`` asks for it.
        remarks: nodes that it concerns and could not rewrite, and why, a sentence each.
        everywhere: whether it may win where the BPU computes the node already.
        for_accuracy: whether it is offered for what the integers give, also where it takes more time.
    """

    name: ClassVar[str]
    says: ClassVar[str]
    everywhere: ClassVar[bool] = False
    for_accuracy: ClassVar[bool] = False

    def __init__(self, on_cpu: Collection[str] | None = None) -> None:
        """``on_cpu``: names of the nodes that the CPU computes, which alone are rewritten; None for all nodes."""
        self._on_cpu = on_cpu
        self.places: list[str] = []
        self.requests: list[str] = []
        self.remarks: list[str] = []

    def rewrite(self, node: ir.Node) -> bool:
        """Put what :meth:`replaced` gives in the place of ``node``."""
        if not node.outputs or not (node.outputs[0].uses() or node.outputs[0].is_graph_output()):
            return False  # nothing reads it any more: an earlier place took it in
        if not self.concerns(node):
            return False
        chain = Chain(node)
        if not self.replaced(node, chain) or not chain.nodes:
            return False
        substitute(node, chain.nodes)
        self.places.append(str(node.name))
        return True

    def concerns(self, node: ir.Node) -> bool:
        """Whether the CPU computes ``node``, or a part that the conversion makes of it; or it may win everywhere."""
        if self.everywhere or self._on_cpu is None:
            return True
        own = str(node.name)
        return any(name == own or name.startswith(f"{own}_") for name in self._on_cpu)

    @abstractmethod
    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        """Append to ``chain`` what computes the first output of ``node``; whether it can be written so."""


class Chain:
    """New nodes in running order, named after the node that they replace.

    Args:
        node: the node.
    """

    def __init__(self, node: ir.Node) -> None:
        self.node = node
        self.graph = graph_of(node)
        self.nodes: list[ir.Node] = []
        self._taken = {str(other.name) for other in self.graph}
        self._values = {str(value.name) for other in self.graph for value in other.outputs}

    def add(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        shape: Sequence[int] | None = None,
        like: ir.Value | None = None,
        **attributes: Any,
    ) -> ir.Value:
        """The output of a new node; type, and shape if none is given, are those of ``like``, else the first input."""
        name = self._free(f"{self.node.name}_{op_type.lower()}")
        output = name
        while output in self._values:
            output = f"{output}_out"
        self._values.add(output)
        like = like or next(value for value in inputs if value is not None)
        made = make_node(op_type, inputs, name=name, output=output, like=like, shape=shape, attributes=attributes)
        self.nodes.append(made)
        return made.outputs[0]

    def _free(self, stem: str) -> str:
        name, number = stem, 1
        while name in self._taken:
            number += 1
            name = f"{stem}{number}"
        self._taken.add(name)
        return name

    def constant(self, what: str, array: ArrayLike) -> ir.Value:
        """A new initializer called ``<node>_<what>``."""
        return add_initializer(self.graph, f"{self.node.name}_{what}", np.asarray(array))

    def reshape(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        """``value`` in ``shape``; itself where it has it."""
        if shape_of(value) == tuple(shape):
            return value
        target = self.constant("shape", np.asarray(shape, np.int64))
        return self.add("Reshape", [value, target], shape, like=value)

    def transpose(self, value: ir.Value, perm: Sequence[int]) -> ir.Value:
        """``value`` with its axes in the order ``perm``; itself where that is theirs."""
        if list(perm) == list(range(len(perm))):
            return value
        shape = shape_of(value)
        return self.add("Transpose", [value], [shape[axis] for axis in perm], perm=list(perm))

    def slice(self, value: ir.Value, axis: int, start: int, stop: int) -> ir.Value:
        """``value[start:stop]`` along ``axis``; itself where that is all of it."""
        shape = shape_of(value)
        if (start, stop) == (0, shape[axis]):
            return value
        bounds = [self.constant(what, np.asarray([at], np.int64)) for what, at in _bounds(start, stop, axis)]
        return self.add("Slice", [value, *bounds], (*shape[:axis], stop - start, *shape[axis + 1 :]), like=value)

    def split(self, value: ir.Value, axis: int, sizes: Sequence[int]) -> Sequence[ir.Value]:
        """Parts of ``value`` along ``axis``."""
        made = make_split(self.graph, value, axis, sizes, self._free(f"{self.node.name}_split"))
        self.nodes.append(made)
        return made.outputs

    def concat(self, values: Sequence[ir.Value], axis: int) -> ir.Value:
        """``values`` joined along ``axis``."""
        if len(values) == 1:
            return values[0]
        shapes = [shape_of(value) for value in values]
        total = sum(shape[axis] for shape in shapes)
        return self.add("Concat", values, (*shapes[0][:axis], total, *shapes[0][axis + 1 :]), axis=axis)


def _bounds(start: int, stop: int, axis: int) -> tuple[tuple[str, int], ...]:
    return (("starts", start), ("ends", stop), ("axes", axis))


def has_shapes(node: ir.Node) -> bool:
    """Whether the shapes of the first input and of all outputs of ``node`` are static and not empty."""
    values = [*node.inputs[:1], *node.outputs]
    shapes = [static_shape(value) for value in values if value is not None and value.name]
    return bool(node.inputs) and all(shape is not None and prod(shape) > 0 for shape in shapes)


def is_float(node: ir.Node) -> bool:
    """Whether the first output of ``node`` is float32, of which the BPU computes integers."""
    return node.outputs[0].dtype == ir.DataType.FLOAT


def float_source(node: ir.Node) -> ir.Value | None:
    """The first input of ``node``; None where :func:`has_shapes` or :func:`is_float` does not hold."""
    return node.inputs[0] if has_shapes(node) and is_float(node) else None


def opset_of_node(node: ir.Node) -> int:
    """Version of ONNX's own operators in the graph of ``node``."""
    return graph_of(node).opset_imports.get("", 0)
