"""Float composites: numpy function and standard nodes agree, any batch, any opset."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from engine.errors import ModelError
from engine.ir import HORIZON_DOMAIN, to_bytes
from engine.ops.foreign.composite import COMPOSITES, expand_composites

ELEMENTWISE = sorted(name for name, composite in COMPOSITES.items() if composite.function is not None)


def composite_model(
    op_type: str, opset: int = 11, shape: tuple[int | str, ...] = (1, 6, 2, 3), **attributes: float
) -> ir.Model:
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(shape))
    y = ir.Value(name="y", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(shape))
    node = ir.node(op_type, [x], attributes, domain=HORIZON_DOMAIN, outputs=[y], name="n")
    graph = ir.Graph([x], [y], nodes=[node], opset_imports={"": opset, HORIZON_DOMAIN: 1}, name="g")
    return ir.Model(graph, ir_version=6)


@pytest.mark.parametrize("opset", [9, 11, 13, 19])
@pytest.mark.parametrize("op_type", [*ELEMENTWISE, "HzRsqrt behind"])
def test_function_equals_expansion(op_type: str, opset: int) -> None:
    op_type, _, behind = op_type.partition(" ")
    attributes = {"epsilon": 1e-5, "is_sqrt_add_reciprocal": int(bool(behind))} if op_type == "HzRsqrt" else {}
    model = expand_composites(composite_model(op_type, opset, ("N",), **attributes))
    assert HORIZON_DOMAIN not in model.opset_imports
    x = np.concatenate([np.linspace(-12, 12, 301), [0, -0.0, 1e-6, 80, -80]]).astype(np.float32)
    if op_type == "HzRsqrt":
        x = np.abs(x)
    (expected,) = onnxruntime.InferenceSession(to_bytes(model)).run(None, {"x": x})
    actual = COMPOSITES[op_type].function(x, attributes)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6)


def test_channel_shuffle_takes_any_batch() -> None:
    model = composite_model("HzChannelShuffle", group=2)
    model.graph.node("n").inputs[0].shape = ir.Shape((1, 6, 2, 3))
    expanded = expand_composites(model)
    expanded.graph.inputs[0].shape = ir.Shape(("N", 6, 2, 3))
    expanded.graph.outputs[0].shape = ir.Shape(("N", 6, 2, 3))
    x = np.random.default_rng(0).normal(size=(3, 6, 2, 3)).astype(np.float32)
    (actual,) = onnxruntime.InferenceSession(to_bytes(expanded)).run(None, {"x": x})
    np.testing.assert_array_equal(actual, x[:, [0, 3, 1, 4, 2, 5]])
    with pytest.raises(ModelError, match="group 4 does not divide 6 channels"):
        expand_composites(composite_model("HzChannelShuffle", group=4))


def test_other_nodes_and_the_model_itself_stay() -> None:
    model = composite_model("HzSwish")
    before = to_bytes(model)
    expanded = expand_composites(model)
    assert to_bytes(model) == before
    assert [node.op_type for node in expanded.graph] == ["Sigmoid", "Mul"]
    assert expanded.graph.outputs[0].name == "y"
    unknown = composite_model("HzCalibration")
    assert [node.op_type for node in expand_composites(unknown).graph] == ["HzCalibration"]
