"""Convolutions of floats over one axis: their order of sums, which ONNX Runtime has too, and what is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnx_ir as ir
import onnxruntime as ort
import pytest

from engine.floats.convolution import RowWindow, convolved, window_of
from engine.native.registers import LEVEL
from tests.cpu import needs_cpu

SHAPES = [
    ((1, 16, 64), (16, 16, 3), RowWindow(2, 0, 1, 1, 1)),
    ((2, 8, 64), (16, 8, 3), RowWindow(1, 1, 1, 2, 1)),
    ((1, 12, 31), (6, 4, 5), RowWindow(0, 2, 2, 3, 3)),
    ((1, 16, 20), (32, 1, 3), RowWindow(1, 1, 1, 1, 16)),
    ((1, 32, 90), (24, 32, 4), RowWindow(0, 0, 1, 1, 1)),
    ((1, 64, 130), (9, 64, 3), RowWindow(1, 1, 1, 1, 1)),
    ((1, 100, 40), (5, 100, 3), RowWindow(0, 0, 2, 1, 1)),
    ((1, 120, 60), (4, 60, 5), RowWindow(0, 3, 1, 2, 2)),
]


def conv(window: RowWindow, **more: Any) -> ir.Node:
    attributes = {
        "pads": [window.before, window.behind],
        "strides": [window.stride],
        "dilations": [window.dilation],
        "group": window.groups,
        **more,
    }
    return ir.node("Conv", [None, None], attributes, name="n")


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("shape", "kernel", "window"), SHAPES)
def test_sums_agree_with_float64(shape: tuple[int, ...], kernel: tuple[int, ...], window: RowWindow) -> None:
    x, weights, bias = noise(*shape), noise(*kernel), noise(kernel[0])
    assert window_of(conv(window), [x, weights, bias]) == window
    expected = onnx.reference.ReferenceEvaluator(_model(window, weights.astype(np.float64), bias.astype(np.float64)))
    found = convolved(x, weights, bias, window)
    np.testing.assert_allclose(found, expected.run(None, {"x": x.astype(np.float64)})[0], rtol=1e-4, atol=1e-4)


@needs_cpu(LEVEL is not None and "avx512f" in LEVEL.features, "measured on CPUs with AVX-512")
@pytest.mark.parametrize(("shape", "kernel", "window"), SHAPES)
def test_the_runtime_has_the_same_bits(shape: tuple[int, ...], kernel: tuple[int, ...], window: RowWindow) -> None:
    x, weights, bias = noise(*shape), noise(*kernel), noise(kernel[0])
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # several divide a sum otherwise
    session = ort.InferenceSession(_model(window, weights, bias).SerializeToString(), options)
    np.testing.assert_array_equal(convolved(x, weights, bias, window), session.run(None, {"x": x})[0])


def test_without_bias_the_sum_is_the_result() -> None:
    ones = np.ones((1, 1, 3), np.float32)
    assert convolved(ones, ones, None, RowWindow(1, 1, 1, 1, 1)).tolist() == [[[2, 3, 2]]]


@pytest.mark.parametrize(
    ("x", "weights", "more"),
    [
        (noise(1, 3, 4, 4), noise(2, 3, 1, 1), {}),
        (noise(1, 3, 4).astype(np.float64), noise(2, 3, 1).astype(np.float64), {}),
        (noise(1, 3, 4), noise(2, 2, 1), {}),
        (noise(1, 3, 4), noise(2, 3, 5), {}),
        (noise(1, 3, 4), noise(1, 3, 1), {}),
        (noise(1, 2, 1 << 19), noise(64, 2, 1), {}),
        (noise(1, 3, 4), noise(2, 0, 1), {}),
        (noise(1, 3, 4), noise(2, 3, 1), {"auto_pad": "SAME_UPPER"}),
    ],
)
def test_what_is_no_such_convolution(x: np.ndarray, weights: np.ndarray, more: dict[str, Any]) -> None:
    assert window_of(conv(RowWindow(0, 0, 1, 1, 1), **more), [x, weights]) is None


def _model(window: RowWindow, weights: np.ndarray, bias: np.ndarray) -> onnx.ModelProto:
    kind = onnx.helper.np_dtype_to_tensor_dtype(weights.dtype)
    node = onnx.helper.make_node(
        *("Conv", ["x", "w", "b"], ["y"]),
        **{"pads": [window.before, window.behind], "strides": [window.stride]},
        **{"dilations": [window.dilation], "group": window.groups},
    )
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info("x", kind, [None] * 3)],
        [onnx.helper.make_tensor_value_info("y", kind, [None] * 3)],
        [onnx.numpy_helper.from_array(weights, "w"), onnx.numpy_helper.from_array(bias, "b")],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=8)
