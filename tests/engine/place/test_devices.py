"""BPU or CPU, and why."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from engine.calibrate import apply_thresholds
from engine.chips import MEASURED_MARCHES, load_chip
from engine.facts.devices import refused_late
from engine.ir import MARK_ON
from engine.ops.core.reasons import Code, reason_of
from engine.place import NodeTypes, Placement, PlacementOptions, place
from engine.place.devices import mark_placement, reason_for_cpu, wanted_on_bpu
from engine.quantize import quantize
from tests.engine.place.networks import SHAPE, calibrated, devices, marks, network, one, qtype


def test_what_joins_outputs_of_a_split_stays_behind_the_last_convolution() -> None:
    """They are int8 anyway, the first and the others alike."""
    split = helper.make_node("Split", ["c0"], ["s0", "s1"], name="Split", axis=1)
    placement = place(network([split, one("Concat", "s1", "s0", axis=1)], tail=False), "bayes-e")
    assert {marks(placement, name)[0] for name in ("Split", "Middle")} == {"BPU"}


@pytest.mark.parametrize("march", MEASURED_MARCHES)
def test_tensors_without_dimensions_stay_on_the_cpu(march: str) -> None:
    """``DynamicQuantizeLinear``, written out by its definition, has such nodes."""
    mean = helper.make_node("ReduceMean", ["c0"], ["s"], name="Mean", keepdims=0)
    table = helper.make_node("Sigmoid", ["s"], ["t"], name="Table")
    placed = place(network([mean, table, one("Mul", "c0", "t")]), march)
    assert marks(placed, "Table")[0] == "CPU"
    quantized = quantize(apply_thresholds(placed.model, None), march)
    assert "Sigmoid" in [node.op_type for node in quantized.graph]


def test_relu_of_an_int32_tail_runs_on_the_cpu_where_the_march_lacks_it() -> None:
    model = network([one("Relu", "c0")], tail=False)
    on = {march: marks(place(model, march, PlacementOptions()), "Middle") for march in ("bayes-e", "bernoulli2")}
    assert on["bayes-e"][0] == "BPU"
    assert on["bernoulli2"][0] == "CPU"
    assert "Relu" in on["bernoulli2"][1]


@pytest.mark.parametrize(("march", "device"), [("bayes-e", "BPU"), ("bernoulli2", "CPU")])
@pytest.mark.parametrize("reader", ["Neg", None])
def test_product_that_no_bpu_node_reads(march: str, device: str, reader: str | None) -> None:
    product = helper.make_node("Mul", ["c0", "c1"], ["p" if reader else "m"], name="Product")
    middle = [product, helper.make_node(reader, ["p"], ["m"], name="Reader")] if reader else [product]
    placed = place(network(middle, before=2, tail=reader is not None), march, PlacementOptions())
    marks = {node.name: node.metadata_props.get(MARK_ON) for node in placed.model.graph}
    assert marks["Product"] == device


def test_products_are_read_by_the_bpu_or_asked_for_on_it() -> None:
    middle = [helper.make_node("Mul", ["c0", "c1"], ["p"], name="Product"), one("Mul", "p", "c0")]
    inside = place(network(middle, before=2), "bernoulli2", PlacementOptions())
    last = place(network(middle, before=2, tail=False), "bernoulli2", PlacementOptions())
    asked = place(network(middle, before=2, tail=False), "bernoulli2", PlacementOptions(run_on_bpu=("Middle",)))
    found = [
        [node.metadata_props[MARK_ON] for node in p.model.graph if node.op_type == "Mul"] for p in (inside, last, asked)
    ]
    assert found == [["BPU", "BPU"], ["BPU", "CPU"], ["BPU", "BPU"]]


@pytest.mark.parametrize(("shape", "device"), [(SHAPE, "BPU"), ((1, 1, 8, 8), "BPU"), ((1, 1, 1, 8), "CPU")])
def test_a_constant_of_all_pixels_is_multiplied(shape: tuple[int, ...], device: str) -> None:
    """On bernoulli2; a row that is repeated is not."""
    constants = {"k": np.arange(np.prod(shape), dtype=np.float32).reshape(shape)}
    placed = place(network([one("Mul", "c0", "k")], constants=constants), "bernoulli2", PlacementOptions())
    marks = {node.name: node.metadata_props.get(MARK_ON) for node in placed.model.graph}
    assert marks["Middle"] == device


@pytest.mark.parametrize(("shape", "device"), [(SHAPE, "BPU"), ((1, 1, 8, 8), "CPU"), ((8,), "CPU")])
def test_constant_map_is_added_by_a_convolution(shape: tuple[int, ...], device: str) -> None:
    constant = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    placed = place(network([one("Add", "c0", "k")], constants={"k": constant}), "bernoulli2", PlacementOptions())
    assert {node.name: node.metadata_props.get(MARK_ON) for node in placed.model.graph}["Middle"] == device


def test_relu_that_several_cpu_nodes_read_stays_on_the_bpu() -> None:
    """Measured on ``op_ln_c`` (bernoulli2), where a mean and a difference read it."""
    relu = helper.make_node("Relu", ["c0"], ["r"], name="Relu")
    mean = helper.make_node("ReduceMean", ["r"], ["mean"], name="Mean", axes=[1], keepdims=1)
    placement = place(network([relu, mean, one("Sub", "r", "mean")]), "bernoulli2")
    assert marks(placement, "Relu")[0] == "BPU"
    assert qtype(calibrated(placement)["r"]) == "int8"


def test_run_on_cpu_keeps_a_node_in_float_and_its_operand_calibrated_nowhere() -> None:
    options = PlacementOptions(run_on_cpu=frozenset({"Middle"}))
    placement = place(network([one("Sigmoid", "c0")]), "bayes-e", options)
    assert marks(placement, "Middle") == ("CPU", "run_on_cpu is set")
    assert "c0" not in calibrated(placement)


@pytest.mark.parametrize(
    ("op_type", "asked", "device"),
    [("Relu", None, "CPU"), ("Relu", "BPU", "BPU"), ("Clip", None, "CPU"), ("Sigmoid", None, "BPU")],
)
def test_the_activation_of_a_convolution_goes_to_the_cpu_with_it(op_type: str, asked: str | None, device: str) -> None:
    limits = ["low", "high"] if op_type == "Clip" else []
    activation = helper.make_node(op_type, ["c0", *limits], ["m"], name="Middle")
    model = network([activation], constants={"low": np.float32(0), "high": np.float32(6)} if limits else None)
    info = {} if asked is None else {"Middle": NodeTypes(on=asked)}
    placement = place(model, "bayes-e", PlacementOptions(run_on_cpu=frozenset({"Conv_0"}), node_info=info))
    assert marks(placement, "Middle")[0] == device
    assert ("c0" in calibrated(placement)) is (device == "BPU")
    assert placement.refusals == ()


@pytest.mark.parametrize("asked", ["Conv_1", "Sum"])
def test_a_sum_keeps_its_activation_also_where_it_goes_itself(asked: str) -> None:
    """The recorded network ``sum_on_cpu``."""
    nodes = [helper.make_node("Add", ["c0", "c1"], ["s"], name="Sum"), one("Relu", "s")]
    placement = place(network(nodes, before=2), "bayes-e", PlacementOptions(run_on_cpu=frozenset({asked})))
    assert marks(placement, asked)[0] == "CPU"
    assert marks(placement, "Middle")[0] == "BPU"


def test_request_for_the_bpu_that_cannot_be_honoured_is_reported() -> None:
    options = PlacementOptions(node_info={"Middle": NodeTypes(on="BPU")})
    placement = place(network([one("Hardmax", "c0")]), "bayes-e", options)
    (refusal,) = placement.refusals
    assert refusal.node == "Middle"
    assert "Hardmax" in refusal.reason


def peaks() -> ir.Model:
    """A map that is multiplied by where it equals its own maximum."""
    middle = [
        helper.make_node("MaxPool", ["c0"], ["p"], name="Pool", kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Equal", ["p", "c0"], ["e"], name="Peak"),
        helper.make_node("Cast", ["e"], ["f"], name="Cast", to=TensorProto.FLOAT),
        one("Mul", "c0", "f"),
    ]
    return network(middle)


def test_map_is_compared_with_its_own_maximum_on_the_bpu() -> None:
    assert devices(peaks())["Peak"] == "BPU"
    assert devices(peaks(), "bernoulli2")["Peak"] == devices(peaks(), "bernoulli2")["Cast"] == "CPU"
    found = quantize(apply_thresholds(place(peaks(), "bayes-e", PlacementOptions()).model, None), "bayes-e")
    (peak,) = (node for node in found.graph if node.op_type == "HzQuantizedComparison")
    (product,) = (node for node in found.graph if node.name == "Middle")
    assert product.inputs[1] is peak.outputs[0]
    assert "Cast" not in [node.op_type for node in found.graph]


def test_cast_follows_a_comparison_to_the_cpu() -> None:
    found = devices(peaks(), options=PlacementOptions(run_on_cpu=frozenset({"Peak"})))
    assert (found["Peak"], found["Cast"]) == ("CPU", "CPU")


def test_comparison_with_a_constant_runs_on_the_cpu() -> None:
    middle = [
        helper.make_node("Equal", ["c0", "k"], ["e"], name="Peak"),
        helper.make_node("Cast", ["e"], ["f"], name="Cast", to=TensorProto.FLOAT),
        one("Mul", "c0", "f"),
    ]
    assert devices(network(middle, constants={"k": np.float32(0)}))["Peak"] == "CPU"


def test_activation_of_a_convolution_on_the_cpu_runs_there() -> None:
    constants = {"k": np.ones((4, 4, 9, 9), np.float32)}
    middle = [helper.make_node("Conv", ["c0", "k"], ["l"], name="Large", pads=[4] * 4), one("Relu", "l")]
    assert devices(network(middle, constants=constants), "bernoulli2")["Middle"] == "CPU"
    assert devices(network(middle, constants=constants))["Middle"] == "BPU"


def test_pool_beside_a_convolution_stays_on_the_bpu() -> None:
    """The map is int8 for the convolution's sake, so a pool that the CPU alone reads costs it nothing."""
    middle = [
        helper.make_node("MaxPool", ["c0"], ["p"], name="Pool", kernel_shape=[1, 1]),
        helper.make_node("Neg", ["p"], ["q"], name="Float"),
        helper.make_node("Sigmoid", ["c0"], ["s"], name="Sigmoid"),
        one("Add", "q", "s"),
    ]
    assert devices(network(middle))["Pool"] == "BPU"
    assert devices(network([*middle[:2], one("Sigmoid", "q")]))["Pool"] == "CPU"


def test_movement_of_what_is_computed_with_behind_another_stays_on_the_bpu() -> None:
    """As the scores of YOLOX, cut from the same map as the boxes that the BPU decodes."""
    arrays = {"from": np.array([0]), "to": np.array([2]), "axis": np.array([1])}
    moved = [
        helper.make_node("Transpose", ["c0"], ["t"], name="Turned", perm=[0, 1, 3, 2]),
        helper.make_node("Slice", ["t", "from", "to", "axis"], ["p"], name="Cut"),
        helper.make_node("Neg", ["p"], ["q"], name="Float"),
    ]
    beside = [helper.make_node("Sigmoid", ["t"], ["s"], name="Sigmoid"), one("Concat", "q", "s", axis=1)]
    assert devices(network([*moved, *beside], tail=False, constants=arrays))["Cut"] == "BPU"
    assert devices(network([*moved, one("Sigmoid", "q")], tail=False, constants=arrays))["Cut"] == "CPU"


def test_channels_are_padded_on_the_cpu_of_bernoulli2() -> None:
    constants = {"pads": np.array([0, 1, 0, 0, 0, 0, 0, 0]), "first": np.array([0, 1, 2, 3])}
    middle = [helper.make_node("Pad", ["c0", "pads"], ["p"], name="Pad"), one("Gather", "p", "first", axis=1)]
    assert devices(network(middle, constants=constants), "bernoulli2")["Pad"] == "CPU"
    assert devices(network(middle, constants=constants))["Pad"] == "BPU"


def test_reshape_of_an_output_of_int16_stays_on_the_bpu() -> None:
    model = network([one("Reshape", "c0", "shape")], tail=False, constants={"shape": np.array([1, -1])})
    assert devices(model)["Middle"] == "CPU"
    assert devices(model, options=PlacementOptions(output_type="int16"))["Middle"] == "BPU"


def test_requests_for_the_bpu_come_from_both_settings() -> None:
    info = {"a": NodeTypes(on="BPU"), "b": NodeTypes(on="CPU"), "c": NodeTypes(input_type="int16")}
    assert wanted_on_bpu(PlacementOptions(node_info=info, run_on_bpu=frozenset({"d"}))) == {"a", "d"}


def lone(op_type: str, shape: tuple[int, ...] = SHAPE, dtype: ir.DataType = ir.DataType.FLOAT) -> ir.Node:
    values = [ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(shape)) for name in "xy"]
    return ir.node(op_type, values[:1], outputs=values[1:], name="n")


@pytest.mark.parametrize(
    ("node", "march", "options", "code"),
    [
        (lone("Sigmoid"), "bayes", PlacementOptions(), None),
        (lone("Sigmoid"), "bayes", PlacementOptions(run_on_cpu=frozenset({"n"})), Code.ASKED_FOR),
        (lone("Sigmoid"), "bayes", PlacementOptions(node_info={"n": NodeTypes(on="CPU")}), Code.ASKED_FOR),
        (lone("Hardmax"), "bayes", PlacementOptions(), Code.NO_OPERATOR),
        (lone("Transpose"), "bayes", PlacementOptions(), None),
        (lone("Transpose"), "bernoulli2", PlacementOptions(), Code.NO_OPERATOR),
        (lone("Sigmoid", (1, 4, 8)), "bayes", PlacementOptions(), None),
        (lone("Sigmoid", (1, 4, 8)), "bernoulli2", PlacementOptions(), Code.RANK_4_ONLY),
        (lone("Sigmoid", dtype=ir.DataType.INT64), "bayes", PlacementOptions(), Code.NOT_FLOAT),
        (lone("Reshape"), "bernoulli2", PlacementOptions(), Code.NO_OPERATOR),
    ],
)
def test_a_node_by_itself(node: ir.Node, march: str, options: PlacementOptions, code: Code | None) -> None:
    reason = reason_for_cpu(node, load_chip(march), options, on_request=False)
    assert (None if reason is None else reason.code) is code


def test_softmax_runs_on_the_bpu_where_it_is_asked_for() -> None:
    x, y = (ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape((1, 4))) for name in "xy")
    node = ir.node("Softmax", [x], {"axis": 1}, outputs=[y], name="n")
    reasons = [reason_for_cpu(node, load_chip("bayes"), PlacementOptions(), asked) for asked in (False, True)]
    assert [None if reason is None else reason.code for reason in reasons] == [Code.ON_REQUEST, None]


def test_a_softmax_that_would_be_refused_is_not_advised_to_be_asked_for() -> None:
    """run_on_bpu was the advice for a Softmax over the channels, which is refused then."""
    x, y = (ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape((1, 4, 8, 8))) for name in "xy")
    node = ir.node("Softmax", [x], {"axis": 1}, outputs=[y], name="n")
    reasons = [reason_for_cpu(node, load_chip("bayes"), PlacementOptions(), asked) for asked in (False, True)]
    assert [None if reason is None else reason.code for reason in reasons] == [Code.LAST_AXIS, Code.LAST_AXIS]


def test_what_is_refused_late_carries_that_reason() -> None:
    """``Reshape`` on bernoulli2: its input is quantised all the same, also where it was asked onto the CPU."""
    march = load_chip("bernoulli2")
    model = network([one("Reshape", "c0", "shape")], constants={"shape": np.array(SHAPE)})
    assert mark_placement(model, march) == []
    (node,) = (node for node in model.graph if node.name == "Middle")
    assert refused_late(node)
    mark_placement(model, march, PlacementOptions(run_on_cpu=frozenset({"Middle"})))
    assert refused_late(node)
    reason = reason_of(node)
    assert reason is not None
    assert reason.code is Code.ASKED_FOR


@pytest.mark.parametrize("march", ["bayes-e", "bayes", "bernoulli2"])
@pytest.mark.parametrize(
    ("op_type", "device", "late"),
    [("Relu", "BPU", False), ("LeakyRelu", "CPU", True), ("Sigmoid", "CPU", False), ("Tanh", "CPU", False)],
)
def test_what_is_asked_for_behind_a_convolution(march: str, op_type: str, device: str, late: bool) -> None:
    """A Relu stays part of it; what keeps the scale reads quantised values, functions read floats (rq1 on three)."""
    model = network([one(op_type, "c0")])
    mark_placement(model, load_chip(march), PlacementOptions(run_on_cpu=frozenset({"Middle"})))
    (node,) = (node for node in model.graph if node.name == "Middle")
    assert (node.metadata_props[MARK_ON], refused_late(node)) == (device, late)


def test_a_relu_is_no_part_of_what_others_read() -> None:
    relu = helper.make_node("Relu", ["c0"], ["r"], name="Relu")
    model = network([relu, one("Add", "c0", "r")])
    mark_placement(model, load_chip("bayes-e"), PlacementOptions(run_on_cpu=frozenset({"Relu"})))
    (node,) = (node for node in model.graph if node.name == "Relu")
    assert (node.metadata_props[MARK_ON], refused_late(node)) == ("CPU", True)


def of_rank_3(*middle: onnx.NodeProto, constants: Mapping[str, np.ndarray] | None = None) -> Placement:
    """``middle`` from ``r`` to ``s``, rank 3, between convolutions of bernoulli2."""
    arrays = {"three": np.array([1, 4, 64]), "four": np.array(SHAPE), **(constants or {})}
    nodes = [
        helper.make_node("Reshape", ["c0", "three"], ["r"], name="There"),
        *middle,
        helper.make_node("Reshape", ["s", "four"], ["m"], name="Back"),
    ]
    return place(network(nodes, constants=arrays), "bernoulli2")


def test_normalisation_of_rank_3_is_quantised_for_the_cpu() -> None:
    """As in detr_b, vit_sep_b, vit_timm_b and fpn_retina_gn_b."""
    placed = of_rank_3(
        helper.make_node("ReduceMean", ["r"], ["mean"], name="Mean", axes=[2], keepdims=1),
        helper.make_node("Sub", ["r", "mean"], ["d"], name="Difference"),
        helper.make_node("Mul", ["d", "d"], ["s"], name="Square"),
    )
    assert {marks(placed, name)[0] for name in ("There", "Mean", "Difference", "Square", "Back")} == {"CPU"}
    assert {"c0", "r", "mean", "d", "s"} <= set(calibrated(placed))


def test_a_line_is_scaled_and_shifted_by_constants_without_being_quantised() -> None:
    """But in a normalisation: heads of YOLOs, the positions of vit_timm_b and detr_b, seven networks asked."""
    for op_type in ("Mul", "Add", "Sub"):
        placed = of_rank_3(
            helper.make_node(op_type, ["r", "k"], ["s"], name="Arithmetic"),
            constants={"k": np.full((1, 4, 1), 2, np.float32)},
        )
        assert marks(placed, "Arithmetic")[0] == "CPU"
        assert not {"r", "k"} & set(calibrated(placed))


def test_sum_of_two_tensors_of_rank_3_is_not_quantised() -> None:
    """Bernoulli2 has no convolution for it (seven sums in three networks): the convolution before stays in int32."""
    exp = helper.make_node("Exp", ["r"], ["e"], name="Exp")
    placed = of_rank_3(exp, helper.make_node("Add", ["r", "e"], ["s"], name="Sum"))
    assert marks(placed, "Sum")[0] == "CPU"
    assert not {"c0", "r", "e"} & set(calibrated(placed))


def test_constant_for_all_samples_is_refused_early() -> None:
    """``Mul_45`` of mobilevit_b and ``Add_241`` of swin_b, on maps of four samples."""
    reshapes = [
        helper.make_node("Reshape", ["c0", "four"], ["r"], name="There"),
        helper.make_node("Mul", ["r", "k"], ["s"], name="Product"),
        helper.make_node("Reshape", ["s", "one"], ["m"], name="Back"),
    ]
    arrays = {"four": np.array([4, 1, 8, 8]), "one": np.array(SHAPE), "k": np.full((1, 1, 1, 8), 2, np.float32)}
    placed = place(network(reshapes, constants=arrays), "bernoulli2")
    assert marks(placed, "Product")[0] == "CPU"
    assert "r" not in calibrated(placed)


@pytest.mark.parametrize(("channels", "device"), [(1, "BPU"), (4, "CPU")])
def test_int32_of_one_channel_is_moved(channels: int, device: str) -> None:
    """It has one scale, so that it can be dequantised behind the movement (yolo11, yolov8_decode)."""
    weight = np.random.default_rng(3).normal(size=(channels, 4, 1, 1)).astype(np.float32)
    arrays = {"w": weight, "from": np.array([0]), "to": np.array([2]), "axis": np.array([2])}
    nodes = [
        helper.make_node("Conv", ["c0", "w"], ["n"], name="Narrow"),
        helper.make_node("Slice", ["n", "from", "to", "axis"], ["m"], name="Slice"),
    ]
    model = network(nodes, tail=False, constants=arrays)
    model.graph.outputs[0].shape = ir.Shape((1, channels, 2, 8))
    placed = place(model, "bayes-e")
    assert marks(placed, "Slice")[0] == device
    assert "n" not in calibrated(placed)


def test_image_before_a_reflecting_pad_is_quantised() -> None:
    """``Pad_13`` of style."""
    pads = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "four": np.array(SHAPE)}
    nodes = [
        helper.make_node("Pad", ["c0", "pads"], ["p"], name="Pad", mode="reflect"),
        helper.make_node("MaxPool", ["p"], ["m"], name="Pool", kernel_shape=[3, 3]),
    ]
    placed = place(network(nodes, constants=pads), "bayes-e")
    assert marks(placed, "Pad")[0] == "CPU"
    assert "c0" in calibrated(placed)


@pytest.mark.parametrize(("readers", "device"), [("one", "CPU"), ("two", "CPU"), ("product", "BPU")])
def test_a_sum_with_what_the_cpu_computed_follows_its_readers(readers: str, device: str) -> None:
    """On bernoulli2 no convolution computes it; a product at the end is on the BPU when the sum is looked at."""
    middle = [
        helper.make_node("Hardmax", ["c0"], ["h"], name="Float"),
        helper.make_node("Add", ["c0", "h"], ["s"], name="Sum"),
        helper.make_node("Hardmax", ["s"], ["t"], name="First"),
    ]
    if readers == "two":
        middle.append(helper.make_node("Hardmax", ["s"], ["u"], name="Second", axis=2))
    last = {"one": one("Neg", "t"), "two": one("Min", "t", "u"), "product": one("Mul", "t", "s")}[readers]
    assert devices(network([*middle, last], tail=False), "bernoulli2")["Sum"] == device
