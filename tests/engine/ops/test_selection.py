"""TopK, GatherElements, Tile and Expand of a float model on the BPU."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.simulate import Session
from tests.engine.ops.test_constant_operands import DATA, behind_convolution, check
from tests.properties.stages import Stages

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("march", ["bayes-e", "bernoulli2"])
def test_values_and_positions_of_topk(axis: int, largest: int, march: str) -> None:
    stages = Stages(topk_model(axis, largest), DATA, march)
    types = [node.op_type for node in stages.quantized.graph]
    assert ("HzQuantizedTopK" in types) == (march == "bayes-e")
    exact = Session(stages.optimized).run({"x": DATA})
    found = Session(stages.quantized, mode="reference").run({"x": DATA})
    fast = Session(stages.quantized).run({"x": DATA})
    assert found["i"].dtype == np.int64
    assert np.mean(found["i"] == exact["i"]) > 0.9
    np.testing.assert_allclose(found["y"], exact["y"], atol=0.02 * float(np.abs(exact["y"]).max()))
    for name, array in found.items():
        np.testing.assert_array_equal(fast[name], array)


def topk_model(axis: int, largest: int) -> onnx.ModelProto:
    """The three largest or smallest of a LeakyRelu's result, which cannot stay in int32 as a convolution's can."""
    weights = np.random.default_rng(1).normal(size=(8, 4, 1, 1)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
            helper.make_node("LeakyRelu", ["c"], ["t"], "leaky", alpha=0.7),
            helper.make_node("TopK", ["t", "k"], ["y", "i"], "topk", axis=axis, largest=largest),
        ],
        "topk",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 8, 8))],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("i", TensorProto.INT64, None),
        ],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array([3]), "k")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.parametrize(
    ("op_type", "constant", "attributes"),
    [
        ("GatherElements", RNG.integers(0, 8, (1, 3, 8, 8)), {"axis": 1}),
        ("GatherElements", RNG.integers(0, 8, (1, 8, 8, 5)), {"axis": 3}),
        ("Gather", np.array([7, 0, 0]), {"axis": 2}),
    ],
)
def test_chosen_elements_stay_on_the_bpu(op_type: str, constant: np.ndarray, attributes: dict[str, int]) -> None:
    stages = Stages(behind_convolution(op_type, constant, **attributes), DATA, "bayes-e")
    types = check(stages, 0.999)
    assert types.index(op_type) < types.index("HzDequantize")
