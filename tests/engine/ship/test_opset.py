"""Operators of newer opsets as opset 11 writes them, with the same results."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.reference
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.errors import ShipError
from engine.ship.opset import write_as_opset_11


def model_of(
    node: onnx.NodeProto, opset: int, constants: dict[str, np.ndarray] | None = None, outputs: int = 1
) -> onnx.ModelProto:
    """One node on ``x`` of shape (1, 4, 3, 2), with shapes inferred."""
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 3, 2])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in node.output[:outputs]],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


AXES = np.asarray([2, 3], np.int64)
CASES = {
    "sum": model_of(helper.make_node("ReduceSum", ["x", "a"], ["y"], "n", keepdims=1), 13, {"a": AXES}),
    "mean": model_of(helper.make_node("ReduceMean", ["x", "a"], ["y"], "n"), 18, {"a": AXES}),
    "squeeze": model_of(helper.make_node("Squeeze", ["x", "a"], ["y"], "n"), 13, {"a": np.asarray([0], np.int64)}),
    "unsqueeze": model_of(helper.make_node("Unsqueeze", ["x", "a"], ["y"], "n"), 13, {"a": np.asarray([0], np.int64)}),
    "split": model_of(
        helper.make_node("Split", ["x", "a"], ["y", "z"], "n", axis=1), 13, {"a": np.asarray([1, 3], np.int64)}, 2
    ),
    "split alike": model_of(helper.make_node("Split", ["x"], ["y", "z"], "n", axis=1, num_outputs=2), 18, None, 2),
    "softmax": model_of(helper.make_node("Softmax", ["x"], ["y"], "n", axis=1), 13),
    "softmax of the last axis": model_of(helper.make_node("Softmax", ["x"], ["y"], "n"), 13),
    "reshape": model_of(
        helper.make_node("Reshape", ["x", "a"], ["y"], "n", allowzero=0), 14, {"a": np.asarray([4, 6], np.int64)}
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_the_same_at_opset_11(name: str) -> None:
    before = CASES[name]
    model = ir.from_proto(before)
    write_as_opset_11(model)
    after = ir.to_proto(model)
    onnx.checker.check_model(after, full_check=True)
    assert after.opset_import[0].version == 11
    feed = {"x": np.random.default_rng(0).normal(size=(1, 4, 3, 2)).astype(np.float32)}
    for first, second in zip(
        *(onnx.reference.ReferenceEvaluator(each).run(None, feed) for each in (before, after)), strict=True
    ):
        np.testing.assert_allclose(first, second, rtol=1e-6)


def test_older_models_stay_as_they_are() -> None:
    model = ir.from_proto(model_of(helper.make_node("Relu", ["x"], ["y"], "n"), 10))
    write_as_opset_11(model)
    assert model.opset_imports[""] == 10


@pytest.mark.parametrize(
    ("node", "opset", "message"),
    [
        (helper.make_node("Trilu", ["x"], ["y"], "n"), 14, "the operator came later"),
        (helper.make_node("ArgMax", ["x"], ["y"], "n", select_last_index=1), 13, "select_last_index came later"),
    ],
)
def test_what_came_later_is_refused_by_name(node: onnx.NodeProto, opset: int, message: str) -> None:
    with pytest.raises(ShipError, match=message) as error:
        write_as_opset_11(ir.from_proto(model_of(node, opset)))
    assert "node n" in error.value.reason
    assert error.value.remedy == "export the network at opset 11"
