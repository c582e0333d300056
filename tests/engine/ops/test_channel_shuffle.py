"""Groups of channels that are interleaved."""

from __future__ import annotations

from engine.ops.channel_shuffle import ChannelShuffleRule
from tests.engine.ops.operators import evaluate, float_node, int8, lowered, scaled, tensor


def test_groups_are_dealt_out_like_cards() -> None:
    x = int8(*range(6), shape=(1, 1, 1, 6))
    assert evaluate("HzChannelShuffle", [x], group=2).ravel().tolist() == [0, 3, 1, 4, 2, 5]
    assert evaluate("HzChannelShuffle", [x], group=3).ravel().tolist() == [0, 2, 4, 1, 3, 5]


def test_integers_keep_their_scale_and_width() -> None:
    node = float_node("HzChannelShuffle", [tensor("x", 1, 6, 4, 4)], (1, 6, 4, 4), group=3)
    made = lowered(ChannelShuffleRule(), node, x=scaled(0.5, qtype="int16"))
    assert (made.op_type, made.attributes["group"], made.bits, made.scale) == ("HzChannelShuffle", 3, 16, [0.5])
