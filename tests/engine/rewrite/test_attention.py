"""Queries, keys and values out of one tensor of rank 5."""

from __future__ import annotations

import pytest

from engine.rewrite.attention import SplitAttention
from tests.engine.rewrite.networks import HEAD, TOKENS, operators, rewritten, source, stays

SPLIT = "r = Transpose(Reshape(q, [1, 64, 3, 2, 4]), perm=[2, 0, 3, 1, 4]); "
REST = (
    "a = Softmax(Mul(MatMul(q1, Transpose(k1, perm=[0, 1, 3, 2])), 0.5), axis=-1); "
    "z = Reshape(Transpose(MatMul(a, v1), perm=[0, 2, 1, 3]), [1, 64, 8])"
)
SLICED = "q2 = Slice(r, [0], [1], [0]); k2 = Slice(r, [1], [2], [0]); v2 = Slice(r, [-1], [9], [0]); "


@pytest.mark.parametrize(
    "text",
    [
        f"{SPLIT}q1 = Gather(r, 0, axis=0); k1 = Gather(r, 1, axis=0); v1 = Gather(r, -1, axis=0); ",
        f"{SPLIT}q2, k2, v2 = Split(r, [1, 1, 1], axis=0); q1 = Squeeze(q2, [0]); k1 = Squeeze(k2, [0]); "
        "v1 = Squeeze(v2, [0]); ",
        f"{SPLIT}{SLICED}q1 = Squeeze(q2, [0]); k1 = Squeeze(k2, [0]); v1 = Reshape(v2, [1, 2, 64, 4]); ",
        # the entries are the second of the split axes
        "r = Transpose(Reshape(q, [1, 64, 2, 3, 4]), perm=[3, 0, 2, 1, 4]); "
        "q1 = Gather(r, 0, axis=0); k1 = Gather(r, 1, axis=0); v1 = Gather(r, 2, axis=0); ",
        "r = Reshape(q, [1, 64, 3, 2, 4]); q1 = Transpose(Gather(r, 0, axis=2), perm=[0, 2, 1, 3]); "
        "k1 = Transpose(Gather(r, 1, axis=2), perm=[0, 2, 1, 3]); "
        "v1 = Transpose(Gather(r, 2, axis=2), perm=[0, 2, 1, 3]); ",
    ],
)
def test_all_tensors_are_of_rank_4(text: str) -> None:
    change = SplitAttention()
    after = rewritten(change, source(HEAD + TOKENS + text + REST))
    assert max(len(value.shape or ()) for node in after.graph for value in node.outputs) == 4
    assert operators(after).count("Split") == 1
    assert not {"Gather", "Squeeze", "Slice"} & set(operators(after))


def test_a_network_without_keys_keeps_the_unread_part() -> None:
    text = f"{SPLIT}q1 = Gather(r, 0, axis=0); v1 = Gather(r, 2, axis=0); z = Add(q1, v1)"
    assert operators(rewritten(SplitAttention(), source(HEAD + TOKENS + text))).count("Split") == 1


@pytest.mark.parametrize(
    "text",
    [
        f"{SPLIT}q1 = Gather(r, 0, axis=0); s = ReduceSum(r, [0], keepdims=0); z = Add(q1, s)",  # another reader
        f"{SPLIT}q1 = Gather(r, 0, axis=0); k1 = Gather(r, 0, axis=2); y = ReduceSum(k1, [0, 1]); z = Add(q1, y)",
        f"{SPLIT}z = Gather(r, [0, 1], axis=0)",
        f"{SPLIT}z = Slice(r, [0], [2], [0])",
        "z = Gather(Reshape(q, [64, 3, 2, 4]), 0, axis=1)",  # rank 4 already
    ],
)
def test_other_uses_stay(text: str) -> None:
    assert stays(SplitAttention(), source(HEAD + TOKENS + text))
