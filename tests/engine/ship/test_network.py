"""The network that is shipped: standard operators, its thresholds as a pair and calibrations, names as they were."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from engine.ir import before_calibration, calibration_nodes, constant_of, load_model, read_calibration
from engine.ship.network import carries_pair, network_of, not_carried, stated_threshold
from tests.engine.calibrate.models import graph
from tests.engine.ship.conftest import Shipped


def constant(node: ir.Node, index: int) -> NDArray[np.float32]:
    array = constant_of(node.inputs[index])
    assert array is not None
    return array


def with_thresholds(model: ir.Model, name: str, thresholds: list[float], **attributes: object) -> ir.Model:
    """A copy of ``model`` whose calibration of tensor ``name`` has other thresholds."""
    copy = model.clone()
    node = next(node for node in calibration_nodes(copy) if node.name == f"{name}_HzCalibration")
    node.attributes["thresholds"] = ir.AttrFloat32s("thresholds", thresholds)
    node.attributes["scales"] = ir.AttrFloat32s("scales", [each / 127 for each in thresholds])
    return copy


def test_the_file_is_valid_and_of_versions_that_the_toolchain_takes(shipped: Shipped) -> None:
    model = onnx.load(shipped.folder / "net.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert {each.domain: each.version for each in model.opset_import} == {"": 11, "horizon": 1}
    assert not model.metadata_props
    assert {node.op_type for node in model.graph.node if node.domain == "horizon"} == {"HzCalibration"}


def test_the_input_has_a_pair_and_other_tensors_their_calibration(shipped: Shipped) -> None:
    network = load_model(shipped.folder / "net.onnx")
    expected = {name: each.values[0] for name, each in shipped.record.thresholds.items()}
    assert expected.pop("image") == 127, "pixels as they are have no pair"
    (pair,) = [node for node in network.graph if node.op_type == "QuantizeLinear"]
    assert pair.inputs[0] is network.graph.inputs[0]
    assert float(constant(pair, 1)) * 127 == pytest.approx(expected.pop("HZ_PREPROCESS_FOR_image"), rel=1e-6)
    found = {
        str(before_calibration(node.outputs[0]).name): read_calibration(node) for node in calibration_nodes(network)
    }
    assert {name: each.thresholds[0] for name, each in found.items() if name in expected} == expected
    assert set(found) - set(expected) == {"w0", "w1"}, "weights keep theirs"


def test_documented_networks_have_pairs_alone(shipped: Shipped) -> None:
    network = network_of(shipped.shipment.calibrated, documented=True)
    assert not list(calibration_nodes(network))
    pairs = sum(node.op_type == "DequantizeLinear" for node in network.graph)
    assert pairs == len(shipped.record.thresholds) - 1
    assert "horizon" not in network.opset_imports


def inexact() -> float:
    """A float32 threshold that is 127 times no float32 scale."""
    candidates = (float(np.float32(1.99 + index * 2.0**-23)) for index in range(1000))
    return next(each for each in candidates if stated_threshold(each / 127) != each)


def test_all_is_carried_over_where_nothing_is_said(shipped: Shipped) -> None:
    assert shipped.record.not_carried == ()


def test_a_threshold_that_no_scale_states_is_said(shipped: Shipped) -> None:
    other = with_thresholds(shipped.shipment.calibrated, "HZ_PREPROCESS_FOR_image", [inexact()])
    (lost,) = not_carried(other, network_of(other))
    assert lost.what == "threshold of HZ_PREPROCESS_FOR_image"
    assert lost.cost.startswith(f"{inexact()!r} becomes ")


def test_documented_networks_say_which_weights_lose_their_thresholds(shipped: Shipped) -> None:
    calibrated = shipped.shipment.calibrated
    assert not_carried(calibrated, network_of(calibrated, documented=True)) == ()
    other = with_thresholds(calibrated, "w0", [0.5] * 8)
    (lost,) = not_carried(other, network_of(other, documented=True))
    assert (lost.what, lost.cost) == (
        "thresholds of weight w0",
        "8 of 8 channels are quantised by their largest magnitude",
    )
    assert not_carried(other, network_of(other)) == ()


def test_weights_take_over_what_distinguishes_the_channels_of_their_input(shipped: Shipped) -> None:
    calibrated = shipped.shipment.calibrated
    network = network_of(with_thresholds(calibrated, "r0", [*[2.0] * 4, *[1.0] * 4]))
    second = next(node for node in network.graph if node.name == "second")
    before = next(node for node in calibrated.graph if node.name == "second")
    weights = [
        constant_of(before_calibration(node.inputs[1])) for node in (before, second) if node.inputs[1] is not None
    ]
    factors = np.repeat(np.asarray([1, 0.5], np.float32), 4).reshape(1, 8, 1, 1)
    np.testing.assert_array_equal(weights[1], np.asarray(weights[0]) * factors)
    activation = next(node for node in calibration_nodes(network) if node.name == "r0_HzCalibration")
    assert list(activation.attributes["channel_scales"].as_floats()) == [*[1.0] * 4, *[2.0] * 4]


def test_a_network_needs_one_tensor_for_a_pair(shipped: Shipped) -> None:
    calibrated = shipped.shipment.calibrated.clone()
    assert carries_pair(calibrated)
    for node in calibration_nodes(calibrated):
        node.attributes["qtype"] = ir.AttrString("qtype", "int16")
    assert not carries_pair(calibrated)


@pytest.mark.parametrize(
    ("composite", "expected"),
    [
        ("HzHardSwish", ["HardSigmoid", "Mul"]),
        ("HzSwish", ["Sigmoid", "Mul"]),
        ("HzMish", ["Softplus", "Tanh", "Mul"]),
        ("HzGelu", ["Div", "Erf", "Add", "Mul", "Mul"]),
    ],
)
def test_composites_are_standard_operators_of_the_same_name(composite: str, expected: list[str]) -> None:
    model = graph([onnx.helper.make_node("Relu", ["x"], ["y"], "act")], {"x": (1, 3, 4, 4)}, ["y"])
    model.graph[0].op_type, model.graph[0].domain = composite, "horizon"
    network = network_of(model)
    assert [node.op_type for node in network.graph if node.op_type != "Constant"] == expected
    assert network.graph[-1].name == "act"
    assert network.graph.outputs[0].name == "y"


def test_a_resize_has_all_inputs_of_opset_11() -> None:
    """As a network exported at opset 13 has them: ``roi`` left out, and ``scales`` where there are sizes."""
    value = onnx.numpy_helper.from_array(np.array([1, 3, 8, 8]), "sizes")
    sizes = onnx.helper.make_node("Constant", [], ["sizes"], value=value)
    resize = onnx.helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], "up", mode="nearest")
    network = network_of(graph([sizes, resize], {"x": (1, 3, 4, 4)}, ["y"]))
    (node,) = [node for node in network.graph if node.op_type == "Resize"]
    assert [constant(node, index).shape for index in (1, 2)] == [(0,), (0,)]
    assert node.inputs[3] is not None
