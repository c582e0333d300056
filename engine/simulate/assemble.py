"""From a quantised graph to a program: constants folded, nodes lowered in order, the rest called from Python."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.floats.own_arithmetic import is_float_composite
from engine.ir import HORIZON_DOMAIN
from engine.ops.registry import STANDARD_OPERATORS, has_bpu_operator, operator, read_attributes
from engine.simulate.destinations import reach_outside, store_where_read
from engine.simulate.lowering import (
    FLOAT_LOWERINGS,
    LOWERINGS,
    RECURRENT_LOWERINGS,
    STANDARD_LOWERINGS,
    Call,
    NotLowered,
)
from engine.simulate.program import Assembler, Operand, Program, Tensor
from engine.simulate.reference import MISFITS, STANDARD_DOMAINS, name_of, node_function, sorted_copy, split_constants
from engine.simulate.tensors import describe, graph_inputs

Array = NDArray[Any]

BPU_TYPES = (np.dtype(np.int8), np.dtype(np.int16), np.dtype(np.int32))

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Interpreted:
    """An operator of the BPU that the program has no instructions for: its definition is called from Python.

    Attributes:
        node: its name.
        op_type: its operator.
        reason: why.
    """

    node: str
    op_type: str
    reason: str


@dataclass(frozen=True)
class AssembledGraph:
    """A program of a quantised graph.

    Attributes:
        program: instructions and Python steps.
        inputs: where it expects inputs, by name.
        outputs: where it leaves outputs, by name.
        addresses: where it expects the addresses of inputs and outputs that it reaches elsewhere, int64, by name.
        constants: outputs that no input changes, by name.
        interpreted: operators of the BPU without instructions, in running order.
    """

    program: Program
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    addresses: Mapping[str, Tensor]
    constants: Mapping[str, Array]
    interpreted: tuple[Interpreted, ...] = ()


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
    interpreted = []
    for node in nodes:
        given = [None if value is None else values[name_of(value)] for value in node.inputs]
        program.owner = node.op_type
        try:
            results = _lower(node, model, given, program)
        except NotLowered as reason:
            results = _call_reference(node, model, given, program)
            if _runs_on_bpu(node, given):
                interpreted.append(Interpreted(str(node.name), node.op_type, str(reason)))
        values.update(zip(map(name_of, node.outputs), results, strict=False))
    outputs, constants = {}, {}
    for value in model.graph.outputs:
        result = values[name_of(value)]
        if isinstance(result, Tensor):
            outputs[name_of(value)] = result
            program.keep(result)
        elif result is not None:
            constants[name_of(value)] = result
    _report(interpreted)
    store_where_read(program)
    addresses = reach_outside(program, inputs, outputs)
    return AssembledGraph(program.finish(), inputs, outputs, addresses, constants, tuple(interpreted))


def _runs_on_bpu(node: ir.Node, given: Sequence[Operand]) -> bool:
    """Whether ``node`` is quantised, or a standard operator of the BPU that reads integers of the BPU alone."""
    if node.domain == HORIZON_DOMAIN:
        return not is_float_composite(node)
    return has_bpu_operator(node) and all(x.dtype in BPU_TYPES for x in given if isinstance(x, Tensor))


def _report(interpreted: Sequence[Interpreted]) -> None:
    """One line about all operators without instructions."""
    if interpreted:
        listed = ", ".join(f"{found.node} ({found.op_type}: {found.reason})" for found in interpreted)
        logger.info(
            "the fast simulator has no instruction for %d nodes and computes them slowly: %s", len(interpreted), listed
        )


def _lower(node: ir.Node, model: ir.Model, given: Sequence[Operand], program: Assembler) -> list[Tensor]:
    """The results of the node's instructions.

    Raises:
        NotLowered: it has none; the program is as it was.
        ModelError: the node's parts do not fit together, so that its definition cannot be computed either.
    """
    state = program.state()
    try:
        return _instructions(node, model, given, program)
    except NotLowered:
        program.restore(state)
        raise
    except MISFITS:
        # A node that its definition refuses too is malformed, and says so here; anything else is a lowering's defect.
        program.restore(state)
        _probe(node, model, given)
        raise


def _instructions(node: ir.Node, model: ir.Model, given: Sequence[Operand], program: Assembler) -> list[Tensor]:
    if is_float_composite(node):
        raise NotLowered("the machine has no instructions for it")
    if node.domain == HORIZON_DOMAIN:
        found = operator(node.op_type)
        lowering = LOWERINGS.get(found.instructions)
        call = Call(found, read_attributes(node), given)
        if lowering is None:
            raise NotLowered("the machine has no instructions for it")
        return [lowering(call, program)]
    standard = STANDARD_OPERATORS.get(node.op_type) if has_bpu_operator(node) else None
    movement = None if standard is None else STANDARD_LOWERINGS.get(standard.instructions)
    if movement is not None:
        return movement(node, given, program)
    if node.domain not in STANDARD_DOMAINS:
        raise NotLowered("the machine has no instructions for it")
    recurrent, computation = RECURRENT_LOWERINGS.get(node.op_type), FLOAT_LOWERINGS.get(node.op_type)
    if recurrent is not None:
        return recurrent(node, given, program)
    if computation is None:
        raise NotLowered("the machine has no instructions for it")
    return [computation(node, model.opset_imports.get("", 0), given, program)]


def _call_reference(node: ir.Node, model: ir.Model, given: Sequence[Operand], program: Assembler) -> list[Tensor]:
    """A Python step; what it returns for zeros tells the shapes and types of its outputs."""
    outputs = [program.tensor(result.shape, result.dtype) for result in map(np.asarray, _probe(node, model, given))]
    program.call(node_function(node, model), given, outputs)
    return outputs


def _probe(node: ir.Node, model: ir.Model, given: Sequence[Operand]) -> Sequence[Array]:
    """What the node's definition gives for zeros.

    Raises:
        ModelError: its parts do not fit together.
    """
    probes = [np.zeros(x.shape, x.dtype) if isinstance(x, Tensor) else x for x in given]
    return node_function(node, model)(probes)
