"""ArgMax and ArgMin of a float model on the BPU: positions of the quantised map, cast to int64 on the CPU."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.ops.argmax import ArgMaxRule, ArgMinRule
from engine.ops.core.reasons import Code
from engine.simulate import Session
from tests.engine.ops.operators import Recorder, evaluate, float_node, int8, lowered, refused, scaled, tensor
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


def test_index_above_127_wraps() -> None:
    x = np.zeros((1, 1, 1, 256), np.int8)
    for index, stored in ((127, 127), (128, -128), (199, -57)):
        x[..., index] += 10 + index // 16
        assert evaluate("HzQuantizedArgMax", [x], axis=3).ravel().tolist() == [stored]


def test_first_of_equal_maxima_counts_and_its_axis_may_be_dropped() -> None:
    x = int8(3, 5, 5, shape=(1, 1, 1, 3))
    assert evaluate("HzQuantizedArgMax", [x], axis=3).tolist() == [[[[1]]]]
    assert evaluate("HzQuantizedArgMax", [x], axis=3, keepdims=0).tolist() == [[[1]]]


@pytest.mark.parametrize(("march", "most"), [("bayes-e", 255), ("bernoulli2", 512)])
@pytest.mark.parametrize("rule", [ArgMaxRule(), ArgMinRule()])
def test_channels_of_a_map_are_searched_up_to_a_limit(rule: ArgMaxRule, march: str, most: int) -> None:
    def search(*shape: int, **attributes: int) -> Code | None:
        node = float_node(rule.op_types[0], [tensor("x", *shape)], (1,), **{"axis": 1, **attributes})
        return refused(rule, node, march)

    assert [search(1, count, 4, 4) for count in (most, most + 1)] == [None, Code.SEARCHED_CHANNELS]
    assert search(1, 8, 4, 4, select_last_index=1) is Code.LAST_INDEX
    wrong = [search(1, 8, 4), search(1, 8, 4, 4, axis=2), search(1, 8, 4, 4, keepdims=0), search(1, 8, 4, 4, axis=0)]
    assert set(wrong) == {Code.RANK_4_SEARCH}
    assert search(1, 8, 4, 4, axis=-3) is None


def test_the_least_is_the_largest_of_what_is_turned_around() -> None:
    """``-(x + 1)``, which has no value that saturates."""
    x = tensor("x", 1, 4, 2, 2)
    made = lowered(ArgMaxRule(), float_node("ArgMax", [x], (1, 1, 2, 2), axis=1), x=scaled(0.5))
    assert (made.op_type, made.inputs, made.bits, made.scale) == ("HzQuantizedArgMax", ["x NHWC"], 8, [1.0])
    assert made.attributes == {"axis": 3, "output_bit": 8}
    recorder = Recorder(x=scaled(0.5))
    ArgMinRule().lower([float_node("ArgMin", [x], (1, 1, 2, 2), axis=1)], recorder)
    turned, found = recorder.nodes
    assert (turned.op_type, turned.inputs) == ("HzSElementwiseAdd", ["x NHWC", "n_one"])
    assert (found.op_type, found.inputs) == ("HzQuantizedArgMax", ["n_negated NHWC"])
    values = int8(-128, 0, 127)
    found = evaluate("HzSElementwiseAdd", [values, recorder.constants["n_one"]], **turned.attributes)
    assert found.ravel().tolist() == [127, -1, -128]
