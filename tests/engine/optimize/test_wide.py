"""Convolutions of more input channels than one can take: in parts that are as equal as can be."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from engine.chips import load_chip
from engine.optimize.wide import SplitWideConv
from tests.engine.optimize.equivalence import applied, build, operators
from tests.engine.optimize.networks import node, normal

MARCH = load_chip("bernoulli2")
SMALL = MARCH.derive("small", graph={"conv_1x1_part": 4}, limits={"conv_1x1_channels": 12})
"""A march of which a convolution takes four channels, and twelve in parts."""


def wide(channels: int, kernel: int = 1, **attributes: object) -> ir.Model:
    group = attributes.get("group", 1)
    weight = normal(4, channels // group, kernel, kernel)
    return build(
        [node("Conv", "x w b", name="c", **attributes)],
        {"x": (1, channels, 3, 3)},
        ["y"],
        {"w": weight, "b": normal(4)},
    )


@pytest.mark.parametrize(
    ("channels", "sizes"), [(4, []), (5, [3, 2]), (8, [4, 4]), (9, [3, 3, 3]), (12, [4, 4, 4]), (13, [])]
)
def test_sizes_of_parts(channels: int, sizes: list[int]) -> None:
    modified, after = applied(SplitWideConv(SMALL), wide(channels))
    assert modified == bool(sizes)
    split = after.graph[0]
    assert [value.shape[1] for value in split.outputs if split.op_type == "Split"] == sizes


def test_the_last_part_has_the_name_and_the_bias() -> None:
    _, after = applied(SplitWideConv(SMALL), wide(9))
    assert operators(after) == ["Split", "Conv", "Conv", "Add", "Conv", "Add"]
    assert [item.name for item in after.graph] == ["c_split", "c_part_0", "c_part_1", "c_sum_1", "c", "c_sum_2"]
    assert [len(item.inputs) for item in after.graph if item.op_type == "Conv"] == [2, 2, 3]


@pytest.mark.parametrize(
    "model", [wide(8, group=2), wide(8, kernel=3), wide(8, pads=[1, 1, 1, 1])], ids=["group", "kernel", "pads"]
)
def test_other_convolutions_stay(model: ir.Model) -> None:
    assert not applied(SplitWideConv(SMALL), model)[0]


def test_marches_without_parts_split_nothing() -> None:
    whole = SMALL.derive("whole", graph={"conv_1x1_part": None})
    assert not applied(SplitWideConv(whole), wide(8))[0]


def test_the_measured_limits() -> None:
    assert (MARCH.graph.conv_1x1_part, MARCH.limits.conv_1x1_channels) == (2048, 4096)
