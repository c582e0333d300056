"""MaxPool of floats: what ONNX Runtime gives for numbers, one order for all else, and what is left to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from engine.floats.pool import Steps, pooled, windows_of


def pool(outputs: int = 1, **attributes: Any) -> ir.Node:
    return ir.node("MaxPool", [], attributes, name="n", num_outputs=outputs)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [2, 1], "strides": [2, 1]},
        {"kernel_shape": [1, 3], "strides": [1, 2], "pads": [0, 0, 0, 0]},
        {"kernel_shape": [3, 2], "dilations": [2, 3]},
        {"kernel_shape": [1, 1], "strides": [2, 3]},
    ],
)
def test_numbers_are_those_of_the_runtime(attributes: dict[str, Any]) -> None:
    x = noise(2, 3, 9, 20)
    windows = windows_of(pool(**attributes), x)
    assert windows is not None
    node = onnx.helper.make_node("MaxPool", ["x"], ["y"], **attributes)
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None] * 4) for name in ("x", "y")]
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 12)], ir_version=8)
    (expected,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(pooled(x, windows), expected)


def test_a_nan_is_left_where_it_comes_last() -> None:
    x = np.array([1, np.nan, np.nan, 1, -np.inf, -np.inf], np.float32).reshape(1, 1, 6, 1)
    found = pooled(x, (Steps(2, 2, 1), Steps(1, 1, 1))).ravel().tolist()
    assert found[1:] == [1, -np.inf]
    assert np.isnan(found[0])


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((1, 3, 4, 4), {"kernel_shape": [2, 2], "pads": [0, 1, 0, 0]}),
        ((1, 3, 4, 4), {"kernel_shape": [2, 2], "ceil_mode": 1}),
        ((1, 3, 4, 4), {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}),
        ((1, 3, 4), {"kernel_shape": [2]}),
        ((1, 3, 4, 4), {"kernel_shape": [2]}),
        ((1, 3, 4, 4), {"strides": [2, 2]}),
        ((1, 3, 4, 4), {"kernel_shape": [5, 2]}),
        ((1, 3, 4, 4), {"kernel_shape": [2, 2], "outputs": 2}),
    ],
)
def test_what_is_left_to_the_runtime(shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    assert windows_of(pool(**attributes), noise(*shape)) is None
