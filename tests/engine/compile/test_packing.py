"""Packing loses nothing and pads as the march needs it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from engine.compile.packing import Block, ElementOrder, pack, packed_bytes, unpack, weight_layout
from engine.errors import ContainerError

BLOCKS = st.sampled_from((Block(16, 8, 8, 4), Block(8, 8), Block(1, 1), Block(2, 3, 5, 7)))
WEIGHTS = hnp.arrays(np.int8, st.tuples(st.integers(1, 40), st.integers(1, 4), st.integers(1, 4), st.integers(1, 20)))
ANY_ARRAY = hnp.arrays(
    st.sampled_from((np.int8, np.int16, np.int32, np.int64, np.uint8, np.float32)), hnp.array_shapes(min_dims=0)
)


@given(WEIGHTS, BLOCKS)
def test_weights_round_trip(weight: np.ndarray, block: Block) -> None:
    layout = weight_layout(weight.shape, block)
    data = pack(weight, layout, block)
    assert len(data) == packed_bytes("int8", weight.shape, layout, block)
    np.testing.assert_array_equal(unpack(data, "int8", weight.shape, layout, block), weight)


@given(ANY_ARRAY)
def test_linear_round_trip_is_bit_exact(array: np.ndarray) -> None:
    data = pack(array, ElementOrder.LINEAR, Block(16, 8))
    again = unpack(data, array.dtype.name, array.shape, ElementOrder.LINEAR, Block(16, 8))
    assert again.dtype == array.dtype
    assert again.tobytes() == array.tobytes()


def test_blocks_of_a_small_weight() -> None:
    """(3, 1, 2, 3) in blocks of 2 x 2: out block, tap, in block, out, in."""
    weight = np.arange(1, 19, dtype=np.int8).reshape(3, 1, 2, 3)
    packed = np.frombuffer(pack(weight, ElementOrder.BLOCKED, Block(2, 2)), np.int8).reshape(2, 1, 2, 2, 2, 2)
    assert packed[0, 0, 0, 0].tolist() == [[1, 2], [7, 8]]
    assert packed[0, 0, 1, 1].tolist() == [[6, 0], [12, 0]]
    assert packed[1, 0, 0, 0].tolist() == [[13, 14], [0, 0]]


def test_depthwise_pads_channels_and_taps() -> None:
    """20 channels of 3 x 3 in blocks of 8 channels and 4 taps: 3 blocks of 12 taps."""
    weight = np.arange(20 * 9, dtype=np.int8).reshape(20, 3, 3, 1)
    block = Block(16, 8, 8, 4)
    assert weight_layout(weight.shape, block) is ElementOrder.DEPTHWISE
    packed = np.frombuffer(pack(weight, ElementOrder.DEPTHWISE, block), np.int8).reshape(3, 12, 8)
    assert packed[0, :, 1].tolist() == [*range(9, 18), 0, 0, 0]
    assert not packed[2, :, 4:].any()


def test_without_a_depthwise_unit_input_channels_are_padded() -> None:
    assert weight_layout((64, 3, 3, 1), Block(8, 8)) is ElementOrder.BLOCKED
    assert packed_bytes("int8", (64, 3, 3, 1), ElementOrder.BLOCKED, Block(8, 8)) == 64 * 9 * 8


@pytest.mark.parametrize("data", [bytes(3), bytes(5)])
def test_wrong_lengths_are_refused(data: bytes) -> None:
    with pytest.raises(ContainerError, match="does not have"):
        unpack(data, "int8", (4,), ElementOrder.LINEAR, Block(1, 1))


def test_padding_must_be_zero() -> None:
    with pytest.raises(ContainerError, match="padding"):
        unpack(bytes([1, 1, 1, 1]), "int8", (1, 1, 1, 2), ElementOrder.BLOCKED, Block(2, 2))
