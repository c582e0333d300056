"""Networks that are written node by node."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from engine.conformance.questions.network import SAMPLES, SmallNetwork


def run(net: SmallNetwork) -> list[np.ndarray]:
    session = ort.InferenceSession(net.model().SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": net.samples()[0]})


def test_convolutions_keep_their_map_unless_told_otherwise() -> None:
    net = SmallNetwork("n", (1, 4, 8, 8), 1)
    shrunk = net.conv("x", 4, 6, 2, strides=[2, 2], pads=[0, 0, 0, 0])
    net.output(net.conv("x", 4, 6, 3, dilations=[2, 2]), net.conv("x", 4, 4, 5, group=4), shrunk)
    assert [array.shape for array in run(net)] == [(1, 6, 8, 8), (1, 4, 8, 8), (1, 6, 4, 4)]


def test_a_convolution_over_one_axis_has_the_largest_weight_that_is_asked_for() -> None:
    net = SmallNetwork("n", (1, 4, 16), 2)
    net.output(net.conv("x", 4, 6, 3, rank=3, largest=0.25))
    (weights,) = (onnx.numpy_helper.to_array(each) for each in net.model().graph.initializer if len(each.dims) == 3)
    assert weights.shape == (6, 4, 3)
    assert np.abs(weights).max() == np.float32(0.25)
    assert [array.shape for array in run(net)] == [(1, 6, 16)]


def test_compound_layers_compute_what_they_are_called() -> None:
    net = SmallNetwork("n", (1, 3, 16), 3, spread=2.0)
    net.output(net.gelu("x"), net.layer_norm("x", 16), net.linear("x", 16, 5))
    gelu, normed, dense = run(net)
    x = net.samples()[0].astype(np.float64)
    expected = [0.5 * value * (1 + math.erf(value / math.sqrt(2))) for value in x.ravel()]
    assert gelu.ravel() == pytest.approx(np.array(expected), abs=1e-5)
    scale, shift = (onnx.numpy_helper.to_array(each) for each in net.model().graph.initializer if each.dims == [16])
    z = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    assert normed == pytest.approx(z * scale + shift, abs=1e-5)
    assert dense.shape == (1, 3, 5)


def test_movements() -> None:
    net = SmallNetwork("n", (1, 2, 3, 4), 4)
    net.output(net.transpose(net.reshape("x", 1, 6, 4), 0, 2, 1), net.enlarge("x", 1, 2, 6, 8))
    turned, enlarged = run(net)
    x = net.samples()[0]
    assert np.array_equal(turned, x.reshape(1, 6, 4).transpose(0, 2, 1))
    assert np.array_equal(enlarged, x.repeat(2, 2).repeat(2, 3))


def test_weights_and_data_are_the_same_at_every_time() -> None:
    def made(seed: int) -> SmallNetwork:
        net = SmallNetwork("n", (1, 4, 8, 8), seed)
        net.output(net.conv("x", 4, 4))
        return net

    assert made(1).model() == made(1).model()
    assert made(1).model() != made(2).model()
    assert made(1).samples().tobytes() == made(2).samples().tobytes()
    assert made(1).samples().shape == (SAMPLES, 1, 4, 8, 8)


def test_shapes_that_do_not_fit_are_an_error() -> None:
    net = SmallNetwork("n", (1, 4, 8, 8), 1)
    net.output(net.linear("x", 5, 4))
    with pytest.raises(onnx.shape_inference.InferenceError):
        net.model()
