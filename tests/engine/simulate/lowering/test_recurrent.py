"""LSTM and GRU as instructions: what they become, and what has none."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering import NotLowered
from engine.simulate.lowering.recurrent import lower_recurrent
from engine.simulate.program import Assembler
from tests.engine.floats.test_recurrent import parts
from tests.engine.simulate.machine import fed, kinds


@pytest.mark.parametrize(("direction", "ways"), [("forward", 1), ("bidirectional", 2)])
def test_products_with_the_input_are_one_instruction_and_the_steps_another(direction: str, ways: int) -> None:
    inputs, program = parts("GRU", ways, (6, 1, 4, 5)), Assembler()
    x = inputs[0]
    assert x is not None
    node = ir.node("GRU", [], {"direction": direction}, outputs=[ir.Value(name="y")], name="n")
    feeds = fed(program, x)
    (found,) = lower_recurrent(node, [feeds[0][0], *inputs[1:]], program)
    assert found.shape == (6, ways, 1, 5)
    assert kinds(program) == [InstructionKind.FLOAT_PRODUCT, InstructionKind.RECURRENT]


def test_computed_weights_have_none() -> None:
    inputs, program = parts("LSTM", 1, (6, 1, 4, 5)), Assembler()
    tensors = [tensor for tensor, _ in fed(program, *(array for array in inputs[:3] if array is not None))]
    with pytest.raises(NotLowered, match="weights are computed"):
        lower_recurrent(ir.node("LSTM", [], name="n"), [*tensors, inputs[3]], program)
    constant = np.zeros((6, 1, 4), np.float32)
    with pytest.raises(NotLowered, match="another form"):
        lower_recurrent(ir.node("LSTM", [], name="n"), [constant, *inputs[1:]], program)
