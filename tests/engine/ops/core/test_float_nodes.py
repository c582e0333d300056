"""What rules read off float nodes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.chips import load_chip
from engine.errors import ModelError
from engine.ops.core.float_nodes import (
    channels_of,
    clip_limits,
    given,
    is_relu,
    is_saturation,
    nhwc_axis,
    reduced_axis,
    refused_broadcast,
    refused_reduction,
    required,
    stated,
)
from engine.ops.core.reasons import Code
from tests.engine.ops.operators import constant, float_node, tensor

MAP = (1, 4, 8, 8)
X = tensor("x", *MAP)


def test_missing_inputs_are_named() -> None:
    node = float_node("Clip", [X, None], MAP)
    assert given(node, 0) is X
    for index in (1, 2):
        with pytest.raises(ModelError, match=rf"node n \(Clip\): input {index} is missing"):
            given(node, index)
    assert required(0) == 0
    with pytest.raises(ModelError, match="not placed and calibrated"):
        required(None)


def test_only_attributes_that_are_there_are_stated() -> None:
    node = float_node("MaxPool", [X], MAP, ceil_mode=1, kernel_shape=[2, 2])
    assert stated(node, "ceil_mode", "dilations") == {"ceil_mode": 1}


@pytest.mark.parametrize(("shape", "count"), [(MAP, 4), ((1, 5, 7), 7), ((3, 2), 2), ((1, 2, 3, 4, 6), 6), ((), 1)])
def test_lists_are_as_long_as_the_channels_or_the_last_axis(shape: tuple[int, ...], count: int) -> None:
    assert channels_of(tensor("x", *shape)) == count


def test_axes_move_in_maps_alone() -> None:
    assert [nhwc_axis(axis, 4) for axis in (0, 1, 2, 3, -1, -3)] == [0, 3, 1, 2, 2, 3]
    assert [nhwc_axis(axis, 3) for axis in (0, 1, -1)] == [0, 1, 2]


def clip(low: float | None, high: float | None, *, as_inputs: bool = False) -> ir.Node:
    if not as_inputs:
        return float_node("Clip", [X], MAP, **{k: v for k, v in (("min", low), ("max", high)) if v is not None})
    bounds = [None if v is None else constant(name, np.float32(v)) for name, v in (("l", low), ("h", high))]
    return float_node("Clip", [X, *bounds], MAP)


@pytest.mark.parametrize("as_inputs", [False, True])
@pytest.mark.parametrize(
    ("low", "high", "relu", "saturates"),
    [
        (0.0, 6.0, True, False),
        (0.0, 255.0, True, False),
        (-1.0, 1.0, False, True),
        (-1.0, 6.0, False, False),
        (0.0, None, False, False),
        (None, 6.0, False, False),
        (0.0, -6.0, False, False),
    ],
)
def test_clips_that_are_an_activation_or_a_saturation(
    low: float | None, high: float | None, relu: bool, saturates: bool, as_inputs: bool
) -> None:
    node = clip(low, high, as_inputs=as_inputs)
    assert clip_limits(node) == (low, high)
    assert (is_relu(node), is_saturation(node)) == (relu, saturates)


def test_relu_is_one_and_others_are_neither() -> None:
    assert is_relu(float_node("Relu", [X], MAP))
    other = float_node("LeakyRelu", [X], MAP, min=0.0, max=6.0)
    assert (is_relu(other), is_saturation(other)) == (False, False)


@pytest.mark.parametrize(
    ("a", "b", "fixed", "march", "code"),
    [
        (MAP, MAP, False, "bernoulli2", None),
        (MAP, (1, 4, 1, 1), True, "bernoulli2", None),
        ((2, 4, 8, 8), (1, 4, 1, 1), True, "bernoulli2", Code.CONSTANT_NOT_FOLDED),
        (MAP, (4, 1, 1), True, "bayes-e", None),
        (MAP, (4, 1, 1), False, "bayes-e", Code.RANKS_DIFFER),
        ((1, 4, 8, 1), (1, 4, 1, 8), False, "bernoulli2", Code.BOTH_BROADCAST),
        ((1, 4, 8, 1), (1, 4, 1, 8), False, "bayes-e", None),
        (MAP, (1, 4, 8, 1), False, "bernoulli2", Code.LINE_REPEATED),
        (MAP, (1, 1, 1, 8), False, "bernoulli2", Code.LINE_REPEATED),
        (MAP, (1, 4, 8, 1), True, "bernoulli2", Code.LINE_REPEATED),
        (MAP, (1, 1, 8, 8), True, "bernoulli2", None),
        (MAP, (1, 4, 8, 1), False, "bayes-e", None),
        ((1, 4, 8, 1), (1, 4, 1, 1), False, "bernoulli2", None),
        (MAP, (1, 1, 8, 8), False, "bernoulli2", None),
        (MAP, (1, 1, 1, 1), False, "bernoulli2", Code.SINGLE_NUMBER),
        ((1, 1, 1, 1), (1, 4, 1, 1), False, "bernoulli2", Code.SINGLE_NUMBER),
        (MAP, (1, 1, 1, 1), True, "bernoulli2", None),
        (MAP, (1, 1, 1, 1), False, "bayes-e", None),
        ((1, 1, 1, 1), (1, 1, 1, 1), False, "bernoulli2", None),
        ((1,) * 8, (1,) * 8, False, "bayes-e", None),
        ((1,) * 9, (1,) * 9, False, "bayes-e", Code.RANKS_DIFFER),
    ],
)
def test_operands_that_are_broadcast(
    a: tuple[int, ...], b: tuple[int, ...], fixed: bool, march: str, code: Code | None
) -> None:
    second = constant("b", np.ones(b, np.float32)) if fixed else tensor("b", *b)
    reason = refused_broadcast(
        float_node("Sub", [tensor("a", *a), second], np.broadcast_shapes(a, b)), load_chip(march)
    )
    assert (None if reason is None else reason.code) is code


def test_one_axis_is_reduced_and_stays() -> None:
    march = load_chip("bayes-e")
    assert reduced_axis(float_node("ReduceSum", [X, constant("a", np.array([-1]))], MAP)) == 3
    assert reduced_axis(float_node("ReduceMean", [X], MAP, axes=[2])) == 2
    for several in (float_node("ReduceMean", [X], MAP), float_node("ReduceMean", [X], MAP, axes=[1, 2])):
        with pytest.raises(ModelError, match=r"node n \(ReduceMean\) reduces [24] axes, the BPU reduces one"):
            reduced_axis(several)
    dropped = refused_reduction(float_node("ReduceMean", [X], MAP, axes=[2], keepdims=0), march)
    assert dropped is not None
    assert dropped.code is Code.AXIS_DROPPED
    lengths = {
        length: refused_reduction(float_node("ReduceMean", [tensor("x", 1, length)], (1, 1), axes=[1]), march)
        for length in (4096, 4097)
    }
    assert lengths[4096] is None
    assert lengths[4097] is not None
    assert (lengths[4097].code, lengths[4097].params) == (Code.REDUCED_VALUES, {"length": 4097, "limit": 4096})
