"""Nodes on stacked arrays: every activation has one more leading axis, the sample.

Stacking keeps the model's own shapes, so that data movement is the same operation on shifted axes whatever constants
a graph holds; what cannot be stacked runs sample by sample.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import HORIZON_DOMAIN, attribute, constant_of
from engine.ops.base import Attributes
from engine.ops.registry import operator, read_attributes
from engine.simulate.reference import NodeFunction, name_of, node_function

Array = NDArray[Any]
StackedFunction = Callable[[Sequence[Array | None]], tuple[Array, ...]]
"""Stacked inputs (constants as they are, None where omitted) to stacked outputs."""


def stacked_function(node: ir.Node, model: ir.Model, constants: Container[str]) -> StackedFunction:
    """What ``node`` computes on stacked arrays, equal to its reference on every sample."""
    is_constant = [value is None or name_of(value) in constants for value in node.inputs]
    per_sample = _sample_by_sample(node_function(node, model), is_constant)
    if node.domain == HORIZON_DOMAIN:
        return _batched(node, is_constant, per_sample)
    movement = MOVEMENT.get(node.op_type)
    if movement is None or is_constant[0] or (node.op_type == "Concat" and any(is_constant)):
        return per_sample
    return movement(node)


def _sample_by_sample(function: NodeFunction, is_constant: Sequence[bool]) -> StackedFunction:
    def run(inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        stacked = [x for x, constant in zip(inputs, is_constant, strict=True) if x is not None and not constant]
        results = []
        for sample in range(len(stacked[0]) if stacked else 1):
            own = [x if c or x is None else x[sample] for x, c in zip(inputs, is_constant, strict=True)]
            results.append(function(own))
        return tuple(np.stack(outputs) for outputs in zip(*results, strict=True))

    return run


def _batched(node: ir.Node, is_constant: Sequence[bool], per_sample: StackedFunction) -> StackedFunction:
    """The quantised operator with the samples as its batch, where the model's own leading dimension is 1 throughout."""
    reference = operator(node.op_type).reference
    attributes = read_attributes(node)

    def run(inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        stacked = [x for x, constant in zip(inputs, is_constant, strict=True) if x is not None and not constant]
        first = per_sample([x if c or x is None else x[:1] for x, c in zip(inputs, is_constant, strict=True)])
        if len(stacked[0]) == 1:
            return first
        if not (_leads_with_one(stacked) and _leads_with_one(first)) or _touches_first_axis(attributes, stacked[0]):
            return per_sample(inputs)
        merged = [x if c or x is None else x[:, 0] for x, c in zip(inputs, is_constant, strict=True)]
        return tuple(output[:, None] for output in reference(merged, attributes))

    return run


def _leads_with_one(arrays: Sequence[Array]) -> bool:
    """Whether every sample has rank 3 or more and a leading dimension of 1, in whose place the samples may stand."""
    return all(x.ndim >= 4 and x.shape[1] == 1 for x in arrays)


def _touches_first_axis(attributes: Attributes, x: Array) -> bool:
    return attributes.get("axis", 1) in (0, 1 - x.ndim)


def _transpose(node: ir.Node) -> StackedFunction:
    perm = attribute(node, "perm")

    def run(inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        x = _given(inputs[0])
        order = perm if perm is not None else tuple(reversed(range(x.ndim - 1)))
        return (np.ascontiguousarray(x.transpose(0, *(axis + 1 for axis in order))),)

    return run


def _reshape(node: ir.Node) -> StackedFunction:
    target = constant_of(node.inputs[1])
    allow_zero = attribute(node, "allowzero", 0)

    def run(inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        x = _given(inputs[0])
        wanted = np.asarray(target if target is not None else inputs[1]).tolist()
        shape = [x.shape[axis + 1] if dim == 0 and not allow_zero else dim for axis, dim in enumerate(wanted)]
        if -1 in shape:
            rest = int(np.prod([dim for dim in shape if dim != -1]))
            shape[shape.index(-1)] = int(np.prod(x.shape[1:])) // max(rest, 1)
        return (x.reshape(len(x), *shape),)

    return run


def _concat(node: ir.Node) -> StackedFunction:
    axis = attribute(node, "axis")

    def run(inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        return (np.concatenate([_given(x) for x in inputs], axis=axis + 1 if axis >= 0 else axis),)

    return run


def _identity(node: ir.Node) -> StackedFunction:
    return lambda inputs: (_given(inputs[0]),)


def _given(x: Array | None) -> Array:
    if x is None:
        raise ValueError("a required input is omitted")
    return x


MOVEMENT: Mapping[str, Callable[[ir.Node], StackedFunction]] = MappingProxyType(
    {"Transpose": _transpose, "Reshape": _reshape, "Concat": _concat, "Identity": _identity}
)
"""Standard operators that only move data, by type."""
