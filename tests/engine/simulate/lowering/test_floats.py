"""Float operators of the CPU: which of them are instructions."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.floats import FLOAT_LOWERINGS, lower_cast, lower_softmax
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import fed, kinds


def test_a_softmax_over_the_last_axis_is_one_instruction() -> None:
    program = Assembler()
    x = program.input((2, 3, 8), np.float32)
    y = lower_softmax(ir.node("Softmax", [], {}, name="n"), 13, [x], program)
    assert (y.shape, kinds(program)) == ((2, 3, 8), [InstructionKind.SOFTMAX])


def test_another_axis_is_moved_there_and_back() -> None:
    program = Assembler()
    x = program.input((2, 3, 8), np.float32)
    y = lower_softmax(ir.node("Softmax", [], {"axis": 1}, name="n"), 13, [x], program)
    assert y.shape == (2, 3, 8)
    assert kinds(program) == [InstructionKind.COPY, InstructionKind.SOFTMAX, InstructionKind.COPY]


def test_what_the_machine_does_not_compute() -> None:
    program = Assembler()
    (integers, _), (doubles, _) = fed(program, np.zeros(4, np.int32), np.zeros(4, np.float64))
    cast = ir.node("Cast", [], {"to": ir.DataType.INT32.value}, name="n")
    for lower, given in ((lower_softmax, [doubles]), (FLOAT_LOWERINGS["Add"], [integers, integers])):
        with pytest.raises(NotLowered, match="float32"):
            lower(ir.node("Node", [], {}, name="n"), 13, given, program)
    with pytest.raises(NotLowered, match="int32"):
        lower_cast(cast, 13, [doubles], program)
