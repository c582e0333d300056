"""The machine of the fast simulator on single instructions, without a graph around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import HORIZON_DOMAIN
from engine.ops.registry import operator, read_attributes
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.kernels.machine import link
from engine.simulate.kernels.machine import run as run_machine
from engine.simulate.lowering.common import Call, Lowering
from engine.simulate.lowering.tables import look_up
from engine.simulate.program import Assembler, Instruction, Operand, Program, PythonStep, Tensor, aligned_zeros

Array = NDArray[Any]


def arena_of(program: Program) -> NDArray[np.uint8]:
    """An arena of ``program``, constant operands filled in."""
    arena: NDArray[np.uint8] = program.new_arenas(1)[0, : program.arena_bytes]
    return arena


def run(program: Assembler, feeds: Sequence[tuple[Tensor, Array]], result: Tensor) -> Array:
    """What ``program`` leaves in ``result``, on one thread."""
    program.keep(result)
    finished = program.finish()
    arena, scratch = arena_of(finished), aligned_zeros(finished.scratch_bytes)
    for tensor, array in feeds:
        tensor.view(arena)[...] = array
    for part in finished.parts:
        assert not isinstance(part, PythonStep)
        run_machine(link(part), arena.ctypes.data, scratch.ctypes.data)
    return result.view(arena).copy()


def negation(size: int) -> tuple[Program, Array, Tensor, Tensor]:
    """A program that replaces each of ``size`` int8 ``x`` by ``-1 - x``: itself, its table, input and output."""
    program = Assembler()
    x = program.input((size,), np.int8)
    y = look_up(x, ramp(1, 256, first=-128)[:, ::-1].copy(), program)
    program.keep(y)
    finished = program.finish()
    (part,) = finished.parts
    assert isinstance(part, np.ndarray)
    return finished, part, x, y


def fed(program: Assembler, *arrays: Array) -> list[tuple[Tensor, Array]]:
    """Inputs of ``program`` to be filled with ``arrays``, known to be negative nowhere where they are not."""
    inputs = [program.input(array.shape, array.dtype) for array in arrays]
    return [(replace(x, signed=bool(np.any(array < 0))), array) for x, array in zip(inputs, arrays, strict=True)]


def call(op_type: str, *inputs: Operand, **attributes: Any) -> Call:
    """A quantised node as lowerings see it."""
    node = ir.node(op_type, [ir.Value(name="x")], attributes, domain=HORIZON_DOMAIN, name="n")
    return Call(operator(op_type), read_attributes(node), inputs)


def compute(
    lowering: Lowering, op_type: str, inputs: Sequence[Array | None], activations: int = 1, **attributes: Any
) -> Array:
    """What the instructions of a node compute, which its definition must too.

    Args:
        lowering: writes the instructions.
        op_type: the operator.
        inputs: of the node; after the first ``activations`` they are constants.
        activations: see ``inputs``.
        attributes: as in a file.
    """
    program = Assembler()
    feeds = fed(program, *(x for x in inputs[:activations] if x is not None))
    node = call(op_type, *(tensor for tensor, _ in feeds), *inputs[activations:], **attributes)
    result = lowering(node, program)
    found = run(program, feeds, result)
    (expected,) = node.operator.reference(inputs, node.attributes)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert result.signed or not np.any(found < 0)
    return found


def instructions(program: Assembler) -> list[Instruction]:
    """The instructions so far."""
    steps = program.finish().steps
    return [step for step in steps if isinstance(step, Instruction)]


def kinds(program: Assembler) -> list[InstructionKind]:
    """Their kinds."""
    return [step.kind for step in instructions(program)]


def ramp(*shape: int, dtype: Any = np.int8, first: int = 0) -> Array:
    """Integers one after the other, modulo what the type holds."""
    return (first + np.arange(np.prod(shape, dtype=int))).astype(dtype).reshape(shape)
