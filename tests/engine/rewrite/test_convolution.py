"""Convolutions over one and over three axes."""

from __future__ import annotations

import pytest

from engine.rewrite.convolution import ConvolutionInSlices, ConvolutionOfOneAxis
from tests.engine.rewrite.networks import operators, rewritten, source, stays

VOLUME, ROW = (1, 4, 6, 8, 10), (1, 4, 64)


@pytest.mark.parametrize(
    "text",
    [
        "Conv(x, W(8, 4, 3), W(8), pads=[1, 1])",
        "Conv(x, W(8, 1, 5), group=4, pads=[4, 0], dilations=[2], strides=[2])",
        "ConvTranspose(x, W(4, 8, 4), W(8), strides=[2], pads=[1, 1])",
        "ConvTranspose(x, W(4, 8, 3), strides=[2], pads=[1, 1], output_padding=[1])",
    ],
)
def test_one_axis_gets_a_height_of_1(text: str) -> None:
    after = rewritten(ConvolutionOfOneAxis(), source(f"y = {text}", shape=ROW))
    assert operators(after) == ["Reshape", text.partition("(")[0], "Reshape"]


@pytest.mark.parametrize(
    "text",
    [
        "Conv(x, W(8, 4, 3, 3, 3), W(8), pads=[1, 1, 1, 1, 1, 1])",
        "Conv(x, W(8, 4, 3, 1, 3), strides=[2, 1, 2], pads=[1, 0, 1, 0, 0, 1])",
        "Conv(x, W(8, 4, 2, 3, 3), dilations=[2, 1, 2], pads=[1, 1, 2, 1, 1, 2])",
        "Conv(x, W(8, 4, 1, 1, 1))",
        "Conv(x, W(8, 4, 1, 3, 3), W(8), pads=[2, 1, 1, 2, 1, 1])",  # slices of padding alone
    ],
)
def test_three_axes_are_a_convolution_per_slice(text: str) -> None:
    before = source(f"y = {text}", shape=VOLUME)
    depth = tuple(before.graph.outputs[0].shape or ())[2]
    after = rewritten(ConvolutionInSlices(), before)
    assert operators(after).count("Conv") == depth
    assert {len(node.outputs[0].shape or ()) for node in after.graph if node.op_type == "Conv"} == {4}


def test_groups_stay_and_are_named() -> None:
    change = ConvolutionInSlices()
    assert stays(change, source("y = Conv(x, W(8, 2, 3, 3, 3), group=2)", shape=VOLUME))
    assert "it has groups" in change.remarks[0]


def test_two_axes_stay() -> None:
    before = source("y = Conv(x, W(8, 4, 3, 3))")
    assert stays(ConvolutionInSlices(), before)
    assert stays(ConvolutionOfOneAxis(), before)
