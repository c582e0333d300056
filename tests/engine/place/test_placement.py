"""Placement: chains, marks, ties, fixed thresholds, refusals, tails."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.calibrate import apply_thresholds
from engine.errors import ConfigError
from engine.ir import MARK_FIXED, MARK_ON, MARK_TIE, calibration_nodes
from engine.march import load_march as load_march
from engine.ops.core.reasons import sentence_of
from engine.place import NodeTypes, Placement, PlacementOptions, place
from engine.place.chains import chains
from engine.quantize import quantize

SHAPE = (1, 4, 8, 8)


def convolution(index: int, source: str, target: str) -> tuple[onnx.NodeProto, list[onnx.TensorProto]]:
    rng = np.random.default_rng(index)
    weight = numpy_helper.from_array(rng.normal(size=(4, 4, 1, 1)).astype(np.float32), f"w{index}")
    bias = numpy_helper.from_array(rng.normal(size=4).astype(np.float32), f"b{index}")
    return helper.make_node("Conv", [source, f"w{index}", f"b{index}"], [target], name=f"Conv_{index}"), [weight, bias]


def network(
    middle: list[onnx.NodeProto], before: int = 1, tail: bool = True, constants: Mapping[str, np.ndarray] | None = None
) -> ir.Model:
    """Convolutions ``c0`` ... of the input, then ``middle``, whose last result ``m`` the last convolution reads."""
    nodes = []
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    for index in range(before):
        node, weights = convolution(index, "x", f"c{index}")
        nodes.append(node)
        initializers += weights
    nodes += middle
    if tail:
        node, weights = convolution(9, "m", "y")
        nodes.append(node)
        initializers += weights
    borders = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "y" if tail else "m")]
    graph = helper.make_graph(nodes, "g", borders[:1], borders[1:], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)])
    return ir.from_proto(onnx.shape_inference.infer_shapes(model))


def one(op_type: str, *inputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op_type, list(inputs), ["m"], name="Middle", **attributes)


def calibrated(placement: Placement) -> dict[str, ir.Node]:
    """Calibration nodes of activations by the tensor that they calibrate."""
    nodes = calibration_nodes(placement.model)
    return {str(node.inputs[0].name): node for node in nodes if "axis" not in node.attributes and node.inputs[0]}


def qtype(node: ir.Node) -> str:
    return node.attributes["qtype"].as_string()


def test_convolution_absorbs_sum_and_relu() -> None:
    middle = [helper.make_node("Add", ["c0", "c1"], ["s"], name="Sum"), one("Relu", "s")]
    placement = place(network(middle, before=2), "bayes-e", PlacementOptions())
    names = [[node.name for node in chain] for chain in chains(placement.model, load_march("bayes-e"))]
    assert names == [["Conv_0"], ["Conv_1", "Sum", "Middle"], ["Conv_9"]]
    assert set(calibrated(placement)) == {"x", "c0", "m"}


def test_convolution_absorbs_sum_with_an_operand_that_is_computed_later() -> None:
    middle = [helper.make_node("Sigmoid", ["x"], ["s"], name="Later"), one("Add", "c0", "s")]
    found = place(network(middle), "bayes-e", PlacementOptions()).model
    names = [[node.name for node in chain] for chain in chains(found, load_march("bayes-e"))]
    assert names == [["Conv_0", "Middle"], ["Later"], ["Conv_9"]]
    lowered = [node.name for node in quantize(apply_thresholds(found, None), "bayes-e").graph]
    assert lowered.index("Later") < lowered.index("Conv_0")


def test_tensor_added_to_itself_is_not_absorbed() -> None:
    placement = place(network([one("Add", "c0", "c0")]), "bayes-e", PlacementOptions())
    names = [[node.name for node in chain] for chain in chains(placement.model, load_march("bayes-e"))]
    assert names == [["Conv_0"], ["Middle"], ["Conv_9"]]


def test_last_convolution_stays_in_int32() -> None:
    placement = place(network([one("Relu", "c0")]), "bayes-e", PlacementOptions())
    assert "y" not in calibrated(placement)


def test_relu_of_an_int32_tail_runs_on_the_cpu_where_the_march_lacks_it() -> None:
    model = network([one("Relu", "c0")], tail=False)
    on = {march: marks(place(model, march, PlacementOptions()), "Middle") for march in ("bayes-e", "bernoulli2")}
    assert on["bayes-e"][0] == "BPU"
    assert on["bernoulli2"][0] == "CPU"
    assert "Relu" in on["bernoulli2"][1]


@pytest.mark.parametrize(("op_type", "late"), [("Max", True), ("Sub", False)])
def test_operators_refused_late_leave_their_operands_quantised(op_type: str, late: bool) -> None:
    """Measured on ``bin_max`` and ``bin_sub`` (bernoulli2): int8 operands with their Relu, int32 ones without."""
    middle = [helper.make_node("Relu", [f"c{index}"], [f"r{index}"], name=f"Relu_{index}") for index in range(2)]
    placement = place(network([*middle, one(op_type, "r0", "r1")], before=2), "bernoulli2", PlacementOptions())
    assert marks(placement, "Middle") == ("CPU", f"bernoulli2 has no operator for {op_type}")
    assert {marks(placement, f"Relu_{index}")[0] for index in range(2)} == {"BPU" if late else "CPU"}
    assert set(calibrated(placement)) == {"x", "m", *(("r0", "r1") if late else ())}


def test_behind_the_last_convolution_nothing_is_refused_late() -> None:
    """A tail Max on bernoulli2 is passive: the convolutions keep their int32 outputs."""
    placement = place(network([one("Max", "c0", "c1")], before=2, tail=False), "bernoulli2", PlacementOptions())
    assert marks(placement, "Middle") == ("CPU", "Max is passive and no BPU node reads it")
    assert set(calibrated(placement)) == {"x"}


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
    assert found == [["BPU", "BPU"], ["CPU", "CPU"], ["BPU", "BPU"]]


@pytest.mark.parametrize(("factor", "device"), [("c0", "BPU"), ("k", "CPU")])
def test_reciprocal_runs_where_its_only_product_does(factor: str, device: str) -> None:
    middle = [helper.make_node("Reciprocal", ["c0"], ["r"], name="Reciprocal"), one("Mul", factor, "r")]
    constants = {"k": np.arange(256, dtype=np.float32).reshape(SHAPE)} if factor == "k" else {}
    placed = place(network(middle, constants=constants), "bernoulli2", PlacementOptions())
    marks = {node.name: node.metadata_props.get(MARK_ON) for node in placed.model.graph}
    assert (marks["Reciprocal"], marks["Middle"]) == (device, device)


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


def test_dilated_convolution_has_no_int32_output() -> None:
    """Measured on ``dilx4``: its tail is int8, and on bernoulli2 keeps its Relu."""
    dilated = helper.make_node("Conv", ["c0", "wd"], ["d"], name="Dilated", dilations=[2, 2], pads=[2, 2, 2, 2])
    constants = {"wd": np.ones((4, 4, 3, 3), np.float32)}
    for march in ("bayes-e", "bernoulli2"):
        placement = place(network([dilated, one("Relu", "d")], tail=False, constants=constants), march)
        assert marks(placement, "Middle")[0] == "BPU"
        assert qtype(calibrated(placement)["m_before"]) == "int8"


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


def marks(placement: Placement, name: str) -> tuple[str, str]:
    node = next(node for node in placement.model.graph if node.name == name)
    return node.metadata_props[MARK_ON], sentence_of(node)


@pytest.mark.parametrize(
    ("op_type", "attributes", "tied", "to"),
    [
        ("MaxPool", {"kernel_shape": [1, 1]}, "m", "c0"),
        ("LeakyRelu", {"alpha": 0.1}, "c0", "m"),
    ],
)
def test_operators_that_cannot_rescale_tie_thresholds(
    op_type: str, attributes: dict[str, object], tied: str, to: str
) -> None:
    nodes = calibrated(place(network([one(op_type, "c0", **attributes)]), "bayes-e", PlacementOptions()))
    assert nodes[tied].metadata_props.get(MARK_TIE) == to
    assert MARK_TIE not in nodes[to].metadata_props


def test_sigmoid_has_fixed_thresholds() -> None:
    nodes = calibrated(place(network([one("Sigmoid", "c0")]), "bayes-e", PlacementOptions()))
    assert float(nodes["c0"].metadata_props[MARK_FIXED]) == pytest.approx(5.498970)
    assert float(nodes["m"].metadata_props[MARK_FIXED]) == pytest.approx(0.995926)


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
def test_a_sum_keeps_its_activation_unless_it_goes_itself(asked: str) -> None:
    nodes = [helper.make_node("Add", ["c0", "c1"], ["s"], name="Sum"), one("Relu", "s")]
    placement = place(network(nodes, before=2), "bayes-e", PlacementOptions(run_on_cpu=frozenset({asked})))
    assert marks(placement, asked)[0] == "CPU"
    assert marks(placement, "Middle")[0] == ("CPU" if asked == "Sum" else "BPU")


def test_request_for_the_bpu_that_cannot_be_honoured_is_reported() -> None:
    options = PlacementOptions(node_info={"Middle": NodeTypes(on="BPU")})
    placement = place(network([one("Hardmax", "c0")]), "bayes-e", options)
    (refusal,) = placement.refusals
    assert refusal.node == "Middle"
    assert "Hardmax" in refusal.reason


@pytest.mark.parametrize(
    ("asked", "said"),
    [("Midle", "; did you mean 'Middle'?"), ("Conv", "; it is computed by Conv_0, Conv_9"), ("gone", "")],
)
def test_an_unknown_name_is_reported_with_what_it_may_be(asked: str, said: str) -> None:
    placement = place(network([one("Sigmoid", "c0")]), "bayes-e", PlacementOptions(run_on_cpu=frozenset({asked})))
    (refusal,) = placement.refusals
    assert (refusal.node, refusal.reason) == (asked, f"the optimised model has no such node{said}")


def test_int16_falls_back_to_int8_where_a_neighbour_lacks_it() -> None:
    options = PlacementOptions(node_info={"Middle": NodeTypes(input_type="int16", output_type="int16")})
    model = network([one("AveragePool", "c0", kernel_shape=[3, 3], pads=[1, 1, 1, 1])])
    placement = place(model, "bayes-e", options)
    assert {refusal.node for refusal in placement.refusals} == {"Middle"}
    assert qtype(calibrated(placement)["c0"]) == "int8"


@pytest.mark.parametrize(("op_type", "refused"), [("Softmax", True), ("Sigmoid", False)])
def test_an_output_of_a_cpu_node_stays_in_float(op_type: str, refused: bool) -> None:
    attributes = {"axis": 1} if op_type == "Softmax" else {}
    model = network([one(op_type, "c0", **attributes)], tail=False)
    (found,) = place(model, "bayes-e", PlacementOptions(output_type="int8")).refusals or (None,)
    assert (found is not None) is refused
    if found is not None:
        assert (found.node, found.request) == ("Middle", "set_model_output_int8")


@pytest.mark.parametrize(
    ("types", "request_", "reason"),
    [
        (NodeTypes(on="CPU", input_type="int16"), "int16", "it runs on the CPU: run_on_cpu is set"),
        (NodeTypes(input_types={3: "int16"}), "InputType3: int16", "its quantised inputs are 0; weights are int8"),
    ],
)
def test_types_that_nothing_can_take_are_reported(types: NodeTypes, request_: str, reason: str) -> None:
    placement = place(network([one("Sigmoid", "c0")]), "bayes-e", PlacementOptions(node_info={"Middle": types}))
    (refusal,) = placement.refusals
    assert (refusal.node, refusal.request, refusal.reason) == ("Middle", request_, reason)
    assert "int16" not in {qtype(calibration) for calibration in calibrated(placement).values()}


def test_int16_is_granted_and_refused_by_march() -> None:
    options = PlacementOptions(node_info={"Middle": NodeTypes(input_type="int16", output_type="int16")})
    placement = place(network([one("Sigmoid", "c0")]), "bayes-e", options)
    assert placement.refusals == ()
    assert qtype(calibrated(placement)["c0"]) == "int16"
    with pytest.raises(ConfigError, match="int16"):
        place(network([one("Sigmoid", "c0")]), "bernoulli2", options)


def test_the_model_that_is_placed_is_not_changed() -> None:
    model = network([one("Relu", "c0")])
    before = [(node.op_type, dict(node.metadata_props)) for node in model.graph]
    place(model, "bayes-e", PlacementOptions())
    assert [(node.op_type, dict(node.metadata_props)) for node in model.graph] == before


def test_a_weight_of_two_convolutions_is_calibrated_once() -> None:
    """Names stay unique: also where a sum reads the same constant, whose calibration is of another kind."""
    shared = helper.make_node("Conv", ["c0", "w0"], ["s"], name="shared")
    model = network([shared, one("Add", "s", "w0")])
    model.graph.initializers["w0"].const_value = ir.tensor(np.ones((4, 4, 1, 1), np.float32), name="w0")
    placement = place(model, "bayes")
    names = [value.name for node in placement.model.graph for value in node.outputs]
    assert len(set(names)) == len(names)
    weights = {node.inputs[1] for node in placement.model.graph if node.op_type == "Conv" and node.name != "Conv_9"}
    assert [value.name for value in weights] == ["w0_calibrated"]


def devices(model: ir.Model, march: str = "bayes-e", options: PlacementOptions | None = None) -> dict[str, str]:
    placed = place(model, march, options or PlacementOptions()).model
    return {str(node.name): node.metadata_props[MARK_ON] for node in placed.graph if MARK_ON in node.metadata_props}


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


def test_channels_are_padded_on_the_cpu_of_bernoulli2() -> None:
    constants = {"pads": np.array([0, 1, 0, 0, 0, 0, 0, 0]), "first": np.array([0, 1, 2, 3])}
    middle = [helper.make_node("Pad", ["c0", "pads"], ["p"], name="Pad"), one("Gather", "p", "first", axis=1)]
    assert devices(network(middle, constants=constants), "bernoulli2")["Pad"] == "CPU"
    assert devices(network(middle, constants=constants))["Pad"] == "BPU"


def test_clip_from_zero_is_the_activation_of_its_convolution() -> None:
    constants = {"low": np.float32(0), "high": np.float32(255)}
    placed = place(
        network([one("Clip", "c0", "low", "high")], constants=constants), "bayes-e", PlacementOptions()
    ).model
    names = [[node.name for node in chain] for chain in chains(placed, load_march("bayes-e"))]
    assert names == [["Conv_0", "Middle"], ["Conv_9"]]


def test_mean_over_the_map_is_its_int32_sum_at_the_end() -> None:
    middle = [helper.make_node("Sigmoid", ["c0"], ["s"], name="Sigmoid"), one("GlobalAveragePool", "s")]
    model = network(middle, tail=False)
    model.graph.outputs[0].shape = ir.Shape((1, 4, 1, 1))
    placed = place(model, "bayes-e", PlacementOptions())
    assert "m" not in calibrated(placed)
    found = quantize(apply_thresholds(placed.model, None), "bayes-e")
    (pool,) = (node for node in found.graph if node.name == "Middle")
    assert pool.attributes["output_bit"].as_int() == 32
    assert pool.outputs[0].dtype == ir.DataType.INT32


def test_reshape_of_an_output_of_int16_stays_on_the_bpu() -> None:
    model = network([one("Reshape", "c0", "shape")], tail=False, constants={"shape": np.array([1, -1])})
    assert devices(model)["Middle"] == "CPU"
    assert devices(model, options=PlacementOptions(output_type="int16"))["Middle"] == "BPU"


def test_sigmoid_behind_a_transposed_convolution_is_int16_at_the_end() -> None:
    middle = [helper.make_node("ConvTranspose", ["c0", "k"], ["t"], name="Up"), one("Sigmoid", "t")]
    model = network(middle, tail=False, constants={"k": np.ones((4, 4, 1, 1), np.float32)})
    placed = place(model, "bayes-e", PlacementOptions())
    assert qtype(calibrated(placed)["t"]) == "int16"
    found = quantize(apply_thresholds(placed.model, None), "bayes-e")
    names = [node.name for node in found.graph]
    up = names.index("Up")
    assert found.graph[up].outputs[0].dtype == ir.DataType.INT8
    assert names[up + 1 : up + 3] == ["t_Requantize", "Middle"]


def test_transposed_convolution_that_is_asked_for_int16_has_none() -> None:
    middle = [helper.make_node("ConvTranspose", ["c0", "k"], ["t"], name="Up"), one("Tanh", "t")]
    model = network(middle, constants={"k": np.ones((4, 4, 1, 1), np.float32)})
    options = PlacementOptions(node_info={"Up": NodeTypes(output_type="int16")})
    placed = place(model, "bayes-e", options)
    assert qtype(calibrated(placed)["t"]) == "int8"
    assert [refusal.node for refusal in placed.refusals] == ["Up"]
