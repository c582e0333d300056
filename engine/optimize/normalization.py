"""``LayerNormalization``, ``InstanceNormalization`` and vector norms in terms of what the BPU computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.ir import attribute, static_shape
from engine.optimize.base import (
    AXES_AS_INPUT,
    SUM_AXES_AS_INPUT,
    NodePass,
    add_initializer,
    graph_of,
    initializer_of,
    make_node,
    substitute,
)

_SUFFIXES = {1: "scale", 2: "B"}
"""What is added to the names of the reshaped parameters of an InstanceNormalization: those of its own inputs."""


class DecomposeNormalization(NodePass):
    """Normalisations become ``(x - mean) / sqrt(variance + epsilon) * scale + bias``, as written before opset 17.

    An InstanceNormalization squares by a product (all 10 in ``style`` and ``fpn_retina_gn``, where names are from).
    """

    op_types = frozenset({"LayerNormalization", "InstanceNormalization"})

    def __init__(self) -> None:
        self._opset = 0

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        self._opset = model.opset_imports.get("", 0)
        return super().call(model)

    def rewrite(self, node: ir.Node) -> bool:
        source, shape = node.inputs[0], static_shape(node.inputs[0])
        if source is None or shape is None or _gives_statistics(node):
            return False
        rank = len(shape)
        if node.op_type == "LayerNormalization":
            axes = tuple(range(attribute(node, "axis", -1) % rank, rank))
            parameter_shape: tuple[int, ...] | None = None
        else:
            axes = tuple(range(2, rank))
            parameter_shape = (1, -1, *(1,) * (rank - 2))
        parameters = [self._parameter(node, index, parameter_shape) for index in (1, 2)]
        if not axes or (len(node.inputs) > 1 and parameters[0] is None):
            return False
        substitute(node, self._chain(node, source, axes, parameters))
        return True

    def remains(self, node: ir.Node) -> bool:
        """One of a known shape with constant scale, whose other results are not read."""
        rank = len(static_shape(node.inputs[0]) or ())
        is_computed = len(node.inputs) > 1 and initializer_of(node.inputs[1]) is None
        least = 0 if node.op_type == "LayerNormalization" else 2
        return rank > least and not is_computed and not _gives_statistics(node)

    def _chain(
        self, node: ir.Node, source: ir.Value, axes: Sequence[int], parameters: Sequence[ir.Value | None]
    ) -> list[ir.Node]:
        """The nodes that replace ``node``, in order."""
        nodes: list[ir.Node] = []
        shape = static_shape(source) or ()
        reduced = tuple(1 if axis in axes else size for axis, size in enumerate(shape))

        def add(
            op_type: str, name: str, *inputs: ir.Value | None, shape: Sequence[int] = shape, **more: Any
        ) -> ir.Value:
            nodes.append(
                make_node(
                    op_type,
                    inputs,
                    name=f"{node.name}_{name}",
                    output=f"{node.name}_{name}_output",
                    like=node.outputs[0],
                    shape=shape,
                    attributes=more,
                )
            )
            return nodes[-1].outputs[0]

        def mean(name: str, value: ir.Value) -> ir.Value:
            if self._opset < AXES_AS_INPUT:
                return add("ReduceMean", name, value, shape=reduced, axes=list(axes), keepdims=1)
            named = add_initializer(graph_of(node), f"{node.name}_axes", np.asarray(axes, np.int64))
            return add("ReduceMean", name, value, named, shape=reduced, keepdims=1)

        def scalar(name: str, number: float) -> ir.Value:
            return add_initializer(graph_of(node), f"{node.name}_{name}", np.asarray(number, np.float32))

        centred = add("Sub", "sub1", source, mean("mean1", source))
        squared = (
            add("Mul", "mul1", centred, centred)
            if node.op_type == "InstanceNormalization"
            else add("Pow", "pow1", centred, scalar("exponent", 2.0))
        )
        variance = mean("mean2", squared)
        shifted = add("Add", "add1", variance, scalar("epsilon", attribute(node, "epsilon", 1e-5)), shape=reduced)
        inverse = add("Reciprocal", "reciprocal", add("Sqrt", "sqrt", shifted, shape=reduced), shape=reduced)
        result = add("Mul", "mul2", centred, inverse)
        scale, bias = parameters
        if scale is not None:
            result = add("Mul", "mul3", result, scale)
        if bias is not None:
            add("Add", "add2", result, bias)
        return nodes

    @staticmethod
    def _parameter(node: ir.Node, index: int, shape: tuple[int, ...] | None) -> ir.Value | None:
        """Constant input ``index`` of ``node``, reshaped to broadcast; ``None`` where it is absent or computed."""
        value = node.inputs[index] if index < len(node.inputs) else None
        array = initializer_of(value)
        if value is None or array is None:
            return None
        return (
            value
            if shape is None
            else add_initializer(graph_of(node), f"{node.name}_{value.name}_{_SUFFIXES[index]}", array.reshape(shape))
        )


def _gives_statistics(node: ir.Node) -> bool:
    """Whether the mean or the inverse deviation, the further results of a LayerNormalization, are read."""
    return any(output.uses() or output.is_graph_output() for output in node.outputs[1:])


class DecomposeNorm(NodePass):
    """``ReduceL1`` becomes a ``ReduceSum`` of magnitudes, ``ReduceL2`` the root of one of squares.

    Over whichever axes, on every march (reference/operators.md, Reduce). Parts are called ``<node>_Abs`` or
    ``<node>_Pow``, ``<node>_ReduceSum`` and ``<node>_Sqrt``, tensors ``<y>_Abs``, ``<y>_pow`` and ``<y>_reducesum``.
    """

    op_types = frozenset({"ReduceL1", "ReduceL2"})

    def rewrite(self, node: ir.Node) -> bool:
        source, result = node.inputs[0], node.outputs[0]
        if source is None or not self.remains(node):
            return False
        if node.op_type == "ReduceL1":
            parts = [make_node("Abs", [source], name=f"{node.name}_Abs", output=f"{result.name}_Abs", like=source)]
        else:
            exponent = add_initializer(graph_of(node), f"{node.name}_exponent", np.asarray(2, np.float32))
            name = f"{node.name}_Pow"
            parts = [make_node("Pow", [source, exponent], name=name, output=f"{result.name}_pow", like=source)]
        axes = self._axes_input(node)
        kept = ("keepdims",) if axes else ("axes", "keepdims")
        attributes = {key: attr.value for key, attr in node.attributes.items() if key in kept}
        total = make_node(
            "ReduceSum",
            [parts[0].outputs[0], *axes],
            name=f"{node.name}_ReduceSum",
            output=f"{result.name}_reducesum",
            like=result,
            attributes=attributes,
        )
        parts.append(total)
        if node.op_type == "ReduceL2":
            name = f"{node.name}_Sqrt"
            parts.append(make_node("Sqrt", [total.outputs[0]], name=name, output=f"{name}_output", like=result))
        substitute(node, parts)
        return True

    def remains(self, node: ir.Node) -> bool:
        """One of a float tensor of known shape."""
        return static_shape(node.inputs[0]) is not None and node.outputs[0].dtype == ir.DataType.FLOAT

    @staticmethod
    def _axes_input(node: ir.Node) -> list[ir.Value | None]:
        """The axes as ``ReduceSum`` takes them: an input where the norm's are, or where the opset wants one."""
        graph = graph_of(node)
        if len(node.inputs) > 1:
            return [node.inputs[1]]
        if graph.opset_imports.get("", 0) < SUM_AXES_AS_INPUT or "axes" not in node.attributes:
            return []
        return [add_initializer(graph, f"{node.name}_axes", np.asarray(attribute(node, "axes"), np.int64))]
