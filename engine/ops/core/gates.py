"""Thresholds of results that follow from those of inputs, through the function of the operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.graph.scales import Gate
from engine.ops.core.element_functions import FUNCTIONS, IN_WIDE_TABLES, Function


def behind_gates(gates: Sequence[Gate], threshold: float) -> float:
    """The threshold that ``gates``, one after another, make of ``threshold``, every step in float32.

    In the steps of int16 tables: of 1,305 recorded pairs of thresholds all 727 of Tanh, 302 of Swish, 89 of Sigmoid,
    55 of Gelu and 21 of Softplus are equal to the last bit, 97 of 98 of HardSwish (docs/evidence/agreement.md).
    A HardSigmoid is ``x / 6 + 0.5`` within 0 and 1, whatever ``alpha`` and ``beta`` of the node are.
    """
    x: NDArray[Any] = np.asarray([threshold], np.float32)
    with np.errstate(over="ignore"):
        for gate in gates:
            y = np.clip(x / 6 + np.float32(0.5), 0, 1) if gate is Gate.HARD_SIGMOID else _function_of(gate)(x, {})
            x = np.asarray(y, np.float32)
    return float(np.minimum(x[0], np.finfo(np.float32).max))


def _function_of(gate: Gate) -> Function:
    return IN_WIDE_TABLES.get(gate.value, FUNCTIONS[gate.value])
