"""Networks that attend or recur: weights of the published networks, and windows that move as they say."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from benchmarks.speed.structures.builder import Builder
from benchmarks.speed.structures.sequences import _rolled, lstm_recogniser, swin_stage, vit_tiny
from tests.benchmarks.speed.structures.shapes import operators, outputs, parameters


def test_vit_tiny() -> None:
    """timm's 5,717,416 but for the bias of the last layer."""
    model = vit_tiny()
    assert parameters(model) == 5_717_416 - 1000
    assert (operators(model)["Softmax"], operators(model)["Erf"], operators(model)["MatMul"]) == (12, 12, 72)
    assert outputs(model) == [[1, 1000]]


def test_swin_stage() -> None:
    model = swin_stage()
    patches, norm, layers = 96 * 48 + 96, 2 * 96, 96 * 288 + 288 + 96 * 96 + 96 + 2 * 96 * 384 + 384 + 96
    assert parameters(model) == patches + 5 * norm + 2 * layers
    assert (operators(model)["Softmax"], operators(model)["Slice"]) == (2, 8)
    assert outputs(model) == [[1, 56, 56, 96]]


def test_lstm_recogniser() -> None:
    model = lstm_recogniser()
    convolutions = sum(9 * a * b + b for a, b in ((3, 32), (32, 64), (64, 128), (128, 128), (128, 256), (256, 256)))
    recurrent = sum(2 * 4 * 96 * (inside + 96) + 2 * 8 * 96 for inside in (256, 192))
    assert parameters(model) == convolutions + recurrent + 192 * 97 + 97
    assert outputs(model) == [[80, 1, 97]]


@pytest.mark.parametrize("shift", [0, 3, -3])
def test_a_window_moves_towards_the_start(shift: int) -> None:
    net = Builder("roll", (1, 56, 56, 2))
    model = net.finish(net.op("Neg", _rolled(net, net.input, shift)))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    image = np.random.RandomState(0).normal(size=(1, 56, 56, 2)).astype(np.float32)
    (found,) = session.run(None, {"image": image})
    np.testing.assert_array_equal(-found, np.roll(image, (-shift, -shift), axis=(1, 2)))
