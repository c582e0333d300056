"""The largest or smallest of an axis: order of equal ones, limits, positions; and in a whole network."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from engine.ops.core.base import Tie
from engine.ops.core.reasons import Code
from engine.ops.topk import TopKRule
from tests.engine.ops.operators import Recorder, constant, float_node, int8, refused, results, scaled, tensor

K = constant("k", np.array([3]))


def topk(shape: tuple[int, ...] = (1, 4, 8, 8), count: ir.Value = K, **attributes: Any) -> ir.Node:
    return float_node("TopK", [tensor("x", *shape), count], shape, shape, **attributes)


def test_of_equal_values_the_first_comes_first() -> None:
    x = int8(3, -128, 3, 127, -128, shape=(1, 5))
    values, positions = results("HzQuantizedTopK", [x], k=3, largest=0)
    assert (values.tolist(), positions.tolist()) == ([[-128, -128, 3]], [[1, 4, 0]])
    values, positions = results("HzQuantizedTopK", [x], k=3)
    assert (values.tolist(), positions.tolist(), positions.dtype) == ([[127, 3, 3]], [[3, 0, 2]], np.int32)


def test_any_axis_is_searched() -> None:
    values, positions = results("HzQuantizedTopK", [int8(1, 5, 4, 2, shape=(1, 2, 2))], k=1, axis=1)
    assert (values.tolist(), positions.tolist()) == ([[[4, 5]]], [[[1, 0]]])


@pytest.mark.parametrize(
    ("node", "code"),
    [
        (topk(), None),
        (topk((1, 4)), None),
        (topk((4,)), Code.RANK_2_TO_4),
        (topk((1, 1, 1, 1, 4)), Code.RANK_2_TO_4),
        (topk(axis=-4), Code.BATCH_SEARCHED),
        (topk(count=tensor("k", 1)), Code.COUNT_NOT_CONSTANT),
        (topk((1, 32768)), None),
        (topk((1, 32769)), Code.SEARCHED_VALUES),
        (topk((1, 32769, 2)), None),
    ],
)
def test_what_is_searched(node: ir.Node, code: Code | None) -> None:
    assert refused(TopKRule(), node) is code


def test_positions_have_32_bits_and_no_scale_of_their_own() -> None:
    assert (TopKRule().tie(topk()), TopKRule().index_outputs) == (Tie.OUTPUT_TAKES_INPUT, (1,))
    recorder = Recorder(x=scaled(0.5))
    TopKRule().lower([topk(axis=1, largest=0)], recorder)
    (made,) = recorder.nodes
    assert made.attributes == {"axis": 1, "k": 3, "largest": 0, "sorted": 1}
    assert (made.outputs, made.bits, made.scale) == (["y", "y1"], [8, 32], [0.5])
