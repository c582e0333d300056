"""Expected values of distributions, as heads of detectors write them."""

from __future__ import annotations

import pytest

from engine.rewrite.dfl import DflAsConvolution, is_expectation_layer
from tests.engine.rewrite.networks import operators, rewritten, source, stays

BOXES = "t = Reshape(Conv(x, W(64, 4, 1, 1), W(64)), [1, 4, 16, 64]); "
LAST = "t = Softmax(Transpose(t, perm=[0, 3, 1, 2]), axis=3); "
RANGE = [float(index) for index in range(16)]


@pytest.mark.parametrize(
    "text",
    [
        "t = Softmax(Transpose(t, perm=[0, 2, 1, 3]), axis=1); z = Reshape(Conv(t, W(1, 16, 1, 1)), [1, 4, 64])",
        "y = Mul(Softmax(t, axis=2), W(1, 1, 16, 1)); z = ReduceSum(y, [2], keepdims=0)",
        "y = Mul(W(16, 1), Softmax(t, axis=2)); z = ReduceSum(y, [2], keepdims=1)",
        f"{LAST}z = Reshape(MatMul(t, W(16, 1)), [1, 64, 4])",
        f"{LAST}z = MatMul(t, W(16))",
    ],
)
def test_it_is_a_softmax_and_a_convolution(text: str) -> None:
    change = DflAsConvolution()
    after = rewritten(change, source(BOXES + text))
    found = operators(after)
    assert found[found.index("Softmax") + 1 :][:2] == ["Transpose", "Conv"]
    assert not {"Mul", "ReduceSum", "MatMul"} & set(found)
    assert len(change.requests) == 1
    assert len(change.places) == 2


@pytest.mark.parametrize(
    "text",
    [
        "s = Softmax(t, axis=2); y = Mul(s, W(1, 4, 16, 1)); z = ReduceSum(y, [2], keepdims=0)",
        f"{LAST}z = MatMul(t, W(16, 2))",
        "s = Softmax(t, axis=2); y = Mul(s, W(1, 1, 16, 1)); z = ReduceSum(y, [1], keepdims=0)",
        "y = Mul(Sigmoid(t), W(1, 1, 16, 1)); z = ReduceSum(y, [2], keepdims=0)",
    ],
)
def test_other_sums_stay(text: str) -> None:
    assert stays(DflAsConvolution(), source(BOXES + text))


def test_whole_numbers_from_0_were_not_trained() -> None:
    graph = source(f"t = Conv(x, {[[[[0.0]], [[1.0]], [[2.0]], [[3.0]]]]}); y = Conv(t, W(1, 1, 1, 1))").graph
    assert [is_expectation_layer(node) for node in graph] == [True, False]
