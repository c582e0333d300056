"""Composites whose bits are the original's: the order of their operations, in plain and in fast sessions."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
import pytest

from engine.errors import ModelError
from engine.floats.float_model import FloatSession, Kernels
from engine.floats.own_arithmetic import computed, has_own_arithmetic, is_float_composite, on_arrays
from engine.ir import HORIZON_DOMAIN, node_by_name

SHAPE = (1, 3, 5, 7)


def composite(op_type: str, constants: dict[str, np.ndarray], **attributes: object) -> ir.Model:
    """One composite of ``x``, with a Relu behind it."""
    nhwc = attributes.get("data_format") == "NHWC"
    shape = (1, 5, 7, 3) if nhwc else SHAPE
    x, m, y = (
        ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(shape)) for name in ("x", "m", "y")
    )
    values = [ir.Value(name=name, const_value=ir.tensor(array, name=name)) for name, array in constants.items()]
    for value in values:
        value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), value.const_value.shape
    nodes = [
        ir.node(op_type, [x, *values], attributes, domain=HORIZON_DOMAIN, outputs=[m], name="first"),
        ir.node("Relu", [m], outputs=[y], name="second"),
    ]
    graph = ir.Graph([x], [m, y], nodes=nodes, initializers=values, opset_imports={"": 11, HORIZON_DOMAIN: 1}, name="g")
    return ir.Model(graph, ir_version=8)


def images(model: ir.Model) -> np.ndarray:
    shape = tuple(model.graph.inputs[0].shape or ())
    return np.random.default_rng(1).normal(scale=20, size=(4, *shape[1:])).astype(np.float32)


def test_swish_is_the_c_librarys() -> None:
    model = composite("HzSwish", {})
    x = images(model)
    found = FloatSession(model, kernels=Kernels.PLAIN).run({"x": x})
    exponential = np.asarray([math.exp(-value) for value in x.ravel().tolist()], np.float32).reshape(x.shape)
    expected = x * (np.float32(1) / (np.float32(1) + exponential))
    # The C library's expf is within 0.502 units in the last place: nearly always the nearest number.
    assert np.mean(found["m"] == expected) > 0.95
    np.testing.assert_allclose(found["m"], expected, rtol=3e-7, atol=1e-30)
    np.testing.assert_array_equal(found["y"], np.maximum(found["m"], 0))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_preprocessing_adds_products_one_after_the_other(layout: str) -> None:
    weight = np.random.default_rng(2).normal(size=(3, 3, 1, 1)).astype(np.float32)
    bias = np.asarray([0.1, -0.7, 11.3], np.float32)
    model = composite("HzPreprocess", {"w": weight, "b": bias}, data_format=layout)
    x = images(model)
    found = FloatSession(model, kernels=Kernels.PLAIN).run({"x": x})["m"]
    maps = x if layout == "NCHW" else x.transpose(0, 3, 1, 2)
    rows = weight[:, :, 0, 0]
    for channel in range(3):
        first, second, third = (maps[:, index] * rows[channel, index] for index in range(3))
        result = found[:, channel] if layout == "NCHW" else found[..., channel]
        np.testing.assert_array_equal(result, ((first + second) + third) + bias[channel])
    fast = FloatSession(model, kernels=Kernels.FAST).run({"x": x})["m"]
    np.testing.assert_allclose(fast, found, rtol=1e-4, atol=1e-4)


def test_preprocessing_of_every_channel_by_itself() -> None:
    weight = np.asarray([0.5, 0.25, 2.0], np.float32).reshape(3, 1, 1, 1)
    bias = np.asarray([1.0, 2.0, 3.0], np.float32)
    model = composite("HzPreprocess", {"w": weight, "b": bias}, channel_group=3)
    x = images(model)
    found = FloatSession(model, kernels=Kernels.PLAIN).run({"x": x})["m"]
    np.testing.assert_array_equal(found, x * weight[:, 0] + bias[:, None, None])


def test_hard_swish_divides_last() -> None:
    model = composite("HzHardSwish", {})
    x = images(model)
    found = FloatSession(model, kernels=Kernels.PLAIN).run({"x": x})["m"]
    np.testing.assert_array_equal(found, x * np.clip(x + np.float32(3), 0, 6) / np.float32(6))


def test_which_nodes_have_arithmetic_of_their_own() -> None:
    first, second = composite("HzSwish", {}).graph
    assert (has_own_arithmetic(first), has_own_arithmetic(second)) == (True, False)
    first.domain = "another"
    assert not has_own_arithmetic(first)
    assert not has_own_arithmetic(composite("HzHardSwish", {}).graph[0])


def test_a_preprocessing_with_computed_weights_is_the_runtimes() -> None:
    model = composite("HzPreprocess", {"w": np.ones((3, 3, 1, 1), np.float32), "b": np.zeros(3, np.float32)})
    node = node_by_name(model, ["first"])["first"]
    assert has_own_arithmetic(node)
    model.graph.initializers["b"].const_value = None
    assert not has_own_arithmetic(node)


def standard(op_type: str, shape: tuple[int, ...], opset: int, **attributes: object) -> ir.Node:
    """One standard operator of a float map."""
    x, y = (ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(shape)) for name in ("x", "y"))
    node = ir.node(op_type, [x], attributes, outputs=[y], name="first")
    ir.Model(ir.Graph([x], [y], nodes=[node], opset_imports={"": opset}, name="g"), ir_version=8)
    return node


@pytest.mark.parametrize(
    ("opset", "axis", "own"), [(11, 1, True), (11, -1, True), (13, 1, False), (13, -1, True), (13, 3, True)]
)
def test_a_softmax_over_the_last_axes_has_arithmetic_of_its_own(opset: int, axis: int, own: bool) -> None:
    assert has_own_arithmetic(standard("Softmax", (1, 4, 5, 6), opset, axis=axis)) == own


@pytest.mark.parametrize(("axes", "own"), [((1,), True), ((-2,), True), ((-1,), False), ((2, 3), False)])
def test_a_mean_over_one_axis_that_is_not_the_last_has_arithmetic_of_its_own(axes: tuple[int, ...], own: bool) -> None:
    assert has_own_arithmetic(standard("ReduceMean", (1, 4, 5, 6), 11, axes=axes)) == own


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [("Softmax", {"axis": 1}), ("Softmax", {"axis": 3}), ("ReduceMean", {"axes": (1,), "keepdims": 1})],
)
def test_plain_and_fast_sessions_differ_in_the_last_bits_alone(op_type: str, attributes: dict[str, object]) -> None:
    node = standard(op_type, (1, 4, 5, 6), 11, **attributes)
    if op_type == "ReduceMean":
        node.outputs[0].shape = ir.Shape((1, 1, 5, 6))
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    model = ir.Model(graph, ir_version=8)
    x = np.random.default_rng(6).normal(size=(3, 4, 5, 6)).astype(np.float32)
    plain, fast = (FloatSession(model, kernels=kernels).run({"x": x})["y"] for kernels in (Kernels.PLAIN, Kernels.FAST))
    np.testing.assert_allclose(plain, fast, rtol=1e-6, atol=1e-7)


def test_a_mish_loses_small_numbers_in_the_sum_with_one() -> None:
    model = composite("HzMish", {})
    x = images(model)
    plain, fast = (FloatSession(model, kernels=kernels).run({"x": x})["m"] for kernels in (Kernels.PLAIN, Kernels.FAST))
    np.testing.assert_allclose(plain, fast, rtol=1e-6, atol=2e-6)
    assert not plain[x < -20].any()
    assert np.array_equal(plain[x > 90], x[x > 90])


@pytest.mark.parametrize(
    ("attributes", "shape"),
    [({"axes": [1]}, (1, 1, 5, 6)), ({"axes": [-3, 3], "keepdims": 0}, (1, 5)), ({"keepdims": 0}, ())],
)
def test_a_reduction_has_the_shape_of_its_attributes(attributes: dict[str, object], shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).normal(size=(1, 4, 5, 6)).astype(np.float32)
    function = on_arrays(standard("ReduceL1", x.shape, 11, **attributes), x.shape)
    assert function is not None
    found = function(x)
    axes = attributes.get("axes")
    expected = np.abs(x.astype(np.float64)).sum(axis=tuple(axes) if isinstance(axes, list) else None)
    assert found.shape == shape
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-6)


def test_a_reduction_over_no_axes_is_the_runtimes() -> None:
    node = standard("ReduceL1", (1, 4, 5, 6), 18, noop_with_empty_axes=1)
    assert on_arrays(node, (1, 4, 5, 6)) is None
    with pytest.raises(ModelError, match="no arithmetic of its own"):
        computed(node)


@pytest.mark.parametrize("constants", [3, 4])
def test_a_normalisation_of_constants_is_a_factor_and_a_shift(constants: int) -> None:
    node = standard("BatchNormalization", (1, 4, 5, 6), 11)
    rng = np.random.default_rng(4)
    arrays = [rng.uniform(0.5, 2, 4).astype(np.float32) for _ in range(constants)]
    values = [ir.Value(name=str(index), const_value=ir.tensor(array)) for index, array in enumerate(arrays)]
    node.resize_inputs(1 + constants)
    for index, value in enumerate(values):
        node.replace_input_with(1 + index, value)
    function = on_arrays(node, (1, 4, 5, 6))
    assert (function is None) == (constants == 3)
    if function is not None:
        x = rng.normal(size=(1, 4, 5, 6)).astype(np.float32)
        scale, bias, mean, variance = (array.reshape(4, 1, 1).astype(np.float64) for array in arrays)
        expected = (x - mean) / np.sqrt(variance + 1e-5) * scale + bias
        np.testing.assert_allclose(function(x), expected, rtol=1e-4, atol=1e-5)


def test_windows_of_an_even_size_are_the_runtimes() -> None:
    assert on_arrays(standard("LRN", (1, 4, 5, 6), 11, size=2), (1, 4, 5, 6)) is None
    assert on_arrays(standard("LRN", (1, 4, 5, 6), 11, size=3), (1, 4, 5, 6)) is not None


def test_composites_on_floats_are_not_those_on_integers() -> None:
    node = composite("HzRsqrt", {}).graph[0]
    assert is_float_composite(node)
    node.attributes["data_format"] = ir.AttrString("data_format", "NHWC")
    assert not is_float_composite(node)
    assert not is_float_composite(composite("HzHardSwish", {}).graph[0])


@pytest.mark.parametrize(("shape", "axes"), [((), [0]), ((), [-1]), ((1, 1), [7]), ((2, 3), [0, -3])])
def test_a_reduction_over_an_axis_that_is_not_there_is_the_runtimes(shape: tuple[int, ...], axes: list[int]) -> None:
    node = standard("ReduceL1", shape, 11, axes=axes)
    assert on_arrays(node, shape) is None
    assert not has_own_arithmetic(node)


def test_what_reads_a_constant_is_the_runtimes_in_calibration() -> None:
    node = standard("Exp", (1, 4, 5, 6), 11)
    assert has_own_arithmetic(node)
    node.replace_input_with(0, ir.Value(name="c", const_value=ir.tensor(np.ones((1, 4, 5, 6), np.float32))))
    assert not has_own_arithmetic(node)


def test_factors_that_were_not_asked_are_the_runtimes() -> None:
    assert on_arrays(standard("Selu", (1, 4), 11, alpha=-1.0), (1, 4)) is None
    assert on_arrays(standard("Selu", (1, 4), 11), (1, 4)) is not None


def test_a_composite_of_another_type_stands_for_standard_nodes() -> None:
    node = composite("HzSwish", {}).graph[0]
    assert is_float_composite(node)
    assert node.inputs[0] is not None
    node.inputs[0].type = ir.TensorType(ir.DataType.FLOAT16)
    assert not is_float_composite(node)
