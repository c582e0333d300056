"""Transposes that enclose arithmetic vanish: the arithmetic runs in the order of axes in front of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from engine.ir import attribute
from engine.optimize.base import (
    Array,
    add_initializer,
    axes_of,
    bypass,
    constant,
    graph_of,
    is_standard,
    set_constant,
    static_shape,
)

ELEMENTWISE = frozenset(
    {"Abs", "Add", "Clip", "Div", "Elu", "Erf", "Exp", "HardSigmoid", "LeakyRelu", "Log", "Max", "Min", "Mul", "Pow"}
    | {"PRelu", "Reciprocal", "Relu", "Sigmoid", "Softplus", "Sqrt", "Sub", "Sum", "Tanh"}
    | {"HzGelu", "HzHardSwish", "HzMish", "HzRsqrt", "HzSwish"}
)
"""Operators that compute each element from those at its place, operands broadcast."""
REDUCTIONS = frozenset({"ReduceMean", "ReduceSum", "ReduceMax"})


class DropEnclosingTransposes(ir.passes.InPlacePass):
    """Between a ``Transpose`` and the ones that undo it, constants and axes are permuted in place of the tensors.

    As exporters write a normalisation or a dense layer over the channels of a map (``op_ln_c``: the original has
    neither transpose, and folds scale and shift into the next convolution).
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified = False
        for node in tuple(model.graph):
            if node.graph is not None and is_standard(node, "Transpose"):
                modified |= self.rewrite(node)
        return ir.passes.PassResult(model, modified)

    def rewrite(self, transpose: ir.Node) -> bool:
        """Remove the transposes of the arithmetic behind ``transpose``, if it is undone everywhere."""
        region = _region_behind(transpose)
        if region is None:
            return False
        for node in region.nodes:
            _permute_node(node, region)
        for last in region.last:
            bypass(last)
        return True


@dataclass
class _Region:
    """Arithmetic on tensors whose axes ``perm`` ordered.

    Attributes:
        perm: of the transposes in front.
        nodes: the arithmetic, in the order of the graph.
        values: what it computes, and the results of the transposes in front.
        last: the transposes that undo ``perm``.
    """

    perm: tuple[int, ...]
    nodes: list[ir.Node] = field(default_factory=list)
    values: set[ir.Value] = field(default_factory=set)
    last: list[ir.Node] = field(default_factory=list)

    @property
    def inverse(self) -> tuple[int, ...]:
        return tuple(int(axis) for axis in np.argsort(self.perm))


def _perm(node: ir.Node | None) -> tuple[int, ...] | None:
    return tuple(attribute(node, "perm", ())) or None if node is not None and is_standard(node, "Transpose") else None


def _region_behind(transpose: ir.Node) -> _Region | None:
    """The arithmetic behind ``transpose``; ``None`` where there is none or something else reads a tensor of it."""
    perm = _perm(transpose)
    if perm is None:
        return None
    region, found = _Region(perm), set()
    region.values.add(transpose.outputs[0])
    waiting = [transpose.outputs[0]]
    while waiting:
        value = waiting.pop()
        if value.is_graph_output():
            return None
        for reader in {usage.node for usage in value.uses()}:
            if _perm(reader) == region.inverse:
                region.last.append(reader)
            elif reader not in found:
                if not _can_be_permuted(reader, len(perm)):
                    return None
                found.add(reader)
                region.values.update(reader.outputs)
                waiting += reader.outputs
    region.nodes = [node for node in graph_of(transpose) if node in found]
    is_closed = all(_is_known(value, region) for node in region.nodes for value in node.inputs)
    ends = [last for last in region.last if last.outputs[0].is_graph_output()]
    apart = len({last.inputs[0] for last in ends}) == len(ends)
    return region if region.nodes and region.last and is_closed and apart else None


def _can_be_permuted(node: ir.Node, rank: int) -> bool:
    shape = static_shape(node.outputs[0])
    if shape is None or len(shape) != rank or len(node.outputs) != 1:
        return False
    if node.op_type in REDUCTIONS:
        return bool(attribute(node, "keepdims", 1)) and bool(axes_of(node, rank))
    return node.op_type in ELEMENTWISE


def _is_known(value: ir.Value | None, region: _Region) -> bool:
    """Whether ``value`` is one of the region's, a constant, or comes from a transpose like that in front."""
    if value is None or value in region.values:
        return True
    array = constant(value)
    if array is not None:
        return array.ndim <= len(region.perm)
    return _perm(value.producer()) == region.perm


def _permute_node(node: ir.Node, region: _Region) -> None:
    """Let ``node`` compute in the order of axes in front of the transposes."""
    rank = len(region.perm)
    if node.op_type in REDUCTIONS:
        _set_axes(node, sorted(region.perm[axis] for axis in axes_of(node, rank) or ()))
    for index, value in enumerate(node.inputs):
        array, producer = constant(value), None if value is None else value.producer()
        if producer is not None and _perm(producer) == region.perm:
            node.replace_input_with(index, producer.inputs[0])
        elif array is not None and array.size > 1 and node.op_type in ELEMENTWISE:
            set_constant(node, index, _permuted(array, region.inverse))
    shape = static_shape(node.outputs[0]) or ()
    node.outputs[0].shape = ir.Shape([shape[axis] for axis in region.inverse])


def _permuted(array: Array, inverse: tuple[int, ...]) -> Array:
    return array.reshape((1,) * (len(inverse) - array.ndim) + array.shape).transpose(inverse)


def _set_axes(node: ir.Node, axes: list[int]) -> None:
    if "axes" in node.attributes:
        node.attributes["axes"] = ir.AttrInt64s("axes", axes)
    else:
        named = add_initializer(graph_of(node), f"{node.name}_axes", np.asarray(axes, np.int64))
        node.replace_input_with(1, named)
