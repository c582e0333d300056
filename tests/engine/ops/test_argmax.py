"""ArgMax and ArgMin of a float model on the BPU: positions of the quantised map, cast to int64 on the CPU."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.simulate import Session
from tests.properties.stages import Stages

CHANNELS = 8


def search_model(op_type: str, keepdims: int) -> onnx.ModelProto:
    """A 1x1 convolution and a search over its channels."""
    weights = np.random.default_rng(0).normal(size=(CHANNELS, 4, 1, 1)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
            helper.make_node(op_type, ["c"], ["y"], "search", axis=1, keepdims=keepdims),
        ],
        "search",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 6, 8))],
        [helper.make_tensor_value_info("y", TensorProto.INT64, (1, 1, 6, 8) if keepdims else (1, 6, 8))],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_positions_are_those_of_the_quantised_map(op_type: str, keepdims: int) -> None:
    data = np.random.default_rng(1).normal(size=(4, 4, 6, 8)).astype(np.float32)
    stages = Stages(search_model(op_type, keepdims), data, "bayes-e")
    types = [node.op_type for node in stages.quantized.graph]
    assert "HzQuantizedArgMax" in types
    assert ("HzSElementwiseAdd" in types) == (op_type == "ArgMin")
    exact = Session(stages.optimized).run({"x": data})["y"]
    found = Session(stages.quantized, mode="reference").run({"x": data})["y"]
    assert found.dtype == np.int64
    assert found.shape == exact.shape
    assert np.mean(found == exact) > 0.9, "they differ only where two channels are closer than a quantisation step"
    np.testing.assert_array_equal(Session(stages.quantized).run({"x": data})["y"], found)


def test_position_dropped_by_bernoulli2_stays_on_the_cpu() -> None:
    data = np.random.default_rng(1).normal(size=(2, 4, 6, 8)).astype(np.float32)
    quantized = Stages(search_model("ArgMax", 0), data, "bernoulli2").quantized
    assert "ArgMax" in [node.op_type for node in quantized.graph]
