"""Tanh and the logistic function have ONNX Runtime's numbers, at their limits too."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from engine.floats.multiply_add import FUSES
from engine.floats.rational import gru_logistic, gru_tanh, logistic, tanh
from engine.floats.recurrent import Floats

AT_LIMITS = [0, -0.0, 9, -9, 8.99, 10, -10, 17.99, 18, -18, 18.01, -30, 1e30, -1e30, np.inf, -np.inf]


def numbers() -> Floats:
    rng = np.random.default_rng(0)
    scaled = [rng.standard_normal(20_000) * scale for scale in (0.01, 1, 5, 20)]
    return np.concatenate([*scaled, AT_LIMITS]).astype(np.float32)


def of_runtime(op_type: str, x: Floats) -> Floats:
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [len(x)]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node(op_type, ["x"], ["y"])], "g", ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    found: Floats = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    return found


@pytest.mark.skipif(not FUSES, reason="measured on CPUs with fused multiply-add")
def test_the_runtime_has_the_same_bits() -> None:
    x = numbers()
    np.testing.assert_array_equal(logistic(x), of_runtime("Sigmoid", x))
    np.testing.assert_array_equal(tanh(x), of_runtime("Tanh", x))


def test_all_are_close_to_the_functions() -> None:
    x = numbers()
    wide = np.clip(x.astype(np.float64), -700, 700)
    for found, expected in (
        (logistic(x), 1 / (1 + np.exp(-wide))),
        (gru_logistic(x), 1 / (1 + np.exp(-wide))),
        (tanh(x), np.tanh(wide)),
        (gru_tanh(x), np.tanh(wide)),
    ):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=0, atol=7e-7)


def test_what_is_no_number_stays_none() -> None:
    x = np.full(1, np.nan, np.float32)
    assert all(np.isnan(function(x)).all() for function in (logistic, tanh, gru_tanh, gru_logistic))
