"""Thresholds of results that follow from those of inputs, through the function of the operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.graph.scales import Gate
from engine.ops.core.element_functions import FUNCTIONS, IN_WIDE_TABLES


def behind_gates(gates: Sequence[Gate], threshold: float) -> float:
    """The threshold that ``gates``, one after another, make of ``threshold``, every step in float32.

    In the steps of int16 tables: of 1,305 recorded pairs of thresholds all 727 of Tanh, 302 of Swish, 89 of Sigmoid,
    55 of Gelu and 21 of Softplus are equal to the last bit, 97 of 98 of HardSwish (docs/evidence/agreement.md).
    Of several only the last: what it reads is measured in the float network (an Exp behind a Tanh, 2 of 2).
    A HardSigmoid is ``x / 6 + 0.5`` within 0 and 1, whatever ``alpha`` and ``beta`` of the node are.
    """
    x: NDArray[Any] = np.asarray([threshold], np.float32)
    with np.errstate(over="ignore"):
        for number, gate in enumerate(gates, 1):
            x = np.asarray(_through(gate, x, in_steps=number == len(gates)), np.float32)
    return float(np.minimum(x[0], np.finfo(np.float32).max))


def _through(gate: Gate, x: NDArray[Any], in_steps: bool) -> NDArray[Any]:
    """What ``gate`` gives for ``x``: in the steps of int16 tables, or as the float network does."""
    if gate is Gate.HARD_SIGMOID:
        return np.asarray(np.clip(x / 6 + np.float32(0.5), 0, 1))
    function = FUNCTIONS[gate.value]
    return np.asarray((IN_WIDE_TABLES.get(gate.value, function) if in_steps else function)(x, {}))
