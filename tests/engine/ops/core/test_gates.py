"""Thresholds behind functions, as the original has them."""

from __future__ import annotations

import pytest

from engine.graph.scales import Gate
from engine.ops.core.gates import behind_gates


@pytest.mark.parametrize(
    ("gate", "read", "given"),
    [
        (Gate.SIGMOID, 1.0, 0.7310585975646973),
        (Gate.SIGMOID, 1.0843411684036255, 0.7473146319389343),
        (Gate.SIGMOID, 5.49897, 0.9959256649017334),
        (Gate.SIGMOID, 5.867514610290527, 0.9971780776977539),
        (Gate.SIGMOID, 6.50604772567749, 0.9985077977180481),
        (Gate.SIGMOID, 11.09031, 0.9999847412109375),
        (Gate.SIGMOID, 12.540882110595703, 0.9999964237213135),
        (Gate.HARD_SIGMOID, 1.0843411684036255, 0.6807235479354858),
        (Gate.HARD_SIGMOID, 3.0, 1.0),
        (Gate.HARD_SIGMOID, 6.50604772567749, 1.0),
        (Gate.HARD_SWISH, 1.2822809219360352, 0.9151811599731445),
        (Gate.HARD_SWISH, 12.387750625610352, 12.387751579284668),
        (Gate.SWISH, 7.4851202964782715, 7.480920791625977),
        (Gate.SWISH, 11.969606399536133, 11.969531059265137),
        (Gate.SQRT, 406.5964050292969, 20.164236068725586),
    ],
)
def test_thresholds_behind_gates_are_those_of_the_original(gate: Gate, read: float, given: float) -> None:
    """Asked of 1.24.3: the threshold of what a gate reads, and that of what it gives, to the last bit."""
    assert behind_gates((gate,), read) == given


def test_gates_follow_one_another() -> None:
    gates = (Gate.SIGMOID, Gate.HARD_SIGMOID)
    assert behind_gates(gates, 1.0) == behind_gates(gates[1:], 0.7310585975646973)


def test_a_threshold_stays_finite() -> None:
    assert behind_gates((Gate.EXP,), 1000.0) < float("inf")
