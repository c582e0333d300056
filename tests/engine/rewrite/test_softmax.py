"""Softmax over other axes than the last."""

from __future__ import annotations

import pytest

from engine.rewrite.softmax import SoftmaxOverLastAxis, is_over_last_axis
from tests.engine.rewrite.networks import HEAD, TAIL, operators, rewritten, source, stays


@pytest.mark.parametrize(
    ("text", "opset"),
    [
        ("y = Softmax(c, axis=1)", 13),
        ("y = Softmax(c, axis=2)", 13),
        ("y = Softmax(c, axis=1)", 11),
        ("y = Softmax(c, axis=2)", 11),
        ("y = Reshape(Softmax(Reshape(c, [1, 8, 64]), axis=1), [1, 8, 8, 8])", 13),
        ("y = Reshape(Softmax(Reshape(c, [8, 64]), axis=0), [1, 8, 8, 8])", 13),
    ],
)
def test_it_is_over_the_last_axis_of_rank_4(text: str, opset: int) -> None:
    change = SoftmaxOverLastAxis()
    after = rewritten(change, source(HEAD + text + TAIL, opset))
    node = next(node for node in after.graph if node.op_type == "Softmax")
    assert is_over_last_axis(node)
    assert len(node.outputs[0].shape or ()) == 4
    assert change.requests == [node.name]
    assert len(change.places) == 1
    assert bool(change.remarks) == (opset < 13)


def test_over_channels_it_is_between_two_transposes() -> None:
    after = rewritten(SoftmaxOverLastAxis(), source(f"{HEAD}y = Softmax(c, axis=1){TAIL}"))
    assert operators(after) == ["Conv", "Relu", "Transpose", "Softmax", "Transpose", "Conv"]


@pytest.mark.parametrize("text", ["y = Softmax(c, axis=3)", "y = Softmax(c, axis=-1)"])
def test_one_over_the_last_axis_stays(text: str) -> None:
    assert stays(SoftmaxOverLastAxis(), source(HEAD + text + TAIL))


def test_one_that_the_bpu_computes_stays() -> None:
    before = source(f"{HEAD}y = Softmax(c, axis=1){TAIL}")
    assert stays(SoftmaxOverLastAxis(frozenset({"another"})), before)
    assert not stays(SoftmaxOverLastAxis(frozenset({"Softmax_2"})), before)


def test_rank_5_stays() -> None:
    assert stays(SoftmaxOverLastAxis(), source(f"{HEAD}y = Softmax(Reshape(c, [1, 2, 4, 8, 8]), axis=1)"))
