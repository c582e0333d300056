"""The kernel of Resize, equal to the definition in every mode, for larger and smaller maps."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import onnx_ir as ir
import pytest

from engine.floats.resize import plan_of, resized
from engine.simulate.kernels.float_resize import pick
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering.floats import FLOAT_LOWERINGS
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import fed, kinds, run


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("size", [(1, 1), (5, 40), (14, 3), (21, 18)])
def test_rows_and_columns(mode: str, coordinates: str, size: tuple[int, int]) -> None:
    program, sizes = Assembler(), np.array([2, 3, *size])
    feeds = fed(program, np.random.default_rng(size[0]).standard_normal((2, 3, 7, 9)).astype(np.float32))
    node = ir.node("Resize", [], {"mode": mode, "coordinate_transformation_mode": coordinates}, name="n")
    given = [None, None, sizes]
    plan = plan_of(node, [feeds[0][1], *given], 13)
    assert plan is not None
    y = FLOAT_LOWERINGS["Resize"](node, 13, [feeds[0][0], *given], program)
    assert kinds(program) == [InstructionKind.RESIZE]
    np.testing.assert_array_equal(run(program, feeds, y), resized(feeds[0][1], plan))


@numba.njit
def picked(x: Any, columns: Any, y: Any) -> None:
    pick(x, columns, y)


def test_columns_may_repeat() -> None:
    y = np.zeros(4, np.float32)
    picked(np.arange(3, dtype=np.float32), np.array([2, 0, 0, 1]), y)
    assert y.tolist() == [2, 0, 0, 1]
