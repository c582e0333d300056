"""Pooling over one and over three axes."""

from __future__ import annotations

import pytest

from engine.rewrite.pooling import PoolingInSteps
from tests.engine.rewrite.networks import operators, rewritten, source, stays

VOLUME, ROW = (1, 4, 6, 8, 10), (1, 4, 64)


@pytest.mark.parametrize(
    "text",
    [
        "MaxPool(x, kernel_shape=[2, 2, 2], strides=[2, 2, 2])",
        "MaxPool(x, kernel_shape=[3, 3, 3], pads=[1, 1, 1, 1, 1, 1], strides=[2, 1, 2])",
        "MaxPool(x, kernel_shape=[2, 2, 2], dilations=[2, 1, 2])",
        "AveragePool(x, kernel_shape=[2, 2, 2], strides=[2, 2, 2])",
        "AveragePool(x, kernel_shape=[3, 3, 3], pads=[1, 1, 1, 0, 1, 1])",
        "AveragePool(x, kernel_shape=[3, 3, 3], pads=[1, 1, 1, 1, 1, 1], count_include_pad=1)",
        "GlobalAveragePool(x)",
        "GlobalMaxPool(x)",
    ],
)
def test_three_axes_are_two_poolings(text: str) -> None:
    after = rewritten(PoolingInSteps(), source(f"y = {text}", shape=VOLUME))
    kind = "MaxPool" if "Max" in text else "AveragePool"
    assert [name for name in operators(after) if name != "Reshape"] == [kind, kind]


@pytest.mark.parametrize(
    "text",
    [
        "MaxPool(x, kernel_shape=[3], strides=[2], pads=[1, 1])",
        "AveragePool(x, kernel_shape=[4], pads=[2, 1])",
        "GlobalAveragePool(x)",
    ],
)
def test_one_axis_gets_a_height_of_1(text: str) -> None:
    after = rewritten(PoolingInSteps(), source(f"y = {text}", shape=ROW))
    assert [name for name in operators(after) if name != "Reshape"] == ["MaxPool" if "Max" in text else "AveragePool"]


@pytest.mark.parametrize("more", ["ceil_mode=1", 'auto_pad="SAME_UPPER"'], ids=["ceil", "auto"])
def test_sizes_that_are_not_written_out_stay_and_are_named(more: str) -> None:
    change = PoolingInSteps()
    assert stays(change, source(f"y = MaxPool(x, kernel_shape=[2, 2, 2], {more})", shape=VOLUME))
    assert "auto_pad or ceil_mode" in change.remarks[0]


def test_two_axes_stay() -> None:
    assert stays(PoolingInSteps(), source("y = MaxPool(x, kernel_shape=[2, 2])"))
