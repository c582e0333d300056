"""Reshapes move behind the arithmetic, and operators that drop an axis keep it and reshape afterwards."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.ir import attribute
from engine.march import GraphRules
from engine.optimize.base import (
    NodePass,
    add_initializer,
    axes_of,
    constant,
    graph_of,
    is_standard,
    make_node,
    sole_consumer,
    static_shape,
    substitute,
)


class SinkReshape(ir.passes.InPlacePass):
    """Element-wise operators on a reshaped map run on the map itself; the ``Reshape`` follows them.

    It keeps the name of the first operand's where nothing else reads that one, but behind a product, which names it.
    As the original for Sigmoid, Swish and the four arithmetic operators (reference/operators.md, the cases on
    three dimensions).
    """

    unary = frozenset({"Sigmoid", "HzSwish", "Reciprocal"})
    binary = frozenset({"Add", "Sub", "Mul"})

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified = False
        for node in tuple(model.graph):
            if node.graph is not None and node.op_type in self.unary | self.binary:
                modified |= self.rewrite(node)
        return ir.passes.PassResult(model, modified)

    def rewrite(self, node: ir.Node) -> bool:
        """Move the reshapes of all inputs of ``node`` behind it."""
        reshapes = [_reshape_of_map(value) for value in node.inputs]
        result = node.outputs[0]
        shape = static_shape(result)
        sources = [reshape.inputs[0] for reshape in reshapes if reshape is not None]
        if len(sources) != len(node.inputs) or shape is None or reshapes[0] is None:
            return False
        if len({static_shape(source) for source in sources}) != 1 or any(
            static_shape(value) != shape for value in node.inputs
        ):
            return False
        moved = make_node(
            node.op_type,
            sources,
            name=str(node.name),
            output=f"{result.name}_before_reshape",
            like=sources[0],
            attributes={},
            domain=node.domain,
        )
        for name, attr in node.attributes.items():
            moved.attributes[name] = attr
        alone = sole_consumer(reshapes[0].outputs[0]) is node
        reshape = make_node(
            "Reshape",
            [moved.outputs[0], reshapes[0].inputs[1]],
            name=str(reshapes[0].name) if alone and node.op_type != "Mul" else f"{node.name}_reshape",
            output=f"{node.name}_reshaped",
            like=result,
        )
        substitute(node, [moved, reshape])
        if alone:
            graph_of(moved).remove(reshapes[0], safe=True)
        return True


class KeepReducedAxis(NodePass):
    """Operators that drop one axis keep it, and a ``Reshape`` drops it: BPU operators keep the number of dimensions.

    Reductions over one axis, ``ArgMax`` and ``ArgMin`` over the channels, ``Gather`` of one element.
    """

    op_types = frozenset({"ReduceMean", "ReduceSum", "ReduceMax", "ArgMax", "ArgMin", "Gather"})

    def __init__(self, rules: GraphRules) -> None:
        self.rules = rules

    def rewrite(self, node: ir.Node) -> bool:
        source, result = node.inputs[0], node.outputs[0]
        shape, dropped = static_shape(source), static_shape(result)
        axis = None if shape is None else self._dropped_axis(node, len(shape))
        if shape is None or dropped is None or axis is None:
            return False
        graph = graph_of(node)
        inputs = list(node.inputs)
        attributes = {name: attr.value for name, attr in node.attributes.items()}
        indices = constant(node.inputs[1]) if node.op_type == "Gather" else None
        if indices is not None:
            inputs[1] = add_initializer(graph, f"{node.name}_indices", indices.reshape(-1))
        else:
            attributes["keepdims"] = 1
        kept = make_node(
            node.op_type,
            inputs,
            name=str(node.name),
            output=f"{node.name}_output",
            like=result,
            shape=(*shape[:axis], 1, *shape[axis + 1 :]),
            attributes=attributes,
        )
        reshape = make_node(
            "Reshape",
            [kept.outputs[0], add_initializer(graph, f"{node.name}_reshape_shape", np.asarray(dropped, np.int64))],
            name=f"{node.name}_reshape",
            output=f"{node.name}_reshaped",
            like=result,
        )
        substitute(node, [kept, reshape])
        return True

    def _dropped_axis(self, node: ir.Node, rank: int) -> int | None:
        """The single axis that ``node`` drops from a map; ``None`` where it drops none, several or another kind."""
        if rank != 4:
            return None
        if node.op_type == "Gather":
            indices = constant(node.inputs[1])
            return int(attribute(node, "axis", 0)) % rank if indices is not None and indices.ndim == 0 else None
        if attribute(node, "keepdims", 1):
            return None
        if node.op_type in ("ArgMax", "ArgMin"):
            axis = int(attribute(node, "axis", 0)) % rank
            return axis if axis == 1 and self.rules.argmax_keeps_axis else None
        axes = axes_of(node, rank)
        return axes[0] if axes is not None and len(axes) == 1 else None


def _reshape_of_map(value: ir.Value | None) -> ir.Node | None:
    """The ``Reshape`` to a constant shape that makes ``value`` of a map, if it takes the four dimensions away."""
    producer = None if value is None else value.producer()
    if producer is None or not is_standard(producer, "Reshape") or value is None:
        return None
    target = constant(producer.inputs[1])
    source = static_shape(producer.inputs[0])
    if source is None or len(source) != 4 or target is None or bool(np.any(target == 0)):
        return None
    return producer if len(static_shape(value) or ()) != 4 else None
