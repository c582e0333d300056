"""Parts of networks compute what they are called."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from scipy.special import erf, expit

from benchmarks.speed.structures.builder import Activation, Builder

X = np.random.RandomState(0).normal(0, 4, (1, 4, 6, 6)).astype(np.float32)


def model_of(part: Callable[[Builder], str], shape: tuple[int, ...] = X.shape, seed: int = 0) -> onnx.ModelProto:
    net = Builder("part", shape, seed)
    return net.finish(part(net))


def run(part: Callable[[Builder], str], x: np.ndarray = X) -> np.ndarray:
    model = model_of(part, x.shape)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run(None, {"image": x})[0]
    return found


def weights_of(part: Callable[[Builder], str], shape: tuple[int, ...] = X.shape) -> list[np.ndarray]:
    return [onnx.numpy_helper.to_array(tensor) for tensor in model_of(part, shape).graph.initializer]


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (Activation.RELU, lambda x: np.maximum(x, 0)),
        (Activation.RELU6, lambda x: np.clip(x, 0, 6)),
        (Activation.SWISH, lambda x: x * expit(x)),
        (Activation.HARD_SWISH, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    ],
)
def test_activations(activation: Activation, expected: Callable[[np.ndarray], np.ndarray]) -> None:
    np.testing.assert_allclose(run(lambda net: net.activate(net.input, activation)), expected(X), atol=1e-5)


def test_no_activation_is_no_node() -> None:
    net = Builder("part", X.shape)
    assert net.activate("x", Activation.NONE) == "x"


def test_layer_norm_is_that_of_the_last_axis() -> None:
    def part(net: Builder) -> str:
        return net.layer_norm(net.input, 6)

    power, epsilon, scale, shift = weights_of(part)
    assert (power, epsilon) == (2, np.float32(1e-5))
    normal = (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run(part), normal * scale + shift, atol=1e-4)
    assert 0.5 <= scale.min() < scale.max() <= 1.5


def test_gelu() -> None:
    np.testing.assert_allclose(run(lambda net: net.gelu(net.input)), 0.5 * X * (1 + erf(X / np.sqrt(2))), atol=1e-5)


def test_dense_is_over_the_last_axis() -> None:
    def part(net: Builder) -> str:
        return net.dense(net.input, 6, 3)

    weight, bias = weights_of(part)
    np.testing.assert_allclose(run(part), X @ weight + bias, atol=1e-5)


def test_upsampling_repeats() -> None:
    np.testing.assert_array_equal(run(lambda net: net.upsample(net.input, 2)), X.repeat(2, 2).repeat(2, 3))


def test_classifier_is_a_mean_and_a_dense_layer() -> None:
    def part(net: Builder) -> str:
        return net.classifier(net.input, 4, 5)

    bias, weight = weights_of(part)
    np.testing.assert_allclose(run(part), X.mean((2, 3)) @ weight.T + bias, atol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "stride", "groups", "shape"),
    [(1, 1, 1, (1, 8, 6, 6)), (3, 2, 1, (1, 8, 3, 3)), (5, (2, 1), 4, (1, 8, 3, 6))],
)
def test_a_convolution_is_padded_by_half_its_kernel(
    kernel: int, stride: int | tuple[int, int], groups: int, shape: tuple[int, ...]
) -> None:
    def part(net: Builder) -> str:
        return net.conv(net.input, 4, 8, kernel, stride, groups=groups)

    found = run(part)
    assert found.shape == shape
    assert found.min() == 0  # ReLU unless another is asked for
    weight, bias = weights_of(part)
    assert (weight.shape, bias.shape) == ((8, 4 // groups, kernel, kernel), (8,))


def test_weights_keep_the_size_of_activations() -> None:
    """A variance of one over the number of inputs; a bias of a tenth."""
    weight, bias = weights_of(lambda net: net.conv(net.input, 400, 400, 3, groups=4), (1, 400, 2, 2))
    assert weight.var() == pytest.approx(1 / 900, rel=0.02)
    assert bias.std() == pytest.approx(0.1, rel=0.1)
    assert weight.dtype == bias.dtype == np.float32


def test_the_seed_makes_the_weights() -> None:
    def part(net: Builder) -> str:
        return net.dense(net.input, 6, 3)

    assert model_of(part) == model_of(part)
    assert model_of(part, seed=1) != model_of(part)


def test_names_and_versions() -> None:
    net = Builder("part", X.shape)
    parts = net.op("Split", net.input, outputs=2, axis=1, split=[2, 2])
    assert parts == ["Split_0_0", "Split_0_1"]
    model = net.finish(*parts)
    assert (model.ir_version, model.opset_import[0].version, model.graph.name) == (8, 11, "part")
    assert [node.name for node in model.graph.node] == ["Split_0"]
    assert [value.name for value in model.graph.input] == ["image"]
