"""Operators of one line."""

from __future__ import annotations

import pytest

from engine.rewrite.arithmetic import MinAsMax, NegationAsProduct, ReductionsInSteps, SquaresAsProducts
from engine.rewrite.base import Rewrite
from tests.engine.rewrite.networks import operators, rewritten, source, stays


@pytest.mark.parametrize(
    ("change", "text", "opset", "kinds"),
    [
        (NegationAsProduct, "y = Neg(x)", 13, ["Mul"]),
        (NegationAsProduct, "y = Sub(x, Relu(x))", 13, ["Relu", "Mul", "Add"]),
        (NegationAsProduct, "y = Sub(x, 3.0)", 13, ["Add"]),
        (MinAsMax, "y = Min(x, Relu(x))", 13, ["Relu", "Mul", "Mul", "Max", "Mul"]),
        (MinAsMax, "y = Min(x, 0.5)", 13, ["Mul", "Max", "Mul"]),
        (MinAsMax, "y = ReduceMin(x, axes=[1])", 13, ["Mul", "ReduceMax", "Mul"]),
        (MinAsMax, "y = ReduceMin(x, [3], keepdims=0)", 18, ["Mul", "ReduceMax", "Mul"]),
        (SquaresAsProducts, "y = ReduceSumSquare(x, axes=[1])", 13, ["Mul", "ReduceSum"]),
        (SquaresAsProducts, "y = ReduceSumSquare(x, axes=[2, 3], keepdims=0)", 11, ["Mul", "ReduceSum"]),
        (SquaresAsProducts, "y = LpNormalization(x, axis=1)", 13, ["ReduceL2", "Div"]),
        (SquaresAsProducts, "y = LpNormalization(x, axis=-1, p=1)", 13, ["ReduceL1", "Div"]),
        (ReductionsInSteps, "y = ReduceMean(x, axes=[1, 3])", 13, ["ReduceMean", "ReduceMean"]),
        (ReductionsInSteps, "y = ReduceMax(x, axes=[3], keepdims=0)", 13, ["ReduceMax", "Reshape"]),
        (ReductionsInSteps, "y = ReduceSum(x, [1, 2], keepdims=0)", 13, ["ReduceSum", "ReduceSum", "Reshape"]),
        (ReductionsInSteps, "y = ReduceMean(x, [2, 3])", 18, ["ReduceMean", "ReduceMean"]),
    ],
)
def test_forms(change: type[Rewrite], text: str, opset: int, kinds: list[str]) -> None:
    assert operators(rewritten(change(), source(text, opset))) == kinds


def test_a_reduction_over_one_axis_that_is_kept_stays() -> None:
    assert stays(ReductionsInSteps(), source("y = ReduceMean(x, axes=[1])"))
