"""How many samples are looked at together: what a network runs on as it stands."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.calibrate.forward.grouping import GROUP, group_size


def network(nodes: list[onnx.NodeProto], constants: Mapping[str, np.ndarray], batch: int = 1) -> ir.Model:
    """``nodes`` from ``r``, the Relu of input ``x``, to ``y``."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (batch, 2, 4, 4))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    first = helper.make_node("Relu", ["x"], ["r"], name="first")
    graph = helper.make_graph([first, *nodes], "g", [x], [y], initializers)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto, strict_mode=True))


def reshaped_product() -> list[onnx.NodeProto]:
    return [helper.make_node("Reshape", ["r", "s"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["y"])]


WEIGHT = np.ones((32, 3), np.float32)


@pytest.mark.parametrize(
    ("target", "size"),
    [
        ([1, 32], 1),
        ([1, -1], 1),  # runs, but gives rows that the product does not take
        ([-1, 32], GROUP),
        ([0, 32], GROUP),
    ],
)
def test_a_reshape_to_a_fixed_shape_allows_single_samples_only(target: list[int], size: int) -> None:
    model = network(reshaped_product(), {"s": np.asarray(target, np.int64), "w": WEIGHT})
    before = ir.to_proto(model).SerializeToString()
    assert group_size(model) == size
    assert ir.to_proto(model).SerializeToString() == before


def test_a_resize_to_fixed_sizes_does_not_fit_what_it_is_joined_with() -> None:
    empty = np.empty(0, np.float32)
    constants = {"roi": empty, "scales": empty, "sizes": np.asarray([1, 2, 4, 4], np.int64)}
    resize = helper.make_node("Resize", ["r", "roi", "scales", "sizes"], ["f"], mode="nearest")
    assert group_size(network([resize, helper.make_node("Concat", ["f", "r"], ["y"], axis=1)], constants)) == 1


def test_what_computes_every_sample_by_itself_runs_in_groups() -> None:
    assert group_size(network([helper.make_node("Sigmoid", ["r"], ["y"])], {})) == GROUP


def test_a_network_for_several_samples_is_taken_as_it_is() -> None:
    assert group_size(network([helper.make_node("Sigmoid", ["r"], ["y"])], {}, batch=3)) == GROUP
