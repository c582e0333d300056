"""LSTM and GRU have the bits of the original's own runtime.

``recorded/recurrent_nodes/states.npz`` has the last states that it (version 1.24.3) gave for the nodes below, whose
inputs :func:`tests.engine.floats.test_recurrent.parts` draws.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.floats.recurrent import cell_of, recurred
from tests.engine.floats.test_recurrent import FORMS, cell_node, parts

STATES = np.load(Path(__file__).parent / "recorded" / "recurrent_nodes" / "states.npz", allow_pickle=False)
SIZES = [(1, 1, 3, 2), (6, 2, 33, 17), (12, 1, 5, 7), (12, 1, 5, 18), (4, 1, 300, 20), (3, 1, 20, 135), (2, 3, 20, 140)]
"""Steps, rows, inputs and width of the state: one row and several, with a rest of one to three results, long sums."""


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("direction", "scale"), [("forward", 20), ("bidirectional", 1)])
@pytest.mark.parametrize(("op_type", "attributes"), FORMS)
def test_last_states_have_the_bits_of_the_original(
    op_type: str, attributes: dict[str, int], direction: str, size: tuple[int, int, int, int], scale: float
) -> None:
    """Also where gates are saturated."""
    node = cell_node(op_type, direction, size[-1], attributes)
    inputs = parts(op_type, 2 if direction == "bidirectional" else 1, size, scale)
    cell, x = cell_of(node, inputs), inputs[0]
    assert cell is not None
    assert x is not None
    name = "_".join(map(str, (op_type, *attributes.values(), direction, *size, scale)))
    np.testing.assert_array_equal(recurred(x, cell)[1], STATES[name])
