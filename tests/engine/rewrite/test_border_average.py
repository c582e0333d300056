"""Averages at the border."""

from __future__ import annotations

import pytest

from engine.ir import attribute
from engine.rewrite.border_average import BorderAverage
from engine.rewrite.proposals import rewritings_of
from tests.engine.rewrite.networks import HEAD, TAIL, operators, rewritten, source, stays


@pytest.mark.parametrize(
    "attributes",
    [
        "kernel_shape=[3, 3], pads=[1, 1, 1, 1]",
        "kernel_shape=[3, 2], pads=[1, 0, 2, 1], strides=[2, 1]",
        "kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1",
        "kernel_shape=[3, 3], strides=[2, 2], pads=[1, 0, 0, 1], ceil_mode=1",
        'kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"',
        'kernel_shape=[4, 2], strides=[1, 3], auto_pad="SAME_LOWER"',
        "kernel_shape=[3, 3], strides=[3, 3], pads=[1, 1, 1, 1]",
    ],
)
def test_the_border_is_counted_and_made_up_for(attributes: str) -> None:
    after = rewritten(BorderAverage(), source(f"y = AveragePool(x, {attributes})"))
    assert operators(after) == ["AveragePool", "Mul"]
    assert attribute(after.graph[0], "count_include_pad", 0) == 1


@pytest.mark.parametrize(
    "attributes",
    [
        "kernel_shape=[2, 2], strides=[2, 2]",
        "kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1",
        'kernel_shape=[2, 2], auto_pad="VALID"',
        "kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1",
        "kernel_shape=[1, 2], pads=[1, 0, 0, 1]",  # its first row of windows lies beside the map
    ],
)
def test_other_averages_stay(attributes: str) -> None:
    assert stays(BorderAverage(), source(f"y = AveragePool(x, {attributes})"))


def test_it_is_offered_for_accuracy_where_the_product_is_on_the_bpu() -> None:
    net = source(f"{HEAD}y = AveragePool(c, kernel_shape=[3, 3], pads=[1, 1, 1, 1]){TAIL}", opset=11)
    found = rewritings_of(net, "bayes-e", wanted=["border_average"])
    (proposal,) = found.proposals
    assert proposal.why.startswith("the integers are nearer to the float network")
    assert found.end.figures is not None
    assert not found.end.figures.on_cpu
    # A constant of all pixels is multiplied on the BPU of bernoulli2 too (4 of 4 asked).
    assert [each.name for each in rewritings_of(net, "bernoulli2").proposals] == ["border_average"]
