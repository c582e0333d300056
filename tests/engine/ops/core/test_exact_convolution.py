"""Convolutions as exact float32 sums: where input channels must be split, and where that does not help."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.errors import UnsupportedError
from engine.ops.core.exact_convolution import convolved, input_channel_sums, one_channel_per_group
from engine.ops.core.portable import FLOAT32_EXACT, TO_NCHW, Emitter, SourceNode, SourceTensor

GEOMETRY = {"kernel_shape": np.ones(2, np.int64), "group": 1}


def convolutions(weights: np.ndarray, dtype: type) -> list[str]:
    """Types of the nodes that the sum of products is written with."""
    emit = Emitter("y")
    x = SourceTensor(ir.Value(name="x"), (1, 4, 4, weights.shape[3]), np.dtype(dtype), None)
    node = ir.node("HzSQuantizedConv", [x.value], domain="horizon", name="n")
    sums = input_channel_sums(weights)
    convolved("Conv", SourceNode(node, {}, (x,)), weights.transpose(TO_NCHW), sums, GEOMETRY, emit)
    return [node.op_type for node in emit.nodes]


@pytest.mark.parametrize(("dtype", "expected"), [(np.int8, 1), (np.int16, 2)])
def test_small_weights_take_one_convolution_per_byte(dtype: type, expected: int) -> None:
    assert convolutions(np.full((2, 1, 1, 8), 127, np.int8), dtype).count("Conv") == expected


def test_sums_that_float32_cannot_hold_are_split_over_channels() -> None:
    """A chunk of 127-weights holds as many channels as stay below 2**24 with int8 inputs."""
    channels = 2 * (FLOAT32_EXACT // 128 // 127) + 1
    types = convolutions(np.full((1, 1, 1, channels), 127, np.int8), np.int8)
    assert (types.count("Conv"), types.count("Gather"), types.count("Add")) == (3, 3, 2)


def test_one_channel_that_is_too_large_is_refused() -> None:
    side = 33
    assert 127 * side * side > FLOAT32_EXACT // 128
    with pytest.raises(UnsupportedError, match="a kernel of 138303 summed absolute weights"):
        convolutions(np.full((1, side, side, 1), 127, np.int8), np.int8)


def test_a_probe_keeps_one_channel_of_every_group() -> None:
    x, w, bias = np.zeros((1, 4, 4, 6)), np.zeros((8, 3, 3, 3)), np.zeros(8)
    assert [np.shape(array) for array in one_channel_per_group([x, w, bias], 2)] == [(1, 4, 4, 2), (8, 3, 3, 1), (8,)]
    transposed = one_channel_per_group([x, np.zeros((6, 3, 3, 4)), bias], 2, transposed=True)
    assert [np.shape(array) for array in transposed] == [(1, 4, 4, 2), (2, 3, 3, 4), (8,)]
