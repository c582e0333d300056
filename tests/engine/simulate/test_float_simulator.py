"""Float models behind the checks of every simulator."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from engine.errors import InferenceError
from engine.simulate.float_simulator import FloatSimulator, standard_model


def relu(shape: list[int | str]) -> ir.Model:
    """``y = relu(x)`` on (1, 4), whose file states an output shape."""
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"], "relu")],
        "float",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 4])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)],
    )
    opsets = [onnx.helper.make_opsetid("", 13)]
    return ir.from_proto(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8))


@pytest.mark.parametrize("shape", [[1, 4], ["n", "m"]])
def test_shapes_that_a_file_lacks_are_inferred(shape: list[int | str]) -> None:
    assert standard_model(relu(shape)).graph.outputs[0].shape == (1, 4)
    assert FloatSimulator(relu(shape)).outputs[0].shape == (1, 4)


def test_any_number_of_samples_and_nothing_else() -> None:
    simulator = FloatSimulator(relu([1, 4]), threads=1)
    x = np.array([[-1, 2, -3, 4]] * 3, np.float32)
    (found,) = simulator.run({"x": x}).values()
    assert found.tolist() == [[0, 2, 0, 4]] * 3
    with pytest.raises(InferenceError, match="expected float32"):
        simulator.run({"x": x.astype(np.float64)})
    with pytest.raises(InferenceError, match="unknown output z"):
        simulator.run({"x": x}, ["z"])


@pytest.mark.parametrize("ir_version", [3, 8])
def test_initializers_listed_as_inputs_need_not_be_fed(ir_version: int) -> None:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "c"], ["y"], "add")],
        "float",
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 2]) for name in ("c", "x")],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 2])],
        [onnx.numpy_helper.from_array(np.array([[1, 2]], np.float32), "c")],
    )
    opsets = [onnx.helper.make_opsetid("", 13)]
    model = ir.from_proto(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=ir_version))
    simulator = FloatSimulator(model, threads=1)
    assert [info.name for info in simulator.inputs] == ["x"]
    assert simulator.run({"x": np.ones((3, 2), np.float32)})["y"].tolist() == [[2, 3]] * 3
