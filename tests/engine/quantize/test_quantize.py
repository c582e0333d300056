"""Lowering: layouts, tails, image inputs, errors, error bounds."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate import apply_thresholds
from engine.config import InputSpec
from engine.errors import ConfigError, ModelError
from engine.frontend import preprocess
from engine.ir import constant_of, to_bytes
from engine.ops.lut import Lut
from engine.place import NodeTypes, PlacementOptions, place
from engine.quantize import quantize
from engine.quantize.error_bound import node_error_bounds
from tests.engine.place.test_placement import network, one


def calibrated(model: ir.Model, march: str = "bayes-e", options: PlacementOptions | None = None) -> ir.Model:
    return apply_thresholds(place(model, march, options or PlacementOptions()).model, None)


def quantized(model: ir.Model, march: str = "bayes-e", options: PlacementOptions | None = None) -> ir.Model:
    return quantize(calibrated(model, march, options), march)


def types(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def test_layout_transposes_stand_on_the_side_that_the_march_keeps_them() -> None:
    model = network([one("Relu", "c0")])
    assert types(quantized(model)) == [
        "HzQuantize",
        "Transpose",
        "HzSQuantizedConv",
        "HzSQuantizedConv",
        "Transpose",
        "HzDequantize",
    ]
    assert types(quantized(model, "bernoulli2")) == [
        "Transpose",
        "HzQuantize",
        "HzSQuantizedConv",
        "HzSQuantizedConv",
        "HzDequantize",
        "Transpose",
    ]


def test_last_convolution_is_int32_with_a_scale_per_channel() -> None:
    model = quantized(network([one("Relu", "c0")]))
    last = next(node for node in model.graph if node.name == "Conv_9")
    assert last.attributes["output_bit"].as_int() == 32
    dequantize = next(node for node in model.graph if node.op_type == "HzDequantize")
    assert dequantize.inputs[1] is not None
    assert dequantize.inputs[1].shape == (4,)


def test_cpu_node_stands_between_dequantize_and_quantize() -> None:
    options = PlacementOptions(run_on_cpu=frozenset({"Middle"}))
    sequence = types(quantized(network([one("Sigmoid", "c0")]), options=options))
    middle = sequence.index("Sigmoid")
    assert sequence[middle - 1 : middle + 2] == ["HzDequantize", "Sigmoid", "HzQuantize"]


@pytest.mark.parametrize(
    ("march", "border"), [("bayes-e", ["Transpose", "HzDequantize"]), ("bernoulli2", ["HzDequantize", "Transpose"])]
)
@pytest.mark.parametrize("unread", [0, 1])
def test_output_that_nothing_reads_is_dequantised_beside_one_that_is(
    march: str, border: list[str], unread: int
) -> None:
    outputs = ["u", "u"]
    outputs[1 - unread] = "s"
    split = helper.make_node("Split", ["c0"], outputs, name="Split", axis=1)
    model = network([split, one("Concat", "s", "s", axis=1)])
    found = quantized(model, march)
    assert types(found)[3:7] == ["Split", *border, "Concat"]
    assert {node.name: node.outputs[0].dtype for node in found.graph}["Split"] == ir.DataType.INT8


def test_cast_of_positions_is_named_after_their_operator() -> None:
    model = network([helper.make_node("ArgMax", ["c0"], ["m"], name="Best", axis=1)], tail=False)
    model.graph.outputs[0].dtype, model.graph.outputs[0].shape = ir.DataType.INT64, ir.Shape((1, 1, 8, 8))
    assert [node.name for node in quantized(model).graph if node.op_type == "Cast"] == ["Best_cast"]


def test_int16_table() -> None:
    options = PlacementOptions(node_info={"Middle": NodeTypes(input_type="int16", output_type="int16")})
    model = quantized(network([one("Tanh", "c0")]), options=options)
    table = next(node for node in model.graph if node.name == "Middle")
    assert table.op_type == "HzLut2Layer"
    assert table.outputs[0].dtype == ir.DataType.INT16


@pytest.mark.parametrize(("type_rt", "shape"), [("nv12", (1, 8, 8, 3)), ("rgb", (1, 3, 8, 8))])
def test_image_input_is_int8_pixels_in_the_layout_of_its_type(type_rt: str, shape: tuple[int, ...]) -> None:
    spec = InputSpec(name="x", type_train="rgb", type_rt=type_rt)
    model = quantized(preprocess.insert(image_network(), [spec]))
    (pixels,) = model.graph.inputs
    assert pixels.dtype == ir.DataType.INT8
    assert pixels.shape == shape


def test_image_inputs_of_bernoulli2_are_nhwc() -> None:
    spec = InputSpec(name="x", type_train="rgb", type_rt="bgr")
    model = quantized(preprocess.insert(image_network(), [spec]), "bernoulli2")
    assert model.graph.inputs[0].shape == (1, 8, 8, 3)
    assert types(model)[0] == "HzSQuantizedPreprocess"


def test_bernoulli2_rescales_by_a_convolution() -> None:
    middle = [
        helper.make_node("Tanh", ["c0"], ["s"], name="S"),
        helper.make_node("Concat", ["c0", "s"], ["u"], name="U", axis=2),
        helper.make_node("Concat", ["s", "c0"], ["v"], name="V", axis=2),
        helper.make_node("Add", ["u", "v"], ["a"], name="A"),
        one("MaxPool", "a", kernel_shape=[2, 1], strides=[2, 1]),
    ]
    placed = place(network(middle), "bernoulli2", PlacementOptions()).model
    thresholds = {name: np.asarray([1.0]) for name in ("x", "c0", "s", "u", "a", "m")} | {"v": np.asarray([2.54])}
    found = quantize(apply_thresholds(placed, thresholds), "bernoulli2")
    rescaling = [node for node in found.graph if "TO_FUSE_SCALE" in str(node.name)]
    assert "UNIT_CONV_FOR_c0_calibrated_0.02000_TO_FUSE_SCALE" in [node.name for node in rescaling]
    assert {node.op_type for node in rescaling} == {"HzSQuantizedConv"}
    assert "HzRequantize" not in types(found)


def test_transposed_convolution_keeps_its_output_padding() -> None:
    constants = {"k": np.ones((4, 4, 3, 3), np.float32)}
    node = helper.make_node(
        "ConvTranspose", ["c0", "k"], ["m"], name="Up", strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]
    )
    (up,) = (node for node in quantized(network([node], constants=constants)).graph if node.name == "Up")
    assert up.attributes["output_padding"].as_ints() == (1, 1)
    assert up.outputs[0].shape == (1, 16, 16, 4)


def image_network() -> ir.Model:
    """One convolution of a three-channel image."""
    rng = np.random.default_rng(0)
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape((1, 3, 8, 8)))
    weight = ir.tensor(rng.normal(size=(4, 3, 3, 3)).astype(np.float32))
    constant = ir.Value(name="w", type=ir.TensorType(weight.dtype), shape=weight.shape, const_value=weight)
    y = ir.Value(name="y", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape((1, 4, 6, 6)))
    node = ir.node("Conv", [x, constant], {"kernel_shape": [3, 3]}, outputs=[y], name="Conv_0")
    graph = ir.Graph([x], [y], nodes=[node], initializers=[constant], opset_imports={"": 11}, name="g")
    return ir.Model(graph, ir_version=8)


def test_lowering_is_deterministic_and_leaves_its_input_alone() -> None:
    source = calibrated(network([one("Sigmoid", "c0")]))
    before = to_bytes(source)
    assert to_bytes(quantize(source, "bayes-e")) == to_bytes(quantize(source, "bayes-e"))
    assert to_bytes(source) == before


def test_model_that_is_not_calibrated_is_refused() -> None:
    with pytest.raises(ModelError, match="calibrated"):
        quantize(network([one("Relu", "c0")]), "bayes-e")


def test_unknown_march_is_refused() -> None:
    with pytest.raises(ConfigError, match="march"):
        quantize(network([one("Relu", "c0")]), "bayes-x")


def test_bound_of_a_table_is_half_a_unit() -> None:
    source = calibrated(network([one("Sigmoid", "c0")]))
    bounds = {
        str(bound.node.name): bound for bound in node_error_bounds(source, quantize(source, "bayes-e"), "bayes-e")
    }
    assert set(bounds) == {"Conv_0", "Middle", "Conv_9"}
    table = bounds["Middle"]
    assert 0.45 < table.bound[0] / table.scale[0] < 0.51


def test_bound_of_a_convolution_grows_with_a_wrong_weight() -> None:
    source = calibrated(network([one("Sigmoid", "c0")]))
    model = quantize(source, "bayes-e")
    (before,) = [b.bound for b in node_error_bounds(source, model, "bayes-e") if b.node.name == "Conv_9"]
    weight = next(value for name, value in model.graph.initializers.items() if name.startswith("Conv_9_w9"))
    array = np.array(constant_of(weight))
    array[2, 0, 0, 1] = -array[2, 0, 0, 1]
    weight.const_value = ir.tensor(array, name=weight.name)
    (after,) = [b.bound for b in node_error_bounds(source, model, "bayes-e") if b.node.name == "Conv_9"]
    assert after[2] > 2 * before[2]
    np.testing.assert_array_equal(np.delete(after, 2), np.delete(before, 2))


def test_a_rule_makes_only_what_declares_its_float_type(monkeypatch: pytest.MonkeyPatch) -> None:
    source = calibrated(network([one("Sigmoid", "c0")]))
    monkeypatch.setattr(Lut, "float_types", ("Tanh",))
    with pytest.raises(TypeError, match="a rule makes HzLut of Sigmoid, which the operator does not declare"):
        quantize(source, "bayes-e")


def test_last_convolution_without_bias_has_none() -> None:
    node = helper.make_node("Conv", ["c0", "k"], ["m"], name="Last")
    found = quantized(network([node], tail=False, constants={"k": np.ones((4, 4, 1, 1), np.float32)}))
    (last,) = (item for item in found.graph if item.name == "Last")
    assert (len(last.inputs), last.attributes["use_bias"].as_int()) == (2, 0)
