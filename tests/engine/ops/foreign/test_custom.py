"""Registration and execution of custom operators, node by node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from engine.errors import ModelError, UnsupportedError
from engine.frontend import load_network
from engine.ops.foreign.custom import CustomNode, adopt, output_shapes, set_output_types, with_batch
from engine.ops.foreign.custom_registry import (
    FILES_VARIABLE,
    REGISTRY,
    load_files,
    op_implement_register,
    op_shape_infer_register,
)
from tests.engine.ops.custom_operators import FILE, write_files


@pytest.fixture(autouse=True)
def _own_registrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY, "_implementations", {})
    monkeypatch.setattr(REGISTRY, "_shapes", {})


def node(outputs: int = 1, **attributes: Any) -> ir.Node:
    """A ``PyOp`` named ``op`` on a float tensor of shape (1, 2, 3)."""
    given = ir.Value(name="x", shape=ir.Shape((1, 2, 3)), type=ir.TensorType(ir.DataType.FLOAT))
    attributes = {"class_name": "Twice", **attributes}
    return ir.node("PyOp", [given], attributes, domain="horizon.custom", name="op", num_outputs=outputs)


X = np.arange(6, dtype=np.float32).reshape(1, 2, 3)


def test_a_class_gets_the_nodes_own_attributes() -> None:
    @op_implement_register("Scaled")
    class Scaled:
        def __init__(self, factor: float, name: str = "") -> None:
            self.factor, self.name = factor, name

        def compute(self, x: Any) -> Any:
            return x * self.factor

    for name in ("Scaled", Scaled.__name__):
        (result,) = CustomNode(node(class_name=name, factor=3.0, name="n", module="m"))([X])
        np.testing.assert_array_equal(result, X * 3)
    with pytest.raises(ModelError, match=r"node op \(PyOp Scaled\) with attributes \['size'\]: TypeError"):
        CustomNode(node(class_name="Scaled", size=1))


def test_the_node_names_its_method() -> None:
    @op_implement_register("Twice")
    class Twice:
        def forward(self, x: Any) -> Any:
            return 2 * x

        def halve(self, x: Any) -> Any:
            return x / 2

    np.testing.assert_array_equal(CustomNode(node())([X])[0], 2 * X)
    np.testing.assert_array_equal(CustomNode(node(compute="halve"))([X])[0], X / 2)
    with pytest.raises(ModelError, match="no method third"):
        CustomNode(node(compute="third"))


def test_results_have_the_types_that_the_node_states() -> None:
    @op_implement_register("Twice")
    def both(x: Any) -> Any:
        return x.astype(np.float64), x.argmax(axis=2)

    first, second = CustomNode(node(outputs=2, output_types=[1, 7]))([X])
    assert first.dtype == np.float32
    assert second.dtype == np.int64


def test_a_result_may_be_a_number_without_axes() -> None:
    @op_implement_register("Total")
    class Total:
        def compute(self, x: Any) -> Any:
            return np.sum(x)

    total = node(class_name="Total")
    total.outputs[0].shape = ir.Shape(())
    (result,) = CustomNode(total)([X])
    assert (result.shape, float(result)) == ((), 15.0)


def test_what_does_not_fit_is_reported() -> None:
    @op_implement_register("Twice")
    def twice(x: Any) -> Any:
        if x.sum() < 0:
            raise KeyError("nothing negative")
        return 2 * x

    with pytest.raises(ModelError, match=r"node op \(PyOp Twice\) cannot be computed: KeyError: 'nothing negative'"):
        CustomNode(node())([-X])
    with pytest.raises(ModelError, match="has 2 outputs, its code returns 1"):
        CustomNode(node(outputs=2))([X])
    wrong = node(output_shape=["1, 2"])
    set_output_types(wrong)
    with pytest.raises(ModelError, match=r"returns shape \(1, 2, 3\), stated is \(1, 2\)"):
        CustomNode(wrong)([X])
    with pytest.raises(ModelError, match="output_types are given for 1"):
        CustomNode(node(outputs=2, output_types=[1]))
    with pytest.raises(UnsupportedError, match=rf"no custom operator .* registered: Twice; .*{FILES_VARIABLE}"):
        CustomNode(node(class_name="Thrice"))


def test_shapes_are_stated_inferred_or_tried() -> None:
    stated = node(output_shape=["1, 4, 5"])
    assert output_shapes(stated) == [(1, 4, 5)]
    with_batch(stated, 3)
    assert output_shapes(stated) == [(3, 4, 5)]

    @op_implement_register("Twice")
    def flat(x: Any) -> Any:
        return x.reshape(1, -1)

    assert output_shapes(node()) == [(1, 6)]

    @op_shape_infer_register("Twice")
    def shapes(inputs_shape: Any) -> Any:
        return [[inputs_shape[0][0], 9]]

    assert output_shapes(stated) == [(1, 9)], "the function knows better than the attribute"
    with pytest.raises(ModelError, match="has 2 outputs, shapes are given for 1"):
        output_shapes(node(outputs=2))
    with pytest.raises(ModelError, match="output_shape 'a, b' is no list"):
        output_shapes(node(class_name="Other", output_shape=["a, b"]))


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"output_shape": 3}, "attribute output_shape is INT, expected STRINGS"),
        ({"output_shape": ["1, -2"]}, r"cannot have the shapes \[\(1, -2\)\]"),
        ({"output_shape": ["1"], "output_types": 1}, "attribute output_types is INT, expected INTS"),
        ({"output_shape": ["1"], "output_types": [0]}, r"output_types \[0\] are no types"),
        ({"output_shape": ["1"], "output_types": [99]}, r"output_types \[99\] are no types"),
        ({"class_name": 1.5}, "attribute class_name is FLOAT, expected STRING"),
    ],
)
def test_malformed_attributes_are_errors_of_the_model(attributes: dict[str, Any], text: str) -> None:
    with pytest.raises(ModelError, match=text):
        set_output_types(node(**attributes))


@pytest.mark.parametrize("names", [["a", ""], ["", "a"]])
def test_omitted_outputs_need_no_shape(tmp_path: Path, names: list[str]) -> None:
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 2, 3)) for name in ("x", "y")]
    halves = helper.make_node(
        "PyOp", ["x"], names, "op", domain="horizon.custom", class_name="Twice", output_shape=["1, 2, 3"] * 2
    )
    nodes = [halves, helper.make_node("Relu", ["a"], ["y"], "relu")]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:])
    opsets = [helper.make_opsetid("", 11), helper.make_opsetid("horizon.custom", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    model = load_network(tmp_path / "m.onnx")
    assert [value.shape for value in model.graph.node("relu").outputs] == [(1, 2, 3)]


def test_nodes_of_other_domains_become_pyop() -> None:
    op_implement_register("Relu")(lambda x: x)
    foreign = ir.node("Relu", [], domain="mine", name="n", num_outputs=1)
    assert adopt(foreign)
    assert (foreign.domain, foreign.op_type, foreign.attributes["class_name"].value) == (
        "horizon.custom",
        "PyOp",
        "Relu",
    )
    assert not adopt(ir.node("Tanh", [], domain="mine", name="n", num_outputs=1))


def test_files_register_operators_and_import_their_neighbours(tmp_path: Path) -> None:
    write_files(tmp_path)
    load_files([FILE], tmp_path)
    (result,) = CustomNode(node(class_name="Shrink", bias=1.0))([X])
    np.testing.assert_array_equal(result, np.where(X > 0.5, X - 1, 0))
