"""Constant operands that no convolution can hold are quantised beside the activations."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from engine.ir import constant_of
from engine.simulate import Session
from tests.properties.stages import Stages

Array = NDArray[Any]

RNG = np.random.default_rng(0)
DATA = RNG.normal(size=(6, 4, 8, 8)).astype(np.float32)
CONSTANTS: dict[str, Array] = {
    "map": RNG.normal(size=(1, 8, 8, 8)).astype(np.float32),
    "rows": RNG.normal(size=(8, 1)).astype(np.float32),
    "last_axis": RNG.normal(size=8).astype(np.float32),
    "zeros": np.zeros((8, 8), np.float32),
}


def behind_convolution(op_type: str, *constants: Array, opset: int = 13, **attributes: Any) -> onnx.ModelProto:
    """``op_type(conv(x), *constants)``."""
    weights = np.random.default_rng(1).normal(size=(8, 4, 1, 1)).astype(np.float32)
    names = [f"k{index}" for index in range(len(constants))]
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
            helper.make_node(op_type, ["c", *names], ["y"], "op", **attributes),
        ],
        "constant_operand",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 8, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(array, name)
            for name, array in zip(["w", *names], [weights, *constants], strict=True)
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def check(stages: Stages, least_cosine: float) -> list[str]:
    """The integers compute what the float model does, fast as by definition; types of the quantised operators."""
    exact = Session(stages.optimized).run({"x": DATA})["y"].ravel().astype(np.float64)
    found = Session(stages.quantized, mode="reference").run({"x": DATA})["y"]
    np.testing.assert_array_equal(Session(stages.quantized).run({"x": DATA})["y"], found)
    norms = np.linalg.norm(exact) * np.linalg.norm(found)
    assert exact @ found.ravel() >= least_cosine * norms
    return [node.op_type for node in stages.quantized.graph]


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Max"])
@pytest.mark.parametrize("march", ["bayes-e", "bernoulli2"])
def test_elementwise(op_type: str, constant: str, march: str) -> None:
    check(Stages(behind_convolution(op_type, CONSTANTS[constant]), DATA, march), 0.999)


def test_product_with_a_map_runs_on_the_bpu() -> None:
    stages = Stages(behind_convolution("Mul", CONSTANTS["map"]), DATA, "bayes-e")
    assert "HzSElementwiseMul" in check(stages, 0.999)
    (product,) = [node for node in stages.quantized.graph if node.op_type == "HzSElementwiseMul"]
    integers = constant_of(product.inputs[1])
    assert integers is not None
    assert np.abs(integers).max() == 127
    scale = np.float32(np.abs(CONSTANTS["map"]).max()) / np.float32(127)
    np.testing.assert_array_equal(integers, np.rint(CONSTANTS["map"] / scale).transpose(0, 2, 3, 1))


def test_stack_of_constant_matrices() -> None:
    stacked = np.random.default_rng(2).normal(size=(1, 8, 8, 3)).astype(np.float32)
    assert "HzSQuantizedMatmul" in check(Stages(behind_convolution("MatMul", stacked), DATA, "bayes-e"), 0.999)


@pytest.mark.parametrize("op_type", ["LayerNormalization", "InstanceNormalization"])
def test_normalisation_is_decomposed_on_the_bpu(op_type: str) -> None:
    scale, bias = np.linspace(0.5, 2, 8, dtype=np.float32), np.linspace(-1, 1, 8, dtype=np.float32)
    types = check(Stages(behind_convolution(op_type, scale, bias, opset=17), DATA, "bayes-e"), 0.98)
    assert all(name.startswith("Hz") or name == "Transpose" for name in types)


def test_result_of_a_requantised_tail_is_calibrated() -> None:
    """Its float tensor is called otherwise in the placed model: ``y_before``."""
    stages = Stages(behind_convolution("Tanh"), DATA, "bayes-e")
    check(stages, 0.999)
