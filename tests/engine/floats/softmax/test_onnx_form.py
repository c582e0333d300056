"""A float Softmax in standard nodes has the simulators' bits in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from engine.floats.softmax.definition import softmax_over
from engine.floats.softmax.onnx_form import own_softmax
from engine.ir import to_bytes
from engine.ops.core.portable import FUNCTION_DOMAIN, Emitter
from engine.simulate.portable.export import IR_VERSION
from engine.simulate.portable.functions import FUNCTION_VERSION, own_functions

OPSETS = {"": 18, FUNCTION_DOMAIN: FUNCTION_VERSION}
LEVELS = [ort.GraphOptimizationLevel.ORT_ENABLE_ALL, ort.GraphOptimizationLevel.ORT_DISABLE_ALL]


def exported(x: np.ndarray, axis: int, level: ort.GraphOptimizationLevel) -> np.ndarray:
    source = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(x.shape))
    emit = Emitter("y")
    result = own_softmax(source, x.shape, axis, emit)
    result.type, result.shape = source.type, source.shape
    graph = ir.Graph(
        [source], [result], nodes=emit.nodes, initializers=emit.initializers, opset_imports=OPSETS, name="g"
    )
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    model = to_bytes(ir.Model(graph, ir_version=IR_VERSION, functions=own_functions(18)))
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


@pytest.mark.parametrize("level", LEVELS, ids=["optimised", "as_written"])
@pytest.mark.parametrize("length", [1, 3, 4, 7, 16, 197])
def test_rows_of_any_length(length: int, level: ort.GraphOptimizationLevel) -> None:
    x = (np.random.default_rng(length).standard_normal((3, 5, length)) * 8).astype(np.float32)
    np.testing.assert_array_equal(exported(x, 2, level), softmax_over(x, (2,)))


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_any_axis(axis: int) -> None:
    x = np.random.default_rng(axis).standard_normal((2, 5, 3, 9)).astype(np.float32)
    np.testing.assert_array_equal(exported(x, axis, LEVELS[0]), softmax_over(x, (axis,)))


@pytest.mark.parametrize("row", [[1, np.nan, 0, 2], [np.inf, 0, 1, 2], [-np.inf] * 4, [0, -np.inf, -90, -1e30, 1, 2]])
def test_numbers_that_are_not_finite(row: list[float]) -> None:
    x = np.array([row], np.float32)
    np.testing.assert_array_equal(exported(x, 1, LEVELS[0]), softmax_over(x, (1,)))
