"""Models of float16 and float64 become models of float32 that compute the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from engine.frontend.onnx import load_onnx
from engine.frontend.precision import compute_in_float32
from tests.engine.frontend.networks import convolution, network, saved

OTHERS = (ir.DataType.FLOAT16, ir.DataType.DOUBLE)


def _model(dtype: type[np.floating], listed: bool = False) -> onnx.ModelProto:
    """Constants as initializers, as a node's value and behind a cast; ``listed``: initializers are inputs as well."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    weight = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(dtype)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.array([0.5], dtype))),
        helper.make_node("Mul", ["c", "k"], ["m"]),
        helper.make_node("Cast", ["m"], ["i"], to=TensorProto.INT32),
        helper.make_node("Cast", ["i"], ["f"], to=kind),
        helper.make_node("Add", ["m", "f"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", kind, (1, 3, 8, 8))]
    inputs += [helper.make_tensor_value_info("w", kind, weight.shape)] if listed else []
    outputs = [helper.make_tensor_value_info("y", kind, (1, 4, 6, 6))]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def _run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    (y,) = ReferenceEvaluator(model).run(None, {"x": x})
    return np.asarray(y)


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_the_same_values(tmp_path: Path, dtype: type[np.floating], listed: bool) -> None:
    proto = _model(dtype, listed)
    model = load_onnx(saved(proto, tmp_path))
    values = [*model.graph.inputs, *model.graph.outputs, *model.graph.initializers.values()]
    values += [value for node in model.graph for value in node.outputs]
    assert not [value.name for value in values if value.dtype in OTHERS]
    x = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(dtype)
    expected = _run(proto, x).astype(np.float32)
    found = _run(ir.to_proto(model), x.astype(np.float32))
    whole = np.rint(expected) == expected  # the cast to integers jumps there
    np.testing.assert_allclose(found[~whole], expected[~whole], atol=3e-2 if dtype is np.float16 else 1e-5)


def test_values_beyond_float32(tmp_path: Path) -> None:
    proto = _model(np.float64)
    weight = np.zeros((4, 3, 3, 3))
    weight.flat[:4] = (1e300, -1e300, np.inf, -np.inf)
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "w"))
    constant = load_onnx(saved(proto, tmp_path)).graph.initializers["w"].const_value
    assert constant is not None
    largest = np.finfo(np.float32).max
    np.testing.assert_array_equal(constant.numpy().ravel()[:4], [largest, -largest, np.inf, -np.inf])


def test_a_float32_model_keeps_its_casts(tmp_path: Path) -> None:
    model = convolution()
    model.graph.node[0].output[0] = "c"
    model.graph.node.extend(
        [helper.make_node("Cast", ["c"], ["d"], to=TensorProto.DOUBLE), helper.make_node("Cast", ["d"], ["y"], to=1)]
    )
    casts = [
        node.attributes["to"].as_int() for node in load_onnx(saved(model, tmp_path)).graph if node.op_type == "Cast"
    ]
    assert casts == [TensorProto.DOUBLE, TensorProto.FLOAT]


def test_float64_constants_behind_a_cast_are_no_weights(tmp_path: Path) -> None:
    model = convolution()
    model.graph.node[0].output[0] = "c"
    model.graph.node.extend(
        [helper.make_node("Cast", ["c"], ["d"], to=TensorProto.DOUBLE), helper.make_node("Add", ["d", "k"], ["y"])]
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones((1, 1, 1, 1), np.float64), "k"))
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    (result,) = load_onnx(saved(model, tmp_path)).graph.outputs
    assert result.dtype == ir.DataType.DOUBLE


def changed(*nodes: onnx.NodeProto, x: int = TensorProto.FLOAT, **constants: np.ndarray) -> bool:
    proto = network(list(nodes), {"x": (2, 2)}, ["y"], constants)
    proto.graph.input[0].type.tensor_type.elem_type = x
    model = ir.from_proto(proto)
    found = compute_in_float32(model)
    assert {value.dtype for value in model.graph.inputs} == {ir.DataType.FLOAT if found else ir.DataType(x)}
    return found


@pytest.mark.parametrize("kind", [np.float16, np.float64])
@pytest.mark.parametrize(
    ("op_type", "shape", "weighs"),
    [("MatMul", (2, 2), True), ("Add", (2, 2), None), ("MatMul", (2,), False), ("Gemm", (2, 2), True)],
)
def test_what_makes_a_model_one_of_another_type(
    kind: type[np.floating], op_type: str, shape: tuple[int, ...], weighs: bool | None
) -> None:
    """Constants of two dimensions and more; of float64 those of operators that have weights only."""
    expected = kind is np.float16 if weighs is None else weighs
    assert changed(helper.make_node(op_type, ["x", "w"], ["y"]), w=np.ones(shape, kind)) is expected


def test_an_input_makes_a_model_one_of_its_type() -> None:
    for kind in (TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16):
        assert changed(helper.make_node("Neg", ["x"], ["y"]), x=kind)
    assert not changed(helper.make_node("Neg", ["x"], ["y"]))


def test_types_in_attributes_follow_in_subgraphs_too() -> None:
    cast = helper.make_node("Cast", ["x"], ["c"], to=TensorProto.FLOAT16)
    branch = helper.make_graph([cast], "b", [], [helper.make_tensor_value_info("c", TensorProto.FLOAT16, (2, 2))])
    nodes = [helper.make_node("If", ["go"], ["y"], then_branch=branch, else_branch=branch)]
    proto = network(nodes, {"x": (2, 2)}, ["y"], {"go": np.array(True)})
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    model = ir.from_proto(proto)
    assert compute_in_float32(model)
    inner = [node.attributes["to"].value for graph in model.graph.subgraphs() for node in graph]
    assert inner == [TensorProto.FLOAT] * 2
