"""From a quantised graph to a program: constants folded, nodes lowered in order, the rest called from Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import HORIZON_DOMAIN, attribute
from engine.ops.registry import operator, read_attributes
from engine.simulate.lowering import LOWERINGS, Call, concat, extract, transpose
from engine.simulate.program import Assembler, Operand, Program, Tensor
from engine.simulate.reference import MISFITS, name_of, node_function, sorted_copy, split_constants
from engine.simulate.tensors import describe, graph_inputs

Array = NDArray[Any]


Results = Sequence[Tensor | None]
"""Outputs of a node, empty or with None where it has no instructions."""


@dataclass(frozen=True)
class AssembledGraph:
    """A program with the tensors where it expects inputs and leaves outputs, and the outputs that are constant."""

    program: Program
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    constants: Mapping[str, Array]


def assemble(model: ir.Model) -> AssembledGraph:
    """The program of a quantised graph.

    Raises:
        UnsupportedError: the graph holds an operator that is not known.
        ModelError: an attribute or constant is not what its operator needs.
    """
    model = sorted_copy(model)
    known, nodes = split_constants(model)
    program = Assembler()
    inputs = {info.name: program.input(info.shape, info.dtype) for info in describe(graph_inputs(model))}
    values: dict[str, Operand] = {**known, **inputs}
    for node in nodes:
        given = [None if value is None else values[name_of(value)] for value in node.inputs]
        results = _lower(node, given, program) or _call_reference(node, model, given, program)
        values.update(zip(map(name_of, node.outputs), results, strict=False))
    outputs, constants = {}, {}
    for value in model.graph.outputs:
        result = values[name_of(value)]
        if isinstance(result, Tensor):
            outputs[name_of(value)] = result
            program.keep(result)
        elif result is not None:
            constants[name_of(value)] = result
    return AssembledGraph(program.finish(), inputs, outputs, constants)


def _lower(node: ir.Node, given: Sequence[Operand], program: Assembler) -> list[Tensor]:
    """The results of the node's instructions; nothing where it has none, or where its parts do not fit together."""
    try:
        return _lower_by_kind(node, given, program)
    except MISFITS:
        return []


def _lower_by_kind(node: ir.Node, given: Sequence[Operand], program: Assembler) -> list[Tensor]:
    if node.domain == HORIZON_DOMAIN:
        lowering = LOWERINGS.get(node.op_type)
        call = Call(operator(node.op_type), read_attributes(node), given)
        result = None if lowering is None else lowering(call, program)
        return [] if result is None else [result]
    movement = MOVEMENTS.get(node.op_type)
    results = [] if movement is None else movement(node, given, program)
    return [result for result in results if result is not None]


def _call_reference(node: ir.Node, model: ir.Model, given: Sequence[Operand], program: Assembler) -> list[Tensor]:
    """A Python step; what it returns for zeros tells the shapes and types of its outputs."""
    function = node_function(node, model)
    probes = [np.zeros(x.shape, x.dtype) if isinstance(x, Tensor) else x for x in given]
    outputs = [program.tensor(result.shape, result.dtype) for result in map(np.asarray, function(probes))]
    program.call(function, given, outputs)
    return outputs


def _transpose(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Results:
    x = given[0]
    if not isinstance(x, Tensor):
        return []
    return [transpose(x, attribute(node, "perm") or tuple(reversed(range(len(x.shape)))), program)]


def _reshape(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Results:
    x, target = given[:2]
    if not isinstance(x, Tensor) or not isinstance(target, np.ndarray):
        return []
    keeps_zero = not attribute(node, "allowzero", 0)
    shape = [x.shape[axis] if dim == 0 and keeps_zero else int(dim) for axis, dim in enumerate(target)]
    return [_with_shape(x, np.empty(x.shape, np.bool_).reshape(shape).shape)]


def _flatten(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Results:
    x = given[0]
    if not isinstance(x, Tensor):
        return []
    axis = attribute(node, "axis", 1)
    axis = axis + len(x.shape) if axis < 0 else axis
    return [_with_shape(x, (int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:]))))]


def _identity(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Results:
    return [given[0]] if isinstance(given[0], Tensor) else []


def _concat(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Results:
    tensors = [program.constant_operand(x) if isinstance(x, np.ndarray) else x for x in given]
    return [concat([x for x in tensors if x is not None], attribute(node, "axis"), program)]


def _slice(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Results:
    x, bounds = given[0], list(given[1:])
    if (
        not isinstance(x, Tensor)
        or len(bounds) < 2
        or not all(isinstance(b, np.ndarray) for b in bounds if b is not None)
    ):
        return []
    starts, ends = (np.asarray(bound).tolist() for bound in bounds[:2])
    axes, steps = (np.asarray(bound).tolist() if bound is not None else None for bound in (*bounds[2:], None, None)[:2])
    ranges = [range(dim) for dim in x.shape]
    for k, axis in enumerate(axes if axes is not None else range(len(starts))):
        ranges[axis] = ranges[axis][slice(starts[k], ends[k], 1 if steps is None else steps[k])]
    if not all(ranges):
        return []
    return [extract(x, [r.start for r in ranges], [len(r) for r in ranges], [r.step for r in ranges], program)]


def _split(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Results:
    x, axis = given[0], attribute(node, "axis", 0)
    if not isinstance(x, Tensor) or len(x.shape) > 4 or (len(given) > 1 and not isinstance(given[1], np.ndarray)):
        return []
    given_sizes = given[1] if len(given) > 1 else attribute(node, "split")
    share = math.ceil(x.shape[axis] / len(node.outputs))
    last = x.shape[axis] - share * (len(node.outputs) - 1)
    sizes = [share] * (len(node.outputs) - 1) + [last] if given_sizes is None else np.asarray(given_sizes).tolist()
    if min(sizes) < 1:
        return []
    results, start = [], 0
    for size in sizes:
        shape, starts = list(x.shape), [0] * len(x.shape)
        shape[axis], starts[axis] = size, start
        results.append(extract(x, starts, shape, [1] * len(shape), program))
        start += size
    return results


def _with_shape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """The same memory with another shape."""
    return Tensor(tuple(shape), x.dtype, x.buffer)


Movement = Callable[[ir.Node, Sequence[Operand], Assembler], Results]

MOVEMENTS: Mapping[str, Movement] = MappingProxyType(
    {
        "Transpose": _transpose,
        "Reshape": _reshape,
        "Flatten": _flatten,
        "Identity": _identity,
        "Concat": _concat,
        "Slice": _slice,
        "Split": _split,
    }
)
"""Standard operators that only move data and have instructions, by type."""
