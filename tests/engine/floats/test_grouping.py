"""How many samples are looked at together: what a network runs on as it stands."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.floats.float_model import FloatSession, Kernels
from engine.floats.grouping import GROUP, TogetherSession, group_size, mixes_group


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


def test_inputs_of_several_rows_mix_no_group() -> None:
    """Their samples have unequal numbers of rows, which no single number of samples describes."""
    target = numpy_helper.from_array(np.asarray([1, -1], np.int64), "s")
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (rows, 4)) for name, rows in (("a", 1), ("b", 2))]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "z")]
    nodes = [helper.make_node("Reshape", ["a", "s"], ["y"]), helper.make_node("Relu", ["b"], ["z"])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [target])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    assert not mixes_group(ir.from_proto(onnx.shape_inference.infer_shapes(proto, strict_mode=True)))


def resized(size: int, reader: str) -> ir.Model:
    """The Relu of the input and its first rows, enlarged to fixed sizes for ``size`` samples, read together."""
    empty = np.empty(0, np.float32)
    constants = {"roi": empty, "scales": empty, "sizes": np.asarray([size, 2, 4, 4], np.int64)}
    small = helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2])
    modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    resize = helper.make_node("Resize", ["p", "roi", "scales", "sizes"], ["f"], **modes)
    return network([small, resize, helper.make_node(reader, ["f", "r"], ["y"])], constants)


def test_a_resize_to_fixed_sizes_takes_one_sample_of_a_group_for_all() -> None:
    assert mixes_group(resized(1, "Add"))
    assert not mixes_group(network([helper.make_node("Sigmoid", ["r"], ["y"])], {}))
    assert not mixes_group(network(reshaped_product(), {"s": np.asarray([1, -1], np.int64), "w": WEIGHT}))


def test_a_group_runs_as_the_network_stands() -> None:
    samples = np.random.default_rng(0).standard_normal((3, 2, 4, 4), np.float32)
    shown: dict[str, np.ndarray] = {}

    def see(first: int, name: str, values: np.ndarray) -> None:
        assert first == 0
        shown[name] = values

    TogetherSession(resized(1, "Add"), ["f", "y"]).visit({"x": samples}, see)
    positive = np.maximum(samples, 0)
    first = positive[:1].reshape(1, 2, 2, 2, 2, 2).max(axis=(3, 5)).repeat(2, axis=2).repeat(2, axis=3)
    assert np.array_equal(shown["f"], first)
    assert np.array_equal(shown["y"], positive + first)


def test_a_group_has_the_bits_of_its_samples() -> None:
    """A Swish among others: what ptqlab computes itself it computes in groups as well."""
    swish = helper.make_node("HzSwish", ["r"], ["s"], domain="horizon")
    empty = np.empty(0, np.float32)
    constants = {"roi": empty, "scales": empty, "sizes": np.asarray([1, 2, 8, 8], np.int64)}
    resize = helper.make_node("Resize", ["s", "roi", "scales", "sizes"], ["y"], mode="nearest")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 4, 4))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2, 8, 8))
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 2, 4, 4)) for name in ("r", "s")]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    nodes = [helper.make_node("Neg", ["x"], ["r"]), swish, resize]
    graph = helper.make_graph(nodes, "g", [x], [y], initializers, value_info=infos)
    opsets = [helper.make_opsetid("", 11), helper.make_opsetid("horizon", 1)]
    model = ir.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    data = np.random.default_rng(0).standard_normal((GROUP, 2, 4, 4), np.float32)
    found: dict[str, np.ndarray] = {}
    TogetherSession(model, ["s"]).visit({"x": data}, lambda _, name, values: found.update({name: values.copy()}))
    alone = FloatSession(model, ["s"], kernels=Kernels.PLAIN, max_batch=1).run({"x": data})["s"]
    np.testing.assert_array_equal(found["s"], alone)
