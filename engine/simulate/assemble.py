"""From a quantised graph to a program: constants folded, nodes lowered in order, the rest called from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import HORIZON_DOMAIN, attribute
from engine.ops.registry import operator, read_attributes
from engine.simulate.lowering import LOWERINGS, Call, concat, transpose
from engine.simulate.program import Assembler, Operand, Program, Tensor
from engine.simulate.reference import name_of, node_function, sorted_copy, split_constants
from engine.simulate.tensors import describe, graph_inputs

Array = NDArray[Any]


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
        lowered = _lower(node, given, program)
        results = [lowered] if lowered is not None else _call_reference(node, model, given, program)
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


def _lower(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Tensor | None:
    if node.domain == HORIZON_DOMAIN:
        lowering = LOWERINGS.get(node.op_type)
        call = Call(operator(node.op_type), read_attributes(node), given)
        return None if lowering is None else lowering(call, program)
    movement = MOVEMENTS.get(node.op_type)
    return None if movement is None else movement(node, given, program)


def _call_reference(node: ir.Node, model: ir.Model, given: Sequence[Operand], program: Assembler) -> list[Tensor]:
    """A Python step; what it returns for zeros tells the shapes and types of its outputs."""
    function = node_function(node, model)
    probes = [np.zeros(x.shape, x.dtype) if isinstance(x, Tensor) else x for x in given]
    outputs = [program.tensor(result.shape, result.dtype) for result in map(np.asarray, function(probes))]
    program.call(function, given, outputs)
    return outputs


def _transpose(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Tensor | None:
    x = given[0]
    if not isinstance(x, Tensor):
        return None
    return transpose(x, attribute(node, "perm") or tuple(reversed(range(len(x.shape)))), program)


def _reshape(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Tensor | None:
    x, target = given[:2]
    if not isinstance(x, Tensor) or not isinstance(target, np.ndarray):
        return None
    keeps_zero = not attribute(node, "allowzero", 0)
    shape = [x.shape[axis] if dim == 0 and keeps_zero else int(dim) for axis, dim in enumerate(target)]
    return _with_shape(x, np.empty(x.shape, np.bool_).reshape(shape).shape)


def _flatten(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Tensor | None:
    x = given[0]
    if not isinstance(x, Tensor):
        return None
    axis = attribute(node, "axis", 1)
    axis = axis + len(x.shape) if axis < 0 else axis
    return _with_shape(x, (int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:]))))


def _identity(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Tensor | None:
    return given[0] if isinstance(given[0], Tensor) else None


def _concat(node: ir.Node, given: Sequence[Operand], program: Assembler) -> Tensor | None:
    tensors = [program.constant_operand(x) if isinstance(x, np.ndarray) else x for x in given]
    return concat([x for x in tensors if x is not None], attribute(node, "axis"), program)


def _with_shape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """The same memory with another shape."""
    return Tensor(tuple(shape), x.dtype, x.buffer)


Movement = Callable[[ir.Node, Sequence[Operand], Assembler], Tensor | None]

MOVEMENTS: Mapping[str, Movement] = MappingProxyType(
    {"Transpose": _transpose, "Reshape": _reshape, "Flatten": _flatten, "Identity": _identity, "Concat": _concat}
)
"""Standard operators that only move data and have instructions, by type."""
