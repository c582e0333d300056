"""Lowering: layouts, tails, borders of the CPU, errors."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate import apply_thresholds
from engine.errors import ConfigError, ModelError
from engine.ir import calibration_nodes, constant_of, to_bytes
from engine.ops.lut import Lut
from engine.place import NodeTypes, PlacementOptions, place
from engine.quantize.lowering import quantize
from tests.engine.place.networks import network, one
from tests.engine.quantize.quantized import calibrated, quantized, types


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


@pytest.mark.parametrize("march", ["bayes-e", "bernoulli2"])
def test_what_the_cpu_computes_is_sliced_in_its_own_layout(march: str) -> None:
    """Quantised once, as what the first Slice gives, and brought to the BPU's layout behind both (``swin_b``)."""
    bounds = {"low": np.array([0]), "mid": np.array([2]), "high": np.array([4]), "axis": np.array([1])}
    nodes = [
        helper.make_node("Neg", ["c0"], ["n"], name="Neg"),
        helper.make_node("Slice", ["n", "low", "mid", "axis"], ["a"], name="A"),
        helper.make_node("Slice", ["n", "mid", "high", "axis"], ["b"], name="B"),
        helper.make_node("Concat", ["b", "a"], ["m"], name="Middle", axis=1),
    ]
    model = quantized(network(nodes, constants=bounds), march)
    sequence = types(model)
    start = sequence.index("Neg")
    assert sequence[start + 1 : start + 7] == ["HzQuantize", "Slice", "Slice", "Transpose", "Transpose", "Concat"]
    found = {str(node.name): node for node in model.graph}
    assert found["A"].inputs[0] is found["B"].inputs[0]
    assert [str(found["A"].inputs[index].name) for index in (0, 3)] == ["a_calibrated_quantized", "axis"]


def test_a_constant_that_is_a_bound_and_an_axis_stays_the_bound() -> None:
    """Simplified files share constants: the axis of the layout is another one (keypoints of YOLOv8-pose)."""
    numbers = {name: np.array([value]) for name, value in (("zero", 0), ("two", 2), ("four", 4), ("eight", 8))}
    nodes = [
        helper.make_node("Sigmoid", ["c0"], ["s"], name="S"),
        helper.make_node("Slice", ["s", "zero", "two", "axis"], ["a"], name="A"),
        helper.make_node("Slice", ["s", "two", "four", "axis"], ["b"], name="B"),
        helper.make_node("Concat", ["b", "a"], ["j"], name="J", axis=1),
        helper.make_node("Slice", ["j", "two", "eight", "two"], ["k"], name="K"),
        helper.make_node("Slice", ["j", "zero", "two", "two"], ["l"], name="L"),
        helper.make_node("Concat", ["k", "l"], ["m"], name="Middle", axis=2),
    ]
    model = quantized(network(nodes, constants=numbers | {"axis": np.array([1])}))
    found = {str(node.name): node for node in model.graph}
    bounds = {name: [constant_of(value) for value in found[name].inputs[1:]] for name in "ABKL"}
    wanted = {"A": [0, 2, 3], "B": [2, 4, 3], "K": [2, 8, 1], "L": [0, 2, 1]}
    assert {name: [int(array[0]) for array in arrays if array is not None] for name, arrays in bounds.items()} == wanted


def test_what_a_reshape_that_leaves_the_bpu_late_reads_too_is_moved_as_floats() -> None:
    """And quantised in front of the Slice behind it, which the BPU alone reads (asked on bernoulli2)."""
    constants = {"wide": np.array([1, 4, 4, 16]), "map": np.array([1, 4, 8, 8]), "low": np.array([0])}
    constants |= {"high": np.array([4]), "depth": np.array([1]), "row": np.array([2])}
    nodes = [
        helper.make_node("Neg", ["c0"], ["n"], name="Neg"),
        helper.make_node("Slice", ["n", "low", "high", "depth"], ["r"], name="R"),
        helper.make_node("Reshape", ["r", "wide"], ["p"], name="Late"),
        helper.make_node("MaxPool", ["p"], ["q"], name="Q", kernel_shape=[1, 1]),
        helper.make_node("Reshape", ["q", "map"], ["f"], name="F"),
        helper.make_node("Slice", ["r", "low", "high", "depth"], ["b"], name="B"),
        helper.make_node("Tanh", ["b"], ["t"], name="T"),
        helper.make_node("Concat", ["f", "t"], ["j"], name="J", axis=2),
        helper.make_node("Slice", ["j", "low", "high", "row"], ["m"], name="Middle"),
    ]
    found = {str(node.name): node for node in quantized(network(nodes, constants=constants), "bernoulli2").graph}
    assert str(found["R"].inputs[0].name) == "n"
    assert str(found["B"].inputs[0].name) == "b_calibrated_quantized"


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


def test_lowering_is_deterministic_and_leaves_its_input_alone() -> None:
    source = calibrated(network([one("Sigmoid", "c0")]))
    before = to_bytes(source)
    assert to_bytes(quantize(source, "bayes-e")) == to_bytes(quantize(source, "bayes-e"))
    assert to_bytes(source) == before


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


def test_model_that_is_not_calibrated_is_refused() -> None:
    with pytest.raises(ModelError, match="calibrated"):
        quantize(network([one("Relu", "c0")]), "bayes-e")


def test_unknown_march_is_refused() -> None:
    with pytest.raises(ConfigError, match="march"):
        quantize(network([one("Relu", "c0")]), "bayes-x")


def test_what_lies_as_in_the_float_graph_is_transposed_before_it_is_rescaled() -> None:
    """Operators on maps have the channels last (``crnn_gru``, where the transpose becomes part of a Reshape)."""
    rows = {"to": np.array([1, 16, 4, 4]), "back": np.array([1, 4, 8, 8])}
    middle = [
        helper.make_node("Reshape", ["c0", "to"], ["r"], name="R"),
        helper.make_node("Transpose", ["r"], ["k"], name="K", perm=[0, 1, 3, 2]),
        helper.make_node("Tanh", ["k"], ["s"], name="S"),
        helper.make_node("Concat", ["k", "s"], ["u"], name="U", axis=2),
        helper.make_node("Concat", ["s", "k"], ["v"], name="V", axis=2),
        helper.make_node("Add", ["u", "v"], ["a"], name="A"),
        helper.make_node("MaxPool", ["a"], ["p"], name="P", kernel_shape=[2, 1], strides=[2, 1]),
        one("Reshape", "p", "back"),
    ]
    placed = place(network(middle, constants=rows), "bayes-e", PlacementOptions()).model
    names = {str(node.inputs[0].name) for node in calibration_nodes(placed) if "axis" not in node.attributes}
    thresholds = dict.fromkeys(names, np.asarray([1.0])) | {"v": np.asarray([2.54])}
    found = quantize(apply_thresholds(placed, thresholds), "bayes-e").graph
    rescaled = [node for node in found if node.op_type == "HzRequantize"]
    assert rescaled
    assert [str(node.name) for node in found if node.op_type == "Transpose"][2:4] == [
        "S_NCHW2NHWC_LayoutConvert_Input0",
        "P_NHWC2NCHW_LayoutConvert_Output0",
    ], "one transpose serves all that read the tensor"
    for node in rescaled:
        before = None if node.inputs[0] is None else node.inputs[0].producer()
        assert node.attributes["data_format"].as_string() == "NHWC"
        assert before is not None
        assert before.op_type != "Reshape"


def test_what_is_quantised_in_front_of_movements_keeps_its_name() -> None:
    """As the Slices of ``swin_b``; what the BPU computes from them is called as elsewhere."""
    nodes = [
        helper.make_node("Neg", ["c0"], ["n"], name="Neg"),
        helper.make_node("Slice", ["n", "low", "high", "axis"], ["s"], name="Slice"),
        helper.make_node("Abs", ["s"], ["m"], name="Abs"),
    ]
    bounds = {"low": np.array([0]), "high": np.array([4]), "axis": np.array([1])}
    model = quantized(network(nodes, constants=bounds))
    found = {str(node.name): [value.name for value in node.outputs] for node in model.graph}
    assert (found["Slice"], found["Abs"]) == (["s"], ["m_quantized"])


@pytest.mark.parametrize(("threshold", "order"), [(1.0, ["c0", "constant"]), (9.0, ["constant", "c0"])])
@pytest.mark.parametrize("shape", [(1, 4, 8, 8), (1, 1, 1, 1)])
def test_constants_are_named_after_the_input_that_they_become(
    threshold: float, order: list[str], shape: tuple[int, ...]
) -> None:
    """The operand of the larger scale comes first (``swin``); of a number no layout changes (``mobilevit``)."""
    constants = {"constant": np.full(shape, threshold, np.float32)}
    placed = place(network([one("Sub", "c0", "constant")], constants=constants), "bayes-e").model
    calibrations = apply_thresholds(placed, {"x": [1.0], "c0": [2.0], "m": [2.0], "constant": [threshold]})
    node = next(node for node in quantize(calibrations, "bayes-e").graph if node.name == "Middle")
    changed = f"Middle_NCHW2NHWC_LayoutConvert_Input{order.index('constant')}_constant_quantized"
    moved = f"Middle_nchw2nhwc_transposed_input{order.index('constant')}"
    names = {"c0": "c0_quantized", "constant": changed if shape == (1, 1, 1, 1) else moved}
    assert [value.name for value in node.inputs if value is not None] == [names[each] for each in order]


@pytest.mark.parametrize("march", ["bayes-e", "bernoulli2"])
def test_a_slice_in_front_of_a_pad_that_leaves_the_bpu_late_moves_floats(march: str) -> None:
    """Six that were asked on the two marches."""
    numbers = {"low": np.array([0]), "high": np.array([6]), "row": np.array([2])}
    widths = {"widths": np.array([0, 0, 1, 0, 0, 0, 1, 0])}
    nodes = [
        helper.make_node("Neg", ["c0"], ["n"], name="Neg"),
        helper.make_node("Slice", ["n", "low", "high", "row"], ["s"], name="S"),
        helper.make_node("Pad", ["s", "widths"], ["p"], name="P", mode="reflect"),
        helper.make_node("Add", ["p", "c0"], ["m"], name="Middle"),
    ]
    found = {str(node.name): node for node in quantized(network(nodes, constants=numbers | widths), march).graph}
    assert [str(found[name].inputs[0].name) for name in ("S", "P")] == ["n", "s"]
