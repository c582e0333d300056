"""Integers of PRelu on bayes and bayes-e."""

from __future__ import annotations

import numpy as np
import pytest

from engine.ops.core.base import Tie
from engine.ops.core.reasons import Code
from engine.ops.sprelu import PReluRule, sprelu_integers
from tests.engine.ops.operators import Recorder, constant, evaluate, float_node, int8, lowered, refused, scaled, tensor

MAP = (1, 3, 8, 8)


def test_one_slope_is_spread_over_the_channels() -> None:
    scales = np.asarray([2.0], np.float32) / np.float32(127)
    integers, attributes = sprelu_integers(np.asarray([0.25], np.float32), 8, scales, scales, 8)
    assert integers.shape == (1, 1, 1, 8)
    assert set(integers.ravel().tolist()) == {32767}
    assert attributes["negative_scale"] == [16384]


def test_both_sides_are_requantised() -> None:
    x, slope = int8(-7, 7, -128, 127), np.array([[[[-3]]]], np.int16)
    stages = {"positive_scale": [3], "positive_right_shift": [1], "accu_right_shift": [1], "negative_scale": [3]}
    found = evaluate("HzSPRelu", [x, slope], **stages, negative_right_shift=[2])
    assert found.ravel().tolist() == [8, 11, 127, 127]
    assert evaluate("HzSPRelu", [x, slope]).ravel().tolist() == [21, 7, 127, 127]


@pytest.mark.parametrize(
    ("shape", "slopes", "march", "code"),
    [
        (MAP, [0.1], "bayes", None),
        (MAP, [0.1, 0.2, 0.3], "bernoulli2", None),
        (MAP, [0.1, 0.2], "bayes", Code.RANK_4_SLOPES),
        ((1, 3, 8), [0.1], "bayes", Code.RANK_4_SLOPES),
        (MAP, [0.1, -0.2, 0.3], "bayes", None),
        (MAP, [0.1, -0.2, 0.3], "bernoulli2", Code.NEGATIVE_SLOPE),
    ],
)
def test_slopes_per_channel_or_one(shape: tuple[int, ...], slopes: list[float], march: str, code: Code | None) -> None:
    node = float_node("PRelu", [tensor("x", *shape), constant("s", np.array(slopes, np.float32))], shape)
    assert refused(PReluRule(), node, march) is code
    assert PReluRule().tie(node) is Tie.INPUT_TAKES_OUTPUT


def test_slopes_are_constants() -> None:
    node = float_node("PRelu", [tensor("x", *MAP), tensor("s", 3, 1, 1)], MAP)
    assert refused(PReluRule(), node) is Code.NOT_CONSTANT


def test_the_input_takes_the_scale_of_the_output() -> None:
    node = float_node("PRelu", [tensor("x", *MAP), constant("s", np.array([0.5, 1, -1], np.float32))], MAP)
    recorder = Recorder(x=scaled(2), y=scaled(0.5))
    PReluRule().lower([node], recorder)
    (made,) = recorder.nodes
    assert (made.op_type, made.inputs, made.scale) == ("HzSPRelu", ["x NHWC", "n_quantized_slope"], [0.5])
    assert recorder.constants["n_quantized_slope"].ravel().tolist() == [16384, 32767, -32767]
    old = lowered(PReluRule(), float_node("PRelu", [tensor("x", *MAP), constant("s", [0.5])], MAP), march="bernoulli2",
                  x=scaled(2), y=scaled(0.5))  # fmt: skip
    assert (old.op_type, old.inputs, old.attributes["alpha_scale"]) == ("HzPRelu", ["x NHWC"], [64])
