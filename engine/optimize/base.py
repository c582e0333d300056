"""What the passes share: the base class, creation of tensors and nodes, questions about values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import UnsupportedError
from engine.ir import HORIZON_DOMAIN, MARK_SHARED, attribute, static_shape
from engine.optimize.contract import GraphPass

Array = NDArray[Any]

RELATIVE_TOLERANCE = 1e-4
"""Relative difference of a constant from that of a pattern: exporters write 1/sqrt(2) and 1/6 with few digits."""
ELEMENTWISE = frozenset(
    {"Abs", "Add", "Clip", "Cos", "Div", "Elu", "Erf", "Exp", "HardSigmoid", "Log", "Max", "Min", "Mul", "Pow"}
    | {"Reciprocal", "Relu", "Sigmoid", "Sin", "Softplus", "Sqrt", "Sub", "Sum", "Tanh"}
    | {"HzGelu", "HzHardSwish", "HzMish", "HzRsqrt", "HzSwish"}
)
"""Operators that compute each element from those at its place, operands broadcast.

Not LeakyRelu (reference/operators.md, the case on three dimensions), nor PRelu: what moves stays in front of it (8 of 8
Transposes and Reshapes asked on two marches), but for a Reshape of a row with a slope for each number.
"""


class NodePass(GraphPass):
    """Visits every node of the main graph once, in order; :meth:`rewrite` changes the graph around the node.

    Passes see a graph whose constants are initializers (:class:`~engine.optimize.constants.FoldConstants` runs first).
    """

    op_types: frozenset[str]
    """Standard operator types that :meth:`rewrite` is called for."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified, wanted = False, self.op_types
        for node in tuple(model.graph):
            if node.op_type in wanted and node.domain in ("", "ai.onnx") and node.graph is not None:
                modified |= self.rewrite(node)
        return ir.passes.PassResult(model, modified)

    @abstractmethod
    def rewrite(self, node: ir.Node) -> bool:
        """Rewrite around ``node``; whether anything changed."""

    def remains(self, node: ir.Node) -> bool:
        """Whether ``node``, one of :attr:`op_types`, is what this pass never leaves in a graph: what it ensures.

        Of passes that take one of several steps in a row, or only what is worth it, this says nothing.
        """
        return False

    def ensures(self, model: ir.Model) -> None:
        """Check that nothing :meth:`remains`.

        Raises:
            PostconditionError: something does.
        """
        super().ensures(model)
        if type(self).remains is NodePass.remains:
            return
        for node in model.graph:
            if node.op_type in self.op_types and node.domain in ("", "ai.onnx") and self.remains(node):
                raise ir.passes.PostconditionError(f"ensures that nothing is left to do, but {_named(node)} is")


def _named(node: ir.Node) -> str:
    return f"node {node.name} ({node.op_type})"


def graph_of(node: ir.Node) -> ir.Graph:
    """The graph that holds ``node``."""
    graph = node.graph
    if not isinstance(graph, ir.Graph):
        raise TypeError(f"node {node.name!r} is in no graph")
    return graph


def is_standard(node: ir.Node | None, *op_types: str) -> bool:
    """Whether ``node`` is one of ONNX's own operators ``op_types``."""
    return node is not None and node.domain in ("", "ai.onnx") and node.op_type in op_types


def initializer_of(value: ir.Value | None) -> Array | None:
    """The array of an initializer; ``None`` for everything else, also for an initializer that is a graph input."""
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    return value.const_value.numpy()


def add_initializer(graph: ir.Graph, name: str, array: Array) -> ir.Value:
    """Register ``array`` under ``name``, or under ``name_1``, ``name_2``, … where that is taken."""
    unique, number = name, 0
    taken = graph.initializers
    while unique in taken:
        number += 1
        unique = f"{name}_{number}"
    tensor = ir.tensor(np.asarray(array, order="C"), name=unique)
    value = ir.Value(name=unique, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
    graph.register_initializer(value)
    return value


def replace_constant(node: ir.Node, index: int, array: Array, *, for_all: bool = False) -> None:
    """Let input ``index`` of ``node`` be ``array`` in place of its constant.

    Other users of that constant keep it, unless ``for_all``: these then have ``array`` too, and carry
    :data:`~engine.ir.MARK_SHARED`. The new tensor takes over the name if no other node reads the old one.
    """
    graph = graph_of(node)
    old = node.inputs[index]
    if old is None or old.name is None:
        raise ValueError(f"input {index} of node {node.name!r} is absent")
    others = [usage.node for usage in old.uses() if usage.node is not node]
    if old.is_graph_output() or (others and not for_all):
        node.replace_input_with(index, add_initializer(graph, f"{node.name}_{old.name}", array))
        return
    old.const_value = ir.tensor(np.asarray(array, order="C"), name=old.name)
    old.shape = ir.Shape(array.shape)
    for other in others:
        other.metadata_props[MARK_SHARED] = "yes"


def make_node(
    op_type: str,
    inputs: Sequence[ir.Value | None],
    *,
    name: str,
    output: str,
    like: ir.Value | None = None,
    shape: Sequence[int] | None = None,
    attributes: Mapping[str, Any] | None = None,
    domain: str = "",
) -> ir.Node:
    """A node with one output; the output's type is that of ``like``, its shape ``shape`` or that of ``like``."""
    own_shape = None if like is None or like.shape is None else like.shape.copy()
    value = ir.Value(
        name=output,
        type=None if like is None else like.type,
        shape=own_shape if shape is None else ir.Shape(shape),
    )
    return ir.node(op_type, inputs, dict(attributes or {}), domain=domain, outputs=[value], name=name)


SPLIT_TAKES_SIZES = 13
"""First opset in which the sizes of a ``Split`` are an input; before, they are an attribute."""
AXES_AS_INPUT = 18
"""First opset whose reductions take their axes as an input."""
SUM_AXES_AS_INPUT = 13
"""First opset whose ``ReduceSum`` does."""


def make_split(graph: ir.Graph, source: ir.Value, axis: int, sizes: Sequence[int], name: str) -> ir.Node:
    """The ``Split`` of ``source`` along ``axis`` into parts of ``sizes``, outputs ``<name>_0``, ``<name>_1``, …"""
    shape = static_shape(source) or ()
    outputs = [
        ir.Value(name=f"{name}_{index}", type=source.type, shape=ir.Shape((*shape[:axis], size, *shape[axis + 1 :])))
        for index, size in enumerate(sizes)
    ]
    if graph.opset_imports.get("", 0) >= SPLIT_TAKES_SIZES:
        lengths = add_initializer(graph, f"{name}_sizes", np.asarray(sizes, np.int64))
        return ir.node("Split", [source, lengths], {"axis": axis}, outputs=outputs, name=name)
    return ir.node("Split", [source], {"axis": axis, "split": list(sizes)}, outputs=outputs, name=name)


def substitute(old: ir.Node, new: Sequence[ir.Node]) -> None:
    """Put ``new`` in the place of ``old``; the last node's output becomes that of ``old``, under its name."""
    ir.convenience.replace_nodes_and_values(graph_of(old), old, [old], new, [old.outputs[0]], [new[-1].outputs[0]])


def substitute_outputs(old: ir.Node, new: Sequence[ir.Node], results: Mapping[ir.Value, ir.Value]) -> None:
    """Put ``new`` in the place of ``old``; ``results`` are what replaces those of its outputs that are used."""
    kept = [value for value in old.outputs if value in results]
    ir.convenience.replace_nodes_and_values(graph_of(old), old, [old], new, kept, [results[value] for value in kept])


def collapse(node: ir.Node, op_type: str, x: ir.Value | None, name: str = "", **attributes: Any) -> None:
    """Put the node ``op_type`` of domain ``horizon`` over ``x`` in the place of ``node``, the last of a pattern.

    Args:
        node: whose output the new one takes over.
        op_type: of the new node.
        x: its input.
        name: of the new node, if it is not that of ``node``.
        attributes: of the new node.
    """
    name, like = name or str(node.name), node.outputs[0]
    output = f"{name}_collapsed"
    made = make_node(op_type, [x], name=name, output=output, like=like, attributes=attributes, domain=HORIZON_DOMAIN)
    substitute(node, [made])


def can_bypass(node: ir.Node) -> bool:
    """Whether :func:`bypass` can remove ``node``."""
    source, result = node.inputs[0], node.outputs[0]
    if source is None or not result.is_graph_output():
        return source is not None
    producer = source.producer()
    return producer is not None and not source.is_graph_output() and producer.graph is node.graph


def bypass(node: ir.Node) -> bool:
    """Remove ``node``, letting its users read its first input; whether that was possible.

    A graph output keeps its name: the value before takes it over, unless that is an input, a constant or itself an
    output.
    """
    source, result = node.inputs[0], node.outputs[0]
    if source is None or not can_bypass(node):
        return False
    if result.is_graph_output():
        name = result.name
        ir.convenience.replace_all_uses_with(result, source, replace_graph_outputs=True)
        graph_of(node).remove(node, safe=True)
        source.name = name
        return True
    ir.convenience.replace_all_uses_with(result, source)
    graph_of(node).remove(node, safe=True)
    return True


def stand_for(first: ir.Value, second: ir.Value) -> None:
    """Let ``first`` be read wherever ``second`` is, which holds the same, and be the output that ``second`` is.

    The output keeps its place and gets the name of ``first``, as in the original.

    Raises:
        UnsupportedError: both are outputs.
    """
    if second.is_graph_output():
        refuse_equal_outputs(first, second)
    second.replace_all_uses_with(first, replace_graph_outputs=True)


def refuse_equal_outputs(first: ir.Value, second: ir.Value) -> None:
    """Refuse two outputs of the network that hold the same, for which the original has one name and ends.

    Raises:
        UnsupportedError: ``first`` is an output, as ``second`` is; names both and the nodes that compute them.
    """
    if first.is_graph_output():
        first_node, second_node = first.producer(), second.producer()
        named = "" if first_node is None or second_node is None else f" (nodes {first_node.name}, {second_node.name})"
        raise UnsupportedError(
            f"outputs {first.name} and {second.name}{named} hold the same tensor, for which the original has one name; "
            "take one of them out of the model's outputs, or list the nodes of the others as output_nodes, or set "
            "compatibility: clean in model_parameters"
        )


def absorb_next(node: ir.Node, following: ir.Node) -> None:
    """Remove ``following``, whose work ``node`` now does: the output of ``node`` takes over users, name and shape."""
    ir.convenience.replace_nodes_and_values(
        graph_of(node), node, [following], [], [following.outputs[0]], [node.outputs[0]]
    )


def ints(node: ir.Node, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """Integer list attribute."""
    return tuple(int(item) for item in attribute(node, name, tuple(default)))


def axes_of(node: ir.Node, rank: int) -> tuple[int, ...] | None:
    """Axes of a reduction, ``Squeeze`` or ``Unsqueeze``, non-negative and sorted; attribute or second input.

    Returns:
        ``None`` where the axes are not constant; ``()`` where none are named.
    """
    axes = attribute(node, "axes")
    if axes is None and len(node.inputs) > 1 and node.inputs[1] is not None:
        array = initializer_of(node.inputs[1])
        if array is None:
            return None
        axes = array.tolist()
    return tuple(sorted(int(axis) % rank for axis in axes or ()))


def clip_bounds(node: ir.Node) -> tuple[float, float] | None:
    """Lower and upper bound of a ``Clip``, attributes before opset 11 and inputs since; ``None`` if not constant."""
    bounds = []
    for index, (name, default) in enumerate((("min", -np.inf), ("max", np.inf)), start=1):
        value = node.inputs[index] if len(node.inputs) > index else None
        if value is None:
            bounds.append(float(attribute(node, name, default)))
            continue
        array = initializer_of(value)
        if array is None or array.size != 1:
            return None
        bounds.append(float(array.reshape(())))
    return bounds[0], bounds[1]


@dataclass(frozen=True)
class Padding:
    """What a ``Pad`` adds.

    Attributes:
        before, after: elements per axis, negative where it crops.
        mode: ``constant``, ``reflect``, ``edge`` or ``wrap``.
        value: the constant; 0 for other modes.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    mode: str
    value: float


def padding_of(node: ir.Node, rank: int) -> Padding | None:
    """What ``Pad`` does to a tensor of ``rank``: attributes before opset 11, inputs since; ``None`` if not constant."""
    given = [initializer_of(value) if value is not None else None for value in node.inputs[1:]]
    if any(value is not None and array is None for value, array in zip(node.inputs[1:], given, strict=True)):
        return None
    pads_input, value_input, axes_input = (given + [None] * 3)[:3]
    pads = attribute(node, "pads") if pads_input is None else pads_input.tolist()
    value = attribute(node, "value", 0.0) if value_input is None else float(value_input.reshape(()))
    axes = range(rank) if axes_input is None else [int(axis) % rank for axis in axes_input]
    before, after = [0] * rank, [0] * rank
    if pads is None or len(pads) != 2 * len(axes):
        return None
    for position, axis in enumerate(axes):
        before[axis], after[axis] = int(pads[position]), int(pads[position + len(axes)])
    mode = attribute(node, "mode", "constant")
    return Padding(tuple(before), tuple(after), mode, value if mode == "constant" else 0.0)
