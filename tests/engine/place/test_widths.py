"""Which tensors are int16."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from engine.calibrate import apply_thresholds
from engine.chips import load_chip
from engine.errors import ConfigError
from engine.place import NodeTypes, PlacementOptions, place
from engine.place.devices import mark_placement
from engine.place.widths import check_types, tensor_types
from engine.quantize import quantize
from tests.engine.place.networks import calibrated, convolution, network, one, qtype


@pytest.mark.parametrize(
    ("tail", "limits", "width"),
    [(False, ["low", "high"], "int16"), (True, ["low", "high"], "int8"), (False, ["zero", "six"], "int8")],
)
def test_clips_that_share_limits_with_the_last_one_are_int16(tail: bool, limits: list[str], width: str) -> None:
    """Measured on ``convr6`` and ``irb``."""
    second, constants = convolution(7, "first", "c7")
    middle = [helper.make_node("Clip", ["c0", *limits], ["first"], name="First"), second]
    numbers = {name: np.float32(number) for name, number in (("low", 0), ("high", 6), ("zero", 0), ("six", 6))}
    arrays = {constant.name: numpy_helper.to_array(constant) for constant in constants}
    model = network([*middle, one("Clip", "c7", "low", "high")], tail=tail, constants={**arrays, **numbers})
    nodes = calibrated(place(model, "bayes-e"))
    assert qtype(nodes["first"]) == width
    assert qtype(nodes["m" if tail else "m_before"]) == ("int8" if tail else "int16")


def test_int16_falls_back_to_int8_where_a_neighbour_lacks_it() -> None:
    options = PlacementOptions(node_info={"Middle": NodeTypes(input_type="int16", output_type="int16")})
    model = network([one("AveragePool", "c0", kernel_shape=[3, 3], pads=[1, 1, 1, 1])])
    placement = place(model, "bayes-e", options)
    assert {refusal.node for refusal in placement.refusals} == {"Middle"}
    assert qtype(calibrated(placement)["c0"]) == "int8"


def test_what_only_the_cpu_reads_stays_in_int32_though_int16_is_asked() -> None:
    """A convolution of sknet_c; one behind which nothing is quantised is int16 (golden i16_matmul)."""
    options = PlacementOptions(node_info={"Conv_0": NodeTypes(output_type="int16")})
    between = [helper.make_node("Neg", ["c0"], ["k"], name="Neg"), one("Neg", "k")]
    assert qtype(calibrated(place(network(between, tail=False), "bayes-e", options))["c0"]) == "int16"
    placement = place(network(between), "bayes-e", options)
    assert "c0" not in calibrated(placement)
    assert [(found.node, found.reason) for found in placement.refusals] == [
        ("Conv_0", "only CPU nodes read its result, which stays int32")
    ]
    output = network([helper.make_node("Relu", ["c0"], ["m"], name="Middle")], tail=False)
    assert qtype(calibrated(place(output, "bayes-e", options))["m_before"]) == "int16"


def test_what_is_only_moved_on_its_way_to_an_output_is_int16_where_that_is_asked() -> None:
    options = PlacementOptions(node_info={"Conv_0": NodeTypes(output_type="int16")})
    moves = [helper.make_node("Transpose", ["c0"], ["t"], name="Move", perm=[0, 2, 3, 1])]
    moves.append(helper.make_node("Reshape", ["t", "flat"], ["m"], name="Flat"))
    placement = place(network(moves, tail=False, constants={"flat": np.array([8, 32])}), "bayes-e", options)
    assert qtype(calibrated(placement)["c0"]) == "int16"
    assert placement.refusals == ()


@pytest.mark.parametrize(("output_type", "width"), [(None, None), ("int16", "int16")])
def test_a_sum_that_is_only_moved_is_int16_where_all_outputs_are(output_type: str | None, width: str | None) -> None:
    """As the distances of yolov8_decode."""
    weight = np.ones((1, 4, 1, 1), np.float32)
    middle = [
        helper.make_node("Conv", ["c0", "k"], ["s"], name="Sum"),
        helper.make_node("Slice", ["s", "zero", "four", "two"], ["t"], name="Cut"),
        one("Neg", "t"),
    ]
    constants = {"k": weight, "zero": np.array([0]), "four": np.array([4]), "two": np.array([2])}
    placement = place(
        network(middle, tail=False, constants=constants), "bayes-e", PlacementOptions(output_type=output_type)
    )
    found = calibrated(placement).get("s")
    assert (None if found is None else qtype(found)) == width


def test_int16_is_granted_and_refused_by_march() -> None:
    options = PlacementOptions(node_info={"Middle": NodeTypes(input_type="int16", output_type="int16")})
    placement = place(network([one("Sigmoid", "c0")]), "bayes-e", options)
    assert placement.refusals == ()
    assert qtype(calibrated(placement)["c0"]) == "int16"
    with pytest.raises(ConfigError, match="int16"):
        place(network([one("Sigmoid", "c0")]), "bernoulli2", options)


def test_sigmoid_behind_a_transposed_convolution_is_int16_at_the_end() -> None:
    middle = [helper.make_node("ConvTranspose", ["c0", "k"], ["t"], name="Up"), one("Sigmoid", "t")]
    model = network(middle, tail=False, constants={"k": np.ones((4, 4, 2, 2), np.float32)})
    placed = place(model, "bayes-e", PlacementOptions())
    assert qtype(calibrated(placed)["t"]) == "int16"
    found = quantize(apply_thresholds(placed.model, None), "bayes-e")
    names = [node.name for node in found.graph]
    up = names.index("Up")
    assert found.graph[up].outputs[0].dtype == ir.DataType.INT8
    assert names[up + 1 : up + 3] == ["t_Requantize", "Middle"]


def test_transposed_convolution_that_is_asked_for_int16_has_none() -> None:
    middle = [helper.make_node("ConvTranspose", ["c0", "k"], ["t"], name="Up"), one("Tanh", "t")]
    model = network(middle, constants={"k": np.ones((4, 4, 2, 2), np.float32)})
    options = PlacementOptions(node_info={"Up": NodeTypes(output_type="int16")})
    placed = place(model, "bayes-e", options)
    assert qtype(calibrated(placed)["t"]) == "int8"
    assert [refusal.node for refusal in placed.refusals] == ["Up"]


@pytest.mark.parametrize(
    "types", [NodeTypes(input_type="int16"), NodeTypes(output_type="int16"), NodeTypes(input_types={1: "int16"})]
)
def test_a_march_without_int16_refuses_every_way_to_ask_for_it(types: NodeTypes) -> None:
    for options in (PlacementOptions(node_info={"n": types}), PlacementOptions(output_type="int16")):
        check_types(load_chip("bayes"), options)
        with pytest.raises(ConfigError, match="Unsupported datatype settings for march bernoulli/bernoulli2: int16"):
            check_types(load_chip("bernoulli2"), options)
    check_types(load_chip("bernoulli2"), PlacementOptions(output_type="int8"))


def widths(middle: list[object], options: PlacementOptions, tail: bool = True) -> tuple[dict[str, str], list[str]]:
    """Types of tensors that are not left to the default, and the reasons of requests that were not granted."""
    model, march = network(middle, tail=tail), load_chip("bayes-e")  # type: ignore[arg-type]  # nodes
    mark_placement(model, march, options)
    found = tensor_types(model, march, options)
    return {str(value.name): kind for value, kind in found.types.items()}, [each.reason for each in found.refusals]


def test_what_moves_integers_has_one_width() -> None:
    pool = helper.make_node("MaxPool", ["c0"], ["p"], name="Pool", kernel_shape=[1, 1])
    options = PlacementOptions(node_info={"Middle": NodeTypes(output_type="int16")})
    found, _ = widths([pool, one("Tanh", "p")], options)
    assert {name for name, kind in found.items() if kind == "int16"} >= {"m"}


def test_int8_that_a_neighbour_makes_int16_is_reported() -> None:
    info = {"Middle": NodeTypes(output_type="int16"), "Conv_9": NodeTypes(input_type="int8")}
    found, reasons = widths([one("Tanh", "c0")], PlacementOptions(node_info=info))
    assert found == {"c0": "int16", "m": "int16"}, "a Tanh has one width"
    assert reasons == ["tensor m is int16 because of its other neighbours"]


def test_int16_outputs_are_asked_for_at_their_producers() -> None:
    options = PlacementOptions(output_type="int16")
    found, (reason,) = widths([one("AveragePool", "c0", kernel_shape=[1, 1])], options, tail=False)
    assert found == {}
    where = "The output of Node(name:Middle, type:AveragePool)"
    assert reason == f"{where} does not support data type: int16, it will be set back to int8"


def test_results_at_the_end_are_int16_but_those_of_convolutions() -> None:
    assert widths([one("Tanh", "c0")], PlacementOptions(), tail=False) == ({"c0": "int16", "m": "int16"}, [])
    assert widths([one("Tanh", "c0")], PlacementOptions()) == ({}, [])
    info = {"Middle": NodeTypes(input_type="int8")}
    assert widths([one("Tanh", "c0")], PlacementOptions(node_info=info), tail=False) == ({"c0": "int8"}, [])


@pytest.mark.parametrize("movement", [{"op_type": "Transpose", "perm": [0, 1, 3, 2]}, {"op_type": "Split", "axis": 2}])
def test_what_is_moved_to_the_end_is_int8_where_the_bpu_computes_with_the_rest(movement: dict[str, object]) -> None:
    """One part of a Split is an output, a convolution reads the other (reference/operators.md, uneven Split)."""
    outputs = ["p", "r"] if movement["op_type"] == "Split" else ["p"]
    moved = [
        helper.make_node("Tanh", ["c0"], ["t"], name="Tanh"),
        helper.make_node(inputs=["t"], outputs=outputs, name="Moved", **movement),
        helper.make_node("Neg", ["p"], ["q"], name="Float"),
    ]
    beside = helper.make_node("Conv", [outputs[-1] if len(outputs) > 1 else "t", "w"], ["d"], name="Conv")
    weight = numpy_helper.from_array(np.ones((4, 4, 1, 1), np.float32), "w")
    found = []
    for middle in ([*moved, beside, one("Concat", "q", "d", axis=2)], [*moved, one("Softmax", "q")]):
        model = network(middle, tail=False, constants={"w": numpy_helper.to_array(weight)})
        found.append(qtype(calibrated(place(model, "bayes-e"))["t"]))
    assert found == ["int8", "int16"]


@pytest.mark.parametrize(("source", "width"), [("c0", "int8"), ("t", "int16")])
def test_what_is_moved_from_a_convolution_to_the_end_is_int8(source: str, width: str) -> None:
    """operators.csv: a Gather of one channel is an output."""
    tanh = helper.make_node("Tanh", ["c0"], ["t"], name="Tanh")
    gather = helper.make_node("Gather", [source, "first"], ["m"], name="Middle", axis=1)
    nodes = [tanh, gather] if source == "t" else [gather]
    model = network(nodes, tail=False, constants={"first": np.array([0])})
    assert qtype(calibrated(place(model, "bayes-e"))[source]) == width


def test_a_table_of_an_int16_input_may_have_an_int8_result() -> None:
    """As the Swishes of ``yolov8_nhwc`` behind convolutions that are asked for int16."""
    options = PlacementOptions(node_info={"Conv_0": NodeTypes(output_type="int16")})
    assert widths([one("Tanh", "c0")], options) == ({"c0": "int16"}, [])
    model = network([one("Tanh", "c0")])
    placed = place(model, "bayes-e", options)
    assert {name: qtype(node) for name, node in calibrated(placed).items()}["m"] == "int8"
    quantized = quantize(apply_thresholds(placed.model, None), "bayes-e")
    (table,) = (node for node in quantized.graph if node.name == "Middle")
    assert (table.op_type, table.attributes["output_bit"].as_int()) == ("HzLut2Layer", 8)
    assert max(table.attributes["table_param"].as_ints()) <= 127


def test_a_table_reads_the_requantised_form_of_what_has_no_int16() -> None:
    """As a Sigmoid behind a GlobalMaxPool (recorded: ``int16_for_sigmoid``, ``sigmoid_global_max``)."""
    pool = helper.make_node("AveragePool", ["c0"], ["p"], name="Pool", kernel_shape=[1, 1])
    options = PlacementOptions(node_info={"Middle": NodeTypes(output_type="int16")})
    found, reasons = widths([pool, one("Tanh", "p")], options)
    assert found == {"m": "int16"}
    assert any("does not support data type: int16" in reason for reason in reasons)


@pytest.mark.parametrize(("output_type", "expected"), [(None, "int16"), ("int16", "int16"), ("int8", None)])
def test_results_that_only_the_cpu_reads_are_int16_unless_outputs_are_int8(
    output_type: str | None, expected: str | None
) -> None:
    """As the Sigmoid in front of a Cast in ``yolov8_decode`` with ``set_model_output_int16``."""
    tanh = helper.make_node("Tanh", ["c0"], ["t"], name="Tanh")
    found, _ = widths([tanh, one("Softmax", "t")], PlacementOptions(output_type=output_type), tail=False)
    assert (found.get("c0"), found.get("t")) == (expected, expected)


@pytest.mark.parametrize("asked", ["Middle", "Conv_0"])
def test_a_resize_reads_int8_of_what_others_want_in_int16(asked: str) -> None:
    """``x.3`` of ``yolov8_nhwc``."""
    after, constants = convolution(7, "up", "c7")
    resize = helper.make_node("Resize", ["c0", "", "scales"], ["up"], name="Up", mode="nearest")
    arrays = {constant.name: numpy_helper.to_array(constant) for constant in constants}
    arrays["scales"] = np.array([1, 1, 2, 2], np.float32)
    model = network([resize, after, one("MaxPool", "c0", kernel_shape=[1, 1])], constants=arrays)
    options = PlacementOptions(node_info={asked: NodeTypes(output_type="int16")})
    placed = calibrated(place(model, "bayes-e", options))
    assert qtype(placed["c0"]) == "int16"
    quantized = quantize(apply_thresholds(place(model, "bayes-e", options).model, None), "bayes-e")
    (up,) = (node for node in quantized.graph if node.name == "Up")
    assert up.inputs[0].dtype == ir.DataType.INT8


@pytest.mark.parametrize("op_type", ["Split", "Slice"])
def test_all_parts_of_a_tensor_have_one_type(op_type: str) -> None:
    """Where the last part of a gate goes to an int16 tail, the gate and its other parts are int16 too.

    What a Split gives a table is not calibrated (14 parts asked, three drawn networks).
    """
    constants = {"zero": np.array([0]), "two": np.array([2]), "four": np.array([4]), "one": np.array([1])}
    parts = [helper.make_node("Split", ["s"], ["a", "b"], name="Parts", axis=1)]
    if op_type == "Slice":
        bounds = {"a": ["zero", "two", "one"], "b": ["two", "four", "one"]}
        parts = [helper.make_node("Slice", ["s", *limits], [name], name=name) for name, limits in bounds.items()]
    nodes = [helper.make_node("Sigmoid", ["c0"], ["s"], name="Gate"), *parts]
    nodes += [helper.make_node("Exp", ["a"], ["e"], name="Exp"), one("Concat", "e", "b", axis=1)]
    placement = place(network(nodes, tail=False, constants=constants), "bayes-e", PlacementOptions())
    found = calibrated(placement)
    expected = ["c0", "s", "b", "e"] if op_type == "Split" else ["c0", "s", "a", "b", "e"]
    assert {name: qtype(found[name]) for name in found if name in {"c0", "s", "a", "b", "e"}} == dict.fromkeys(
        expected, "int16"
    )


def test_outputs_are_int16_only_where_the_bpu_does_not_read_them() -> None:
    """``set_model_output_int16`` of two convolutions that are outputs, of which one reads the other (recorded)."""
    second, constants = convolution(7, "c0", "m")
    model = network([second], tail=False, constants={each.name: numpy_helper.to_array(each) for each in constants})
    model.graph.outputs.append(next(iter(model.graph)).outputs[0])
    found = calibrated(place(model, "bayes-e", PlacementOptions(output_type="int16")))
    assert {name: qtype(node) for name, node in found.items()} == {
        "x": "int8",
        "c0_calibrated": "int8",
        "m_before": "int16",
    }
