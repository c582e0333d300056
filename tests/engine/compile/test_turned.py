"""Softmax over columns that only products read."""

from __future__ import annotations

import pytest

from engine.compile.layers import Layer
from engine.compile.turned import turned_softmaxes
from engine.ops.core.costs import CostKind

MAP, COLUMN = (1, 49, 49, 2), (1, 49, 1, 2)


def step(kind: CostKind, op_type: str, output: str, *inputs: tuple[str, tuple[int, ...]], **details: object) -> Layer:
    shape = COLUMN if output in {"largest", "sum", "inverse"} else MAP
    content = {
        "name": output,
        "op_type": op_type,
        "kind": kind,
        "inputs": tuple(name for name, _ in inputs),
        "input_shapes": tuple(size for _, size in inputs),
        "output": output,
        "output_shape": shape,
    }
    return Layer.model_validate(content | details)


def softmax(**product: object) -> tuple[Layer, ...]:
    """The layers of a softmax over columns, between a convolution and a product of two maps."""
    read = {"converted": (0,), "rearranged": (0,)} | product
    return (
        step(CostKind.DEPTHWISE, "HzSQuantizedConv", "scaled", ("x", MAP)),
        step(CostKind.REDUCE, "HzQuantizedReduceMax", "largest", ("scaled", MAP)),
        step(CostKind.ADD, "HzSElementwiseSub", "less", ("scaled", MAP), ("largest", COLUMN)),
        step(CostKind.LUT, "HzLut", "grown", ("less", MAP)),
        step(CostKind.REDUCE, "HzSQuantizedReduceSum", "sum", ("grown", MAP)),
        step(CostKind.LUT, "HzLut", "inverse", ("sum", COLUMN)),
        step(CostKind.MUL, "HzSElementwiseMul", "share", ("grown", MAP), ("inverse", COLUMN), planar=True),
        step(CostKind.MATMUL, "HzSQuantizedMatmul", "y", ("share", (1, 2, 49, 49)), ("v", (1, 2, 49, 8)), **read),
    )


def test_what_a_softmax_reads_is_turned_for_a_product() -> None:
    """Asked: where the layout of 49 x 49 changes behind what scales it, not behind the softmax."""
    scaled, largest, less, grown, added, inverse, share, product = turned_softmaxes(softmax())
    assert scaled == softmax()[0]
    assert (largest.input_shapes, largest.output_shape) == (((1, 2, 49, 49),), (1, 2, 49, 1))
    assert largest.converted == largest.rearranged == (0,)
    assert less.input_shapes == ((1, 2, 49, 49), (1, 2, 49, 1))
    assert [each.output_shape for each in (grown, added, inverse)] == [(1, 2, 49, 49), (1, 2, 49, 1), (1, 2, 49, 1)]
    assert share.output_shape == (1, 2, 49, 49)
    assert not share.planar
    assert product.converted == product.rearranged == ()


def test_a_map_that_was_turned_for_the_softmax_stays_as_it_was() -> None:
    layers = [
        each.model_copy(update={"converted": (0,), "rearranged": (0,)}) if each.output == "largest" else each
        for each in softmax()
    ]
    assert turned_softmaxes(layers)[1].converted == ()


@pytest.mark.parametrize("change", [{"converted": ()}, {"converted": (1,)}])
def test_other_softmaxes_stay(change: dict[str, object]) -> None:
    """What reads the map as it lies, or a softmax that leaves, turns nothing."""
    layers = softmax(**change)
    assert turned_softmaxes(layers) == layers
    leaving = tuple(each.model_copy(update={"leaves": True}) if each.output == "share" else each for each in softmax())
    assert turned_softmaxes(leaving) == leaving
    assert turned_softmaxes(softmax()[:5]) == softmax()[:5]
