"""The helpers of exported models, at values that are easy to get wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from engine.floats.softmax.definition import exponential
from engine.ir import to_bytes
from engine.ops.core.portable import FUNCTION_DOMAIN
from engine.simulate.portable.export import IR_VERSION
from engine.simulate.portable.functions import FUNCTION_VERSION, own_functions

OPSETS = {"": 18, FUNCTION_DOMAIN: FUNCTION_VERSION}


def called(name: str, values: list[float], *constants: float, kind: Any = np.float64) -> list[float]:
    """The function ``name`` of a vector."""
    element = ir.TensorType(ir.DataType.from_numpy(np.dtype(kind)))
    x, y = (ir.Value(name=label, type=element, shape=ir.Shape((len(values),))) for label in "xy")
    given = [
        ir.Value(name=f"c{k}", const_value=ir.tensor(np.array(number, kind), name=f"c{k}"))
        for k, number in enumerate(constants)
    ]
    node = ir.node(name, [x, *given], domain=FUNCTION_DOMAIN, outputs=[y], name="n")
    graph = ir.Graph([x], [y], nodes=[node], initializers=given, opset_imports=OPSETS, name="g")
    model = ir.Model(graph, ir_version=IR_VERSION, functions=own_functions(18))
    session = ort.InferenceSession(to_bytes(model), providers=["CPUExecutionProvider"])
    return [float(value) for value in session.run(None, {"x": np.array(values, kind)})[0]]


@pytest.mark.parametrize(
    ("name", "values", "constants", "expected"),
    [
        ("ShiftFloor", [-3, 3], [0.5], [-2, 1]),
        ("ShiftRound", [-3, -1, 1, 3], [0.5], [-1, 0, 1, 2]),
        ("Saturate16", [-32769, -32768, 32767, 32768], [], [-32768, -32768, 32767, 32767]),
        ("WrapInt32", [2**31 - 1, 2**31, -(2**31) - 1, 3 * 2**32 + 5], [], [2**31 - 1, -(2**31), 2**31 - 1, 5]),
        ("RequantizeRound", [-3, 3, 1000], [1.5, -4, 120], [-4, 5, 120]),
        ("RescaleRound", [-3, 3, 10**6], [0.5, 0.5, -128, 127], [-1, 1, 127]),
        ("RescaleRound", [10**6], [1, 2.0**-9, -128, 127], [64]),
        ("RescaleFloor", [-3, 3, 10**6], [0.5, 0.75, -128, 127], [-2, 0, 127]),
        ("RescaleFloor", [10**6], [1, 2.0**-9, -128, 127], [63]),
    ],
)
def test_shifts_are_factors(name: str, values: list[float], constants: list[float], expected: list[float]) -> None:
    assert called(name, values, *constants) == expected


def test_floats_are_rounded_to_even_and_what_does_not_fit_is_the_least() -> None:
    values = [0.25, 0.75, 300.0, 2.0**31, float("nan"), float("-inf")]
    assert called("QuantizeFloat", values, 0.5, -128, 127, kind=np.float32) == [0, 2, 127, -128, -128, -128]


def test_functions_belong_to_the_operator_set_of_their_model() -> None:
    for opset in (18, 21):
        assert {function.opset_imports[""] for function in own_functions(opset)} == {opset}


def test_the_exponential_is_the_simulators() -> None:
    values = -np.abs(np.random.default_rng(2).standard_normal(4000) * 30).astype(np.float32)
    values[:6] = 0, -87.3, -87.4, -88.4, -1e9, -np.inf
    assert called("Exponential", values.tolist(), kind=np.float32) == exponential(values).tolist()
