"""Where calibration nodes stand."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.chips import load_chip
from engine.graph.scales import scale_source
from engine.place import PlacementOptions, place
from engine.place.calibration import insert_calibration
from tests.engine.place.networks import calibrated, marks, network, one, qtype


def test_last_convolution_stays_in_int32() -> None:
    placement = place(network([one("Relu", "c0")]), "bayes-e", PlacementOptions())
    assert "y" not in calibrated(placement)


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


def test_dilated_convolution_has_no_int32_output() -> None:
    """Measured on ``dilx4``: its tail is int8, and on bernoulli2 keeps its Relu."""
    dilated = helper.make_node("Conv", ["c0", "wd"], ["d"], name="Dilated", dilations=[2, 2], pads=[2, 2, 2, 2])
    constants = {"wd": np.ones((4, 4, 3, 3), np.float32)}
    for march in ("bayes-e", "bernoulli2"):
        placement = place(network([dilated, one("Relu", "d")], tail=False, constants=constants), march)
        assert marks(placement, "Middle")[0] == "BPU"
        assert qtype(calibrated(placement)["m_before"]) == "int8"


@pytest.mark.parametrize(("march", "width"), [("bayes-e", "int16"), ("bernoulli2", "int8")])
def test_a_clip_that_only_the_cpu_reads_is_as_wide_as_the_march_has(march: str, width: str) -> None:
    nodes = [helper.make_node("Clip", ["c0", "low"], ["k"], name="Clip"), one("Neg", "k")]
    placement = place(network(nodes, tail=False, constants={"low": np.float32(0.5)}), march)
    assert qtype(calibrated(placement)["k"]) == width


@pytest.mark.parametrize(("last", "kept"), [("Transpose", {"x", "c0", "m"}), ("MaxPool", {"x", "c0", "a", "m"})])
def test_between_movements_no_tensor_is_calibrated(last: str, kept: set[str]) -> None:
    """As the windows of ``swin``; in front of a MaxPool one is (``Pad`` of ``blazeface``)."""
    first = helper.make_node("Transpose", ["c0"], ["a"], name="First", perm=[0, 1, 3, 2])
    attributes = {"perm": [0, 1, 3, 2]} if last == "Transpose" else {"kernel_shape": [1, 1]}
    second = helper.make_node(last, ["a"], ["m"], name="Middle", **attributes)
    placement = place(network([first, second]), "bayes-e", PlacementOptions())
    assert {name for name in calibrated(placement) if not name.startswith("w")} == kept


@pytest.mark.parametrize(
    ("reader", "second", "kept"),
    [("Transpose", "Sub", set()), ("Relu", "Sub", {"a"}), ("Relu", "Mul", {"a"}), ("Relu", "Add", {"a", "b"})],
)
def test_products_and_movements_read_results_of_a_split_as_they_are(reader: str, second: str, kept: set[str]) -> None:
    """Queries, keys and values of YOLO11; a Relu or a sum reads them calibrated."""
    moved = helper.make_node("Transpose", ["a"], ["t"], name="First", perm=[0, 1, 3, 2])
    nodes = [
        helper.make_node("Split", ["c0"], ["a", "b"], name="Split", axis=1),
        moved if reader == "Transpose" else helper.make_node("Relu", ["a"], ["t"], name="First"),
        helper.make_node(second, ["t", "b"], ["s"], name="Second"),
        helper.make_node("Concat", ["s", "s"], ["m"], name="Middle", axis=1),
    ]
    found = calibrated(place(network(nodes), "bayes-e", PlacementOptions()))
    assert {"x", "c0", "t", "s"} <= found.keys()
    assert found.keys() & {"a", "b"} == kept


def test_what_is_gathered_on_bernoulli2_is_quantised_all_the_same() -> None:
    """The class token of ``vit_timm``."""
    gather = helper.make_node("Gather", ["r", "which"], ["m"], name="Middle", axis=1)
    nodes = [helper.make_node("Relu", ["c0"], ["r"], name="Relu"), gather]
    placement = place(network(nodes, constants={"which": np.arange(4)}), "bernoulli2", PlacementOptions())
    assert marks(placement, "Middle") == ("CPU", "bernoulli2 has no operator for Gather")
    assert marks(placement, "Relu")[0] == "BPU"
    assert "r" in calibrated(placement)


@pytest.mark.parametrize("march", ["bayes-e", "bernoulli2"])
def test_what_the_cpu_computes_is_calibrated_behind_the_slices_that_read_it(march: str) -> None:
    """As in front of the Slices of ``swin_b`` and the Transposes of ``sknet``; each has its own threshold."""
    bounds = {"low": np.array([0]), "mid": np.array([2]), "high": np.array([4]), "axis": np.array([1])}
    nodes = [
        helper.make_node("Neg", ["c0"], ["n"], name="Neg"),
        helper.make_node("Slice", ["n", "low", "mid", "axis"], ["a"], name="A"),
        helper.make_node("Slice", ["n", "mid", "high", "axis"], ["b"], name="B"),
        helper.make_node("Elu", ["a"], ["d"], name="D"),
        helper.make_node("Tanh", ["b"], ["e"], name="E"),
        helper.make_node("Concat", ["d", "e"], ["m"], name="Middle", axis=1),
    ]
    placement = place(network(nodes, constants=bounds), march)
    found = calibrated(placement)
    assert {"a", "b"} <= found.keys()
    assert "n" not in found
    assert [scale_source(found[name]).of for name in "ab"] == [None, None]


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


def test_what_the_bpu_computes_is_read_in_that_precision_by_the_cpu_too() -> None:
    """The calibration follows the producer, and the CPU reads its result."""
    middle = [
        helper.make_node("Hardmax", ["c0"], ["h"], name="Float"),
        helper.make_node("Tanh", ["c0"], ["t"], name="T"),
    ]
    placement = place(network([*middle, one("Mul", "t", "h")]), "bayes-e")
    names = [str(node.name) for node in placement.model.graph]
    assert names.index("c0_HzCalibration") == names.index("Conv_0") + 1
    (reader,) = (node for node in placement.model.graph if node.name == "Float")
    assert [value.name for value in reader.inputs if value] == ["c0_calibrated"]


def test_cpu_nodes_read_the_calibrated_tensor_of_another_cpu_node() -> None:
    """As all readers do in the recorded calibrated models (residual sums of ``vit_timm_b``)."""
    middle = [
        helper.make_node("Hardmax", ["c0"], ["h"], name="Before"),
        helper.make_node("Tanh", ["h"], ["t"], name="T"),
        helper.make_node("Hardmax", ["h"], ["g"], name="Float"),
    ]
    placement = place(network([*middle, one("Mul", "t", "g")]), "bayes-e")
    (reader,) = (node for node in placement.model.graph if node.name == "Float")
    assert [value.name for value in reader.inputs if value] == ["h_calibrated"]


def test_an_output_keeps_its_name_behind_its_calibration() -> None:
    placement = place(network([one("Sigmoid", "c0")], tail=False), "bayes-e")
    nodes = calibrated(placement)
    assert "m_before" in nodes
    assert [value.name for value in placement.model.graph.outputs] == ["m"]
    assert nodes["m_before"].outputs[0].name == "m"


@pytest.mark.parametrize("output_type", ["int8", "int16"])
def test_what_is_moved_from_what_the_cpu_computes_stays_on_the_cpu_behind_the_type_that_is_asked(
    output_type: str,
) -> None:
    """Behind 8 operators of the CPU and three movements each, with both options (``typed_ends``)."""
    nodes = [helper.make_node("Neg", ["c0"], ["s"], name="Neg"), one("Transpose", "s", perm=[0, 1, 3, 2])]
    placement = place(network(nodes, tail=False), "bayes-e", PlacementOptions(output_type=output_type))
    assert {name: qtype(node) for name, node in calibrated(placement).items() if name != "x"} == {"c0": output_type}


def test_an_output_that_is_moved_from_what_is_calibrated_is_not_calibrated_again() -> None:
    """As the class scores of ``efficientnet_c``, int16 and reshaped."""
    nodes = [helper.make_node("Sigmoid", ["c0"], ["s"], name="Sigmoid"), one("Transpose", "s", perm=[0, 1, 3, 2])]
    placement = place(network(nodes, tail=False), "bayes-e", PlacementOptions(output_type="int16"))
    assert qtype(calibrated(placement)["s"]) == "int16"
    assert [value.name for value in placement.model.graph.outputs] == ["m"]
    assert "m_before" not in calibrated(placement)


@pytest.mark.parametrize(("reader", "again"), [("Conv", True), ("Erf", False)])
def test_a_convolution_on_the_cpu_reads_what_is_moved_in_calibrated_form(reader: str, again: bool) -> None:
    moved = helper.make_node("Transpose", ["c0"], ["t"], name="Move", perm=[0, 1, 3, 2])
    read = helper.make_node(reader, ["t", "w0"] if reader == "Conv" else ["t"], ["r"], name="Read")
    nodes = [moved, read, helper.make_node("Sigmoid", ["c0"], ["s"], name="Beside"), one("Add", "r", "s")]
    found = calibrated(place(network(nodes), "bayes-e", PlacementOptions(run_on_cpu=("Read",))))
    assert ("t" in found) == again
    if again:
        assert scale_source(found["t"]).of == "c0"


@pytest.mark.parametrize(("values", "threshold"), [([1.0, -2.5], 2.5), ([0.0, 0.0], 1.0)])
def test_the_threshold_of_a_constant_operand_is_its_largest_magnitude(values: list[float], threshold: float) -> None:
    array = np.resize(np.array(values, np.float32), (1, 1, 8, 8))
    nodes = calibrated(place(network([one("Mul", "c0", "k")], constants={"k": array}), "bayes-e"))
    assert scale_source(nodes["k"]).fixed == threshold


def test_weights_are_int8_along_their_output_channels() -> None:
    placement = place(network([one("Relu", "c0")]), "bayes-e", PlacementOptions(output_type="int16"))
    weights = [node for node in placement.model.graph if node.name == "w0_HzCalibration"]
    (attributes,) = ({key: item.value for key, item in node.attributes.items()} for node in weights)
    assert attributes == {"quant_attrs": 139537, "switch": "ON", "qtype": "int8", "constant": 1, "group": 1, "axis": 0}


def test_calibrations_are_inserted_once() -> None:
    placed = place(network([one("Sigmoid", "c0")]), "bayes-e").model
    before = [node.name for node in placed.graph]
    insert_calibration(placed, load_chip("bayes-e"), {}, None)
    assert [node.name for node in placed.graph] == before
