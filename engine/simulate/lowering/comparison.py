"""Lowering of comparisons: a saturated difference, then a table of what its sign means.

Every ``lower_*`` appends the instructions of one node and raises :class:`NotLowered` where the machine has none for its
types, shapes or parameters.
"""

from __future__ import annotations

import numpy as np

from engine.ops.comparison import COMPARISONS
from engine.ops.sub import Sub
from engine.simulate.lowering.common import Call, NotLowered
from engine.simulate.lowering.elementwise import lower_difference
from engine.simulate.lowering.tables import look_up
from engine.simulate.program import Assembler, Tensor


def lower_comparison(call: Call, program: Assembler) -> Tensor:
    """HzQuantizedComparison; the difference saturates to int16, which keeps its sign."""
    holds = COMPARISONS.get(call.attributes["comparison"])
    if holds is None:
        raise NotLowered(f"comparison {call.attributes['comparison']}")
    none, one = np.zeros(1, np.int64), np.ones(1, np.int64)
    shifts = {"x_shift": none, "accu_right_shift": none, "output_right_shift": none}
    attributes = {**shifts, "e_scale": one, "output_scale": one, "output_bit": 16, "rounding_method": "FLOOR"}
    difference = lower_difference(Call(Sub(), attributes, call.inputs), program)
    ramp = np.arange(-(1 << 15), 1 << 15)
    return look_up(difference, holds(ramp, np.zeros_like(ramp)).astype(np.int8).reshape(1, -1), program)
