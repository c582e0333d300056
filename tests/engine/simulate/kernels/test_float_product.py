"""The kernel of float products: rests of tiles in both directions, long sums, equal to the definition."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.floats.recurrent import cell_of, recurred
from engine.simulate.kernels.float_product import ROWS, WIDTH
from engine.simulate.lowering.recurrent import lower_recurrent
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import fed, run


@pytest.mark.parametrize("rows", [2, ROWS - 1, ROWS, 2 * ROWS + 3])
@pytest.mark.parametrize("hidden", [1, WIDTH // 4, WIDTH // 2 + 1])
@pytest.mark.parametrize("inputs", [1, 5, 130, 300])
def test_rests_of_tiles(rows: int, hidden: int, inputs: int) -> None:
    """Products with the input of an LSTM whose state has no say in what it gives."""
    rng, program = np.random.default_rng(hidden), Assembler()
    x = rng.standard_normal((rows, 1, inputs)).astype(np.float32)
    weights = rng.standard_normal((1, 4 * hidden, inputs)).astype(np.float32)
    given = [weights, np.zeros((1, 4 * hidden, hidden), np.float32)]
    node = ir.node("LSTM", [], outputs=[ir.Value(name="y")], name="n")
    cell = cell_of(node, [x, *given])
    assert cell is not None
    feeds = fed(program, x)
    (y,) = lower_recurrent(node, [feeds[0][0], *given], program)
    np.testing.assert_array_equal(run(program, feeds, y), recurred(x, cell)[0])
