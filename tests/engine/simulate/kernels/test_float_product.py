"""The kernel of float products: rests of tiles in both directions, long sums, equal to the definition."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.floats.recurrent import GATES, cell_of, recurred
from engine.simulate.kernels.float_product import ROWS, WIDTH
from engine.simulate.lowering.recurrent import lower_recurrent
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import fed, run


@pytest.mark.parametrize("rows", [2, ROWS - 1, ROWS, 2 * ROWS + 3])
@pytest.mark.parametrize("hidden", [1, WIDTH // 4, WIDTH // 2 + 1])
@pytest.mark.parametrize("inputs", [1, 5, 130, 300])
@pytest.mark.parametrize("op_type", ["LSTM", "GRU"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_rests_of_tiles(rows: int, hidden: int, inputs: int, op_type: str, direction: str) -> None:
    """Products with the input of a cell whose state has no say in its gates; each direction divides its own sums."""
    rng, program = np.random.default_rng(hidden), Assembler()
    ways, gates = 1 + (direction == "bidirectional"), GATES[op_type]
    x = rng.standard_normal((rows, 1, inputs)).astype(np.float32)
    weights = rng.standard_normal((ways, gates * hidden, inputs)).astype(np.float32)
    given = [weights, np.zeros((ways, gates * hidden, hidden), np.float32)]
    node = ir.node(op_type, [], {"direction": direction}, outputs=[ir.Value(name="y")], name="n")
    cell = cell_of(node, [x, *given])
    assert cell is not None
    feeds = fed(program, x)
    (y,) = lower_recurrent(node, [feeds[0][0], *given], program)
    np.testing.assert_array_equal(run(program, feeds, y), recurred(x, cell)[0])
