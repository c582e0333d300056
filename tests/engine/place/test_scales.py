"""Whose threshold a tensor takes around operators that cannot rescale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.calibrate import calibration_tensors
from engine.chips import load_chip
from engine.graph.scales import Gate, Gated, Margin, scale_source
from engine.ir import calibration_nodes
from engine.place import NodeTypes, PlacementOptions, place
from engine.place.scales import mark_scales
from engine.rulebook.scale import SOFTMAX_MARGIN
from tests.engine.place.networks import calibrated, network, one

CHANNELS, SIZE = 4, 8
ENLARGED = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
BOUNDS = {"low": np.array([0, 0]), "high": np.array([1, 2])}
SCALES = {"roi": np.empty(0, np.float32), "up": np.asarray([1, 1, 2, 2], np.float32)}


def convolution(source: str, target: str, channels: int = CHANNELS) -> tuple[onnx.NodeProto, onnx.TensorProto]:
    weight = np.random.default_rng(channels).normal(size=(CHANNELS, channels, 1, 1)).astype(np.float32)
    node = helper.make_node("Conv", [source, f"{target}_w"], [target], name=f"conv_{target}")
    return node, numpy_helper.from_array(weight, f"{target}_w")


def node(op_type: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), outputs.split(), name=outputs, **attributes)


def ties(
    middle: Sequence[onnx.NodeProto | tuple[str, str, int]],
    results: Sequence[str],
    constants: Mapping[str, np.ndarray] | None = None,
    march: str = "bayes-e",
) -> dict[str, str | None]:
    """What each calibrated tensor is tied to: ``a`` and ``b`` are Relus of convolutions, then comes ``middle``.

    Args:
        middle: nodes, or convolutions as source, target and input channels.
        results: outputs, on the CPU or int32.
        constants: initializers.
        march: the BPU.
    """
    nodes: list[onnx.NodeProto] = []
    weights = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    first: list[onnx.NodeProto | tuple[str, str, int]] = []
    for name in "ab":
        first += [("x", f"{name}0", CHANNELS), node("Relu", f"{name}0", name)]
    for item in (*first, *middle):
        if isinstance(item, tuple):
            made, weight = convolution(*item)
            nodes.append(made)
            weights.append(weight)
        else:
            nodes.append(item)
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, CHANNELS, SIZE, SIZE))
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
    graph = helper.make_graph(nodes, "g", [source], outputs, weights)
    proto = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)]), strict_mode=True
    )
    placed = place(ir.from_proto(proto), march).model
    return {
        str(found.inputs[0].name): scale_source(found).of
        for found in calibration_nodes(placed)
        if "axis" not in found.attributes and found.inputs[0] is not None
    }


@pytest.mark.parametrize("also", ["Conv", "Add"])
def test_an_operand_of_concat_that_is_computed_with_keeps_its_own(also: str) -> None:
    other = ("a", "d", CHANNELS) if also == "Conv" else node("Add", "a a", "d")
    found = ties([node("Concat", "a b", "c", axis=1), ("c", "y", 8), other, ("d", "z", CHANNELS)], ["y", "z"])
    assert (found["a"], found["b"]) == (None, "c")


def test_outputs_of_a_split_keep_that_of_the_split_where_one_is_computed_with() -> None:
    split = node("Split", "a", "p q", axis=1, split=[2, 2])
    found = ties([split, node("Concat", "p q b", "c", axis=1), ("c", "y", 8), ("q", "z", 2)], ["y", "z"])
    assert (found["p"], found["q"], found["a"], found["b"]) == ("a", "a", None, "c")


def test_a_concat_reaches_back_through_what_only_moves() -> None:
    split = node("Split", "a", "p q", axis=1, split=[2, 2])
    found = ties([split, node("Concat", "p q b", "c", axis=1), ("c", "y", 8)], ["y"])
    assert {found[name] for name in "apqb"} == {"c"}


def test_of_two_concats_around_a_resize_the_last_one_decides() -> None:
    enlarged = node("Resize", "a roi up", "r", **ENLARGED)
    found = ties(
        [
            enlarged,
            ("r", "e", CHANNELS),
            node("Relu", "e", "f"),
            node("Concat", "r f", "c", axis=1),
            ("c", "y", 8),
            node("Concat", "b a", "d", axis=1),
            ("d", "z", 8),
        ],
        ["y", "z"],
        SCALES,
    )
    assert (found["a"], found["r"], found["f"]) == ("r", None, "c")  # the convolution of "r" forbids both
    found = ties(
        [
            enlarged,
            node("Concat", "r r", "c", axis=1),
            ("c", "y", 8),
            node("Concat", "b a", "d", axis=1),
            ("d", "z", 8),
        ],
        ["y", "z"],
        SCALES,
    )
    assert (found["a"], found["r"], found["b"], found["c"]) == ("d", "d", "d", None)


@pytest.mark.parametrize(
    "moved",
    [
        node("Resize", "a roi up", "r", **ENLARGED),
        node("Pad", "a widths", "r"),
        node("Pad", "a widths", "r", mode="reflect"),  # on the CPU
    ],
)
def test_what_is_resized_or_padded_follows_unless_something_computes_with_it(moved: onnx.NodeProto) -> None:
    """The necks of fpn_ssd, the Pads of blazeface, darknet and style."""
    constants = {**SCALES, "widths": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
    used = {name: constants[name] for name in moved.input[1:]}
    alone = ties([moved, ("r", "y", CHANNELS)], ["y"], used)
    assert (alone["a"], alone["r"]) == ("r", None)
    both = ties([moved, ("r", "y", CHANNELS), ("a", "z", CHANNELS)], ["y", "z"], used)
    assert (both["a"], both["r"]) == (None, "a")


def test_a_pad_behind_a_pool_takes_that_of_the_head_where_something_computes_with_that() -> None:
    """The channels of blazeface."""
    pool, pad = node("MaxPool", "a", "m", kernel_shape=[1, 1]), node("Pad", "m widths", "r")
    widths = {"widths": np.array([0, 0, 0, 0, 0, 4, 0, 0])}
    found = ties([pool, pad, ("r", "y", 8), ("a", "z", CHANNELS)], ["y", "z"], widths)
    assert (found["r"], found["a"]) == ("a", None)


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
    assert scale_source(nodes[tied]).of == to
    assert scale_source(nodes[to]).of is None


def test_sigmoid_has_fixed_thresholds() -> None:
    nodes = calibrated(place(network([one("Sigmoid", "c0")]), "bayes-e", PlacementOptions()))
    assert scale_source(nodes["c0"]).fixed == pytest.approx(5.498970)
    assert scale_source(nodes["m"]).fixed == pytest.approx(0.995926)


def test_marks_are_set_anew_the_same() -> None:
    placed = place(network([one("Sigmoid", "c0")]), "bayes-e", PlacementOptions()).model
    before = {node.name: dict(node.metadata_props) for node in calibration_nodes(placed)}
    mark_scales(placed, load_chip("bayes-e"))
    assert {node.name: dict(node.metadata_props) for node in calibration_nodes(placed)} == before


def test_a_fixed_threshold_reaches_what_only_moves_its_tensor() -> None:
    """The pool's output follows the Sigmoid's, whose range is fixed."""
    sigmoid = helper.make_node("Sigmoid", ["c0"], ["s"], name="S")
    nodes = calibrated(place(network([sigmoid, one("MaxPool", "s", kernel_shape=[1, 1])]), "bayes-e"))
    assert scale_source(nodes["m"]).of == "s"
    assert scale_source(nodes["m"]).fixed == scale_source(nodes["s"]).fixed


def test_an_input_that_others_read_too_is_not_fixed() -> None:
    sigmoid = helper.make_node("Sigmoid", ["c0"], ["s"], name="S")
    nodes = calibrated(place(network([sigmoid, one("Mul", "c0", "s")]), "bayes-e"))
    assert scale_source(nodes["c0"]).fixed is None
    assert scale_source(nodes["s"]).gated == Gated("c0", (Gate.SIGMOID,))


def test_gates_behind_gates_follow_from_what_the_first_reads() -> None:
    """Where pooling stands between, the threshold of what the second one reads is not fixed."""
    nodes = [
        helper.make_node("Sigmoid", ["c0"], ["s"], name="S"),
        helper.make_node("MaxPool", ["s"], ["p"], name="P", kernel_shape=[1, 1]),
        helper.make_node("HardSigmoid", ["p"], ["h"], name="H"),
        helper.make_node("Add", ["c0", "h"], ["m"], name="Middle"),
    ]
    found = calibrated(place(network(nodes), "bayes-e"))
    assert "p" not in found
    assert scale_source(found["h"]).gated == Gated("c0", (Gate.SIGMOID, Gate.HARD_SIGMOID))


def test_a_gate_that_alone_reads_has_thresholds_that_are_fixed() -> None:
    """SIGMOID_OUTPUT of reference/arithmetic.md 2.1."""
    sigmoid = helper.make_node("Sigmoid", ["c0"], ["s"], name="S")
    found = calibrated(place(network([sigmoid, one("Neg", "s")]), "bayes-e"))
    assert (scale_source(found["c0"]).fixed, scale_source(found["s"]).fixed) == (5.498970, 0.9959256649017334)


def test_a_reshape_that_goes_to_the_cpu_late_has_one_threshold_with_its_input() -> None:
    """As two of yolo11 on bernoulli2."""
    middle = [node("Reshape", "a four", "r"), ("r", "c", CHANNELS)]
    found = ties(middle, ["c"], {"four": np.array([1, CHANNELS, 4, 16])}, march="bernoulli2")
    assert (found["a"], found["r"]) == ("r", None)


def test_a_relu_that_no_convolution_absorbs_keeps_the_threshold_of_its_input() -> None:
    """Golden conversions ``i16_conv1`` and ``i16_res``; as an operand of a Concat it keeps it (118 of 118 asked)."""
    moved = ties(
        [node("Add", "a b", "s"), node("Relu", "s", "r"), node("Slice", "r low high", "m"), ("m", "y", 2)],
        ["y"],
        BOUNDS,
    )
    assert (moved["s"], moved["r"], moved["m"]) == (None, "s", "s")
    read = ties([node("Add", "a b", "s"), node("Relu", "s", "r"), ("r", "y", CHANNELS)], ["y"])
    assert (read["s"], read["r"]) == (None, "s")
    joined = ties(
        [node("Add", "a b", "s"), node("Relu", "s", "r"), node("Concat", "r a", "c", axis=1), ("c", "y", 8)], ["y"]
    )
    assert (joined["s"], joined["r"]) == (None, "s")


@pytest.mark.parametrize(
    ("moves", "moved"),
    [
        ([node("Reshape", "a windows", "r")], "r"),  # as of swin
        ([node("MaxPool", "a", "p", kernel_shape=[1, 1]), node("Transpose", "p", "r", perm=[2, 1, 0, 3])], "r"),
        ([node("MaxPool", "a", "r", kernel_shape=[1, 1])], None),
        ([node("Reshape", "a windows", "r"), node("Exp", "a", "e")], None),  # something else reads it too
    ],
)
def test_a_threshold_is_measured_on_what_is_first_wanted_behind_movements(
    moves: list[onnx.NodeProto], moved: str | None
) -> None:
    """Which percentiles tell from the first: ``swin``, ``crnn_gru``."""
    nodes = [
        node("Conv", "x w", "a0", kernel_shape=[1, 1]),
        node("Relu", "a0", "a"),
        *moves,
        node("Add", "r r", "y"),
    ]
    results = ["y", *(["e"] if any(item.op_type == "Exp" for item in moves) else [])]
    constants = {"w": np.ones((4, 4, 1, 1), np.float32), "windows": np.array([4, 1, 8, 8])}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 8, 8))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    proto = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)]), strict_mode=True
    )
    placed = place(ir.from_proto(proto), "bayes-e").model
    found = {str(item.inputs[0].name): scale_source(item) for item in calibration_nodes(placed) if item.inputs[0]}
    assert (found["a"].of, found["r"].of) == (moved, None if moved else "a")
    assert (moved or "a") in calibration_tensors(placed)


def test_gathered_windows_share_the_threshold_of_the_first() -> None:
    """Queries, keys and values of swin: Gathers of rank 5 run on the CPU."""
    constants = {
        "five": np.array([2, 2, 4, 4, 4]),
        "q": np.array([0]),
        "k": np.array([1]),
        "four": np.array([1, 4, 4, 4]),
    }
    middle = [
        node("Reshape", "a five", "w"),
        *(node("Gather", f"w {name}", f"g{name}", axis=0) for name in ("q", "k")),
        *(node("Reshape", f"g{name} four", f"r{name}") for name in ("q", "k")),
        *(node("Exp", f"r{name}", f"e{name}") for name in ("q", "k")),
    ]
    found = ties(middle, ["eq", "ek"], constants)
    assert {found[name] for name in ("a", "rk")} == {"rq"}
    assert found["rq"] is None
    assert not {"w", "gq", "gk"} & found.keys()


SLICED = {"low": np.array([0]), "middle": np.array([2]), "high": np.array([4]), "channels": np.array([1])}


def sliced(source: str, first: str, second: str) -> list[onnx.NodeProto]:
    return [
        node("Slice", f"{source} low middle channels", first),
        node("Slice", f"{source} middle high channels", second),
    ]


@pytest.mark.parametrize("march", ["bayes-e", "bernoulli2"])
def test_what_is_sliced_takes_the_threshold_of_the_first_slice_that_is_computed_with(march: str) -> None:
    """``tests/parity/recorded/moved``: in the order of the graph, whichever is read first."""
    found = ties([*sliced("a", "p", "q"), ("q", "z", 2), ("p", "y", 2)], ["y", "z"], SLICED, march)
    assert (found["a"], found["p"], found["q"]) == ("p", None, "p")


def test_a_slice_that_is_moved_on_is_later_than_one_that_is_not() -> None:
    turned = node("Transpose", "p", "t", perm=[0, 1, 3, 2])
    found = ties([*sliced("a", "p", "q"), turned, ("t", "y", 2), ("q", "z", 2)], ["y", "z"], SLICED)
    assert (found["a"], found["t"], found["q"]) == ("q", "q", None)


def test_what_is_sliced_and_computed_with_has_its_own() -> None:
    found = ties([*sliced("a", "p", "q"), ("p", "y", 2), ("q", "w", 2), ("a", "z", CHANNELS)], ["y", "w", "z"], SLICED)
    assert (found["a"], found["p"], found["q"]) == (None, "a", "a")


def test_a_relu_behind_a_later_slice_keeps_what_that_would_have() -> None:
    """Queries and keys of linear and separable attention: the slice takes the threshold of the first, the Relu not."""
    middle = [*sliced("a", "p", "q"), ("p", "y", 2), node("Relu", "q", "r"), node("Mul", "r r", "z")]
    found = ties(middle, ["y", "z"], SLICED)
    assert (found["a"], found["p"], found["q"], found["r"]) == ("p", None, "p", "q")


def test_a_slice_in_front_of_a_sigmoid_keeps_the_threshold_that_is_fixed() -> None:
    middle = [*sliced("a", "p", "q"), ("p", "y", 2), node("Sigmoid", "q", "z")]
    assert (found := ties(middle, ["y", "z"], SLICED))["a"] == "p"
    assert found["q"] is None
    first = ties([*sliced("a", "p", "q"), node("Sigmoid", "p", "z"), ("q", "y", 2)], ["y", "z"], SLICED)
    assert (first["a"], first["p"], first["q"]) == ("p", None, "p")


def test_a_slice_that_is_joined_leads_with_the_joint_threshold() -> None:
    join = [node("Concat", "p b", "c", axis=1), ("c", "z", 6)]
    found = ties([*sliced("a", "p", "q"), *join, ("q", "y", 2)], ["y", "z"], SLICED)
    assert {found[name] for name in "apqb"} == {"c"}


@pytest.mark.parametrize("movement", ["Slice", "Pad", "Resize", "Transpose"])
def test_what_only_movements_read_has_the_function_of_the_threshold_before_it(movement: str) -> None:
    """A HardSwish, Softplus or Gelu of large negative numbers shows it; an Elu is measured."""
    moves = {
        "Slice": sliced("f", "p", "q")[0],
        "Pad": node("Pad", "f widths", "p"),
        "Resize": node("Resize", "f roi up", "p", **ENLARGED),
        "Transpose": node("Transpose", "f", "p", perm=[0, 1, 3, 2]),
    }
    names = dict.fromkeys(moves[movement].input[1:])
    constants = {**SLICED, **SCALES, "widths": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
    channels = 2 if movement == "Slice" else CHANNELS
    for function, expected in (("Softplus", None), ("Elu", "p")):
        middle = [("a", "c", CHANNELS), node(function, "c", "f"), moves[movement], ("p", "y", channels)]
        found = ties(middle, ["y"], {name: constants[name] for name in names})
        assert (found["f"], found["p"]) == (expected, None if expected else "f")


@pytest.mark.parametrize("asked", [True, False])
def test_operands_of_an_int16_concat_keep_their_thresholds_where_int16_is_asked_of_them(asked: bool) -> None:
    """As ``onnx::Concat_455`` and ``onnx::Concat_446`` of ``yolov8_nhwc``."""
    nodes = [
        helper.make_node("Selu", ["c0"], ["a"], name="A"),
        helper.make_node("Elu", ["c0"], ["b"], name="B"),
        helper.make_node("Concat", ["a", "b"], ["joined"], name="Join", axis=2),
        helper.make_node("Softplus", ["joined"], ["m"], name="Middle"),
    ]
    wide = NodeTypes(output_type="int16")
    options = PlacementOptions(node_info={"A": wide, "B": wide} if asked else {"Middle": wide})
    found = calibrated(place(network(nodes), "bayes-e", options))
    assert {str(found[name].attributes["qtype"].as_string()) for name in ("a", "b", "joined")} == {"int16"}
    assert [scale_source(found[name]).of for name in ("a", "b")] == [None if asked else "joined"] * 2


def test_an_int16_output_that_joins_takes_the_largest_threshold_of_its_operands() -> None:
    """As ``153`` of ``fpn_retina_gn``; for a Sigmoid, whose own follows from what it reads, its values count."""
    nodes = [
        helper.make_node("Elu", ["c0"], ["a"], name="A"),
        helper.make_node("Sigmoid", ["c0"], ["b"], name="B"),
        helper.make_node("Concat", ["a", "b"], ["m"], name="Middle", axis=2),
    ]
    found = calibrated(place(network(nodes, tail=False), "bayes-e", PlacementOptions(output_type="int16")))
    assert list(scale_source(found["m_before"]).largest or ()) == ["a", "b"]
    assert [name for name in ("a", "b") if scale_source(found[name]).of is not None] == []


@pytest.mark.parametrize(
    "movement",
    [
        node("Reshape", "t same", "moved"),
        node("Transpose", "t", "moved", perm=[0, 1, 3, 2]),
        node("Slice", "t low high", "moved"),
    ],
    ids=lambda item: str(item.op_type),
)
def test_an_int16_output_that_joins_what_the_cpu_computes_takes_the_threshold_that_it_is_quantised_with(
    movement: onnx.NodeProto,
) -> None:
    nodes = [
        helper.make_node("Tanh", ["c0"], ["t"], name="T"),
        movement,
        helper.make_node("Sigmoid", ["c0"], ["b"], name="B"),
        helper.make_node("Concat", ["moved", "b"], ["m"], name="Middle", axis=2),
    ]
    constants = {"same": np.array([1, 4, 8, 8]), "low": np.array([0]), "high": np.array([1])}
    options = PlacementOptions(output_type="int16", node_info={"T": NodeTypes(on="CPU")})
    found = calibrated(place(network(nodes, tail=False, constants=constants), "bayes-e", options))
    assert "t" not in found
    assert (scale_source(found["m_before"]).largest or ("",))[0] == "moved"


@pytest.mark.parametrize(("reader", "margin"), [("Softmax", SOFTMAX_MARGIN), ("Neg", None)])
def test_what_a_softmax_on_the_cpu_reads_in_int16_has_a_margin(reader: str, margin: Margin | None) -> None:
    nodes = [helper.make_node("Elu", ["c0"], ["a"], name="A"), one(reader, "a")]
    found = calibrated(place(network(nodes, tail=False), "bayes-e"))
    assert scale_source(found["a"]).margin == margin


def test_what_shares_the_threshold_of_a_tensor_with_a_margin_has_no_margin() -> None:
    nodes = [
        helper.make_node("Elu", ["c0"], ["a"], name="A"),
        helper.make_node("Elu", ["c0"], ["b"], name="B"),
        helper.make_node("Concat", ["a", "b"], ["j"], name="J", axis=2),
        one("Softmax", "j"),
    ]
    found = calibrated(place(network(nodes, tail=False), "bayes-e"))
    assert [scale_source(found[name]).of for name in "abj"] == ["j", "j", None]
    assert [scale_source(found[name]).margin for name in "abj"] == [None, None, SOFTMAX_MARGIN]


def test_what_a_softmax_reads_behind_a_reshape_has_no_margin() -> None:
    nodes = [
        helper.make_node("Elu", ["c0"], ["a"], name="A"),
        helper.make_node("Reshape", ["a", "flat"], ["b"], name="B"),
        helper.make_node("Softmax", ["b"], ["m"], name="Middle", axis=1),
    ]
    found = calibrated(place(network(nodes, tail=False, constants={"flat": np.array([1, 256])}), "bayes-e"))
    assert [name for name, item in found.items() if scale_source(item).margin] == []


@pytest.mark.parametrize("march", ["bayes-e", "bernoulli2"])
def test_a_comparison_as_numbers_has_the_threshold_127_on_both_devices(march: str) -> None:
    """As ``onnx::Mul_97`` of ``centernet``: the peaks of a map."""
    nodes = [
        helper.make_node("Sigmoid", ["c0"], ["s"], name="S"),
        helper.make_node("MaxPool", ["s"], ["p"], name="P", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Equal", ["p", "s"], ["e"], name="E"),
        helper.make_node("Cast", ["e"], ["k"], name="K", to=TensorProto.FLOAT),
        one("Mul", "s", "k"),
    ]
    found = calibrated(place(network(nodes, tail=False), march))
    assert scale_source(found["k"]).fixed == 127.0
