"""The kernel of LSTM and GRU: rests of panels, directions, rows and states, equal to the definition."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.floats.recurrent import cell_of, recurred
from engine.simulate.kernels.recurrent import WIDTH
from engine.simulate.lowering import RECURRENT_LOWERINGS
from engine.simulate.program import Assembler
from tests.engine.floats.test_recurrent import FORMS, parts
from tests.engine.simulate.machine import fed, run

SIZES = [
    (2, 1, 1, 1),
    (5, 2, 40, 24),
    (4, 1, 7, WIDTH + 2),
    (2, 1, 259, 257),
    (2, 2, 9, 131),
    (3, 1, 4, 11),
    (70, 1, 5, 8),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op_type", "attributes"), FORMS)
def test_every_output_is_that_of_the_definition(
    op_type: str, attributes: dict[str, int], direction: str, size: tuple[int, int, int, int]
) -> None:
    inputs = parts(op_type, 2 if direction == "bidirectional" else 1, size)
    outputs = [ir.Value(name=name) for name in ("y", "h", "c")[: 3 if op_type == "LSTM" else 2]]
    node = ir.node(op_type, [], {"direction": direction, **attributes}, outputs=outputs, name="n")
    cell, x = cell_of(node, inputs), inputs[0]
    assert cell is not None
    assert x is not None
    for index, expected in enumerate(recurred(x, cell)):
        program = Assembler()
        feeds = fed(program, x)
        results = RECURRENT_LOWERINGS[op_type](node, [feeds[0][0], *inputs[1:]], program)
        assert len(results) == len(outputs)
        np.testing.assert_array_equal(run(program, feeds, results[index]), expected)


def test_what_is_no_number_stays_none() -> None:
    inputs = parts("LSTM", 1, (4, 1, 3, 5))
    x = inputs[0]
    assert x is not None
    x[1, 0, 0], x[2, 0, 1] = np.nan, np.inf
    node = ir.node("LSTM", [], name="n")
    cell, program = cell_of(node, inputs), Assembler()
    assert cell is not None
    feeds = fed(program, x)
    (found,) = RECURRENT_LOWERINGS["LSTM"](node, [feeds[0][0], *inputs[1:]], program)
    np.testing.assert_array_equal(run(program, feeds, found), recurred(x, cell)[0])
