"""ONNX Runtime's sessions: how they are opened, and what they refuse."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from engine.calibrate import FloatSession, lower_calibration
from engine.errors import ModelError
from engine.floats import runtime
from engine.floats.runtime import open_session
from engine.ir import to_bytes
from tests.engine.calibrate.models import add_calibration, graph, residual, samples


def test_pairs_of_quantize_linear_stay_float_kernels() -> None:
    model = residual()
    for name in ("x", "w0", "c0", "r0", "a"):
        scales = [0.01, 0.02, 0.03, 0.04] if name == "w0" else [0.02]
        add_calibration(model, name, thresholds=scales, scales=scales)
    x = samples(3)
    steps, linear = FloatSession(lower_calibration(model)), FloatSession(model)
    np.testing.assert_array_equal(linear.run({"x": x})["y"], steps.run({"x": x})["y"])


def test_operands_that_fit_no_operator_are_a_model_error() -> None:
    """Indices that are computed: whether they lie in the tensor shows only when the model runs."""
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=7),
        helper.make_node("Gather", ["x", "i"], ["y"], axis=0),
    ]
    session = FloatSession(graph(nodes, {"x": (4,)}, ["y"]))
    with pytest.raises(ModelError, match=r"ONNX Runtime cannot run the model: .* out of data bounds"):
        session.run({"x": np.full(4, 9, np.float32)})
    with pytest.raises(ModelError, match="ONNX Runtime cannot run the model"):
        session.run_into({"x": np.full(4, 9, np.float32)}, {"y": np.zeros(4, np.float32)})


@pytest.mark.parametrize(("threads", "expected"), [(None, 0), (3, 3)])
@pytest.mark.parametrize("blocked", [False, True])
def test_sessions_are_opened_for_floats(
    monkeypatch: pytest.MonkeyPatch, threads: int | None, expected: int, blocked: bool
) -> None:
    opened = []
    monkeypatch.setattr(runtime, "CheckedSession", lambda model, options, **more: opened.append((options, more)))
    open_session(b"", threads=threads, blocked_layouts=blocked)
    ((options, more),) = opened
    levels = onnxruntime.GraphOptimizationLevel
    assert more["providers"] == ["CPUExecutionProvider"]
    assert more["disabled_optimizers"] == (None if blocked else ["MatMulScaleFusion"])
    assert options.intra_op_num_threads == expected
    assert options.graph_optimization_level == (levels.ORT_ENABLE_ALL if blocked else levels.ORT_ENABLE_EXTENDED)
    assert options.get_session_config_entry("session.disable_quant_qdq") == "1"


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ModelError, match="ONNX Runtime cannot run the model"):
        open_session(b"not a model", threads=1, blocked_layouts=False)


def test_inputs_of_another_shape_are_a_model_error() -> None:
    session = open_session(to_bytes(residual()), threads=1, blocked_layouts=False)
    with pytest.raises(ModelError, match="ONNX Runtime cannot run the model"):
        session.run(None, {"x": np.zeros((1, 3, 6, 6), np.float32)})


def test_a_factor_in_front_of_a_product_of_matrices_is_multiplied_first() -> None:
    """As the original's runtime does; ONNX Runtime would multiply the sums."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 32), np.float32)
    weights = rng.standard_normal((32, 8), np.float32)
    factor = np.float32(0.3)
    nodes = [helper.make_node("Mul", ["x", "f"], ["s"]), helper.make_node("MatMul", ["s", "w"], ["y"])]
    whole = graph(nodes, {"x": (4, 32)}, ["y"], {"f": np.asarray(factor), "w": weights})
    alone = graph(nodes[1:], {"s": (4, 32)}, ["y"], {"w": weights})
    found, expected = (
        open_session(to_bytes(model), threads=1, blocked_layouts=False).run(None, feed)[0]
        for model, feed in ((whole, {"x": x}), (alone, {"s": x * factor}))
    )
    np.testing.assert_array_equal(found, expected)
